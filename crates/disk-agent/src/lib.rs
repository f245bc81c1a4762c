//! Sources and sinks on a client: walking and reading what is to be saved, and writing what comes
//! back, with all its metadata. Knows file systems, not devices or media.
//!
//! [`agent`] is the whole of it, behind its port. Backup: [`walk`] lists directories in one order and deals names to streams, [`backup`] opens and reads them,
//! [`walk::ahead`] fetches what comes next where the source is cold, `capstan_stream` builds frames and blocks. [`select`] says what is left out, [`walk::mounts`] where a disk is not mounted.
//! Restore: [`restore`] opens frames and writes the files of rows; [`target`] is where they go.
//! [`check`] holds versions against the file systems. What is particular to Linux is in
//! [`linux`]; everything else is written against it.

pub mod agent;
pub mod backup;
mod check;
mod ctime;
pub mod linux;
mod restore;
pub mod select;
pub mod spill;
pub mod target;
pub mod walk;
