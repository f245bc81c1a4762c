//! What sessions of each kind refuse, before they begin or in the midst of it.

mod backup;
mod import;
mod prune;
mod repair;
mod stage;

pub use backup::BackupRefusal;
pub use import::ImportRefusal;
pub use prune::PruneRefusal;
pub use repair::RepairRefusal;
pub use stage::StageRefusal;
