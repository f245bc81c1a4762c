//! Robots and drives: booked, cleaned, asked for tapes, and the keys of drives that encrypt.

pub(crate) mod attached;
pub(crate) mod cleaning;
pub(crate) mod drive_key;
pub(crate) mod eject;
pub mod library;
pub(crate) mod on_record;
pub(crate) mod robots;
pub(crate) mod tapes_wanted;
pub(crate) mod uses;
