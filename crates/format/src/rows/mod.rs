//! What is known of files: [`entry`] of one, [`batch`] of many as columns, [`sums`] the checksums of their contents, [`acl`] whom their
//! ACLs name.

pub mod acl;
pub mod batch;
pub mod entry;
pub mod sums;
