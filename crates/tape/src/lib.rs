//! Tape drives and libraries: what is asked of them, and virtual ones that behave and take their time as real ones do.
//!
//! [`drive`] is the narrow door to a drive, virtual or not: blocks, filemarks, positions; [`changer`] that to a library; [`error`] why
//! either failed. [`encryption`] has the key that a drive can be given. [`reports`] is what drives say of themselves. [`model`] has real
//! drives as data, [`speeds`] how fast they are, [`spot`] places on a tape, [`generation`] which drive takes which tape. [`vtl`] has virtual libraries. [`lock`] keeps
//! the processes of a host from using a drive or robot at once. [`leaving`] ends all waits of a process.
//!
//! Nothing here knows of media, segments or sessions.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]
#![deny(missing_docs)]

pub mod changer;
pub mod drive;
pub mod encryption;
pub mod error;
pub mod generation;
pub mod leaving;
pub mod lock;
pub mod model;
pub mod reports;
pub mod speeds;
pub mod spot;
pub mod vtl;

pub use changer::Changer;
pub use drive::{Read, TapeDrive, Written};
pub use encryption::DriveKey;
pub use error::TapeError;
pub use generation::Media;
pub use model::DriveModel;
pub use reports::{Alert, Counters, DriveSession, Mount, Severity};
pub use speeds::Speeds;
pub use spot::Spot;
pub use vtl::faults::{Struck, StruckLog};
