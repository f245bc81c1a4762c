//! The files of a home: what has to be known, and there, before its database is open.

pub(crate) mod address;
pub(crate) mod cell_file;
pub(crate) mod config;
pub(crate) mod files;
pub(crate) mod reserve;
