//! Names and texts that cannot be recorded or shown.

use capstan_engine::problem::Explain;

/// Why a name or a text is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameRefusal {
    /// An object's name has nothing in it.
    #[error("the object's name is empty")]
    ObjectEmpty,
    /// An object's name cannot be typed.
    #[error("the object's name {name:?} has control characters")]
    ObjectControls {
        /// The name.
        name: String,
    },
    /// An object's name is too long.
    #[error("the object's name has {bytes} bytes, and it may have {most}")]
    ObjectTooLong {
        /// Bytes that it has.
        bytes: usize,
        /// Bytes that it may have.
        most: usize,
    },
    /// A session has too many tags.
    #[error("{count} tags are too many")]
    TooManyTags {
        /// How many.
        count: usize,
        /// How many it may have.
        most: usize,
    },
    /// A text is too long for a list.
    #[error("{what} has {bytes} bytes, and it may have {most}")]
    TextTooLong {
        /// What the text is.
        what: &'static str,
        /// Bytes that it has.
        bytes: usize,
        /// Bytes that it may have.
        most: usize,
    },
    /// A text cannot be typed.
    #[error("{what} has control characters")]
    TextControls {
        /// What the text is.
        what: &'static str,
    },
    /// An input cannot be restored under that name.
    #[error("{name:?} cannot be the name of a file: {why}")]
    NoFileName {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
}

impl Explain for NameRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ObjectEmpty => "give --name a name, or leave it out".to_owned(),
            Self::ObjectControls { .. } => "give --name one that can be typed".to_owned(),
            Self::ObjectTooLong { .. } => "give --name a shorter one".to_owned(),
            Self::TooManyTags { most, .. } => format!("give at most {most}"),
            Self::TextTooLong { .. } => "give a shorter text".to_owned(),
            Self::TextControls { .. } => "give a text that can be typed".to_owned(),
            Self::NoFileName { .. } => {
                "give --stdin-name a plain name or path, as shop.sql or db/shop".to_owned()
            }
        })
    }
}
