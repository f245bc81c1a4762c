//! What a prune is to do with bases: values.

use capstan_address::HostName;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{PruneRow, Version};

use crate::kinds::consolidate::To;
use crate::kinds::prune::report::{ConsolidatedBase, UnconsolidatedBase};

/// A version that was given up and that others build on, with its session.
#[derive(Clone)]
pub(in crate::kinds::prune) struct Base {
    pub version: Version,
    pub(in crate::kinds::prune) session: String,
    /// It and those that it builds on, each with its session.
    pub(in crate::kinds::prune) chain: Vec<(VersionId, String)>,
}

impl Base {
    /// Its session, and those of what it builds on.
    pub(in crate::kinds::prune) fn sessions(&self) -> impl Iterator<Item = &str> {
        self.chain.iter().map(|(_, session)| session.as_str())
    }

    pub(in crate::kinds::prune) fn versions(&self) -> impl Iterator<Item = VersionId> + '_ {
        self.chain.iter().map(|(version, _)| *version)
    }

    /// It, and what it builds on, each as a base of its own, the newest first: since a full was made of one, newer ones may have been
    /// given up.
    pub fn with_those_below(&self, rows: &[PruneRow]) -> Vec<Self> {
        let each = |(at, (id, session)): (usize, &(VersionId, String))| {
            let row = rows.iter().find(|row| row.version.id == *id)?;
            let chain = self.chain[at..].to_vec();
            Some(Self { version: row.version.clone(), session: session.clone(), chain })
        };
        self.chain.iter().enumerate().filter_map(each).collect()
    }
}

/// What is to be done about a base.
pub(in crate::kinds::prune) struct Plan {
    pub(in crate::kinds::prune) base: Base,
    pub of: ConsolidatedBase,
    /// The host of its object.
    pub(in crate::kinds::prune) host: HostName,
    pub medium: MediumId,
    pub to: To,
    /// Other disks that have all of the chain, and get the full too.
    pub copies: Vec<MediumId>,
}

/// What was settled about a base.
pub(in crate::kinds::prune) enum Planned {
    Consolidate(Box<Plan>),
    /// It is left as it is, of which that is to be said.
    Stay(Option<UnconsolidatedBase>),
}

/// Why a base is not consolidated.
pub(in crate::kinds::prune) struct Lack {
    pub why: String,
    /// Bytes that lack, where it is for want of room.
    pub bytes: Option<u64>,
}

/// What becomes of bases.
#[derive(Default)]
pub(in crate::kinds::prune) struct Bases {
    pub(in crate::kinds::prune) plans: Vec<Plan>,
    /// Chains that stay as they are, since too little of them is dead or they cannot be consolidated: they are marked.
    pub(in crate::kinds::prune) stay: Vec<Base>,
    /// What is to be said of these.
    pub(in crate::kinds::prune) hindered: Vec<UnconsolidatedBase>,
    pub(in crate::kinds::prune) failed: Vec<(Base, UnconsolidatedBase)>,
    pub done: Vec<ConsolidatedBase>,
    /// Whether any session wrote something.
    pub wrote: bool,
    /// What those left that failed: each one's session, segments and bytes.
    pub(in crate::kinds::prune) left: Vec<(String, u64, u64)>,
}
