//! Media and tapes as whoever reads, writes and manages them sees them: traits and values.
//!
//! What kinds of devices there are, and how a tape gets into a drive, is not known here: `devices` has that. What comes in are
//! storages and devices of any kind; what goes out is what lies on them.
//!
//! - [`medium`]: a medium that was opened; [`held`]: one that nobody else writes to; [`attached`]: what lies on a tape beside segments
//! - [`storage`]: the narrow door to what a medium lies on; [`device`]: that to what segments are written to
//! - [`header`], [`names`], [`ends`]: what is found where on it
//! - [`tape`]: what is said of tapes, drives and libraries
//! - [`host`]: where all of these are opened
//! - [`form`], [`os_form`]: how names and errors of the system are told to other hosts
//! - [`error`]: what can go wrong; [`os_errors`]: what errors of the operating system say of a disk

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod attached;
pub mod device;
pub mod ends;
pub mod error;
pub mod form;
pub mod header;
pub mod held;
pub mod host;
pub mod medium;
pub mod names;
pub mod os_errors;
pub mod os_form;
pub mod storage;
pub mod tape;

pub use device::{Device, LostMember};
pub use error::{DeviceError, WAYS_TO_ROOM};
pub use held::{FoundLock, HeldMedium};
pub use medium::OpenMedium;
pub use storage::NewAttachment;
