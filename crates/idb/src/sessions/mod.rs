//! Sessions: their record, whether their processes are there, what they wait for, and what was refused.

pub(crate) mod beats;
pub(crate) mod recorded;
pub(crate) mod refusals;
pub(crate) mod waits;
