//! What is not done with media: erasing, recycling, forgetting, giving a new identity.

use capstan_address::{Address, ArrayAddress};
use capstan_engine::message::shell_word;
use capstan_engine::problem::Explain;
use capstan_format::id::VersionId;

/// Why a medium stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpkeepRefusal {
    /// Something other than a directory was to get a new identity.
    #[error("only a directory gets a new identity, and {device} is none")]
    NoDirectory {
        /// The device.
        device: Address,
    },
    /// A directory that was to get a new identity has the medium that is recorded there.
    #[error("{device} holds {medium} as it was last written")]
    TheOriginal {
        /// The directory.
        device: Address,
        /// The medium.
        medium: String,
    },
    /// What was to be erased is no tape.
    #[error("'{name}' is no tape")]
    NoTape {
        /// What was named.
        name: String,
    },
    /// The tape that was to be erased is a medium's.
    #[error("the tape is of {medium}, which the database knows")]
    TapeOfMedium {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
        /// How it stands with it.
        known: TapeKnown,
    },
    /// An array was to be erased of which a member is not there.
    #[error("{medium} cannot be erased: {why}")]
    MemberNotErased {
        /// The array.
        medium: String,
        /// What is wrong with the member.
        why: String,
    },
    /// A medium that was to be forgotten is at hand.
    #[error("{medium} is in {device}, and one that is at hand is not forgotten")]
    AtHand {
        /// The medium.
        medium: String,
        /// Where it is.
        device: Address,
        /// What can be done with it.
        way: String,
    },
    /// A session that runs uses what a medium holds.
    #[error("a session that runs uses what {medium} holds")]
    InUseBySession {
        /// The medium.
        medium: String,
    },
    /// A medium holds a version that is locked.
    #[error("medium '{label}' holds version {}, which is locked {until}", version.short())]
    HoldsLocked {
        /// The medium's label.
        label: String,
        /// The version.
        version: VersionId,
        /// Until when.
        until: String,
    },
    /// A medium holds what no prune would remove.
    #[error("{medium} holds what no prune would remove: {versions}")]
    HoldsKept {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
        /// Versions that it holds.
        versions: String,
        /// What was to be done with it, as `recycle`.
        command: &'static str,
    },
    /// A medium holds what must stay.
    #[error("{medium} holds what must stay: {versions}")]
    HoldsProtected {
        /// The medium.
        medium: String,
        /// Versions that it holds.
        versions: String,
        /// What can be done about one that was not ended.
        way_of_unended: String,
    },
    /// A tape that was to be taken from another program is no tape of a library.
    #[error("{medium} is no tape of a library")]
    NoLibraryTape {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
    },
    /// A tape that was to be taken from another program is another cell's.
    #[error("{medium} belongs to another cell, so nothing is removed from its tape")]
    OfAnotherCell {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
    },
    /// A medium held a version that is locked.
    #[error("{medium} held {version}, which is locked {until}")]
    HeldLocked {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
        /// The version.
        version: String,
        /// Until when.
        until: String,
    },
    /// A medium that was said to be gone is on its tape.
    #[error("{medium} is on its tape")]
    OnItsTape {
        /// The medium.
        medium: String,
    },
    /// Another medium of a Capstan is on the tape of one.
    #[error("{found} is on that tape")]
    AnotherOnTape {
        /// The medium that is there.
        found: String,
        /// The one that was.
        medium: String,
        /// Its label.
        label: String,
    },
    /// Members of an array are missing, and none can be written anew.
    #[error("no member of {array} can be written anew: {missing}, then do it again")]
    TooFewMembers {
        /// The array.
        array: ArrayAddress,
        /// What is missing, and what to do.
        missing: String,
    },
    /// What was named is no array.
    #[error("{device} is no array")]
    NoArray {
        /// What was named.
        device: Address,
    },
    /// Several members of an array have a barcode.
    #[error("'{name}' is the barcode of several members of {array}")]
    BarcodeAmbiguous {
        /// The barcode.
        name: String,
        /// The array.
        array: ArrayAddress,
    },
    /// An array has no such member.
    #[error("'{name}' is not a member of {array}")]
    ArrayHasNoSuchMember {
        /// What was named.
        name: String,
        /// The array.
        array: ArrayAddress,
    },
}

/// What is known of the medium of a tape that was to be erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapeKnown {
    /// It is another cell's.
    OfAnotherCell,
    /// It is not on the tape any more.
    Gone,
    /// It is on the tape.
    There,
}

impl Explain for UpkeepRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoDirectory { .. } => {
                "copy what it holds to another tape or array with `capstan copy --medium`, and recycle it".to_owned()
            }
            Self::TheOriginal { .. } => {
                "name the other directory that has its identity".to_owned()
            }
            Self::NoTape { .. } => {
                "name a library and a tape in it, as vtape:DIR?tape=BARCODE, or a drive that stands alone".to_owned()
            }
            Self::TapeOfMedium { label, known: TapeKnown::OfAnotherCell, .. } => format!(
                "it belongs to another cell: `capstan media forget '{label}'` forgets it here, then this command erases it"
            ),
            Self::TapeOfMedium { label, known: TapeKnown::Gone, .. } => format!(
                "`capstan media recycle '{label}' --foreign` or `capstan media forget '{label}'` gives up what that held"
            ),
            Self::TapeOfMedium { label, known: TapeKnown::There, .. } => format!(
                "`capstan media erase '{label}'` erases it, `capstan media retire '{label}'` gives up one that is destroyed"
            ),
            Self::MemberNotErased { .. } => "what the member has would stay".to_owned(),
            Self::AtHand { way, .. } => way.clone(),
            Self::InUseBySession { .. } => "forget it when that is done".to_owned(),
            Self::HoldsLocked { .. } => "give it up after that".to_owned(),
            Self::HoldsKept { label, command, .. } => format!(
                "back up these objects to another medium first, or give it up with `capstan media {command} {} --give-up`",
                shell_word(label)
            ),
            Self::HoldsProtected { way_of_unended, .. } => format!(
                "it can be given up when their protection has ended and nothing builds on them{way_of_unended}"
            ),
            Self::NoLibraryTape { label, .. } => format!(
                "what is in another place is removed by hand, and `capstan media forget '{label}'` gives up what it held"
            ),
            Self::OfAnotherCell { label, .. } => {
                format!("`capstan media forget '{label}'` forgets it here")
            }
            Self::HeldLocked { label, .. } => format!(
                "`capstan media forget '{label}'` gives it up and leaves the tape as it is"
            ),
            Self::OnItsTape { .. } => "leave --foreign out".to_owned(),
            Self::AnotherOnTape { medium, label, .. } => {
                format!("`capstan media forget '{label}'` gives up what {medium} held")
            }
            Self::TooFewMembers { .. } => return None,
            Self::NoArray { .. } => {
                "name one by its label or as rait5:DEVICE,DEVICE,DEVICE".to_owned()
            }
            Self::BarcodeAmbiguous { array, .. } | Self::ArrayHasNoSuchMember { array, .. } => {
                format!("name one of its devices, or its number from 1 to {}", array.members.len())
            }
        })
    }
}
