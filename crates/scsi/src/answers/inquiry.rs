//! What a device says it is: INQUIRY data and the vital product data pages.

use std::fmt;

use crate::bytes::{name, part, u8_at, u16_at};

/// Length asked for; what is beyond is of no use to us.
pub const LEN: usize = 252;
/// The page of pages.
pub const PAGE_SUPPORTED: u8 = 0x00;
/// The page with the serial number.
pub const PAGE_SERIAL: u8 = 0x80;
/// The page with the device's names.
pub const PAGE_NAMES: u8 = 0x83;

/// What kind of device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A tape drive.
    Tape,
    /// The robot of a library.
    Changer,
    /// Something else, by the standard's number; 31 where there is nothing.
    Other(u8),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tape => f.write_str("a tape drive"),
            Self::Changer => f.write_str("a changer"),
            Self::Other(0x00) => f.write_str("a disk"),
            Self::Other(0x05) => f.write_str("a CD or DVD drive"),
            Self::Other(0x0c) => f.write_str("a storage controller"),
            Self::Other(0x1f) => f.write_str("nothing: no device has this LUN"),
            Self::Other(kind) => write!(f, "a device of type {kind:#04x}"),
        }
    }
}

/// The standard INQUIRY data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// What kind of device it is.
    pub kind: Kind,
    /// Its maker.
    pub vendor: String,
    /// Its model.
    pub product: String,
    /// Its firmware.
    pub revision: String,
    /// The medium can be taken out.
    pub removable: bool,
}

impl Inquiry {
    /// Decodes standard INQUIRY data.
    pub fn decode(bytes: &[u8]) -> Self {
        let (qualifier, kind) = (u8_at(bytes, 0) >> 5, u8_at(bytes, 0) & 0x1f);
        let kind = match (qualifier, kind) {
            (0, 0x01) => Kind::Tape,
            (0, 0x08) => Kind::Changer,
            (0, other) => Kind::Other(other),
            // A place for a device where none is connected.
            _ => Kind::Other(0x1f),
        };
        Self {
            kind,
            vendor: name(part(bytes, 8, 8)),
            product: name(part(bytes, 16, 16)),
            revision: name(part(bytes, 32, 4)),
            removable: u8_at(bytes, 1) & 0x80 != 0,
        }
    }
}

/// The contents of a vital product data page, where it is the one asked for.
pub fn page(bytes: &[u8], code: u8) -> Option<&[u8]> {
    (bytes.len() >= 4 && bytes[1] == code).then(|| part(bytes, 4, u16_at(bytes, 2).into()))
}

/// The serial number from its page.
pub fn serial(bytes: &[u8]) -> Option<String> {
    Some(name(page(bytes, PAGE_SERIAL)?)).filter(|serial| !serial.is_empty())
}

/// A name of the device from [`PAGE_NAMES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Designator {
    /// Whether it names the device itself, not a port or the target.
    pub of_device: bool,
    /// The kind of name: 1 maker and model, 2 EUI-64, 3 NAA, 8 a name as text.
    pub kind: u8,
    /// The name: text as it is, numbers in hexadecimal.
    pub name: String,
}

/// The device's names from their page.
pub fn designators(bytes: &[u8]) -> Vec<Designator> {
    let mut rest = page(bytes, PAGE_NAMES).unwrap_or_default();
    let mut found = Vec::new();
    while rest.len() > 4 {
        let value = part(rest, 4, rest[3].into());
        found.push(Designator {
            of_device: rest[1] & 0x30 == 0,
            kind: rest[1] & 0x0f,
            name: match rest[0] & 0x0f {
                1 => value.iter().map(|b| format!("{b:02x}")).collect(),
                _ => name(value),
            },
        });
        rest = part(rest, 4 + usize::from(rest[3]), usize::MAX);
    }
    found
}

/// What tells one device from all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its maker.
    pub vendor: String,
    /// Its model.
    pub product: String,
    /// Its firmware.
    pub revision: String,
    /// Its serial number; empty where it states none.
    pub serial: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.vendor, self.product)?;
        if self.serial.is_empty() { Ok(()) } else { write!(f, ", serial number {}", self.serial) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(first: u8) -> Vec<u8> {
        let mut bytes = vec![first, 0x80, 6, 2, 31, 0, 0, 0];
        bytes.extend_from_slice(b"HP      Ultrium 6-SCSI  35GD");
        bytes
    }

    #[test]
    fn a_drive() {
        let inquiry = Inquiry::decode(&data(0x01));
        assert_eq!(inquiry.kind, Kind::Tape);
        assert_eq!((inquiry.vendor.as_str(), inquiry.product.as_str()), ("HP", "Ultrium 6-SCSI"));
        assert!(inquiry.removable);
        assert_eq!(Inquiry::decode(&data(0x08)).kind, Kind::Changer);
    }

    #[test]
    fn a_lun_that_does_not_exist_is_no_drive() {
        assert_eq!(Inquiry::decode(&data(0x7f)).kind, Kind::Other(0x1f));
        assert_eq!(Inquiry::decode(&data(0x21)).kind, Kind::Other(0x1f));
    }

    #[test]
    fn pages_are_taken_only_where_they_are_the_ones_asked_for() {
        assert_eq!(serial(b"\x01\x80\x00\x08  SN1234").as_deref(), Some("SN1234"));
        assert_eq!(serial(b"\x01\x83\x00\x08  SN1234"), None);
        assert_eq!(serial(b"\x01\x80\x00\x00"), None);
        // A length beyond the data.
        assert_eq!(serial(b"\x01\x80\xff\xffAB").as_deref(), Some("AB"));
    }

    #[test]
    fn names() {
        let mut bytes = vec![0x01, 0x83, 0, 20];
        bytes.extend_from_slice(&[1, 3, 0, 8, 0x50, 0, 0xe1, 0x11, 0, 0, 0, 1]);
        bytes.extend_from_slice(&[2, 0x18, 0, 4, b'a', b'b', b'c', 0]);
        let found = designators(&bytes);
        assert_eq!(found[0].name, "5000e11100000001");
        assert!(found[0].of_device && !found[1].of_device);
        assert_eq!(found[1].name, "abc");
    }
}
