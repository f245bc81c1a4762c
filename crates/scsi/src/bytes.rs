//! Reading of numbers and names from what a device answered, where every length may be a lie.
//!
//! Bytes that are not there read as zero: targets cut answers short, and zero is "not stated" almost everywhere in SCSI.
//! Where it is not, the caller checks the length first.

/// The byte at `at`.
pub fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Two bytes, big-endian.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    number_at(bytes, at, 2) as u16
}

/// Three bytes, big-endian.
pub fn u24_at(bytes: &[u8], at: usize) -> u32 {
    number_at(bytes, at, 3) as u32
}

/// Four bytes, big-endian.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    number_at(bytes, at, 4) as u32
}

/// Eight bytes, big-endian.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    number_at(bytes, at, 8)
}

/// Up to eight bytes, big-endian.
pub fn number_at(bytes: &[u8], at: usize, len: usize) -> u64 {
    (0..len.min(8)).fold(0, |n, i| (n << 8) | u64::from(u8_at(bytes, at.saturating_add(i))))
}

/// What is there of `len` bytes at `at`.
pub fn part(bytes: &[u8], at: usize, len: usize) -> &[u8] {
    let from = at.min(bytes.len());
    let to = at.saturating_add(len).min(bytes.len());
    &bytes[from..to]
}

/// A name: printable ASCII without the blanks and NULs around it. Anything else becomes `?`, so that a device cannot
/// send control characters to a terminal.
pub fn name(bytes: &[u8]) -> String {
    let text: String =
        bytes.iter().map(|b| if b.is_ascii_graphic() { *b as char } else { mark(*b) }).collect();
    text.trim_matches(|c| c == ' ' || c == '\0').replace('\0', "?")
}

fn mark(byte: u8) -> char {
    if byte == 0 || byte == b' ' { byte as char } else { '?' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_reads_as_zero() {
        assert_eq!(u32_at(&[1, 2], 0), 0x0102_0000);
        assert_eq!(u64_at(&[], usize::MAX), 0);
        assert_eq!(u24_at(&[9, 1, 2, 3], 1), 0x01_0203);
        assert_eq!(part(&[1, 2, 3], 2, usize::MAX), [3]);
        assert!(part(&[1, 2, 3], 4, 1).is_empty());
    }

    #[test]
    fn names_cannot_drive_a_terminal() {
        assert_eq!(name(b" HP      \0"), "HP");
        assert_eq!(name(b"A\x1b[2J\0B"), "A?[2J?B");
        assert_eq!(name(b"\0\0\0"), "");
    }
}
