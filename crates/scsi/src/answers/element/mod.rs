//! READ ELEMENT STATUS: what lies in each slot and drive of a library.
//!
//! The parser is lenient, since changers are not to be trusted with lengths: what is cut off reads as zero, what lies
//! beyond is left out, an element that comes twice counts once.

use std::fmt;

use super::inquiry::Identity;
use crate::bytes::{name, part, u8_at, u16_at, u24_at};

/// A place in a library that can hold a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElementKind {
    /// The robot's hand.
    Robot = 1,
    /// A slot.
    Slot = 2,
    /// A slot through which media go in and out.
    ImportExport = 3,
    /// A drive.
    Drive = 4,
}

impl ElementKind {
    /// All, in the standard's order.
    pub const ALL: [Self; 4] = [Self::Robot, Self::Slot, Self::ImportExport, Self::Drive];

    fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code & 0x0f)
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Robot => "robot",
            Self::Slot => "slot",
            Self::ImportExport => "import/export slot",
            Self::Drive => "drive",
        })
    }
}

/// One element and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// What it is.
    pub kind: ElementKind,
    /// Its address, unique in the library.
    pub address: u16,
    /// It holds a medium.
    pub full: bool,
    /// The barcode of the medium, where it has one that was read.
    pub barcode: Option<String>,
    /// The robot can get at it. Some changers do not say, and then it reads as not.
    pub accessible: bool,
    /// An operator put the medium into the import/export slot.
    pub put_in_by_operator: bool,
    /// Sense code and qualifier, where something is wrong with the element.
    pub exception: Option<(u8, u8)>,
    /// The element from which the medium came.
    pub source: Option<u16>,
    /// What the changer says of the drive in this element: serial number, or maker, model and serial number.
    pub drive: Option<DriveName>,
}

/// What a changer says of a drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveName {
    /// The name.
    pub text: String,
    /// It came whole; else only its beginning is known.
    pub whole: bool,
}

impl DriveName {
    /// Whether this is the name of that drive, for certain.
    pub fn is(&self, drive: &Identity) -> bool {
        self.whole
            && !drive.serial.is_empty()
            && self.text.split_whitespace().next_back() == Some(&drive.serial)
    }

    /// Whether this may be the cut-off name of that drive.
    pub fn may_be(&self, drive: &Identity) -> bool {
        let full = format!("{:8}{:16}{}", drive.vendor, drive.product, drive.serial);
        self.is(drive)
            || !self.whole && (full.starts_with(&self.text) || drive.serial.starts_with(&self.text))
    }
}

/// Length of the head of an answer, and of each page in it.
pub const HEAD_LEN: usize = 8;

/// How many bytes the whole answer has, from its head.
pub fn total_len(bytes: &[u8]) -> usize {
    HEAD_LEN + u24_at(bytes, 5) as usize
}

/// Decodes an answer. `bytes` is the buffer, zero where nothing came.
pub fn decode(bytes: &[u8]) -> Vec<Element> {
    let mut rest = part(bytes, HEAD_LEN, total_len(bytes) - HEAD_LEN);
    let mut elements: Vec<Element> = Vec::new();
    while rest.len() >= HEAD_LEN {
        let len = u24_at(rest, 5) as usize;
        if let Some(kind) = ElementKind::of(rest[0]) {
            decode_page(kind, rest, part(rest, HEAD_LEN, len), &mut elements);
        }
        rest = part(rest, HEAD_LEN + len, usize::MAX);
    }
    elements.sort_by_key(|element| element.address);
    elements.dedup_by_key(|element| element.address);
    elements
}

fn decode_page(kind: ElementKind, head: &[u8], body: &[u8], elements: &mut Vec<Element>) {
    let len = usize::from(u16_at(head, 2));
    // Address and flags at least; else there is no progress either.
    if len < 4 {
        return;
    }
    let tags = Tags { primary: head[1] & 0x80 != 0, alternate: head[1] & 0x40 != 0 };
    for bytes in body.chunks(len).filter(|bytes| bytes.len() >= 4) {
        elements.push(decode_element(kind, tags, bytes));
    }
}

#[derive(Clone, Copy)]
struct Tags {
    primary: bool,
    alternate: bool,
}

const TAG_LEN: usize = 36;

fn decode_element(kind: ElementKind, tags: Tags, bytes: &[u8]) -> Element {
    let flags = bytes[2];
    let full = flags & 0x01 != 0;
    let tag = tags.primary.then(|| name(part(bytes, 12, 32)));
    let names_at = 12 + TAG_LEN * (usize::from(tags.primary) + usize::from(tags.alternate));
    Element {
        kind,
        address: u16_at(bytes, 0),
        full,
        barcode: tag.filter(|tag| full && !tag.is_empty()),
        accessible: flags & 0x08 != 0,
        put_in_by_operator: kind == ElementKind::ImportExport && flags & 0x02 != 0,
        exception: (flags & 0x04 != 0).then(|| (u8_at(bytes, 4), u8_at(bytes, 5))),
        source: (u8_at(bytes, 9) & 0x80 != 0).then(|| u16_at(bytes, 10)),
        drive: if kind == ElementKind::Drive {
            drive_name(part(bytes, names_at, usize::MAX))
        } else {
            None
        },
    }
}

/// The device identifier behind the tags.
fn drive_name(bytes: &[u8]) -> Option<DriveName> {
    let len = usize::from(u8_at(bytes, 3));
    let value = part(bytes, 4, len);
    // Binary names have no use for matching serial numbers.
    if u8_at(bytes, 0) & 0x0f == 1 {
        return None;
    }
    let text = name(value);
    // A name in text that ends with NUL was cut off on the way: the buffer is zero there.
    let whole = value.len() == len && value.last().is_some_and(|last| *last != 0);
    (!text.is_empty()).then_some(DriveName { text, whole })
}

#[cfg(test)]
mod tests;
