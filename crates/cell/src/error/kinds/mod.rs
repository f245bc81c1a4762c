//! What sessions of each kind refuse, before they begin or in the midst of it.

mod backup;
mod copy;
mod drill;
mod import;
mod prune;
mod repair;
mod restore;
mod stage;

pub use backup::BackupRefusal;
pub use copy::{ConsolidateRefusal, CopyRefusal};
pub use drill::{CompareRefusal, DrillRefusal};
pub use import::ImportRefusal;
pub use prune::PruneRefusal;
pub use repair::RepairRefusal;
pub use restore::RestoreRefusal;
pub use stage::StageRefusal;
