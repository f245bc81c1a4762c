//! Settings of a drive: block length, buffering, compression; mode parameters of both lengths.

use crate::bytes::{part, u8_at, u16_at, u24_at};

/// Ask for the block descriptor alone.
pub const PAGE_NONE: u8 = 0x00;
/// Data compression.
pub const PAGE_COMPRESSION: u8 = 0x0f;
/// Device configuration; older drives switch compression there.
pub const PAGE_CONFIGURATION: u8 = 0x10;
/// What the medium in a drive is: whether it is written once.
pub const PAGE_MEDIUM: u8 = 0x1d;
/// Element addresses of a changer.
pub const PAGE_ELEMENTS: u8 = 0x1d;

/// What MODE SENSE said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModeData {
    /// The medium cannot be written.
    pub write_protected: bool,
    /// Writes are reported as done when they are in the drive's buffer.
    pub buffered: bool,
    /// The density or generation of the medium.
    pub density: u8,
    /// The makers' own code of what the medium is.
    pub medium_type: u8,
    /// The block length, 0 for variable. `None` where the drive does not say.
    pub block_len: Option<u32>,
    /// The page with its head; empty where there is none.
    pub page: Vec<u8>,
}

impl ModeData {
    /// Decodes an answer to MODE SENSE, with the 8-byte head where `long`.
    pub fn decode(bytes: &[u8], long: bool) -> Self {
        let (stated, device, descriptors, head) = match long {
            true => (2 + usize::from(u16_at(bytes, 0)), 3, usize::from(u16_at(bytes, 6)), 8),
            false => (1 + usize::from(u8_at(bytes, 0)), 2, usize::from(u8_at(bytes, 3)), 4),
        };
        let bytes = part(bytes, 0, stated);
        let descriptor = part(bytes, head, descriptors);
        let page = part(bytes, head + descriptors, usize::MAX);
        Self {
            write_protected: u8_at(bytes, device) & 0x80 != 0,
            buffered: u8_at(bytes, device) & 0x70 != 0,
            density: u8_at(descriptor, 0),
            medium_type: u8_at(bytes, device - 1),
            block_len: (descriptor.len() >= 8).then(|| u24_at(descriptor, 5)),
            page: page.to_vec(),
        }
    }

    /// The page, if it is that one.
    pub fn page(&self, code: u8) -> Option<&[u8]> {
        let page = self.page.as_slice();
        (u8_at(page, 0) & 0x3f == code && page.len() > 2).then(|| {
            // A page with a subpage has a longer head.
            match page[0] & 0x40 {
                0 => part(page, 0, 2 + usize::from(page[1])),
                _ => part(page, 0, 4 + usize::from(u16_at(page, 2))),
            }
        })
    }

    /// The parameters that set buffered mode, the block length, and a page where one is given.
    pub fn select(&self, block_len: u32, page: &[u8], long: bool) -> Vec<u8> {
        const BUFFERED: u8 = 0x10;
        let mut bytes = match long {
            true => vec![0, 0, 0, BUFFERED, 0, 0, 0, 8],
            false => vec![0, 0, BUFFERED, 8],
        };
        bytes.extend_from_slice(&[self.density, 0, 0, 0, 0]);
        bytes.extend_from_slice(&block_len.to_be_bytes()[1..]);
        let at = bytes.len();
        bytes.extend_from_slice(page);
        if let Some(first) = bytes.get_mut(at) {
            // "Can be saved" is for answers only.
            *first &= 0x7f;
        }
        bytes
    }
}

/// Compression as the drive has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The drive compresses what is written.
    pub on: bool,
    /// The drive can compress at all.
    pub capable: bool,
}

/// Compression from [`PAGE_COMPRESSION`].
pub fn compression(page: &[u8]) -> Compression {
    Compression { on: u8_at(page, 2) & 0x80 != 0, capable: u8_at(page, 2) & 0x40 != 0 }
}

/// The page with compression switched; reading of compressed blocks stays as it is.
pub fn with_compression(page: &[u8], on: bool) -> Vec<u8> {
    let mut page = page.to_vec();
    if let Some(flags) = page.get_mut(2) {
        *flags = (*flags & 0x7f) | if on { 0x80 } else { 0 };
    }
    page
}

/// Compression from [`PAGE_CONFIGURATION`], where the page is long enough to say.
pub fn old_compression(page: &[u8]) -> Option<Compression> {
    (page.len() > 14).then(|| Compression { on: page[14] != 0, capable: true })
}

/// [`PAGE_CONFIGURATION`] with compression switched.
pub fn with_old_compression(page: &[u8], on: bool) -> Vec<u8> {
    let mut page = page.to_vec();
    if let Some(algorithm) = page.get_mut(14) {
        *algorithm = on.into();
    }
    page
}

/// First address and number of elements of each type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ElementRanges {
    /// Robots.
    pub robots: (u16, u16),
    /// Slots.
    pub slots: (u16, u16),
    /// Import and export slots.
    pub import_export: (u16, u16),
    /// Drives.
    pub drives: (u16, u16),
}

/// Element addresses from [`PAGE_ELEMENTS`].
pub fn element_ranges(page: &[u8]) -> Option<ElementRanges> {
    let range = |at| (u16_at(page, at), u16_at(page, at + 2));
    (page.len() >= 18).then(|| ElementRanges {
        robots: range(2),
        slots: range(6),
        import_export: range(10),
        drives: range(14),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPRESSION: [u8; 16] = [0x8f, 14, 0xc0, 0x80, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];

    fn answer(long: bool) -> Vec<u8> {
        let mut bytes = match long {
            true => vec![0, 30, 0, 0x90, 0, 0, 0, 8],
            false => vec![27, 0, 0x90, 8],
        };
        bytes.extend_from_slice(&[0x5a, 0, 0, 0, 0, 0x01, 0x00, 0x00]);
        bytes.extend_from_slice(&COMPRESSION);
        bytes.extend_from_slice(&[0xee; 20]);
        bytes
    }

    #[test]
    fn both_lengths_say_the_same() {
        let data = ModeData::decode(&answer(false), false);
        assert_eq!(data, ModeData::decode(&answer(true), true));
        assert!(data.write_protected && data.buffered);
        assert_eq!((data.density, data.block_len), (0x5a, Some(65536)));
        assert_eq!(data.page(PAGE_COMPRESSION), Some(&COMPRESSION[..]));
        assert_eq!(data.page(PAGE_CONFIGURATION), None);
    }

    #[test]
    fn a_drive_without_block_descriptor() {
        let mut bytes = vec![3 + 16, 0, 0x10, 0];
        bytes.extend_from_slice(&COMPRESSION);
        let data = ModeData::decode(&bytes, false);
        assert_eq!(data.block_len, None);
        assert_eq!(data.page(PAGE_COMPRESSION), Some(&COMPRESSION[..]));
    }

    #[test]
    fn what_is_set_keeps_the_rest() {
        let data = ModeData::decode(&answer(false), false);
        let off = with_compression(data.page(PAGE_COMPRESSION).unwrap(), false);
        assert_eq!(compression(&off), Compression { on: false, capable: true });
        let bytes = data.select(0, &off, false);
        assert_eq!(bytes[..12], [0, 0, 0x10, 8, 0x5a, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[12..16], [0x0f, 14, 0x40, 0x80]);
        let long = data.select(0x10203, &[], true);
        assert_eq!(long, [0, 0, 0, 0x10, 0, 0, 0, 8, 0x5a, 0, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn elements_of_a_changer() {
        let mut page = vec![0x1d, 18, 0, 1, 0, 1, 3, 232, 0, 8, 0, 10, 0, 1, 1, 0, 0, 2, 0, 0];
        let ranges = element_ranges(&page).unwrap();
        assert_eq!((ranges.slots, ranges.drives), ((1000, 8), (256, 2)));
        page.truncate(17);
        assert_eq!(element_ranges(&page), None);
    }
}
