//! Mirrors, members of arrays and spools that are not written any more: what is said of them, and counted.

use capstan_engine::message::Code;
use capstan_port::media::write::members::{LostMirrors, LostPart};

use crate::Cell;
use crate::session::SessionLog;

/// Says that a mirror is not written at all.
pub(super) fn say_not_begun(what: &str, why: &str, log: &SessionLog<'_>) {
    let text = format!("this mirror is left out, and the others are written: {why}");
    log.say(Code::MirrorFailed, "media agent", what, text);
}

/// Says that a mirror is not written any more.
pub(super) fn say_lost(what: &str, error: &str, log: &SessionLog<'_>) {
    let text = format!("this mirror is not written any more, the others are: {error}");
    log.say(Code::MirrorFailed, "media agent", what, text);
}

/// Says which mirrors, members of arrays and spools were lost since it was asked; returns how many that backups lie on.
pub(crate) fn say_all_lost(cell: &Cell, lost: &LostMirrors, log: &SessionLog<'_>) -> u64 {
    let lost = std::mem::take(&mut *lost.lock());
    for m in &lost {
        let error = &m.error;
        match &m.part {
            LostPart::Member(of) => {
                // Where that cannot be recorded, it is found again.
                let _ = cell.note_failed_member(m.medium, of.clone());
                let text = format!("this member is not written any more, the others are: {error}");
                log.say(Code::MemberLost, "media agent", &m.label, text);
            }
            LostPart::Mirror => say_lost(&m.label, error, log),
            LostPart::Segments => {
                let text = format!(
                    "{error}, which it had no room for and the others have; `capstan copy` brings them to another tape there"
                );
                log.say(Code::MirrorBehind, "media agent", &m.label, text);
            }
            LostPart::Spool => {
                let text = format!("the tape is written without its spool from here on: {error}");
                log.say(Code::SpoolLost, "media agent", &m.label, text);
            }
        }
    }
    lost.iter().filter(|m| m.part != LostPart::Spool).count() as u64
}
