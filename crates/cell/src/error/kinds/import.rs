//! Media and libraries that are not imported.

use capstan_address::Address;
use capstan_engine::problem::Explain;
use capstan_format::array::Layout;

/// Why something is not imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportRefusal {
    /// No tape of a library is a medium of Capstan.
    #[error("no {what} of {device} is a medium of Capstan")]
    NoneOfCapstan {
        /// What was looked for.
        what: &'static str,
        /// Where.
        device: Address,
    },
    /// Too few members of an array are there.
    #[error(
        "of array '{label}' ({layout}) {found} of {members} members are here, and {needed} are needed"
    )]
    TooFewMembers {
        /// The array's label.
        label: String,
        /// How it is made.
        layout: Layout,
        /// Members that are there.
        found: usize,
        /// Members that it has.
        members: usize,
        /// Members that it cannot do without.
        needed: usize,
    },
}

impl Explain for ImportRefusal {
    fn hint(&self) -> Option<String> {
        match self {
            Self::TooFewMembers { layout, .. } => Some(format!(
                "name the libraries of all of them, as {layout}:LIBRARY,LIBRARY, or bring their tapes into one library"
            )),
            Self::NoneOfCapstan { .. } => None,
        }
    }
}
