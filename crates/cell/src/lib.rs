//! Sessions: what a backup, a restore, a verification and an import are, from request to report.
//!
//! The cell never touches bulk data: it chooses devices, streams and keys, starts disk agents and a media agent, watches
//! them, and records what they commit in the internal database. A front end gives a [`request`], watches through
//! [`observe`] and gets a [`report`].
//!
//! Its folders are rooms. A room uses rooms below it, never one above:
//!
//! - `upkeep`: what an administrator does with media, arrays and the IDB
//! - `kinds`: the kinds of session: backup, restore, copy, stage, consolidation, verification, import, prune, drill
//! - `queries`: answers: what versions have, which sessions there were, how each object is protected
//! - `supply`: which medium a session writes: pools, labels, tapes of libraries, the next one when one is full
//! - `drives`: robots and drives: booked, cleaned, asked for tapes; keys of drives that encrypt
//! - `versions`: what is known of versions: whole or damaged, kept until, what they lack, clocks
//! - `reading`: opens the media of a version, and takes another where one is away or damaged
//! - `media`: facts about media: state, condition, owner, place, whether they changed
//! - `keys`: the key ring, the names key, and what opens what lies on media
//! - `session`: what all sessions share: messages, leases, waits, the watch, the end
//! - `report`: what a session says at its end, and what earlier reports said
//! - `clients`: hosts with a disk agent
//! - `process`: signs of life of processes

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

mod clients;
mod drives;
mod error;
mod keys;
mod kinds;
pub mod media;
mod names;
pub mod observe;
mod process;
mod queries;
mod reading;
pub mod report;
pub mod request;
mod session;
mod supply;
mod upkeep;
mod versions;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use capstan_address::HostName;
use capstan_engine::entropy::Entropy;
use capstan_format::id::{CellId, SegmentId, SegmentNumber};
use capstan_idb::Idb;
use capstan_medium::OpenMedium;
use capstan_medium::host::DeviceHost;
use capstan_mounts::MountTables;
use capstan_port::Agents;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::segment::ReadSegment;

use process::keeper::Keeper;

pub use capstan_catalog::diff::{Aspect, Change, ChangeKind, ChangeTotals};
pub use capstan_catalog::listed::Listed;
pub use capstan_idb::system_host;
pub use capstan_idb::{Refusal, Refused};
pub use drives::cleaning::DirtyDrive;
pub use drives::library;
pub use drives::on_record::DriveRecord;
pub use drives::tapes_wanted::TapeWanted;
pub use drives::uses::Uses;
pub use error::{CellError, Result};
pub use keys::locks_on_media::LockNotOnMedia;
pub use keys::take_ring::{TakenRing, ring_of_medium};
pub use keys::{keyring, names_key};
pub use kinds::backup::check_names;
pub use kinds::compare::Compared;
pub use kinds::restore::RestoreTotals;
pub use kinds::{prune, repair, stage};
pub use media::write_protected::ProtectedTape;
pub use names::split_tags;
pub use process::guard;
pub use queries::export::{ExportRequest, Exported};
pub use queries::object_detail::ObjectDetail;
pub use queries::query::{Committed, Found, PassedOver, SessionInfo};
pub use queries::states::VersionState;
pub use queries::status::{Health, LastSession, ObjectStatus};
pub use queries::versions::VersionInfo;
pub use report::{Pick, PickedTape};
pub use request::Which;
pub use session::refused::{RefusedNow, age_text};
pub use session::waits::{WaitNow, WaitingSession};
pub use supply::enough_drives;
pub use supply::init::Initialise;
pub use supply::labels::rule::LabelRule;
pub use supply::pools::PoolInfo;
pub use supply::tapes::scratch::Made;
pub use upkeep::lock::Locked;
pub use upkeep::media::erase::{Erased, Foreign};
pub use upkeep::media::forget::Forgotten;
pub use upkeep::media::life::Recycled;
pub use upkeep::media::vault::{Carried, Fetch, ToFetch, ToVault, VaultReport, Vaulting};
pub use upkeep::{arrays, idb as idb_admin};
pub use versions::away_media::AwayMedium;
pub use versions::protect::VersionRef;
pub use versions::{leap, missing};

/// A cell on one machine: its home with the internal database, and what opens keys. Clones are the same cell.
#[derive(Clone)]
pub struct Cell {
    home: PathBuf,
    id: CellId,
    idb: Arc<Idb>,
    /// Says that this process is there, since it began a session.
    presence: Arc<OnceLock<Keeper>>,
    /// Who moves data for it.
    agents: Agents,
    /// Of them, who opens its media, libraries and drives.
    devices: Arc<dyn DeviceHost>,
    entropy: Arc<Entropy>,
    secrets: Arc<keys::keyring::Secrets>,
    opener: Arc<parking_lot::Mutex<keys::unlock::Opener>>,
    /// Segments that were read of which no place at hand has all names.
    poor: Arc<parking_lot::Mutex<Vec<SegmentId>>>,
    /// Media that were passed over as they are not as they were last written, until a session says so: name and sentence.
    changed: Arc<parking_lot::Mutex<Vec<(capstan_engine::message::Code, String, String)>>>,
}

impl Cell {
    /// Opens the cell whose home is `home`; makes it where there is none. Sessions whose process died are marked
    /// incomplete. Refused is a home into which a recovery was begun that is not done. `agents` move data for it.
    pub fn open(home: &Path, secrets: keys::keyring::Secrets, agents: Agents) -> Result<Self> {
        upkeep::idb::refuse_half_recovered(home)?;
        Self::open_begun(home, secrets, agents)
    }

    /// The same, for the recovery itself.
    pub(crate) fn open_begun(
        home: &Path,
        secrets: keys::keyring::Secrets,
        agents: Agents,
    ) -> Result<Self> {
        media::refuse_unmounted_home(home, &MountTables::default())?;
        let idb = Idb::open(home)?;
        session::presence::end_dead_sessions(&idb)?;
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
            devices: agents.devices.clone(),
            agents,
            entropy: Arc::new(entropy),
            secrets: Arc::new(secrets),
            opener: Arc::default(),
            poor: Arc::default(),
            changed: Arc::default(),
        })
    }

    /// The host at which its media, libraries and drives are opened.
    pub fn devices(&self) -> &Arc<dyn DeviceHost> {
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

    /// What this host is called: objects and sessions that it makes are of that host.
    pub fn host(&self) -> &HostName {
        self.idb.host()
    }

    /// Its internal database.
    pub fn idb(&self) -> &Idb {
        &self.idb
    }

    /// Opens a segment of a medium to read.
    fn read_segment(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
    ) -> std::result::Result<Arc<dyn ReadSegment>, ReadError> {
        self.agents.media.open(medium, number)
    }

    fn new_id(&self) -> Result<[u8; 16]> {
        self.entropy.id().map_err(CellError::io("read", "/dev/urandom"))
    }
}
