//! What drives say of themselves: alerts and counters.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::speeds::Speeds;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Information,
    /// Data may be at risk soon.
    Warning,
    /// Data are at risk.
    Critical,
}

/// Something that a drive wants people to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// How bad it is.
    pub severity: Severity,
    /// What is the matter, and what to do.
    pub text: String,
    /// The drive wants to be cleaned.
    pub wants_cleaning: bool,
    /// The tape is at fault, not the drive.
    pub blames_tape: bool,
}

/// Which tape was in which drive of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The library, as devices are named.
    pub library: String,
    /// The drive's number there, from 1.
    pub drive: u32,
    /// What is on the tape's sticker.
    pub barcode: String,
    /// How long it took to get it there.
    pub took: Duration,
}

/// What a drive did for a session, and what it has to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriveSession {
    /// The drive.
    pub name: String,
    /// The tape in it, where a robot brought it.
    pub mount: Option<Mount>,
    /// What that tape is called: by its sticker, or by its medium's label where somebody was asked for it.
    pub tape: Option<String>,
    /// How fast it is, where that is known.
    pub speeds: Option<Speeds>,
    /// Seconds of its clock, and of its statistics, in a second of the world: a virtual one may be faster.
    pub scale: f64,
    /// How often it went to a place on the tape instead of reading or writing on.
    pub locates: u64,
    /// How long that took, in all.
    pub locating: Duration,
    /// Blocks that could not be read at first, and were at a later try.
    pub read_again: u64,
    /// What it did, where its motion is known: of virtual drives.
    pub statistics: Option<Statistics>,
    /// What it counted.
    pub counters: Counters,
    /// What it wants people to know.
    pub alerts: Vec<Alert>,
    /// What the tape is by the drive and by its sticker, where these are not the same.
    pub contradiction: Option<String>,
    /// It could not read the tape, and this drive of the library could.
    pub read_by: Option<u32>,
    /// It wrote something, and brought it to the tape.
    pub has_written: bool,
}

/// What a drive counted since it was opened. What it does not count is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes that were written to it.
    pub bytes_written: Option<u64>,
    /// Bytes that these took on the tape.
    pub bytes_on_tape: Option<u64>,
    /// Bytes written for each byte on the tape.
    pub compression_ratio: Option<f64>,
    /// Errors that it corrected itself, writing and reading.
    pub corrected_errors: Option<u64>,
    /// Errors that stayed.
    pub hard_errors: Option<u64>,
}

/// What a drive did.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Bytes that the host gave or took.
    pub host_bytes: u64,
    /// Bytes that the tape moved by the head, reading or writing.
    pub medium_bytes: f64,
    /// Seconds that it moved, reading or writing.
    pub moving_s: f64,
    /// Seconds that it stood between that, waiting for the host.
    pub standing_s: f64,
    /// Stops between which the host went on.
    pub backhitches: u64,
    /// Passes of the medium's whole length by the head.
    pub passes: f64,
    /// Stops of those that came about because the host was late, or did not take what was read; the others followed a commit.
    pub late_backhitches: u64,
    /// Seconds that these took: to stop, to go back and to start.
    pub late_s: f64,
}

impl Statistics {
    /// The share of the time that the tape moved; none if it never did.
    pub fn streaming(&self) -> Option<f64> {
        (self.moving_s > 0.0).then(|| self.moving_s / (self.moving_s + self.standing_s))
    }

    /// The rate at the medium while it moved or waited, in bytes per second.
    pub fn medium_rate(&self) -> Option<f64> {
        (self.moving_s > 0.0).then(|| self.medium_bytes / (self.moving_s + self.standing_s))
    }
}
