//! All that is refused as it was asked for.

use capstan_engine::problem::Explain;
use capstan_select::BadPattern;

use super::{
    BackupRefusal, CompareRefusal, ConsolidateRefusal, CopyRefusal, DrillRefusal, DriveRefusal,
    IdbRefusal, ImportRefusal, KeyRefusal, LockRefusal, MediumRefusal, NameRefusal, PoolRefusal,
    PruneRefusal, QueryRefusal, RepairRefusal, RestoreRefusal, SessionRefusal, StageRefusal,
    SupplyRefusal, UpkeepRefusal, VersionRefusal,
};

/// Why something is refused as it was asked for. Its text is the sentence, without what to do.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A backup that is not made as it was asked for.
    #[error(transparent)]
    Backup(#[from] BackupRefusal),
    /// What is not compared.
    #[error(transparent)]
    Compare(#[from] CompareRefusal),
    /// A chain of which no full is made.
    #[error(transparent)]
    Consolidate(#[from] ConsolidateRefusal),
    /// What is not copied.
    #[error(transparent)]
    Copy(#[from] CopyRefusal),
    /// What is not restored as a trial.
    #[error(transparent)]
    Drill(#[from] DrillRefusal),
    /// What drives and libraries are not asked for.
    #[error(transparent)]
    Drive(#[from] DriveRefusal),
    /// The internal database, which is left as it is.
    #[error(transparent)]
    Idb(#[from] IdbRefusal),
    /// What is not imported.
    #[error(transparent)]
    Import(#[from] ImportRefusal),
    /// What is not done without the right keys.
    #[error(transparent)]
    Key(#[from] KeyRefusal),
    /// A version that is not locked.
    #[error(transparent)]
    Lock(#[from] LockRefusal),
    /// A medium that is not there, or not to be written, read or given up.
    #[error(transparent)]
    Medium(#[from] MediumRefusal),
    /// A name or text that is not taken.
    #[error(transparent)]
    Name(#[from] NameRefusal),
    /// A pattern that is not written as patterns are.
    #[error("{}", .0.sentence())]
    Pattern(#[from] BadPattern),
    /// A pool or label that is not as it was asked for.
    #[error(transparent)]
    Pool(#[from] PoolRefusal),
    /// What a prune leaves as it is.
    #[error(transparent)]
    Prune(#[from] PruneRefusal),
    /// A question that has no answer.
    #[error(transparent)]
    Query(#[from] QueryRefusal),
    /// A medium that is not repaired.
    #[error(transparent)]
    Repair(#[from] RepairRefusal),
    /// What is not restored as it was asked for.
    #[error(transparent)]
    Restore(#[from] RestoreRefusal),
    /// What is left alone while others use it.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// A medium that is not staged or retired.
    #[error(transparent)]
    Stage(#[from] StageRefusal),
    /// A medium that is not made or chosen as it was asked for.
    #[error(transparent)]
    Supply(#[from] SupplyRefusal),
    /// A medium that stays as it is.
    #[error(transparent)]
    Upkeep(#[from] UpkeepRefusal),
    /// An object or version that is not there, or not as it is wanted.
    #[error(transparent)]
    Version(#[from] VersionRefusal),
}

impl Explain for Refusal {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Backup(of) => of.hint(),
            Self::Compare(of) => of.hint(),
            Self::Consolidate(of) => of.hint(),
            Self::Copy(of) => of.hint(),
            Self::Drill(of) => of.hint(),
            Self::Drive(of) => of.hint(),
            Self::Idb(of) => of.hint(),
            Self::Import(of) => of.hint(),
            Self::Key(of) => of.hint(),
            Self::Lock(of) => of.hint(),
            Self::Medium(of) => of.hint(),
            Self::Name(of) => of.hint(),
            Self::Pattern(of) => of.hint(),
            Self::Pool(of) => of.hint(),
            Self::Prune(of) => of.hint(),
            Self::Query(of) => of.hint(),
            Self::Repair(of) => of.hint(),
            Self::Restore(of) => of.hint(),
            Self::Session(of) => of.hint(),
            Self::Stage(of) => of.hint(),
            Self::Supply(of) => of.hint(),
            Self::Upkeep(of) => of.hint(),
            Self::Version(of) => of.hint(),
        }
    }
}
