//! Sessions: what a backup, a restore, a verification and an import are, from request to report.
//!
//! The cell never touches bulk data: it chooses devices, streams and keys, starts disk agents and a media agent, watches
//! them, and records what they commit in the internal database. A front end gives a [`request`], watches through
//! [`observe`] and gets a [`report`].

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

mod anomaly;
mod array_members;
pub mod arrays;
mod at_hand;
mod attached;
pub mod away_files;
mod backup;
mod bottleneck;
mod bring;
mod bring_back;
mod by_hand;
mod cleaning;
mod clock;
mod closed_names;
mod compare;
mod consolidate;
mod contents;
mod copy;
mod damaged;
mod descendants;
mod diff;
mod drill;
mod drive_key;
mod eject;
mod elsewhere;
pub mod enough_drives;
mod error;
mod expected;
mod export;
mod find;
pub mod guard;
mod history;
mod hold;
mod home_room;
mod import;
mod import_library;
mod incremental;
mod input;
mod judge;
mod keeper;
pub mod keyring;
mod known;
mod lacking;
pub mod leap;
mod lease;
pub mod library;
mod lock;
mod locks_on_media;
mod losses;
pub mod media;
mod mirror_gaps;
mod mirrors_left;
pub mod missing;
mod mount_points;
mod moves;
mod names;
pub mod names_key;
mod object_detail;
pub mod observe;
mod one_object;
mod other_names;
mod outcome;
mod presence;
mod process;
mod protect;
pub mod prune;
mod query;
mod refused;
pub mod repair;
mod replica;
pub mod report;
pub mod request;
mod restore;
mod resume;
mod robots;
pub mod safety;
mod same_bytes;
mod seen;
mod session;
mod sides;
mod spare;
pub mod stage;
mod stand_ins;
mod status;
mod take_ring;
mod tape_arrays;
mod tapes;
mod tapes_wanted;
mod tar;
mod transfers;
mod unfit;
mod unlock;
mod unread;
mod verify;
mod version;
mod versions;
mod waited;
mod waits;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use capstan_devices::host::DeviceHost;
use capstan_devices::mounts::MountTables;
use capstan_engine::entropy::Entropy;
use capstan_format::id::CellId;
use capstan_idb::Idb;

use keeper::Keeper;

pub use backup::check_names;
pub use capstan_catalog::diff::{Aspect, Change, ChangeKind, ChangeTotals};
pub use capstan_catalog::listed::Listed;
pub use capstan_idb::{Refusal, Refused};
pub use cleaning::{DirtyDrive, Uses};
pub use compare::Compared;
pub use error::{CellError, Result};
pub use export::{ExportRequest, Exported};
pub use input::{wait_for_command, wait_for_command_at_most};
pub use lock::Locked;
pub use locks_on_media::LockNotOnMedia;
pub use names::split_tags;
pub use object_detail::ObjectDetail;
pub use protect::VersionRef;
pub use query::{Committed, Found, PassedOver, SessionInfo, Which};
pub use refused::{RefusedNow, age_text};
pub use restore::{Pick, RestoreTotals};
pub use session::host;
pub use status::{Health, LastSession, ObjectStatus};
pub use take_ring::{TakenRing, ring_of_medium};
pub use tapes_wanted::{TapeWanted, WaitingSession};
pub use versions::{VersionInfo, VersionState};
pub use waits::WaitNow;

/// A cell on one machine: its home with the internal database, and what opens keys. Clones are the same cell.
#[derive(Clone)]
pub struct Cell {
    home: PathBuf,
    id: CellId,
    idb: Arc<Idb>,
    /// Says that this process is there, since it began a session.
    presence: Arc<OnceLock<Keeper>>,
    /// Opens its media, libraries and drives.
    devices: DeviceHost,
    entropy: Arc<Entropy>,
    secrets: Arc<keyring::Secrets>,
    opener: Arc<parking_lot::Mutex<unlock::Opener>>,
    mounts: Arc<MountTables>,
    /// Media that were passed over as they are not as they were last written, until a session says so: name and sentence.
    changed: Arc<parking_lot::Mutex<Vec<(capstan_engine::message::Code, String, String)>>>,
}

impl Cell {
    /// Opens the cell whose home is `home`; makes it where there is none. Sessions whose process died are marked
    /// incomplete. Refused is a home into which a recovery was begun that is not done.
    pub fn open(home: &Path, secrets: keyring::Secrets) -> Result<Self> {
        safety::refuse_half_recovered(home)?;
        Self::open_begun(home, secrets)
    }

    /// The same, for the recovery itself.
    pub(crate) fn open_begun(home: &Path, secrets: keyring::Secrets) -> Result<Self> {
        let mounts = Arc::new(MountTables::default());
        media::refuse_unmounted_home(home, &mounts)?;
        let idb = Idb::open(home)?;
        if let Some(name) = idb.host() {
            session::call_host(name);
        }
        presence::end_dead_sessions(&idb)?;
        idb.order_what_has_none(session::now_us())?;
        let entropy = Entropy::system().map_err(CellError::io("open", "/dev/urandom"))?;
        let id = media::identity(&idb, &entropy)?;
        // Its reserve is made where there is room again.
        idb.home_room();
        Ok(Self {
            home: home.to_owned(),
            id,
            idb: Arc::new(idb),
            presence: Arc::default(),
            devices: DeviceHost::default(),
            entropy: Arc::new(entropy),
            secrets: Arc::new(secrets),
            opener: Arc::default(),
            mounts,
            changed: Arc::default(),
        })
    }

    /// The same, with other tables of the mount points of this machine than the system's.
    pub fn with_mount_tables(self, tables: MountTables) -> Self {
        Self { mounts: Arc::new(tables), ..self }
    }

    /// The same, with its media, libraries and drives at that host; else it has one for itself.
    pub fn with_devices(self, devices: DeviceHost) -> Self {
        Self { devices, ..self }
    }

    /// The host at which its media, libraries and drives are opened.
    pub fn devices(&self) -> &DeviceHost {
        &self.devices
    }

    /// Its home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Has somebody told, in a sentence, when the server of the database goes away and when it is back.
    pub fn on_notice(&self, notice: impl Fn(&str) + Send + Sync + 'static) {
        self.idb.on_notice(notice);
    }

    /// Has a server of the database that went away waited for no longer once that says that the process is to end.
    pub fn give_up_when(&self, leaving: impl Fn() -> bool + Send + Sync + 'static) {
        self.idb.give_up_when(leaving);
    }

    /// Its internal database.
    pub fn idb(&self) -> &Idb {
        &self.idb
    }

    fn new_id(&self) -> Result<[u8; 16]> {
        self.entropy.id().map_err(CellError::io("read", "/dev/urandom"))
    }
}
