//! What is attached to tapes beside their segments.

use capstan_devices::DeviceError;
use capstan_devices::address::Address;
use capstan_devices::attached::NewAttachment;
use capstan_devices::file::FileMedium;
use capstan_devices::open;
use capstan_format::attachment::AttachmentKind;
use capstan_format::id::{MediumId, SegmentId};
use capstan_format::lock::VersionLock;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::shown;
use crate::session::now_us;

/// What an attachment says.
pub(crate) enum Content {
    /// A backup of the internal database, and when it was made.
    IdbBackup(i64, Vec<u8>),
    /// Locks of versions.
    Locks(Vec<VersionLock>),
}

impl Cell {
    /// Writes an attachment behind all that a medium has. What has no room is said so.
    pub(crate) fn attach(&self, medium: &FileMedium, content: Content) -> Result<()> {
        let id = SegmentId(self.new_id()?);
        let new = match content {
            Content::IdbBackup(written_us, contents) => NewAttachment {
                id,
                kind: AttachmentKind::IdbBackup,
                contents,
                locks: Vec::new(),
                written_us,
            },
            Content::Locks(locks) => NewAttachment {
                id,
                kind: AttachmentKind::Lock,
                contents: Vec::new(),
                locks,
                written_us: now_us(),
            },
        };
        let what = new.kind.to_string();
        medium.attach(&new).map(drop).map_err(|e| no_room(e, &what, medium))
    }

    /// A tape of this cell, or an array of tapes, where something is to be attached to it.
    pub(crate) fn tape_to_attach_to(&self, id: MediumId) -> Result<Option<FileMedium>> {
        let Some(row) = self.idb.medium(id)? else { return Ok(None) };
        let address: Address = row.device.parse()?;
        if !address.is_tape() {
            return Ok(None);
        }
        let management = self.idb.management(id)?;
        let name = shown(row.id, &row.label);
        if management.full_us.is_some() {
            return Err(CellError::BadInput(format!("{name} is full")));
        }
        if management.damaged_us.is_some() {
            return Err(CellError::BadInput(format!("damage was found on {name}")));
        }
        self.refuse_others(&address)?;
        let medium = open::medium(&address)?;
        match medium.header().medium == id {
            true => {
                self.open_drive_key(medium.header())?;
                self.refuse_changed(&address, &medium)?;
                Ok(Some(medium))
            }
            false => Err(CellError::BadInput(format!("{name} is not in {address} any more"))),
        }
    }
}

fn no_room(e: DeviceError, what: &str, medium: &FileMedium) -> CellError {
    if !e.is_full() {
        return e.into();
    }
    let header = medium.header();
    let name = shown(header.medium, &header.label);
    CellError::BadInput(format!("{name} has no room left for a {what}"))
}
