//! What was backed up and is damaged, incomplete or nowhere to be found.

use capstan_address::Address;
use capstan_catalog::CatalogError;
use capstan_engine::problem::Explain;
use capstan_format::id::{MediumId, SegmentId};

/// Why something of a version, a medium or a catalog cannot be had. The exit code is that of bad input, as another medium may have it.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// A catalog, or what a version builds on, cannot be had.
    #[error("{}", .0.sentence())]
    Catalog(CatalogError),
    /// The pages of the internal database are damaged.
    #[error("the internal database {place} is damaged: {first}{more}")]
    DatabaseDamaged {
        /// The database.
        place: String,
        /// The first damage.
        first: String,
        /// How many more there are, in words.
        more: String,
    },
    /// A segment is on no medium that is known.
    #[error("segment {} lies on no known medium", .0.short())]
    SegmentOnNoMedium(SegmentId),
    /// A segment has no place on the medium from which catalogs are loaded.
    #[error("segment {} has no place", .0.short())]
    SegmentWithoutPlace(SegmentId),
    /// A catalog that was to be loaded cannot be read on its medium.
    #[error("its catalog cannot be read there{why}")]
    CatalogUnreadable {
        /// Why not, in brackets.
        why: String,
    },
    /// Names of a segment cannot be read any more.
    #[error("{path} has not all of its names any more")]
    NamesLost {
        /// The segment's file.
        path: String,
    },
    /// A segment that is to be read has no place.
    #[error("it has no place")]
    NoPlace,
    /// Nothing says what a segment holds.
    #[error("{path} has neither begin nor end")]
    NoBeginOrEnd {
        /// The segment's file.
        path: String,
    },
    /// Nothing says of which object a stream is.
    #[error("a stream has no name")]
    NoName,
    /// The name of an object is damaged.
    #[error("an object's name cannot be read")]
    NameUnreadable,
    /// Of a segment there are only copies that lack something.
    #[error("of segment {} there are only copies that lack something", .0.short())]
    OnlyLackingCopies(SegmentId),
    /// The header of a segment is lost.
    #[error("its header is lost")]
    SegmentHeaderLost,
    /// Segments of a version are missing.
    #[error(
        "segments of it are missing: {rows} of {counted} files and directories are recorded, and {lacking} bytes of them are not"
    )]
    SegmentsMissing {
        /// Files and directories that are recorded.
        rows: u64,
        /// Files and directories that there were.
        counted: u64,
        /// Bytes that are not recorded.
        lacking: u64,
    },
    /// A full would lack what cannot be read.
    #[error(
        "a full would lack what cannot be read, so none is made, and the versions stay as they are"
    )]
    FullWouldLack,
    /// Contents are stored in a way that this program does not know.
    #[error("its contents are stored in a way that needs a newer capstan")]
    NewerContents,
    /// A medium is that of no version.
    #[error("medium {} belongs to no version", .0.short())]
    MediumOfNoVersion(MediumId),
    /// What should be a tape cannot be read as one.
    #[error("cannot read medium '{label}' ({id}) in {device}: {why}")]
    NotATape {
        /// The medium's label.
        label: String,
        /// Its id.
        id: String,
        /// Where it is.
        device: Address,
        /// Why not.
        why: String,
    },
    /// A medium cannot be read.
    #[error("cannot read medium '{label}' ({id}) in {device}: {why}")]
    MediumNotRead {
        /// The medium's label.
        label: String,
        /// Its id.
        id: String,
        /// Where it was last seen.
        device: Address,
        /// Why not.
        why: String,
        /// What to do.
        way: &'static str,
    },
    /// A part of a version is on no medium.
    #[error("some of it is on no medium")]
    PartOnNoMedium,
    /// A version is of no session that is known.
    #[error("no session of it is known")]
    NoSession,
}

impl Explain for Damage {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Catalog(e) => return e.hint(),
            Self::SegmentOnNoMedium(_)
            | Self::SegmentWithoutPlace(_)
            | Self::NoPlace
            | Self::OnlyLackingCopies(_)
            | Self::SegmentsMissing { .. }
            | Self::NewerContents
            | Self::MediumOfNoVersion(_)
            | Self::NotATape { .. }
            | Self::NoName
            | Self::NameUnreadable
            | Self::PartOnNoMedium
            | Self::NoSession => return None,
            Self::SegmentHeaderLost => "import the medium to have it mended".to_owned(),
            Self::FullWouldLack => {
                "make another copy of the medium available, or try another drive".to_owned()
            }
            Self::MediumNotRead { way, .. } => (*way).to_owned(),
            Self::DatabaseDamaged { .. } => {
                "check the disk, put the home aside and bring the database back with `capstan idb recover MEDIUM`, or with `capstan import \
                 MEDIUM`"
                    .to_owned()
            }
            Self::CatalogUnreadable { .. } => {
                "the one that the database has is whole, and stays".to_owned()
            }
            Self::NamesLost { .. } | Self::NoBeginOrEnd { .. } => "verify the medium".to_owned(),
        })
    }
}
