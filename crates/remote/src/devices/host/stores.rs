//! Answers what is asked of stores.

use capstan_wire::LONGEST;

use super::Asks;
use crate::connection::Broken;
use crate::devices::message::{Dir, OfStores as Of, Store, hear_bytes};

/// The largest backup of an internal database that is taken.
const LARGEST_BACKUP: u64 = 64 * LONGEST as u64;

impl Asks<'_> {
    pub(super) fn stores(&self, of: Of) -> Result<(), Broken> {
        let (devices, things) = (&*self.side.devices, &self.side.things);
        match of {
            Of::Whole(store) => self.is(&Store(devices.whole(&store.0))),
            Of::Resolve(store) => self.came(devices.resolve(&store.0).map(Store)),
            Of::IsThere(store) => self.is(&devices.is_there(&store.0)),
            Of::IsSame(one, other) => self.is(&devices.is_same(&one.0, &other.0)),
            Of::EmptyMountPoint(store) => self.is(&devices.empty_mount_point(&store.0).map(Dir)),
            Of::LookIn(store) => self.came(devices.look_in(&store.0)),
            Of::Foresee(store) => self.came(devices.foresee(&store.0)),
            Of::HeaderIn(store) => self.came(devices.header_in(&store.0)),
            Of::LostHeader(store) => self.came(devices.lost_header(&store.0)),
            Of::MediumOf(store, header) => {
                self.came(devices.medium_of(&store.0, *header).map(|medium| things.medium(medium)))
            }
            Of::RewriteHeader(store, header) => {
                self.came(devices.rewrite_header(&store.0, &header))
            }
            Of::HasHeader(store) => self.is(&devices.has_header(&store.0)),
            Of::Space(store) => self.is(&devices.space(&store.0)),
            Of::WriteIdbBackup(store, time_us) => {
                let bytes = hear_bytes(self.channel, LARGEST_BACKUP)?;
                self.came(devices.write_idb_backup(&store.0, time_us, &bytes))
            }
            Of::IdbBackups(store) => self.came(devices.idb_backups(&store.0)),
            Of::ReadIdbBackup(store, name, most) => {
                self.came_bytes(devices.read_idb_backup(&store.0, &name, most))
            }
        }
    }
}
