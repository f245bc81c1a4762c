//! The names of what a medium has, as a storage lists them: its header, and its segments by their numbers.

use capstan_format::id::SegmentNumber;

/// Name of the medium's header in its directory.
pub const HEADER_NAME: &str = "medium.capstan";
/// Name of a header that is being written.
pub const HEADER_TEMPORARY: &str = "medium.capstan.new";
/// Ends the name of a complete segment.
pub const SUFFIX: &str = ".segment";
/// Of a segment that is being written.
pub const PART_SUFFIX: &str = ".segment.part";
/// Ends the name of an empty file that says: this number was given, its segment was removed, the next writer goes on
/// after it.
pub const GONE_SUFFIX: &str = ".gone";

/// The number that a file name with this suffix has.
pub fn segment_number(name: &str, suffix: &str) -> Option<SegmentNumber> {
    let digits = name.strip_suffix(suffix)?;
    let ok = digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if !ok {
        return None;
    }
    let number = digits.parse().ok().filter(|n| *n > 0)?;
    (format!("{number:08}") == digits).then_some(SegmentNumber(number))
}

/// The name of the segment of that number.
pub fn segment_name(number: SegmentNumber, suffix: &str) -> String {
    format!("{:08}{suffix}", number.0)
}
