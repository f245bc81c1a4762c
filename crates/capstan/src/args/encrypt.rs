//! Who encrypts, as options say it.

use capstan_cell::request::Encrypt;
use clap::ValueEnum;

/// `--encrypt` of what reads the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EncryptArg {
    /// The session, before anything leaves it
    Software,
    /// The tape drive: AES-256 by a key of the tape's own
    Drive,
    /// Nobody: in a home that has no key ring (any more), though earlier backups are encrypted
    Off,
}

/// `--encrypt` of what copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EncryptCopyArg {
    /// The tape drive: AES-256 by a key of the tape's own
    Drive,
}

impl From<EncryptArg> for Encrypt {
    fn from(arg: EncryptArg) -> Self {
        match arg {
            EncryptArg::Software => Self::Software,
            EncryptArg::Drive => Self::Drive,
            EncryptArg::Off => Self::Off,
        }
    }
}

impl From<EncryptCopyArg> for Encrypt {
    fn from(EncryptCopyArg::Drive: EncryptCopyArg) -> Self {
        Self::Drive
    }
}
