//! What is attached to tapes beside their segments.

use capstan_engine::message::Code;
use capstan_format::attachment::{Attachment, AttachmentKind};
use capstan_format::id::{MediumId, SegmentId};
use capstan_format::lock::VersionLock;
use capstan_medium::{DeviceError, NewAttachment, OpenMedium};

use crate::Cell;
use crate::error::{CellError, DriveRefusal, Result, chain};
use crate::media::shown;
use crate::reading::unread::{code_of_device, of_way_to_device};
use crate::session::now_us;

/// What an attachment says.
pub(crate) enum Content {
    /// A backup of the internal database, and when it was made.
    IdbBackup(i64, Vec<u8>),
    /// Locks of versions.
    Locks(Vec<VersionLock>),
}

/// What of the attachments of a medium was read, in the order in which they lie there.
#[derive(Default)]
pub(crate) struct Attached {
    whole: Vec<Attachment>,
    damaged: Vec<DamagedAttachment>,
    /// What could not be read now, and why: that tells nothing of it.
    unread: Vec<UnreadAttachment>,
}

/// An attachment that could not be read now, and why.
pub(crate) struct UnreadAttachment {
    pub code: Code,
    pub what: String,
    pub why: String,
}

/// An attachment that cannot be read, and why.
pub(crate) struct DamagedAttachment {
    pub it: Attachment,
    pub why: String,
}

impl Attached {
    /// Reads one; the bytes of its contents.
    pub fn read(&mut self, medium: &OpenMedium, of: Attachment) -> u64 {
        let read = medium.read_attachment(&of);
        match read.and_then(|contents| Ok((contents, medium.has_both_records(&of)?))) {
            Ok((contents, has_both)) => {
                match has_both {
                    true => self.whole.push(of),
                    false => {
                        let why = "one of its two records is damaged".to_owned();
                        self.damaged.push(DamagedAttachment { it: of, why });
                    }
                }
                contents.len() as u64
            }
            Err(e) => {
                match of_way_to_device(&e) {
                    Some(why) => {
                        let what =
                            format!("{} {} of {}", of.attachment, of.number.0, medium.path());
                        let code = code_of_device(&e);
                        self.unread.push(UnreadAttachment { code, what, why });
                    }
                    None => self.damaged.push(DamagedAttachment { it: of, why: chain(&e) }),
                }
                0
            }
        }
    }

    /// Those that could not be read now, and why.
    pub fn unread(&self) -> &[UnreadAttachment] {
        &self.unread
    }

    /// Those that are damaged, and for which no later one stands.
    pub fn lost(self) -> Vec<DamagedAttachment> {
        let Self { whole, mut damaged, .. } = self;
        damaged.retain(|of| !whole.iter().any(|later| stands_for(later, &of.it)));
        damaged
    }
}

/// Whether a later attachment says all that an earlier one did: of backups of a database the newest counts, of locks all.
fn stands_for(later: &Attachment, of: &Attachment) -> bool {
    let has = |lock: &VersionLock| {
        let same = |l: &&VersionLock| l.version == lock.version;
        later.locks.iter().find(same).is_some_and(|l| l.joined(lock) == *l)
    };
    later.number > of.number
        && later.attachment == of.attachment
        && match of.attachment {
            AttachmentKind::IdbBackup => true,
            AttachmentKind::Lock => of.locks.iter().all(has),
            AttachmentKind::Other => false,
        }
}

impl Cell {
    /// Writes what an attachment says that is damaged once more, at the end of the medium. False where it cannot be had again: a
    /// backup of a database without a recovery key, or something of which this version knows nothing.
    pub(crate) fn attach_anew(&self, medium: &OpenMedium, of: &Attachment) -> Result<bool> {
        let content = match of.attachment {
            AttachmentKind::IdbBackup => match self.sealed_idb_backup()? {
                Some((created_us, bytes)) => Content::IdbBackup(created_us, bytes),
                None => return Ok(false),
            },
            AttachmentKind::Lock => Content::Locks(of.locks.clone()),
            AttachmentKind::Other => return Ok(false),
        };
        self.attach(medium, content).map(|()| true)
    }

    /// Writes an attachment behind all that a medium has. What has no room is said so.
    pub(crate) fn attach(&self, medium: &OpenMedium, content: Content) -> Result<()> {
        self.refuse_behind_cut(medium)?;
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
    pub(crate) fn tape_to_attach_to(&self, id: MediumId) -> Result<Option<OpenMedium>> {
        let Some(row) = self.idb.medium(id)? else { return Ok(None) };
        let address = &row.device;
        if !address.is_tape() {
            return Ok(None);
        }
        let management = self.idb.management(id)?;
        let name = shown(row.id, &row.label);
        if management.full_us.is_some() {
            return Err(DriveRefusal::Full { medium: name }.into());
        }
        if management.damaged_us.is_some() {
            return Err(DriveRefusal::Damaged { medium: name }.into());
        }
        self.refuse_others(address)?;
        let medium = self.devices.medium(address)?;
        match medium.header().medium == id {
            true => {
                let header = medium.header();
                self.refuse_written(address, header, medium.header_problem().is_none())?;
                self.open_drive_key(medium.header())?;
                self.refuse_changed(address, &medium)?;
                Ok(Some(medium))
            }
            false => Err(DriveRefusal::Exchanged { medium: name, device: address.clone() }.into()),
        }
    }
}

fn no_room(e: DeviceError, what: &str, medium: &OpenMedium) -> CellError {
    if !e.is_full() {
        return e.into();
    }
    let header = medium.header();
    let name = shown(header.medium, &header.label);
    CellError::from(DriveRefusal::NoRoom { medium: name, what: what.to_owned() })
}
