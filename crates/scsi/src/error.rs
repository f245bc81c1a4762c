//! What can go wrong with a drive or changer, in words an administrator can act on.

use std::io;

use capstan_address::AddressError;
use capstan_engine::problem::{Explain, then};

use crate::answers::sense::Sense;
use crate::holders::Holder;

/// Why a device cannot be used, or did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The name is none of a SCSI device.
    #[error("{0} is not a SCSI device{then}", then = then(self.hint()))]
    NotScsi(String),
    /// Another process has it open.
    #[error("{device} is in use by {}{then}", crate::holders::list(.holders), then = then(self.hint()))]
    Busy {
        /// The device.
        device: String,
        /// Who has it open; empty where nobody can be named.
        holders: Vec<Holder>,
    },
    /// The name of an iSCSI device cannot be understood.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The library that speaks iSCSI is not on this machine, or of no use.
    #[error("cannot use iSCSI devices: {0}{then}", then = then(self.hint()))]
    NoLibiscsi(String),
    /// The target did not let us in.
    #[error("cannot connect to {device}: {why}{then}", then = then(self.hint()))]
    Connect {
        /// The device.
        device: String,
        /// What the library said.
        why: String,
    },
    /// The connection broke.
    #[error("lost {device} while {doing}: {why}{then}", then = then(self.hint()))]
    Lost {
        /// The device.
        device: String,
        /// What it was asked to do.
        doing: &'static str,
        /// What the transport said.
        why: String,
    },
    /// The command did not leave this machine.
    #[error("{device} was not asked ({doing}): {why}")]
    NotSent {
        /// The device.
        device: String,
        /// What it should have done.
        doing: &'static str,
        /// Why not.
        why: String,
    },
    /// No answer in time.
    #[error("{device} did not answer within {seconds} s while {doing}{then}", then = then(self.hint()))]
    TimedOut {
        /// The device.
        device: String,
        /// What it was asked to do.
        doing: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The device says what is wrong.
    #[error("{device} failed while {doing}: {sense}")]
    Check {
        /// The device.
        device: String,
        /// What it was asked to do.
        doing: &'static str,
        /// What it says.
        sense: Sense,
    },
    /// Another host has it.
    #[error("{device} is reserved by another host{then}", then = then(self.hint()))]
    Reserved {
        /// The device.
        device: String,
    },
    /// A status that is neither good nor explained by sense data.
    #[error("{device} ended {doing} with SCSI status {status:#04x}{then}", then = then(self.hint()))]
    Status {
        /// The device.
        device: String,
        /// What it was asked to do.
        doing: &'static str,
        /// The status.
        status: u8,
    },
    /// An answer that cannot be.
    #[error("{device} gave an answer that makes no sense while {doing}: {why}{then}", then = then(self.hint()))]
    Answer {
        /// The device.
        device: String,
        /// What it was asked to do.
        doing: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The device cannot do that.
    #[error("{device} has no {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// What it lacks.
        what: &'static str,
    },
    /// It is another kind of device.
    #[error("{device} is {found}, not a {wanted}{then}", then = then(self.hint()))]
    WrongKind {
        /// The device.
        device: String,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// There is no tape in the drive.
    #[error("{device} has no medium loaded{then}", then = then(self.hint()))]
    NoMedium {
        /// The device.
        device: String,
    },
    /// It was not said where the tape stands, and what was asked depends on it.
    #[error(
        "the position of the tape in {device} is unknown: {doing} is refused until it was rewound or located"
    )]
    PositionUnknown {
        /// The device.
        device: String,
        /// What was asked for.
        doing: &'static str,
    },
    /// The tape does not have that place.
    #[error("the tape in {device} has no {wanted}: {why}")]
    NotThere {
        /// The device.
        device: String,
        /// The place that was wanted.
        wanted: String,
        /// What was found instead.
        why: String,
    },
    /// A block that the drive or the way to it cannot take.
    #[error("{device} takes blocks of {min} to {max} bytes, not {len}{then}", then = then(self.hint()))]
    BlockSize {
        /// The device.
        device: String,
        /// The block's length.
        len: usize,
        /// The shortest.
        min: usize,
        /// The longest.
        max: usize,
    },
    /// The drive was reset, so it no longer has the key that it was given.
    #[error(
        "{device} was reset and has lost its encryption key: {doing} is refused until the key was set again"
    )]
    KeyLost {
        /// The device.
        device: String,
        /// What was asked for.
        doing: &'static str,
    },
}

impl Explain for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotScsi(_) => "name a tape drive or changer as /dev/sgN, /dev/nstN, /dev/schN or iscsi://host/target/lun".to_owned(),
            Self::Busy { .. } => "end it, or use another device".to_owned(),
            Self::NoLibiscsi(_) => "install libiscsi (Debian and Ubuntu: apt-get install libiscsi7; Red Hat: dnf install libiscsi)".to_owned(),
            Self::Lost { .. } => "the position of its tape is unknown until it was reconnected and rewound or located".to_owned(),
            Self::TimedOut { .. } => "look at its display, and power-cycle it if it stays so".to_owned(),
            Self::Reserved { .. } => "end what uses it there, or release it".to_owned(),
            Self::Status { .. } => "try again, and look at the device's own log if it stays so".to_owned(),
            Self::Answer { .. } => "its firmware may need an update".to_owned(),
            Self::WrongKind { .. } => "check the device's name".to_owned(),
            Self::NoMedium { .. } => "load one".to_owned(),
            Self::BlockSize { .. } => "choose another block size".to_owned(),
            Self::Address(e) => return e.hint(),
            Self::Connect { why, .. } => connect_hint(why).to_owned(),
            Self::Io { .. } | Self::NotSent { .. } | Self::Check { .. } | Self::Unsupported { .. } | Self::PositionUnknown { .. } | Self::NotThere { .. } | Self::KeyLost { .. } => return None,
        })
    }
}

fn connect_hint(why: &str) -> &'static str {
    let why = why.to_ascii_lowercase();
    if why.contains("authentication") || why.contains("chap") || why.contains("secret") {
        "check user and secret"
    } else if why.contains("not found") || why.contains("not exist") {
        "check the target's name and LUN"
    } else {
        "check host, port and that the target is up"
    }
}

impl Error {
    /// What the device said, where it did.
    pub fn sense(&self) -> Option<&Sense> {
        match self {
            Self::Check { sense, .. } => Some(sense),
            _ => None,
        }
    }

    /// Whether the device lacks what was asked for, so that another way may be tried.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported { .. }) || self.sense().is_some_and(Sense::is_unsupported)
    }

    /// Whether the way to the device is gone, so that only a reconnect helps.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::TimedOut { .. })
    }
}
