//! Chains of which the base was given up: a new full takes its place, where there is room for one and a medium that has all of it.

mod adopted;
pub(super) mod bases;
mod hindered;
pub(super) mod kept_copies;
mod outlook;
pub(super) mod plan;
pub(super) mod room;
mod site;
pub(crate) mod stand_ins;
