//! Labels of media: which can be given.

pub(crate) mod rule;

use capstan_address::Address;

use crate::Cell;
use crate::error::{CellError, PoolRefusal, Result};

/// The longest label, in bytes: it is repeated in every segment's header.
const LABEL_MAX: usize = 255;
/// Why a label is not given.
pub(crate) const TAKEN: &str = "another medium has it";

impl Cell {
    /// Refuses a label that cannot be typed, or that another medium has.
    pub(crate) fn check_label(&self, label: &str) -> Result<()> {
        check_text_of_label(label)?;
        if self.idb.media()?.iter().any(|m| m.label == label) {
            return Err(no_label(label, TAKEN));
        }
        Ok(())
    }
}

/// Refuses a text that cannot be shown or recorded as a label.
pub(crate) fn check_text_of_label(label: &str) -> Result<()> {
    if label.trim() != label || label.is_empty() {
        return Err(no_label(label, "it is empty, or begins or ends with a space"));
    }
    if label.len() > LABEL_MAX {
        return Err(no_label(label, "it is longer than 255 bytes"));
    }
    if label.chars().any(char::is_control) {
        return Err(no_label(label, "it has control characters"));
    }
    let is_device = match label.parse() {
        Ok(Address::Store(_)) => label.starts_with(['/', '.']) || label.starts_with("file:"),
        Ok(_) => true,
        Err(_) => false,
    };
    match is_device {
        true => Err(no_label(label, "it is how a device is written")),
        false => Ok(()),
    }
}

pub(crate) fn no_label(label: &str, why: &str) -> CellError {
    PoolRefusal::NoLabel { label: label.to_owned(), why: why.to_owned() }.into()
}
