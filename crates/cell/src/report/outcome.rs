//! What a backup found while it read a file, as a message for who restores or verifies that file.

use capstan_engine::message::Code;
use capstan_format::entry::{Outcome, OutcomeCode};

/// What an outcome means to who restores or verifies; nothing where the file is what it was.
pub(crate) fn of_outcome(o: Outcome) -> Option<(Code, String)> {
    match o.code {
        OutcomeCode::Changed => {
            Some((Code::Changed, "it changed while it was backed up".to_owned()))
        }
        OutcomeCode::Short => {
            Some((Code::Short, format!("it was cut at byte {} by the backup", o.offset)))
        }
        OutcomeCode::Unreadable => {
            let text = format!(
                "the backup could not read it from byte {} on; the rest is zeros",
                o.offset
            );
            Some((Code::Unreadable, text))
        }
        _ => None,
    }
}
