//! Media that a session does not write, and why not of each: what it says when none is left.

use std::fmt;

use capstan_address::LibraryName;
use capstan_engine::message::shell_word;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_medium::tape::TapeError;

use crate::error::{CellError, Result, chain};
use crate::media::write_protected::is_write_protected;

/// A medium that a session does not write, and why not.
pub(crate) type PassedOver = (MediumId, Why);

/// Why a session does not write a medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Why {
    /// In words that follow its name.
    pub what: &'static str,
    /// What it said, of one that failed.
    cause: Option<String>,
}

impl From<&'static str> for Why {
    fn from(what: &'static str) -> Self {
        Self { what, cause: None }
    }
}

impl Why {
    /// It took no more: it is full, or it failed so.
    pub fn ended(is_full: bool, cause: &str) -> Self {
        match is_full {
            true => IS_FULL.into(),
            // In a list of media a semicolon would part it from the next one.
            false => Self { what: HAS_FAILED, cause: Some(cause.replace("; ", ", ")) },
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            None => f.write_str(self.what),
            Some(cause) => write!(f, "{} ({cause})", self.what),
        }
    }
}

/// Why a medium is not written that this session filled.
pub(crate) const IS_FULL: &str = "is full";
/// Why one is not that failed.
pub(crate) const HAS_FAILED: &str = "failed in this session";
/// Why one is not that is read.
pub(crate) const IS_READ: &str = "is read by this session";

/// Why one is not that cannot be read.
pub(crate) const CANNOT_BE_READ: &str = "cannot be read";
/// Why one is not that somebody else changed.
pub(crate) const NOT_AS_WRITTEN: &str = "is not as it was last written";

/// Why one is not that is found damaged.
pub(crate) const IS_DAMAGED: &str = "is damaged";
/// Why one is not that is write-protected.
pub(crate) const IS_PROTECTED: &str = "is write-protected";
/// Why one is not from which something is copied.
pub(crate) const IS_COPIED: &str = "is what is to be copied";

/// So many media that fail one after the other are not the media's fault.
pub(crate) const FAILURES: usize = 3;

/// Whether another one takes the seat of a medium in its rotation set that is not written for that reason.
pub(crate) fn loses_seat(why: &Why) -> bool {
    matches!(
        why.what,
        HAS_FAILED | CANNOT_BE_READ | NOT_AS_WRITTEN | IS_DAMAGED | IS_PROTECTED | IS_COPIED
    )
}

/// Why a medium that was chosen is passed over for the next one, where that is a matter of this medium.
pub(crate) fn why_next(e: &CellError) -> Option<&'static str> {
    match e {
        CellError::Changed(_) | CellError::Exchanged(_) => Some(NOT_AS_WRITTEN),
        e if e.is_unreadable() => Some(CANNOT_BE_READ),
        e if is_write_protected(e) => Some(IS_PROTECTED),
        CellError::Device(DeviceError::TapeHeaderLost { .. }) => Some(IS_DAMAGED),
        CellError::Device(e) if matches!(e.of_tape(), Some(TapeError::Worm { .. })) => {
            Some("is WORM and ends in what a session left")
        }
        _ => None,
    }
}

/// What would not do, and why.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unfit {
    /// Each with why it will not do, to be read on behind its name.
    said: Vec<(String, String)>,
    /// What others have.
    busy: Vec<String>,
    /// Libraries with tapes that will not do by what was seen on them before.
    seen_in: Vec<String>,
}

impl Unfit {
    pub fn say(&mut self, name: &str, why: String) {
        self.said.push((name.to_owned(), format!(" {why}")));
    }

    /// The same of a tape of a library which was not looked at now: that will not do by what was seen on it before.
    pub fn say_seen(&mut self, name: &str, why: String, library: &LibraryName) {
        let library = library.to_string();
        if !self.seen_in.contains(&library) {
            self.seen_in.push(library);
        }
        self.say(name, why);
    }

    /// Adds what could not be opened, where that is a matter of this tape; else returns what failed.
    pub fn add(&mut self, name: &str, e: CellError) -> Result<()> {
        if e.is_busy() {
            // What to do is said once.
            let why = e.sentence();
            if !self.busy.contains(&why) {
                self.busy.push(why);
            }
            return Ok(());
        }
        let why = why_unfit(e)?;
        self.said.push((name.to_owned(), why));
        Ok(())
    }

    /// The error that none of these tapes does, and what to do then. What others have does, as soon as they are done with it.
    pub fn error(&self, of: &str, to_do: impl FnOnce(&str) -> Problem) -> CellError {
        let found = a_few(&self.said);
        if self.busy.is_empty() {
            let found = if found.is_empty() { "it has none" } else { &found };
            let mut none = to_do(found);
            for library in self.seen_in.iter().map(shell_word) {
                let or = none.hint.map_or_else(String::new, |hint| format!("{hint}, or "));
                none.hint = Some(format!(
                    "{or}have tapes looked at anew that were seen before: `capstan library inventory {library} --rescan`"
                ));
            }
            return CellError::NoTape(none);
        }
        let others = match found.is_empty() {
            true => String::new(),
            false => format!("; no other {of} can be written ({found})"),
        };
        CellError::InUse(
            Problem::new(format!("{}{others}", self.busy.join(", ")))
                .hint("have it waited for longer (--wait), or end that session"),
        )
    }
}

/// Why a medium is passed over, if it is.
pub(crate) fn why_passed(passed: &[PassedOver], medium: MediumId) -> Option<&Why> {
    // What came last is known best.
    passed.iter().rev().find(|(id, _)| *id == medium).map(|(_, why)| why)
}

/// Names with what is wrong with each. Of those with which the same is wrong, and of all, a few are named and the others counted.
pub(crate) fn a_few(said: &[(String, String)]) -> String {
    const SAME: usize = 3;
    const ALL: usize = 8;
    let mut whys: Vec<&str> = Vec::new();
    for (_, why) in said {
        if !whys.contains(&why.as_str()) {
            whys.push(why);
        }
    }
    let (mut parts, mut named) = (Vec::new(), 0);
    for why in &whys {
        let of: Vec<&str> =
            said.iter().filter(|(_, of)| of == why).map(|(name, _)| name.as_str()).collect();
        let few = if of.len() > SAME + 1 { SAME } else { of.len() };
        if parts.len() + few > ALL {
            break;
        }
        parts.extend(of.iter().take(few).map(|name| format!("{name}{why}")));
        if of.len() > few {
            parts.push(format!("so {} more", of.len() - few));
        }
        named += of.len();
    }
    if named < said.len() {
        parts.push(format!("and {} others will not do", said.len() - named));
    }
    parts.join(", ")
}

/// Why a tape was not taken, in words that follow its name, where that is a matter of this tape; else what failed.
fn why_unfit(e: CellError) -> Result<String> {
    Ok(match e {
        e if is_write_protected(&e) => format!(" {IS_PROTECTED}"),
        CellError::Device(e) if e.of_tape().is_some_and(TapeError::is_no_tape) => {
            format!(": {}", chain(&e))
        }
        // Another tape goes into another drive.
        CellError::Device(e) if e.blames_drive() => format!(": {}", chain(&e)),
        CellError::Device(e) if e.of_tape().is_some_and(TapeError::is_of_kind) => {
            format!(": {}", chain(&e))
        }
        CellError::Device(e) if e.of_tape().is_some_and(TapeError::blames_tape) => {
            format!(" cannot be read: {}", chain(&e))
        }
        CellError::Device(e) if e.blames_medium() => format!(" cannot be read: {}", chain(&e)),
        CellError::Read(e) if e.blames_medium() => format!(" cannot be read: {}", chain(&e)),
        CellError::Device(
            e @ (DeviceError::HeaderLost { .. } | DeviceError::TapeHeaderLost { .. }),
        ) => {
            format!(" cannot be written: {}", chain(&e))
        }
        CellError::Device(e) if e.of_tape().is_some_and(TapeError::is_away) => {
            format!(": {}", chain(&e))
        }
        CellError::Unreadable { text, .. } | CellError::Away { text, .. } => format!(": {text}"),
        CellError::Device(DeviceError::NotOurs(_)) => " is not blank and not of Capstan".to_owned(),
        CellError::Device(DeviceError::NotBlank(_)) => " has a medium of Capstan".to_owned(),
        CellError::Device(DeviceError::ArrayMember { place, .. }) => {
            format!(" is a part of an array{place}")
        }
        CellError::Device(e @ DeviceError::ArrayBroken { .. }) => format!(": {}", chain(&e)),
        CellError::Device(DeviceError::BlockSize { have, .. }) => {
            format!(" has blocks of {have} bytes")
        }
        e if e.refusal().is_some() => format!(": {e}"),
        CellError::Changed(why)
        | CellError::Exchanged(why)
        | CellError::InUse(why)
        | CellError::NoKey(why) => format!(": {why}"),
        other => return Err(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_tapes_are_named_of_each_kind_and_the_others_counted() {
        let said = |of: &[(&str, &str)]| {
            let said: Vec<_> =
                of.iter().map(|(n, why)| ((*n).to_owned(), format!(" {why}"))).collect();
            a_few(&said)
        };
        assert_eq!(
            said(&[("A", IS_FULL), ("B", HAS_FAILED)]),
            "A is full, B failed in this session"
        );
        let mut many: Vec<(&str, &str)> =
            ["A", "B", "C", "D", "E", "F"].map(|n| (n, IS_FULL)).into();
        many.insert(2, ("X", IS_READ));
        let text = "A is full, B is full, C is full, so 3 more, X is read by this session";
        assert_eq!(said(&many), text);
        let whys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let text = said(&whys.map(|why| (why, why)));
        assert!(text.ends_with("h h, and 2 others will not do"), "{text}");
    }
}
