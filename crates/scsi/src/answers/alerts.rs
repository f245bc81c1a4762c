//! The 64 TapeAlert flags in an operator's words: what the drive itself thinks is wrong, and what to do.
//!
//! Flags are those of SSC-5, annex A; texts are ours. Reading the log page clears the flags in the drive.

use std::fmt;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Information,
    /// Data may be at risk soon.
    Warning,
    /// Data are at risk.
    Critical,
}

/// A flag that a drive has raised: 1 to 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alert(u8);

impl Alert {
    /// The flag of that number.
    pub fn new(number: u16) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        (1..=64).contains(&number).then_some(Self(number))
    }

    /// Its number, 1 to 64.
    pub fn number(self) -> u8 {
        self.0
    }

    /// How bad it is.
    pub fn severity(self) -> Severity {
        self.row().0
    }

    /// What is wrong.
    pub fn what(self) -> &'static str {
        self.row().1
    }

    /// What to do; empty where there is nothing to do.
    pub fn advice(self) -> &'static str {
        self.row().2
    }

    /// The drive wants to be cleaned.
    pub fn wants_cleaning(self) -> bool {
        matches!(self.0, 20 | 21)
    }

    /// The cleaning tape is used up, or not one for this drive: nothing was cleaned.
    pub fn refuses_cleaning_tape(self) -> bool {
        matches!(self.0, 22 | 23)
    }

    /// The medium is at fault, not the drive.
    pub fn blames_medium(self) -> bool {
        matches!(self.0, 4 | 7 | 13 | 14 | 15 | 16 | 18 | 19 | 51 | 52 | 54 | 55)
    }

    fn row(self) -> (Severity, &'static str, &'static str) {
        TEXTS[usize::from(self.0 - 1)]
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (tape alert {})", self.what(), self.0)?;
        match self.advice() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

use Severity::{Critical as C, Information as I, Warning as W};

const RESERVED: (Severity, &str, &str) = (I, "the drive raised a flag that has no meaning yet", "");
const CONTINUE: &str = "nothing is to be done unless it comes often";
const SERVICE: &str = "have the drive serviced";
const RESTART: &str = "restart the drive; if it stays so, have it serviced";
const RETIRE: &str = "copy what is on the medium, and retire it";
const LIBRARY: &str = "look at the library's display and its own log";

const TEXTS: [(Severity, &str, &str); 64] = [
    (
        W,
        "the drive has trouble reading",
        "clean it; if other media read well, copy this one and retire it",
    ),
    (W, "the drive has trouble writing", "clean it; if other media write well, retire this one"),
    (
        W,
        "reading or writing needs many retries",
        "clean the drive; if other media do well, copy this one and retire it",
    ),
    (C, "the medium cannot be written or read any more", RETIRE),
    (
        C,
        "data could not be read",
        "clean the drive and try again, or try another drive; else restore from a copy",
    ),
    (C, "data could not be written", "clean the drive; use another medium"),
    (W, "the medium is at the end of its life", RETIRE),
    (W, "the medium is not of data grade", "use a data cartridge"),
    (
        C,
        "something was to be written to a write-protected medium",
        "slide its switch, or use another medium",
    ),
    (I, "ejecting is locked, since the medium is in use", "end the session that uses it"),
    (I, "a cleaning tape is in the drive", "put in a data medium if data are to be written"),
    (
        I,
        "the drive does not know the medium's format",
        "use a drive of the generation that wrote it",
    ),
    (
        C,
        "the tape has snapped",
        "do not eject it by hand; have the drive looked at, and retire the medium",
    ),
    (
        C,
        "the medium cannot be handled: its mechanics are damaged",
        "have the drive looked at, and retire the medium",
    ),
    (W, "the chip in the cartridge does not work, so the tape locates slowly", RETIRE),
    (
        C,
        "the medium was ejected by force while it was written or read",
        "do not eject by hand while it is in use",
    ),
    (
        W,
        "the medium is of a kind that this drive can only read",
        "use a medium that the drive can write",
    ),
    (
        W,
        "the tape's directory is damaged, so the tape locates slowly",
        "read the whole tape to mend it, or copy it",
    ),
    (I, "the medium comes near the end of its life", "copy it to a new one in time"),
    (C, "the drive must be cleaned now", "load a cleaning tape"),
    (W, "the drive asks for its regular cleaning", "load a cleaning tape"),
    (C, "the cleaning tape is used up", "take it out and throw it away; clean with a new one"),
    (C, "the cleaning tape is not one for this drive", "use one that the drive's maker names"),
    (W, "the drive lost its connection to one host or loop", "check cables"),
    (W, "the drive lost one of its two ports", "check cables"),
    (W, "the drive's fan does not turn", SERVICE),
    (W, "a power supply of the drive has failed", SERVICE),
    (W, "the drive takes too much or too little power", SERVICE),
    (W, "the drive is due for maintenance", SERVICE),
    (C, "the drive has a hardware fault", RESTART),
    (
        C,
        "the drive has a hardware fault that survives an eject",
        "eject, restart the drive; if it stays so, have it serviced",
    ),
    (W, "the drive has trouble with its interface", "check cables and the host adapter"),
    (
        C,
        "the medium is to be ejected so that the drive can recover",
        "eject it, load it again, and repeat what failed",
    ),
    (W, "loading new firmware into the drive failed", "get the right firmware, and try again"),
    (W, "the drive is too damp", "check the room's air"),
    (W, "the drive is too hot or too cold", "check its fans and the room"),
    (W, "the drive's voltage is out of range", "check its power supply"),
    (C, "the drive expects to fail soon", SERVICE),
    (W, "the drive needs a diagnosis", "run the maker's diagnosis; have it serviced"),
    (
        C,
        "the library does not work with the drive as it should",
        "restart the library; check its cables",
    ),
    (W, "the library did not take or give the medium at the first try", LIBRARY),
    (C, "the library has a mechanical fault", LIBRARY),
    (C, "the library has a hardware fault", LIBRARY),
    (W, "the library needs maintenance", LIBRARY),
    (C, "the library's door is open or the robot is stopped", "close the door"),
    (W, "the library lost one of its links", LIBRARY),
    (W, "the library has trouble with its temperature or voltage", LIBRARY),
    (W, "the library expects to fail soon", LIBRARY),
    (I, "statistics of the medium were lost at an earlier unload", CONTINUE),
    (W, "statistics of the medium are wrong", "read the whole tape to mend them, or copy it"),
    (
        W,
        "the tape's directory was not written at unload, so the tape locates slowly",
        "copy it; have the drive looked at if it comes again",
    ),
    (C, "the tape's own system area could not be read", RETIRE),
    (W, "the tape's own system area cannot be written", RETIRE),
    (
        C,
        "the beginning of the tape was not found",
        "the tape may have been erased by a magnet; try another drive",
    ),
    (C, "loading the tape failed", "take the medium out and look at it; try another one"),
    (
        C,
        "unloading the tape failed: it is stuck in the drive",
        "do not pull; have the drive looked at",
    ),
    (C, "an automation interface of the drive failed", LIBRARY),
    (W, "the drive's firmware failed and restarted itself", "update the drive's firmware"),
    (W, "the WORM medium has been tampered with", "keep it apart, and find out who had it"),
    (W, "a WORM medium was to be overwritten", "append, or use another medium"),
    RESERVED,
    RESERVED,
    RESERVED,
    RESERVED,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_1_to_64() {
        assert!(Alert::new(0).is_none() && Alert::new(65).is_none() && Alert::new(0x101).is_none());
        assert_eq!((1..=64).filter_map(Alert::new).count(), 64);
    }

    #[test]
    fn texts_stand_at_their_numbers() {
        let text = |n| Alert::new(n).unwrap();
        assert!(text(13).what().contains("snapped"));
        assert!(text(20).what().contains("cleaned now") && text(20).severity() == C);
        assert!(text(21).wants_cleaning() && !text(22).wants_cleaning());
        assert!(text(22).refuses_cleaning_tape() && !text(21).refuses_cleaning_tape());
        assert!(text(30).what().contains("hardware fault"));
        assert!(text(38).what().contains("expects to fail"));
        assert!(text(60).what().contains("WORM"));
        assert!(text(64).what().contains("no meaning"));
    }

    #[test]
    fn whoever_reads_one_knows_what_to_do() {
        for alert in (1..=60).filter_map(Alert::new) {
            assert!(!alert.advice().is_empty(), "{alert}");
            assert!(alert.to_string().contains(&format!("tape alert {}", alert.number())));
        }
    }
}
