//! Media, what lies on each, what of it is damaged, lost or copied, and where they are.

pub(crate) mod copies;
pub(crate) mod damage;
pub(crate) mod exported;
pub(crate) mod faults;
pub(crate) mod forget;
pub(crate) mod known;
pub(crate) mod lacks;
pub(crate) mod leaving;
pub(crate) mod lost;
pub(crate) mod managed;
pub(crate) mod pools;
pub(crate) mod rebuilt;
pub(crate) mod stand_ins;
