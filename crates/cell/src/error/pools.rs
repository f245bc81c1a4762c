//! Pools, their rotation sets and the labels of their media.

use capstan_engine::message::shell_word;
use capstan_engine::problem::Explain;

/// Why a pool or a label is not as it was asked for; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolRefusal {
    /// No pool has that name.
    #[error("no pool is called '{name}': {}", known_pools(.known))]
    UnknownPool {
        /// The name.
        name: String,
        /// Pools that there are.
        known: Vec<String>,
    },
    /// A pool cannot have that name.
    #[error("{name:?} cannot be a pool's name")]
    NoPoolName {
        /// The name.
        name: String,
        /// Letters that it may have.
        most: usize,
    },
    /// A pool has that name.
    #[error("there is a pool '{name}' already")]
    PoolExists {
        /// The name.
        name: String,
    },
    /// A rotation set is to have too many media.
    #[error("a rotation set has at most {most} media")]
    SetTooLarge {
        /// How many it may have.
        most: u32,
    },
    /// A pool is to draw free media from itself.
    #[error("pool '{pool}' cannot draw free media from itself")]
    DrawsFromItself {
        /// The pool.
        pool: String,
    },
    /// A rule gives all media of a pool one label.
    #[error("the label '{rule}' would be that of all media of the pool")]
    OneLabelForAll {
        /// The rule.
        rule: String,
    },
    /// A rule gives several media one label.
    #[error("the label '{rule}' would be that of several media")]
    OneLabelForSeveral {
        /// The rule.
        rule: String,
    },
    /// A rule for labels cannot be understood.
    #[error("'{text}' is no label or rule for labels: {why}")]
    BadLabelRule {
        /// The rule.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A medium cannot have that label.
    #[error("{label:?} cannot be a label: {why}")]
    NoLabel {
        /// The label.
        label: String,
        /// Why not.
        why: String,
    },
    /// A place is no vault.
    #[error("{vault:?} is no vault: it is empty, or begins or ends with a space")]
    NoVault {
        /// The place.
        vault: String,
    },
    /// A pool that is to be deleted has media.
    #[error("pool '{name}' has {media} media")]
    PoolHasMedia {
        /// The pool.
        name: String,
        /// How many.
        media: usize,
    },
    /// Another pool draws from one that is to be deleted.
    #[error("pool '{other}' draws free media from '{name}'")]
    PoolDrawnFrom {
        /// The pool that is to be deleted.
        name: String,
        /// The one that draws from it.
        other: String,
    },
    /// A pool does not have a rotation set.
    #[error("pool '{pool}' has no {set} set")]
    PoolHasNoSuchSet {
        /// The pool.
        pool: String,
        /// The set.
        set: String,
    },
    /// What is no nightly backup was to go to a pool whose media rotate.
    #[error(
        "pool '{pool}' has rotation sets, which keep nightly backups: what is {what} there would go before its time"
    )]
    PoolRotates {
        /// The pool.
        pool: String,
        /// What is done with what goes there.
        what: &'static str,
    },
    /// What is no nightly backup was to go to a medium that rotates.
    #[error(
        "medium '{label}' is of the {set} set of pool '{pool}', which keeps nightly backups: what is {what} there would go before its \
         time"
    )]
    MediumRotates {
        /// The medium's label.
        label: String,
        /// Its set.
        set: String,
        /// Its pool.
        pool: String,
        /// What is done with what goes there.
        what: &'static str,
    },
}

impl Explain for PoolRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownPool { .. } => "`capstan pool create` makes one".to_owned(),
            Self::NoPoolName { most, .. } => {
                format!("give up to {most} letters, digits, dots, dashes")
            }
            Self::PoolExists { .. } => "`capstan pool set` changes it".to_owned(),
            Self::SetTooLarge { .. } => "give a smaller number".to_owned(),
            Self::DrawsFromItself { .. } => "name another pool".to_owned(),
            Self::OneLabelForAll { .. } | Self::OneLabelForSeveral { .. } => {
                "write a rule with {barcode} or {n}".to_owned()
            }
            Self::BadLabelRule { .. } => "rules have {barcode}, {pool}, {n} and {n:04}".to_owned(),
            Self::NoLabel { .. } => "give another one".to_owned(),
            Self::NoVault { .. } => "name the place, as 'bank, box 7'".to_owned(),
            Self::PoolHasMedia { .. } => {
                "move them to another pool with `capstan media move`".to_owned()
            }
            Self::PoolDrawnFrom { other, .. } => {
                format!("`capstan pool set {} --no-free-pool` ends that", shell_word(other))
            }
            Self::PoolHasNoSuchSet { pool, set } => {
                format!("`capstan pool set {} --rotation {set}=N` gives it one", shell_word(pool))
            }
            Self::PoolRotates { .. } | Self::MediumRotates { .. } => {
                "name a pool without rotation, a library or a directory".to_owned()
            }
        })
    }
}

/// What pools there are, where one is named that is not there.
fn known_pools(known: &[String]) -> String {
    match known.is_empty() {
        true => "there is none yet".to_owned(),
        false => format!("known are {}", known.join(", ")),
    }
}
