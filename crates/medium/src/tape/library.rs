//! What is said of a library: its places, its drives, and what lies where.

use capstan_engine::problem::Problem;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::TapeError;
use super::generation::CLEANING;

/// A place for a tape, by its number from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A drive.
    Drive(u32),
    /// A slot.
    Slot(u32),
    /// A slot by which tapes come and go.
    Mail(u32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Drive(n) => write!(f, "drive {n}"),
            Self::Slot(n) => write!(f, "slot {n}"),
            Self::Mail(n) => write!(f, "mail slot {n}"),
        }
    }
}

impl Place {
    /// As people write it: `slot:3`.
    pub fn short(&self) -> String {
        match self {
            Self::Drive(n) => format!("drive:{n}"),
            Self::Slot(n) => format!("slot:{n}"),
            Self::Mail(n) => format!("mail:{n}"),
        }
    }
}

/// A text that is no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no place of a library; write slot:N, drive:N or mail:N, N from 1")]
pub struct BadPlace(String);

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        let (kind, n) = text.split_once(':').ok_or_else(bad)?;
        let n = n.parse().ok().filter(|n| *n > 0).ok_or_else(bad)?;
        match kind {
            "drive" => Ok(Self::Drive(n)),
            "slot" => Ok(Self::Slot(n)),
            "mail" => Ok(Self::Mail(n)),
            _ => Err(bad()),
        }
    }
}

/// A tape in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Where it is.
    pub place: Place,
    /// What is on its sticker; empty where it has none that could be read.
    pub barcode: String,
    /// Of one in a drive: where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Place>,
}

impl Held {
    /// Whether it cleans drives: such tapes have barcodes of their own.
    pub fn is_cleaning(&self) -> bool {
        self.barcode.starts_with(CLEANING)
    }
}

/// Whether a place is empty and no tape that is in a drive goes back to it.
pub fn is_spare(held: &[Held], place: Place) -> bool {
    let goes_back = |h: &Held| matches!(h.place, Place::Drive(_)) && h.from == Some(place);
    held.iter().all(|h| h.place != place && !goes_back(h))
}

/// How many elements of a kind a library has; each kind is numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elements {
    /// Drives.
    pub drives: u32,
    /// Slots for tapes.
    pub slots: u32,
    /// Slots by which tapes come and go.
    pub mail_slots: u32,
}

impl Elements {
    /// Refuses a drive that a library does not have.
    ///
    /// # Errors
    /// [`TapeError::Library`], which says how many it has.
    pub fn refuse_no_drive(&self, library: &str, drive: u32) -> Result<(), TapeError> {
        if (1..=self.drives).contains(&drive) {
            return Ok(());
        }
        let has = match self.drives {
            1 => "it has one drive".to_owned(),
            n => format!("it has {n} drives"),
        };
        Err(TapeError::Library {
            library: library.to_owned(),
            problem: Problem::new(format!("it has no drive {drive}"))
                .hint(format!("name another, {has}")),
        })
    }
}

/// What is known of a library's drive without opening it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DriveInfo {
    /// Its type.
    pub model: String,
    /// Its serial number.
    pub serial: Option<String>,
    /// The device by which it is reached from here, where there is one.
    pub device: Option<String>,
    /// Who uses it on this host.
    pub in_use: Option<String>,
    /// What else an operator should know.
    pub note: Option<String>,
}

/// A library: slots, drives and a robot.
pub trait TapeLibrary: Send {
    /// What it is called in messages.
    fn name(&self) -> &str;
    /// What its robot is called on all hosts that share it.
    fn robot(&self) -> String {
        self.name().to_owned()
    }
    /// What it has.
    fn elements(&self) -> Elements;
    /// All tapes that are in it, by place.
    fn inventory(&mut self) -> Result<Vec<Held>, TapeError>;
    /// Looks into every slot again, which can take an hour, where the library does not do so by itself.
    fn rescan(&mut self) -> Result<(), TapeError> {
        Ok(())
    }
    /// Rewinds the tape in a drive and unloads it, also one that cannot be read, so that the robot or somebody can take it.
    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError>;
    /// Moves a tape. One in a drive must have been unloaded.
    fn move_tape(&mut self, from: Place, to: Place) -> Result<(), TapeError>;
    /// What is known of a drive, also of one that others use.
    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError>;
    /// How many uses of a cleaning tape are left, where the library knows that.
    fn cleanings_left(&mut self, _barcode: &str) -> Option<u32> {
        None
    }
    /// Cleans an empty drive with the cleaning tape at a place, and puts that back. Returns how many uses of it are left, where
    /// that is known.
    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_whose_tape_is_in_a_drive_is_not_spare() {
        let held = |place, from| Held { place, barcode: String::new(), from };
        let held = [
            held(Place::Drive(1), Some(Place::Slot(1))),
            held(Place::Slot(2), None),
            // Some libraries say also of what lies in a slot where it came from.
            held(Place::Slot(3), Some(Place::Slot(4))),
        ];
        let spare: Vec<u32> = (1..=5).filter(|n| is_spare(&held, Place::Slot(*n))).collect();
        assert_eq!(spare, [4, 5]);
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        for place in [Place::Drive(1), Place::Slot(30), Place::Mail(2)] {
            assert_eq!(place.short().parse(), Ok(place));
        }
        for bad in ["", "slot", "slot:0", "slot:x", "shelf:1", "slot:1:2", "slot:-1"] {
            assert_eq!(bad.parse::<Place>(), Err(BadPlace(bad.to_owned())));
        }
    }
}
