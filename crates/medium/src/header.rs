//! A medium's header: read from where it belongs, or from the segments, which repeat it.

use std::path::Path;
use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::FormatError;
use capstan_format::block::{BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, HEADER_LEN, MaHeader};
use capstan_format::id::{BlockIndex, SegmentId, SegmentNumber};
use capstan_format::record::{MediumHeader, decode_record, encode_record};

use crate::DeviceError;
use crate::error::io_error;
use crate::names::{HEADER_NAME, SUFFIX, segment_name, segment_number};
use crate::storage::Storage;
use crate::tape::TapeError;

/// Numbers of the complete segments in a storage, ascending.
pub fn segments(storage: &dyn Storage, path: &str) -> Result<Vec<SegmentNumber>, DeviceError> {
    let names = storage.list().map_err(io_error("list", path))?;
    let mut numbers: Vec<_> = names.iter().filter_map(|n| segment_number(n, SUFFIX)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The header file's header; or what is wrong with the file, where segments can stand in for it.
pub fn read_header(
    storage: &dyn Storage,
    path: &str,
) -> Result<Result<MediumHeader, FormatError>, DeviceError> {
    let file = match storage.open(HEADER_NAME) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Err(FormatError::NotA("medium header")));
        }
        Err(e) => return Err(io_error("open", &format!("{path}/{HEADER_NAME}"))(e)),
    };
    let len = file.len().map_err(io_error("read", path))?.min(BLOCK_SIZE_MAX.into());
    let mut bytes = vec![0; len as usize];
    let n = file.read_at(&mut bytes, 0).map_err(io_error("read", path))?;
    match decode_record::<MediumHeader>(BlockKind::MediumHeader, &bytes[..n]) {
        Ok((_, header)) => check(header, path).map(Ok),
        // A damaged header is repaired from the segments' copies, if there are any.
        Err(source) => match segments(storage, path)?.is_empty() {
            true => Err(DeviceError::Medium { path: path.to_owned(), source }),
            false => Ok(Err(source)),
        },
    }
}

/// Refuses a header of a format that this program does not know.
pub fn check(header: MediumHeader, path: &str) -> Result<MediumHeader, DeviceError> {
    let bad = |source| DeviceError::Medium { path: path.to_owned(), source };
    header.check().map_err(bad)?;
    Ok(header)
}

/// In so many segments of a tape, or what lies among them, the header is looked for: half of them at its end, half at its begin.
const TAPE_LOOKS: usize = 8;

/// Whether the drive could not read a block, and what lies behind it may be read.
pub fn is_of_one_block(e: &DeviceError) -> bool {
    matches!(e.of_tape(), Some(TapeError::Medium { .. }))
}

/// What is said of a first block that could not be read.
pub fn unread(e: &DeviceError) -> String {
    e.of_tape().map_or_else(|| e.to_string(), ToString::to_string)
}

/// The header of a medium whose header file is lost, with `problem`: as its segments repeat it.
pub fn header_from_segments(
    storage: &Arc<dyn Storage>,
    path: &str,
    problem: &FormatError,
) -> Result<MediumHeader, DeviceError> {
    if let Some(header) = header_behind(&**storage, path)? {
        return check(header, path);
    }
    let numbers = segments(&**storage, path)?;
    match problem {
        // Its begin, or what is behind it, is of ours.
        _ if storage.has_blocks_of_ours() => Err(DeviceError::TapeUnread(path.to_owned())),
        // On a tape any file is taken for a segment, also one of somebody else.
        _ if numbers.is_empty() || !Path::new(path).is_dir() => {
            Err(DeviceError::NoMedium(path.to_owned()))
        }
        _ => Err(DeviceError::HeaderLost { path: path.to_owned() }),
    }
}

/// The medium's header as a segment repeats it, if one does that can be read. The newest: a medium that got another id has the former one
/// in the segments before.
pub fn header_behind(
    storage: &dyn Storage,
    path: &str,
) -> Result<Option<MediumHeader>, DeviceError> {
    let numbers = segments(storage, path)?;
    // A tape goes to each of them.
    let most = if storage.is_tape() { TAPE_LOOKS } else { usize::MAX }.min(numbers.len());
    let (last, first) = (numbers.iter().rev().take(most - most / 2), numbers.iter().take(most / 2));
    Ok(last.chain(first).find_map(|number| header_in_segment(storage, *number)))
}

/// The medium's header as a segment, or what is attached to a tape, repeats it, if that can be read.
pub fn header_in_segment(storage: &dyn Storage, number: SegmentNumber) -> Option<MediumHeader> {
    #[derive(serde::Deserialize)]
    struct OnlyMedium {
        medium: MediumHeader,
    }
    let file = storage.open(&segment_name(number, SUFFIX)).ok()?;
    let mut begin = [0; HEADER_LEN];
    let n = file.read_at(&mut begin, 0).ok()?;
    let ma = MaHeader::decode(begin.get(..n)?).ok()?;
    // On a tape it is as long as all blocks are.
    let mut bytes = vec![0; ma.length as usize];
    let n = file.read_at(&mut bytes, 0).ok()?;
    let record = decode_record::<OnlyMedium>(ma.kind, bytes.get(..n)?).ok()?;
    matches!(ma.kind, BlockKind::SegmentHeader | BlockKind::Attachment).then_some(record.1.medium)
}

/// A medium header as it lies in its file, in memory that suits direct writing.
pub fn header_block(header: &MediumHeader, path: &str) -> Result<Buffer, DeviceError> {
    let segment = SegmentId([0; 16]);
    let block = encode_record(BlockKind::MediumHeader, segment, BlockIndex(0), header, BLOCK_ALIGN)
        .map_err(|source| DeviceError::Medium { path: path.to_owned(), source })?;
    let mut aligned = Buffer::new(block.len());
    aligned.copy_from_slice(&block);
    Ok(aligned)
}
