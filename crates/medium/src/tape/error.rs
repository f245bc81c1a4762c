//! Why a drive or a library did not do what it was asked for.

use capstan_engine::problem::{Explain, Problem, then};

use std::borrow::Cow;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::generation::Media;
use super::spot::Spot;

/// A drive in a sentence: those of virtual libraries have no other name than their number.
fn called(drive: &str) -> String {
    match drive.starts_with("drive ") {
        true => drive.to_owned(),
        false => format!("drive {drive}"),
    }
}

/// What the holder of a drive is called that is another device host of this process.
pub const ANOTHER_HOST: &str = "another device host of this program";

/// Why a drive did not do what it was asked for.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
pub enum TapeError {
    /// No tape is loaded.
    #[error("no tape is loaded in {}{then}", called(drive), then = then(self.hint()))]
    NoTape {
        /// The drive.
        drive: String,
    },
    /// The tape cannot be written.
    #[error("tape {tape} is write-protected{then}", then = then(self.hint()))]
    WriteProtected {
        /// Its barcode.
        tape: String,
    },
    /// The end of the tape was reached: nothing of the block was written.
    #[error("tape {tape} is full")]
    EndOfMedium {
        /// Its barcode.
        tape: String,
    },
    /// The medium could not be read or written there.
    #[error("tape {tape} has a medium error at block {at}{then}", then = then(self.hint()))]
    Medium {
        /// Its barcode.
        tape: String,
        /// The block's place on the tape.
        at: u64,
    },
    /// One drive could not read the tape, and none that may could be tried.
    #[error("{what} in drive {drive}, and no other drive can be tried now: {why}{then}", then = then(self.hint()))]
    Untried {
        /// The number of the drive in its library.
        drive: u32,
        /// What it said.
        what: String,
        /// Why not, in words.
        why: String,
    },
    /// The drive cannot encrypt, and the tape is to be encrypted by it, or is.
    #[error("{} cannot encrypt with a key that it is given{then}", called(drive), then = then(self.hint()))]
    CannotEncrypt {
        /// The drive.
        drive: String,
    },
    /// The drive says that it cannot use the tape at all.
    #[error("tape {tape} is none for that drive: {said}{then}", then = then(self.hint()))]
    Unsuited {
        /// Its barcode.
        tape: String,
        /// What the drive said, or what both are.
        said: Problem,
    },
    /// No drive of the library can use the tape.
    #[error("tape {tape} is {media}, which no drive of library {library} {} ({drives}){then}", if *to_write { "writes" } else { "reads" }, then = then(self.hint()))]
    NoDrive {
        /// The library.
        library: String,
        /// The tape's barcode.
        tape: String,
        /// What the tape is by that.
        media: Media,
        /// What the drives are.
        drives: String,
        /// It was to be written, else read.
        to_write: bool,
    },
    /// The tape takes what is appended, and nothing else.
    #[error("tape {tape} is WORM: what is on it cannot be overwritten or erased{then}", then = then(self.hint()))]
    Worm {
        /// Its barcode.
        tape: String,
    },
    /// It cleans drives.
    #[error("tape {tape} cleans drives and takes no data{then}", then = then(self.hint()))]
    Cleans {
        /// Its barcode.
        tape: String,
    },
    /// What lies there is encrypted, and not with the key that the drive has.
    #[error("what is on tape {tape} is encrypted with another key than the drive was given{then}", then = then(self.hint()))]
    CannotDecrypt {
        /// The tape's barcode.
        tape: String,
    },
    /// The tape is encrypted by its drive, and nobody opened its key.
    #[error("tape {tape} is encrypted by its drive and its key is not open{then}", then = then(self.hint()))]
    KeyNotOpen {
        /// The tape.
        tape: String,
    },
    /// A block is larger than the buffer that was given for it.
    #[error(
        "block {at} of tape {tape} has {length} bytes, more than the {asked} that were expected"
    )]
    TooLong {
        /// The tape's barcode.
        tape: String,
        /// The block's place on the tape.
        at: u64,
        /// Its length.
        length: usize,
        /// What there was room for.
        asked: usize,
    },
    /// A block that the drive does not take.
    #[error("{} takes blocks of 1 to {most} bytes, not {length}", called(drive))]
    BlockSize {
        /// The drive.
        drive: String,
        /// The most it takes.
        most: usize,
        /// What was to be written.
        length: usize,
    },
    /// There is no such place on the tape.
    #[error("tape {tape} has no {spot}: its data end before it")]
    BeyondEnd {
        /// Its barcode.
        tape: String,
        /// What was asked for.
        spot: Spot,
    },
    /// The drive does not answer.
    #[error("{} is offline{then}", called(drive), then = then(self.hint()))]
    Offline {
        /// The drive.
        drive: String,
    },
    /// The file of a virtual tape or library failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: Cow<'static, str>,
        /// On what.
        path: String,
        /// Why not.
        #[source]
        #[serde(with = "capstan_engine::os_error")]
        source: io::Error,
    },
    /// A virtual tape or library is not as it should be.
    #[error("{path} is damaged: {problem}")]
    Damaged {
        /// Its file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The file of a virtual tape is gone, or is none.
    #[error("{path} is no virtual tape: {problem}{then}", then = then(self.hint()))]
    NotATape {
        /// Its file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The drive says that the tape is bad, in words that say what to do.
    #[error("tape {tape}: {said}")]
    BadTape {
        /// Its barcode.
        tape: String,
        /// What the drive said.
        said: Problem,
    },
    /// Other processes use all drives of a library.
    #[error("every drive of library {library} is in use by {holder}{then}", then = then(self.hint()))]
    NoDriveFree {
        /// The library.
        library: String,
        /// Who has them.
        holder: String,
    },
    /// Another process uses it.
    #[error("{what} is in use by {holder}{then}", then = then(self.hint()))]
    Busy {
        /// The drive or robot.
        what: String,
        /// Who has it.
        holder: String,
    },
    /// The device says what is wrong, in words that say what to do.
    #[error("{0}")]
    Device(Problem),
    /// The way to the device is lost, in words that say what to do. Of the tape it tells nothing.
    #[error("{0}")]
    Unreachable(Problem),
    /// The robot failed.
    #[error("library {library}: {problem}")]
    Robot {
        /// Its directory or device.
        library: String,
        /// What happened, and what to do.
        problem: Problem,
    },
    /// The tape that is wanted is not there; it has to be brought.
    #[error("library {library}: {problem}")]
    Away {
        /// The library or drive, its directory or device.
        library: String,
        /// What is there instead, if anything, and what to do.
        problem: Problem,
    },
    /// What is wanted is not on this tape, and may be on others of its array that are not there, in words that say which.
    #[error("{0}")]
    OthersAway(Problem),
    /// What was asked of a library cannot be done as asked.
    #[error("library {library}: {problem}")]
    Library {
        /// Its directory or device.
        library: String,
        /// What happened, and what to do.
        problem: Problem,
    },
}

impl Explain for TapeError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoTape { .. } => "load one".to_owned(),
            Self::WriteProtected { .. } => {
                "move its write-protect tab, or use another tape".to_owned()
            }
            Self::Medium { .. } => "clean the drive, and copy the tape if it stays".to_owned(),
            Self::Untried { .. } => "do it again when another drive is free".to_owned(),
            Self::CannotEncrypt { .. } => {
                "use one that can (LTO-4 and later), whose keys are not managed by its library"
                    .to_owned()
            }
            Self::Unsuited { .. } => "use one of a generation that it takes".to_owned(),
            Self::NoDrive { .. } => "use a tape of another generation".to_owned(),
            Self::Worm { .. } => "use another tape".to_owned(),
            Self::Cleans { .. } => "put a label on it that begins with CLN".to_owned(),
            Self::CannotDecrypt { .. } => {
                "have its keys given to it by whoever manages them".to_owned()
            }
            Self::KeyNotOpen { .. } => {
                "set CAPSTAN_PASSPHRASE, CAPSTAN_KEY_FILE or CAPSTAN_RECOVERY_CODE".to_owned()
            }
            Self::Offline { .. } => "look at its cables and its front panel".to_owned(),
            Self::NotATape { .. } => {
                "bring its file back, or take the tape out of the library".to_owned()
            }
            Self::NoDriveFree { .. } => {
                "wait until one of them is free, or use another library".to_owned()
            }
            Self::Busy { .. } => "wait until it ends, or use another".to_owned(),
            Self::BadTape { said, .. } | Self::Device(said) | Self::Unreachable(said) => {
                return said.hint.clone();
            }
            Self::Robot { problem, .. }
            | Self::Away { problem, .. }
            | Self::Library { problem, .. }
            | Self::OthersAway(problem) => return problem.hint.clone(),
            Self::EndOfMedium { .. }
            | Self::TooLong { .. }
            | Self::BlockSize { .. }
            | Self::BeyondEnd { .. }
            | Self::Io { .. }
            | Self::Damaged { .. } => return None,
        })
    }
}

impl TapeError {
    /// Whether the tape is not where it is wanted, and may be brought there.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::NoTape { .. } | Self::OthersAway(_))
    }

    /// Whether a drive, a tape or a robot failed; else it was asked for what cannot be done.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::EndOfMedium { .. } | Self::Robot { .. })
            || self.blames_tape()
            || self.blames_drive()
    }

    /// Whether the drive is at fault, so that another one may do.
    pub fn blames_drive(&self) -> bool {
        self.is_unreachable() || matches!(self, Self::Device(_))
    }

    /// Whether the drive does not answer, or the way to it is lost: that says nothing of the tape in it.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Offline { .. } | Self::Unreachable(_))
    }

    /// Whether only a key is wanted: that says nothing of the tape, nor of what lies on it.
    pub fn needs_key(&self) -> bool {
        matches!(self, Self::CannotDecrypt { .. } | Self::KeyNotOpen { .. })
    }

    /// Whether it says nothing of what lies on the tape: the drive is at fault, or may be; or a key is wanted.
    pub fn spares_tape(&self) -> bool {
        self.blames_drive() || self.needs_key() || matches!(self, Self::Untried { .. })
    }

    /// Whether others have it.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::NoDriveFree { .. } | Self::Untried { .. })
    }

    /// Whether the tape is at fault, so that another one may do in the same drive.
    pub fn blames_tape(&self) -> bool {
        matches!(self, Self::Medium { .. } | Self::BadTape { .. }) || self.is_no_tape()
    }

    /// Whether a write that failed so tells on the tape. That it is write-protected, away, of another kind, or full does not, and what its
    /// drive or its robot did does not either.
    pub fn tells_on_tape(&self) -> bool {
        matches!(
            self,
            Self::Medium { .. }
                | Self::BadTape { .. }
                | Self::Damaged { .. }
                | Self::BeyondEnd { .. }
        )
    }

    /// Whether it is a matter of what the tape is, and stays so.
    pub fn is_of_kind(&self) -> bool {
        matches!(
            self,
            Self::Unsuited { .. } | Self::NoDrive { .. } | Self::Worm { .. } | Self::Cleans { .. }
        )
    }

    /// Whether what should be a virtual tape is none: its file is gone, or something else.
    pub fn is_no_tape(&self) -> bool {
        matches!(self, Self::NotATape { .. })
    }
}

/// That something could not be done on the file of a virtual tape or library.
pub fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TapeError {
    let path = path.display().to_string();
    move |source| TapeError::Io { action: action.into(), path, source }
}

/// That the file of a virtual tape or library is not as it should be.
pub fn damaged(path: &Path, problem: &str) -> TapeError {
    TapeError::Damaged { path: path.display().to_string(), problem: problem.to_owned() }
}
