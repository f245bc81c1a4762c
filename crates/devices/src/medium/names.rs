//! The names of what a medium has, as a storage lists them: its header, and its segments by their numbers.

use capstan_format::id::SegmentNumber;

/// Name of the medium's header in its directory.
pub const HEADER_NAME: &str = "medium.capstan";
pub(crate) const HEADER_TEMPORARY: &str = "medium.capstan.new";
pub(crate) const SUFFIX: &str = ".segment";
/// Of a segment that is being written.
pub(crate) const PART_SUFFIX: &str = ".segment.part";
/// Ends the name of an empty file that says: this number was given, its segment was removed, the next writer goes on
/// after it.
pub(crate) const GONE_SUFFIX: &str = ".gone";

pub(crate) fn segment_number(name: &str, suffix: &str) -> Option<SegmentNumber> {
    let digits = name.strip_suffix(suffix)?;
    let ok = digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    if !ok {
        return None;
    }
    let number = digits.parse().ok().filter(|n| *n > 0)?;
    (format!("{number:08}") == digits).then_some(SegmentNumber(number))
}

pub(crate) fn segment_name(number: SegmentNumber, suffix: &str) -> String {
    format!("{:08}{suffix}", number.0)
}
