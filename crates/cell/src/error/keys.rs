//! What is not done without the right keys.

use std::path::PathBuf;

use capstan_engine::message::shell_word;
use capstan_engine::problem::{Explain, Problem};

/// Why keys are not opened, taken over or used as it was asked for; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum KeyRefusal {
    /// A secret in the environment is no text.
    #[error("the environment variable {variable} is not UTF-8")]
    NotUtf8 {
        /// The variable.
        variable: String,
    },
    /// A key file cannot be read.
    #[error("cannot read the key file {}: {source}", path.display())]
    KeyFileUnreadable {
        /// The key file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The names key of a home is damaged.
    #[error("the names key {} is damaged: {why}", path.display())]
    NamesKeyDamaged {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A medium's backups are not encrypted, and its key ring was to be taken over.
    #[error("medium {label} carries no key ring: its backups are not encrypted")]
    NoRingOnMedium {
        /// The medium's label.
        label: String,
    },
    /// What was given opens a key that was replaced since.
    #[error(
        "key {active} was replaced by key {newer} on this medium, which what was given does not open"
    )]
    KeyReplaced {
        /// The key that opens.
        active: String,
        /// The one that took its place.
        newer: String,
    },
    /// What was given opens a part of a key ring only.
    #[error("what was given opens older keys or names only, not all of the active key {active}")]
    OlderKeysOnly {
        /// The active key.
        active: String,
    },
    /// No key ring of a medium opens.
    #[error("no key ring opens")]
    NoRingOpens,
    /// A backup would lie in clear, though those of its home are encrypted.
    #[error("a backup of '{name}' would not be encrypted: there is no key ring in {}, and {why}", home.display())]
    WouldBeInClear {
        /// The object.
        name: String,
        /// The home.
        home: PathBuf,
        /// What says that backups are encrypted.
        why: String,
        /// The file of the key ring.
        ring: &'static str,
    },
    /// What was given opens nothing of a medium or version.
    #[error("what was given opens nothing of {of}: {}", or_nothing(.why, .without))]
    OpensNothing {
        /// Of what.
        of: String,
        /// Why it does not open.
        why: Problem,
        /// What is done where nothing is given.
        without: &'static str,
        /// What helps where a lock is newer than the medium.
        newer_first: Option<&'static str>,
    },
    /// A backup was to lie in clear in a home that has a key ring.
    #[error("there is a key ring in {}, so every backup of this home is encrypted", home.display())]
    RingEncryptsAll {
        /// The home.
        home: PathBuf,
    },
    /// Encryption was asked for in a home without a key ring.
    #[error("--encrypt {encrypt} needs a key ring, and there is none in {}", home.display())]
    NoRing {
        /// The encryption that was asked for.
        encrypt: String,
        /// The home.
        home: PathBuf,
    },
    /// Encrypted backups are to be gone on with in clear.
    #[error(
        "{whose} encrypted backups, and this home has no key ring, so nothing would be encrypted that is written from now on"
    )]
    GoesOnInClear {
        /// What has them.
        whose: String,
        /// The device from which the ring can be taken over.
        device: String,
    },
    /// A key record cannot be written as JSON.
    #[error("the key record is not JSON")]
    RecordNotJson,
}

impl Explain for KeyRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotUtf8 { .. } => "use a key file for arbitrary bytes".to_owned(),
            Self::KeyFileUnreadable { .. } | Self::NoRingOpens | Self::RecordNotJson => {
                return None;
            }
            Self::NamesKeyDamaged { .. } => "`capstan key names` makes a new one".to_owned(),
            Self::NoRingOnMedium { .. } => "`capstan key init` makes a new ring".to_owned(),
            Self::KeyReplaced { .. } => {
                "give what opens the newest key, or make a new ring with `capstan key init`"
                    .to_owned()
            }
            Self::OlderKeysOnly { .. } => "give what opens the newest key".to_owned(),
            Self::WouldBeInClear { ring, .. } => format!(
                "bring {ring} back, or take the ring of a medium over with `capstan key import MEDIUM`; --encrypt off says \
                 that it is to lie in clear"
            ),
            Self::OpensNothing { why, without, newer_first, .. } => {
                let own =
                    why.hint.as_ref().map(|own| format!("{own}, or give nothing to {without}"));
                let all: Vec<_> = own.into_iter().chain(newer_first.map(str::to_owned)).collect();
                return (!all.is_empty()).then(|| all.join("; "));
            }
            Self::RingEncryptsAll { .. } => "leave --encrypt off out".to_owned(),
            Self::NoRing { .. } => "`capstan key init` makes one".to_owned(),
            Self::GoesOnInClear { device, .. } => format!(
                "`capstan key import {}` takes the ring over, --unencrypted says that it is meant",
                shell_word(device)
            ),
        })
    }
}

/// Why nothing opens; what to do otherwise stands here where the reason says nothing of what to do.
fn or_nothing(why: &Problem, without: &str) -> String {
    match why.hint {
        Some(_) => why.sentence.clone(),
        None => format!("{}, or give nothing to {without}", why.sentence),
    }
}
