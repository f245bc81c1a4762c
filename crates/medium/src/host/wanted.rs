//! A tape that somebody is to put into a drive.

use capstan_format::id::{CellId, MediumId};
use capstan_format::record::MediumHeader;
use serde::{Deserialize, Serialize};

/// A known tape that is to be put into a drive that stands alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wanted {
    /// The medium on it.
    pub medium: MediumId,
    /// What is written on it.
    pub label: String,
    /// The cell that asks for it.
    pub asks: CellId,
}

impl Wanted {
    /// How another tape is called that is in the drive. Labels are each cell's own, so one may have the label that is wanted.
    pub fn another(&self, there: &MediumHeader) -> String {
        let label = &there.label;
        if *label != self.label {
            return format!("tape '{label}' is in it");
        }
        let whose = match there.cell {
            Some(cell) if cell == self.asks => String::new(),
            _ => " of another cell".to_owned(),
        };
        format!(
            "another tape '{label}' is in it (medium {}{whose}; medium {} is wanted)",
            there.medium.short(),
            self.medium.short()
        )
    }
}
