//! Tape drives and libraries: what is asked of them, and virtual ones that behave and take their time as real ones do.
//!
//! [`drive`] is the narrow door to a drive, virtual or not: blocks, filemarks, positions; [`changer`] that to a library;
//! [`encryption`] has the key that a drive can be given;
//! [`reports`] is what drives say of themselves. [`model`] has real drives as data; [`mechanics`] works out from a model when
//! a drive has done what, and whether its tape streams; [`clock`] is the time in which it does: real, scaled, or virtual.
//! [`virtual_drive`] is a drive made of these and of a [`cartridge`], a tape in a file, and fails as [`faults`] say.
//! [`library`] is a directory with slots, drives and a robot. [`leaving`] ends all waits of a process. [`lock`] keeps the processes of a host from using a drive or
//! robot at once.
//!
//! Nothing here knows of media, segments or sessions.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]
#![deny(missing_docs)]

pub mod cartridge;
pub mod changer;
pub mod clock;
pub mod drive;
pub mod encryption;
pub mod faults;
pub mod generation;
pub mod leaving;
pub mod library;
pub mod lock;
pub mod mechanics;
pub mod model;
pub mod reports;
mod small_file;
pub mod virtual_drive;

pub use changer::Changer;
pub use drive::{Read, Speeds, Spot, TapeDrive, TapeError, Written};
pub use encryption::DriveKey;
pub use faults::{Struck, StruckLog};
pub use generation::Media;
pub use model::DriveModel;
pub use reports::{Alert, Counters, DriveSession, Mount, Severity};
