//! Looking after the database: its check, size, settings, owner, copies and moves.

pub(crate) mod check;
pub(crate) mod home_room;
pub(crate) mod logging;
pub(crate) mod moving;
pub(crate) mod owner;
pub(crate) mod settings;
pub(crate) mod small_copy;
pub(crate) mod stats;
pub(crate) mod transfer;
