//! The options of the commands in `crate::admin`.

pub(super) mod assess;
pub(super) mod idb;
pub(super) mod key;
pub(super) mod protect;
