//! Tape drives and libraries: what is asked of them, and virtual ones that behave and take their time as real ones do.
//!
//! [`drive`] is the narrow door to a drive, virtual or not: blocks, filemarks, positions; [`changer`] that to a library. [`encryption`] has
//! the key that a drive can be given. [`model`] has real drives as data. [`vtl`] has virtual libraries. [`lock`] keeps the processes of a
//! host from using a drive or robot at once. What is said of drives and tapes, and why they failed, is in [`capstan_medium::tape`].
//!
//! Nothing here knows of media, segments or sessions.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]
#![deny(missing_docs)]

pub mod changer;
pub mod drive;
pub mod encryption;
pub mod lock;
pub mod model;
pub mod vtl;

pub use changer::Changer;
pub use drive::{Read, TapeDrive, Written};
pub use encryption::DriveKey;
pub use model::DriveModel;
pub use vtl::faults::StruckLog;
