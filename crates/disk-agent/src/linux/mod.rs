//! The operating system calls of the disk agent, in terms that the rest of the crate needs.

pub mod clock;
pub mod command;
mod descendants;
pub mod flags;
pub mod locks;
pub mod mount_table;
pub mod mounted;
pub mod names;
pub mod processors;
pub mod restore;
pub mod source;
pub mod source_file;
pub mod stalls;
pub mod used;
pub mod users;
pub mod wait;

/// Longest path that one system call takes, without the final NUL.
const CALL_PATH_BYTES_MAX: usize = 4095;
