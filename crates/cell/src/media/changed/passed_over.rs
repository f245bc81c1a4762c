//! What a session says of media that it passed over.

use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;

use crate::Cell;
use crate::error::{CellError, chain};
use crate::media::write_protected::is_write_protected;
use crate::session::SessionLog;

impl Cell {
    /// Notes that a medium was passed over, if that is as it is not as it was last written, cannot be read, or is write-protected, for a
    /// session to say. `medium` is what is known to be there.
    pub(crate) fn note_passed_over(&self, name: &str, medium: Option<MediumId>, why: &CellError) {
        match why {
            why if is_write_protected(why) => {
                // One that is not recorded is found again.
                if let Some(text) = medium.and_then(|id| self.note_write_protected(id).ok()?) {
                    self.note_passed(Code::WriteProtected, name, text);
                }
            }
            CellError::Changed(text) => {
                self.note_passed(Code::MediumChanged, name, text.to_string())
            }
            why if why.is_unreadable() => {
                let text = format!("it was passed over, as it cannot be read: {}", chain(why));
                self.note_passed(Code::MediumFailed, name, text);
            }
            CellError::Device(e @ DeviceError::TapeHeaderLost { .. }) => {
                self.note_passed(Code::MediumFailed, name, chain(e));
            }
            _ => {}
        }
    }

    /// The same of an array that was passed over as a member is lost.
    pub(crate) fn passed_lost(&self, name: &str, member: &str, why: &str) {
        let text = format!(
            "this array is not gone on with, as a member is lost, or not as it was last written: {member}: {why}"
        );
        self.note_passed(Code::MemberLost, name, text);
    }

    /// Notes something of a medium or tape, for a session to say.
    pub(crate) fn note_passed(&self, code: Code, name: &str, text: String) {
        let said = (code, name.to_owned(), text);
        let mut changed = self.changed.lock();
        if !changed.contains(&said) {
            changed.push(said);
        }
    }

    /// Says which media were passed over as they are not as they were last written. Returns how many of them, without
    /// arrays that only lack a member.
    pub(crate) fn say_changed(&self, log: &SessionLog<'_>) -> u64 {
        let passed = std::mem::take(&mut *self.changed.lock());
        for (code, name, text) in &passed {
            log.say(*code, "cell", name, text.to_string());
        }
        passed.iter().filter(|(code, ..)| *code == Code::MediumChanged).count() as u64
    }
}
