//! What a media agent writes to and reads from: directories, tapes and arrays of them as media, and the null device.
//!
//! Devices know blocks and segments as byte strings and file marks; they know nothing of sessions, streams or frames. A module uses those
//! below it:
//!
//! - `port`: what a host does for a cell; the list of the kinds of devices
//! - [`rait`]: arrays of devices
//! - [`tape`], [`directory`], [`null`]: a kind of device each
//! - [`host`]: the device host, at which media, libraries and drives are opened
//! - `drives`: tapes in drives, and how they get there
//! - `state`: what a host has beside them: who puts tapes into drives ([`operator`]), how long drives are waited for that others have
//!   ([`queue`]), how long all of that took ([`waits`]), robots that several hosts share ([`shared`]), what happens to tapes ([`ledger`])
//! - [`scsi`]: real drives and libraries
//!
//! What a medium is, and the traits that kinds of devices have, is in [`capstan_medium`].

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod directory;
pub mod drives;
pub mod host;
pub mod null;
mod port;
pub mod rait;
pub mod scsi;
mod state;
pub mod tape;
