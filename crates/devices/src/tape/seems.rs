//! What a tape seems to be that is not of Capstan, by its first block.

/// Length of a tar header, and where its parts lie.
const TAR: usize = 512;
const TAR_SUM: std::ops::Range<usize> = 148..156;
const TAR_MAGIC: std::ops::Range<usize> = 257..262;
/// Where a block of Bacula and Bareos says that it is one.
const BACULA: std::ops::Range<usize> = 12..16;
/// Where a record of dump has its magic number.
const DUMP: std::ops::Range<usize> = 24..28;
/// Where a label by ISO 1001 names the program that wrote it.
const WRITER: std::ops::Range<usize> = 24..37;
/// The longest name that is shown.
const NAME_MAX: usize = 40;

/// What wrote a block that is the first of a tape, in a few words; empty where nobody knows.
pub(crate) fn seems(block: &[u8]) -> String {
    let begins = |with: &[u8]| block.starts_with(with);
    let at = |range: std::ops::Range<usize>| block.get(range).unwrap_or_default();
    if begins(b"VOL1") {
        let volume = name(at(4..10));
        return match at(WRITER).starts_with(b"LTFS") {
            true => format!("LTFS {volume}").trim_end().to_owned(),
            false => format!("label VOL1 {volume}").trim_end().to_owned(),
        };
    }
    if begins(b"AMANDA: ") {
        let line = block.split(|b| *b == b'\n').next().unwrap_or_default();
        return match line.windows(5).position(|w| w == b"TAPE ") {
            Some(place) => format!("Amanda {}", name(line.get(place + 5..).unwrap_or_default()))
                .trim_end()
                .to_owned(),
            None => "Amanda".to_owned(),
        };
    }
    let known = match () {
        () if at(TAR_MAGIC) == b"ustar" || is_old_tar(block) => "tar",
        () if matches!(at(BACULA), b"BB01" | b"BB02") => "Bacula or Bareos",
        () if matches!(at(0..6), b"070701" | b"070702" | b"070707")
            || matches!(at(0..2), [0xc7, 0x71] | [0x71, 0xc7]) =>
        {
            "cpio"
        }
        () if is_dump(at(DUMP)) => "dump",
        () if begins(b"TAPE") => "Microsoft Tape Format",
        () if begins(&[0x1f, 0x8b]) => "gzip",
        () if begins(b"BZh") => "bzip2",
        () if begins(b"\xfd7zXZ\0") => "xz",
        () if begins(&[0x28, 0xb5, 0x2f, 0xfd]) => "zstd",
        () => "",
    };
    known.to_owned()
}

/// The sum in a header of tar before POSIX, over all its bytes with blanks in place of the sum.
fn is_old_tar(block: &[u8]) -> bool {
    let Some(header) = block.get(..TAR) else { return false };
    let digits = String::from_utf8_lossy(&header[TAR_SUM]);
    let digits = digits.trim_matches(|c| c == ' ' || c == '\0');
    let Ok(said) = u64::from_str_radix(digits, 8) else { return false };
    let is_sum = |at: usize| TAR_SUM.contains(&at);
    let byte = |(at, b): (usize, &u8)| u64::from(if is_sum(at) { b' ' } else { *b });
    let sum: u64 = header.iter().enumerate().map(byte).sum();
    // Of nothing but zeros anybody could have written the sum.
    said == sum && header.first().is_some_and(|b| *b != 0)
}

fn is_dump(magic: &[u8]) -> bool {
    /// Of 4.3BSD and of UFS2.
    const MAGIC: [u32; 2] = [60_012, 0x1954_0119];
    <[u8; 4]>::try_from(magic).is_ok_and(|bytes| {
        MAGIC.contains(&u32::from_le_bytes(bytes)) || MAGIC.contains(&u32::from_be_bytes(bytes))
    })
}

/// A name from a medium: what of it can be shown.
fn name(bytes: &[u8]) -> String {
    let fits = |b: &&u8| b.is_ascii_graphic();
    bytes
        .iter()
        .skip_while(|b| **b == b' ')
        .take_while(fits)
        .take(NAME_MAX)
        .map(|b| char::from(*b))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut block = vec![0; 10_240];
        for (at, bytes) in parts {
            block[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        block
    }

    #[test]
    fn what_others_write_is_told() {
        let ltfs = format!("{:<80}", "VOL1LT0042L             LTFS");
        let dump = 60_012_u32.to_le_bytes();
        for (parts, words) in [
            (&[(0, &b"etc/"[..]), (257, b"ustar  ")][..], "tar"),
            (&[(12, b"BB02")], "Bacula or Bareos"),
            (&[(0, b"VOL1ABC123")], "label VOL1 ABC123"),
            (&[(0, ltfs.as_bytes())], "LTFS LT0042"),
            (&[(0, b"VOL1\x1b[2J!!")], "label VOL1"),
            (&[(0, b"AMANDA: TAPESTART DATE 20261124 TAPE daily-03\n\x0c")], "Amanda daily-03"),
            (&[(0, b"070701")], "cpio"),
            (&[(24, &dump)], "dump"),
            (&[(0, b"TAPE")], "Microsoft Tape Format"),
            (&[(0, b"hello")], ""),
            (&[], ""),
        ] {
            assert_eq!(seems(&block(parts)), words, "{parts:?}");
        }
        // Of tar before POSIX only the sum tells.
        let mut old = block(&[(0, b"etc/passwd"), (100, b"0000644\0"), (124, b"00000001234\0")]);
        let sum: u64 = old[..512].iter().map(|b| u64::from(*b)).sum::<u64>() + 8 * 32;
        old[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert_eq!(seems(&old), "tar");
        old[3] ^= 1;
        assert_eq!(seems(&old), "");
    }

    proptest! {
        #[test]
        fn whatever_lies_there_is_shown_in_a_few_plain_characters(
            begin in prop_oneof![Just(&b"VOL1"[..]), Just(&b"AMANDA: TAPE "[..]), Just(&b""[..])],
            rest in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let words = seems(&[begin, &rest].concat());
            prop_assert!(words.len() <= NAME_MAX + 20, "{words}");
            prop_assert!(words.chars().all(|c| c.is_ascii_graphic() || c == ' '), "{words:?}");
        }
    }
}
