//! What a media agent writes to and reads from: directories, tapes and arrays of them as media, and the null device.
//!
//! Devices know blocks and segments as byte strings and file marks; they know nothing of sessions, streams or frames. A module uses those
//! below it:
//!
//! - `port`: what a host does for a cell
//! - [`rait`]: arrays of devices
//! - [`tape`], [`null`]: a kind of device each
//! - [`memory`]: a kind of store for tests
//! - [`host`]: the device host, at which media, libraries and drives are opened; the table of the kinds of stores
//! - [`directory`]: directories of a file system, a kind of store
//! - [`store`]: media in stores of any kind
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
pub mod memory;
pub mod null;
mod port;
pub mod rait;
pub mod scsi;
mod state;
pub mod store;
pub mod tape;
