//! Media that are named and are not there, or are not to be written, read or given up.

use std::path::PathBuf;

use capstan_address::Address;
use capstan_engine::message::shell_word;
use capstan_engine::problem::Explain;
use capstan_format::id::{CellId, MediumId};
use capstan_idb::ID_DIGITS_LEAST;

/// The option with which a medium is made where another one is known.
const ON_PURPOSE: &str = "--new-medium";

/// Why a medium is not what was asked for; nothing was written to it.
#[derive(Debug, thiserror::Error)]
pub enum MediumRefusal {
    /// No medium has that name, that id or that place.
    #[error("no medium is called '{name}'")]
    UnknownMedium {
        /// What was given.
        name: String,
    },
    /// A medium that something refers to is not recorded.
    #[error("medium {} is not known", .0.short())]
    UnknownId(MediumId),
    /// No medium was made in a directory yet.
    #[error("the directory {0} is blank: no medium is in it yet")]
    BlankDirectory(String),
    /// A name is that of several media.
    #[error("'{name}' names {} media: {}", media.len(), media.join(", "))]
    MediumAmbiguous {
        /// The name.
        name: String,
        /// Each of the media.
        media: Vec<String>,
        /// Whether one of them is in the directory of that name, and another is only called so.
        is_directory_too: bool,
    },
    /// A medium is not where it was last.
    #[error("{medium} is not in {device}: {why}")]
    NotThere {
        /// The medium.
        medium: String,
        /// Where it was.
        device: Address,
        /// What is there.
        why: String,
    },
    /// Another medium is in the place of one.
    #[error("{device} holds {found}, not {wanted}")]
    AnotherThere {
        /// The place.
        device: Address,
        /// The medium that is there.
        found: String,
        /// The one that should be.
        wanted: String,
    },
    /// What was opened to be written is not the medium that was looked at.
    #[error("{place} holds {found} now, not {seen}")]
    AnotherNow {
        /// The place.
        place: String,
        /// The medium that is there.
        found: String,
        /// The one that was there.
        seen: String,
    },
    /// No medium is on the tape of one that held nothing.
    #[error("{medium} is not on its tape {device} any more, on which no medium is")]
    HeaderGone {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
        /// The tape.
        device: Address,
    },
    /// A medium was taken out of the pool that chose it.
    #[error("{medium} is not in pool '{pool}' any more")]
    LeftPool {
        /// The medium.
        medium: String,
        /// The pool.
        pool: String,
    },
    /// A medium is in two places, and was written last in the other one.
    #[error("{medium} is in two places, {last} and {device}, and was last written in the first")]
    InTwoPlaces {
        /// The medium.
        medium: String,
        /// Where it was written last.
        last: Address,
        /// The other place.
        device: String,
        /// What can be done about it.
        ways: String,
    },
    /// A tape was cut short, and what is written next would be over what is left there.
    #[error("{medium} was cut short, and what is written next would be over what is left there")]
    CutShort {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
    },
    /// A medium is of another cell.
    #[error("{medium} in {place} belongs to another cell ({}), so nothing is written to it or removed from it", cell.short())]
    OfAnotherCell {
        /// The medium.
        medium: String,
        /// Where it is.
        place: String,
        /// Its cell.
        cell: CellId,
    },
    /// A medium was given up.
    #[error("{medium} is retired since {since}: it is never written again")]
    Retired {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
        /// Since when.
        since: String,
        /// Whether others have all that it holds.
        is_had_elsewhere: bool,
    },
    /// A tape is worn or at fault.
    #[error("{medium} is in poor condition ({reasons}), so no more is written to it")]
    Poor {
        /// The medium.
        medium: String,
        /// What is wrong with it.
        reasons: String,
    },
    /// A medium that was to be adopted is of this cell.
    #[error("{medium} is of this cell already")]
    OursAlready {
        /// The medium.
        medium: String,
    },
    /// No tape of a library is known to be another cell's.
    #[error("no tape of {library} is known to belong to another cell")]
    NoneToAdopt {
        /// The library.
        library: String,
    },
    /// The disk of a home is not mounted.
    #[error(
        "nothing is mounted at {}, which is a mount point by /etc/fstab or a mount unit, so no home is made in {}",
        point.display(),
        home.display()
    )]
    HomeNotMounted {
        /// The mount point.
        point: PathBuf,
        /// The home.
        home: PathBuf,
    },
    /// The disk of a directory in which a medium would be made is not mounted.
    #[error(
        "nothing is mounted at {}, which is a mount point by /etc/fstab or a mount unit, so no medium is made in {}",
        point.display(),
        place
    )]
    PlaceNotMounted {
        /// The mount point.
        point: PathBuf,
        /// The directory.
        place: String,
    },
    /// A medium of a pool was to be made in passing.
    #[error(
        "pool '{pool}' chooses among its media and makes none, so {ON_PURPOSE} has no sense with it"
    )]
    PoolMakesNone {
        /// The pool.
        pool: String,
    },
    /// A medium is known where another one would be made.
    #[error(
        "{medium} is known to be in {place}, and nothing is there now, so no other one is made there by itself"
    )]
    PlaceTaken {
        /// The medium.
        medium: String,
        /// Its label.
        label: String,
        /// The place.
        place: String,
    },
    /// What the database has as the identity of its cell is none.
    #[error("the internal database says '{found}' is the cell's identity, which is none")]
    NoCellId {
        /// What it has.
        found: String,
    },
}

impl Explain for MediumRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownMedium { name } => unknown(name),
            Self::UnknownId(_) => "import it first".to_owned(),
            Self::BlankDirectory(_) => "`capstan media init` makes one".to_owned(),
            Self::MediumAmbiguous { name, is_directory_too, .. } => ways(name, *is_directory_too),
            Self::NotThere { .. } => "mount it there, or import it from where it is now".to_owned(),
            Self::AnotherThere { .. } => {
                "mount the right one there, or import it from where it is".to_owned()
            }
            Self::AnotherNow { .. } => {
                "nothing was changed; run it again if the medium there is the right one".to_owned()
            }
            Self::HeaderGone { label, .. } => format!(
                "if the tape is blank, `capstan media recycle {}` makes it that medium again",
                shell_word(label)
            ),
            Self::LeftPool { .. } => "give the command again".to_owned(),
            Self::InTwoPlaces { ways, .. } => ways.clone(),
            Self::CutShort { label, .. } => format!(
                "take another one, or give up what it has: `capstan media recycle '{label}'`, or `capstan media forget '{label}'` when it \
                 is gone"
            ),
            Self::OfAnotherCell { place, .. } => format!(
                "`capstan import` reads what it has, `capstan media adopt {}` makes it one of this cell",
                shell_word(place)
            ),
            Self::Retired { label, is_had_elsewhere, .. } => {
                after_retired(label, *is_had_elsewhere)
            }
            Self::Poor { .. } => {
                "name another tape, and bring what it holds elsewhere with `capstan media retire`"
                    .to_owned()
            }
            Self::OursAlready { .. } => "nothing was changed".to_owned(),
            Self::NoneToAdopt { library } => {
                format!("`capstan import {}` reads what its tapes are", shell_word(library))
            }
            Self::HomeNotMounted { .. } => "mount the disk, or name another home".to_owned(),
            Self::PlaceNotMounted { .. } => {
                format!("mount the disk, or say {ON_PURPOSE} if one is to be made without it")
            }
            Self::PoolMakesNone { pool } => {
                format!("`capstan media init DEVICE --pool {pool}` makes one")
            }
            Self::PlaceTaken { label, .. } => format!(
                "mount or bring back the one that is known, or say {ON_PURPOSE} if another is to be made in its place (`capstan media \
                 forget '{label}'` gives up one that is lost)"
            ),
            Self::NoCellId { .. } => "recover the database with `capstan idb recover`".to_owned(),
        })
    }
}

/// Where media are found, and how much of an id has to be typed.
fn unknown(name: &str) -> String {
    let is_hexadecimal = !name.is_empty() && name.bytes().all(|b| b.is_ascii_hexdigit());
    let digits = match name.len() < ID_DIGITS_LEAST && is_hexadecimal {
        true => format!(", by {ID_DIGITS_LEAST} digits of its id or more"),
        false => String::new(),
    };
    format!(
        "`capstan media list` shows those that are known{digits}, `capstan media import DEVICE` makes one known"
    )
}

/// How one of several media is named.
fn ways(name: &str, is_directory_too: bool) -> String {
    let directory = match is_directory_too && !name.starts_with(['/', '.']) {
        true => format!(", or write ./{name} or file:{name} for that directory"),
        false => String::new(),
    };
    format!("give the whole id of the one that is meant{directory}")
}

/// What is done with a medium that was given up.
fn after_retired(label: &str, is_had_elsewhere: bool) -> String {
    let word = shell_word(label);
    let forget = match is_had_elsewhere {
        true => format!(
            "others have all that it holds: `capstan media forget {word}` forgets it, and a tape is erased then with `capstan media \
             erase LIBRARY?tape=BARCODE --foreign`; "
        ),
        false => String::new(),
    };
    format!("{forget}`capstan media retire {word} --undo` if it is sound")
}
