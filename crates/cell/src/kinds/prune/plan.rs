//! What a prune is to do with bases, and what it did: values.

use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{PruneRow, Version};

use crate::kinds::consolidate::To;

/// A base that became a full of its own, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidatedBase {
    /// The object's name.
    pub name: String,
    /// The session that wrote the base.
    pub session: String,
    /// How much of it and what it builds on nobody needs, in percent of their data.
    pub dead_percent: u64,
    /// The session that consolidated it; none where that is still to come, or was done before.
    pub by: Option<String>,
    /// Bytes that the full takes on its medium: what was written, or about what will be.
    pub takes_bytes: u64,
}

/// A base that should have become a full of its own, and did not: all that it builds on stays, and is not marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnconsolidatedBase {
    /// The object's name.
    pub name: String,
    /// The host it is of.
    pub host: String,
    /// The session that wrote the base.
    pub session: String,
    /// Why, and what to do.
    pub why: String,
    /// Bytes that lack on its medium, where it is for want of room.
    pub lacks_bytes: Option<u64>,
}

/// A version that was given up and that others build on, with its session.
#[derive(Clone)]
pub(super) struct Base {
    pub version: Version,
    pub(super) session: String,
    /// It and those that it builds on, each with its session.
    pub(super) chain: Vec<(VersionId, String)>,
}

impl Base {
    /// Its session, and those of what it builds on.
    pub(super) fn sessions(&self) -> impl Iterator<Item = &str> {
        self.chain.iter().map(|(_, session)| session.as_str())
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = VersionId> + '_ {
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
pub(super) struct Plan {
    pub(super) base: Base,
    pub of: ConsolidatedBase,
    /// The host of its object.
    pub(super) host: String,
    pub medium: MediumId,
    pub to: To,
    /// Other disks that have all of the chain, and get the full too.
    pub copies: Vec<MediumId>,
}

/// What was settled about a base.
pub(super) enum Planned {
    Consolidate(Box<Plan>),
    /// It is left as it is, of which that is to be said.
    Stay(Option<UnconsolidatedBase>),
}

/// Why a base is not consolidated.
pub(super) struct Lack {
    pub why: String,
    /// Bytes that lack, where it is for want of room.
    pub bytes: Option<u64>,
}

/// What becomes of bases.
#[derive(Default)]
pub(super) struct Bases {
    pub(super) plans: Vec<Plan>,
    /// Chains that stay as they are, since too little of them is dead or they cannot be consolidated: they are marked.
    pub(super) stay: Vec<Base>,
    /// What is to be said of these.
    pub(super) hindered: Vec<UnconsolidatedBase>,
    pub(super) failed: Vec<(Base, UnconsolidatedBase)>,
    pub done: Vec<ConsolidatedBase>,
    /// Whether any session wrote something.
    pub wrote: bool,
    /// What those left that failed: each one's session, segments and bytes.
    pub(super) left: Vec<(String, u64, u64)>,
}
