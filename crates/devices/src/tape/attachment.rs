//! Attachments of a tape: between its segments, under numbers as they have.

use std::io;
use std::sync::Arc;

use capstan_format::FormatError;
use capstan_format::attachment::{Attachment, AttachmentEnd, AttachmentHeader, Contents};
use capstan_format::block::MaHeader;
use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;
use capstan_medium::tape::{Spot, TapeError};
use capstan_medium::{DeviceError, NewAttachment};
use capstan_tape::DriveKey;

use super::{catalog_file, complete, data_file};
use crate::drives::loaded::{Found, LoadedDrive};
use crate::drives::{LONGEST, Tape};

fn at(file: u64, block: u64) -> Spot {
    Spot { file, block, object: None }
}

/// With which the drive encrypts the tape, if it does.
type Key<'a> = Option<&'a DriveKey>;

/// A block, if there is one at that place.
fn block_at(tape: &Tape, key: Key<'_>, spot: Spot) -> Result<Option<Vec<u8>>, TapeError> {
    tape.with(|loaded| {
        loaded.use_key(key)?;
        match loaded.block(spot, LONGEST, &|_| true)? {
            Found::Block(block) => Ok(Some(block.to_vec())),
            Found::Filemark | Found::EndOfData => Ok(None),
        }
    })
}

/// What has that number on the tape, if it is an attachment. Its first block says so; where that cannot be read, its last one.
pub(super) fn find(
    tape: &Tape,
    key: Key<'_>,
    number: SegmentNumber,
) -> Result<Option<Attachment>, TapeError> {
    match block_at(tape, key, at(data_file(number), 0)) {
        Ok(Some(block)) => {
            if let Ok(header) = AttachmentHeader::decode(&block) {
                return Ok(Some(header.attachment));
            }
            if MaHeader::decode(&block).is_ok_and(|ma| !ma.kind.is_of_attachment()) {
                return Ok(None);
            }
        }
        Ok(None) => return Ok(None),
        Err(e) if e.spares_tape() => return Err(e),
        Err(_) => {}
    }
    Ok(end_of(tape, key, number)?.map(|end| end.attachment))
}

/// The last block of an attachment, if it can be read.
fn end_of(
    tape: &Tape,
    key: Key<'_>,
    number: SegmentNumber,
) -> Result<Option<AttachmentEnd>, TapeError> {
    match block_at(tape, key, at(catalog_file(number), 0)) {
        Ok(block) => Ok(block.and_then(|block| AttachmentEnd::decode(&block).ok())),
        Err(e) if e.spares_tape() => Err(e),
        Err(_) => Ok(None),
    }
}

/// Whether both records of an attachment can be read.
pub(super) fn has_both_records(
    tape: &Tape,
    key: Key<'_>,
    of: &Attachment,
) -> Result<bool, TapeError> {
    let first = match block_at(tape, key, at(data_file(of.number), 0)) {
        Ok(block) => block.and_then(|block| AttachmentHeader::decode(&block).ok()),
        Err(e) if e.spares_tape() => return Err(e),
        Err(_) => None,
    };
    Ok(first.is_some() && end_of(tape, key, of.number)?.is_some())
}

/// The contents of an attachment, checked.
pub(super) fn read(tape: &Tape, key: Key<'_>, of: &Attachment) -> io::Result<Vec<u8>> {
    let damaged = |e: FormatError| io::Error::new(io::ErrorKind::InvalidData, e);
    let mut contents = Contents::of(of.clone());
    for index in 1.. {
        if contents.are_whole() {
            break;
        }
        let block = block_at(tape, key, at(data_file(of.number), index));
        let block = block.map_err(super::failed)?;
        let block = block.ok_or_else(|| damaged(FormatError::Truncated("attachment")))?;
        contents.take(&block).map_err(damaged)?;
    }
    let end = end_of(tape, key, of.number).map_err(super::failed)?;
    contents.finish(end.as_ref()).map_err(damaged)
}

/// Writes an attachment behind the last segment of a tape that is this medium. Numbers below the `least` are left out.
pub(super) fn append(
    tape: &Arc<Tape>,
    medium: &MediumHeader,
    new: &NewAttachment,
    least: SegmentNumber,
) -> Result<SegmentNumber, DeviceError> {
    let key = tape.key_of(medium)?;
    if !tape.pin() {
        let holder = "this session".to_owned();
        return Err(TapeError::Busy { what: tape.name(), holder }.into());
    }
    let written = append_pinned(tape, key.as_ref(), medium, new, least);
    tape.unpin();
    written
}

fn append_pinned(
    tape: &Tape,
    key: Key<'_>,
    medium: &MediumHeader,
    new: &NewAttachment,
    least: SegmentNumber,
) -> Result<SegmentNumber, DeviceError> {
    let number = tape.with(|loaded| {
        if loaded.is_write_protected() {
            return Err(TapeError::WriteProtected { tape: tape.name() });
        }
        let next = next_number(loaded)?;
        for left_out in next.0..least.0 {
            loaded.mark(at(data_file(SegmentNumber(left_out)), 0))?;
            loaded.mark(at(catalog_file(SegmentNumber(left_out)), 0))?;
        }
        Ok(next.max(least))
    })?;
    let header = AttachmentHeader {
        medium: medium.clone(),
        attachment: Attachment {
            id: new.id,
            number,
            attachment: new.kind,
            length: new.contents.len() as u64,
            written_us: new.written_us,
            locks: new.locks.clone(),
        },
    };
    let bad = |source| DeviceError::Medium { path: tape.name(), source };
    let first = header.encode().map_err(bad)?;
    let last = header.end(&new.contents).map_err(bad)?;
    let (data, end) = (data_file(number), catalog_file(number));
    tape.with(|loaded| {
        loaded.use_key(key)?;
        loaded.write(at(data, 0), &first)?;
        let mut blocks = 1;
        // Also behind the early warning: what has no room after all is torn, and the next writer overwrites it.
        for block in header.blocks(&new.contents) {
            loaded.write(at(data, blocks), &block)?;
            blocks += 1;
        }
        loaded.mark(at(data, blocks))?;
        loaded.write(at(end, 0), &last)?;
        loaded.mark(at(end, 1))?;
        loaded.sync()
    })?;
    Ok(number)
}

/// The number behind the last complete segment.
fn next_number(loaded: &mut LoadedDrive) -> Result<SegmentNumber, TapeError> {
    let end = loaded.end()?;
    if end.file == 0 {
        // Its header was written, and not ended.
        loaded.mark(Spot { block: 1, ..Spot::BEGIN })?;
    }
    Ok(SegmentNumber(complete(end.file) + 1))
}

#[cfg(test)]
mod tests {
    use super::super::storage::TapeStorage;
    use super::super::tests::{BLOCK, address, address_of, open, write};
    use super::*;
    use crate::host::LocalDevices;
    use capstan_address::TapeAddress;
    use capstan_format::attachment::AttachmentKind;
    use capstan_format::id::{SegmentId, VersionId};
    use capstan_format::lock::VersionLock;
    use capstan_medium::Device;
    use capstan_medium::OpenMedium;
    use capstan_medium::host::Tapes;
    use capstan_medium::storage::Storage;
    use capstan_tape::vtl::library::Library;

    fn backup(id: u8, length: usize) -> NewAttachment {
        NewAttachment {
            id: SegmentId([id; 16]),
            kind: AttachmentKind::IdbBackup,
            contents: (0..length).map(|n| (n % 251) as u8 ^ id).collect(),
            locks: Vec::new(),
            written_us: i64::from(id),
        }
    }

    fn lock(id: u8) -> NewAttachment {
        let lock = VersionLock::new(VersionId([id; 16]), 99, &[SegmentNumber(1)]);
        NewAttachment { kind: AttachmentKind::Lock, locks: vec![lock], ..backup(id, 0) }
    }

    fn segments(host: &LocalDevices, address: &TapeAddress, count: u32) {
        let mut device = open(host, address);
        (0..count).for_each(|_| write(&mut device, 4));
        device.commit().unwrap();
    }

    fn medium(host: &LocalDevices, address: &TapeAddress) -> OpenMedium {
        super::super::open(host, address).unwrap()
    }

    /// What each number of the tape is: 0 for a segment, else the attachment's time.
    fn numbers(host: &LocalDevices, address: &TapeAddress) -> Vec<i64> {
        let medium = medium(host, address);
        let found = |n| medium.attachment(n).unwrap().map_or(0, |a| a.written_us);
        medium.segments().unwrap().into_iter().map(found).collect()
    }

    /// The tape, which is in its drive already, while the drive fails.
    fn failing(host: &LocalDevices, address: &TapeAddress, faults: &str) -> TapeStorage {
        host.release_idle();
        let capstan_address::LibraryName::Virtual(dir) = &address.library else { panic!() };
        let library = Library::open(dir).unwrap();
        library.plan_faults(Some(1), faults).unwrap();
        TapeStorage::new(Tape::in_drive(host.tapes(), Box::new(library.drive(1).unwrap())))
    }

    #[test]
    fn attachments_lie_between_segments_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let (host, address) = (LocalDevices::default(), address(dir.path()));
        segments(&host, &address, 2);
        let new = backup(7, 3 * BLOCK);
        assert_eq!(medium(&host, &address).attach(&new).unwrap(), SegmentNumber(3));
        assert_eq!(medium(&host, &address).attach(&lock(8)).unwrap(), SegmentNumber(4));
        segments(&host, &address, 1);
        for fresh in [false, true] {
            if fresh {
                host.release_idle();
            }
            assert_eq!(numbers(&host, &address), [0, 0, 7, 8, 0]);
            let medium = medium(&host, &address);
            let found = medium.attachment(SegmentNumber(3)).unwrap().unwrap();
            assert_eq!(medium.read_attachment(&found).unwrap(), new.contents);
            let found = medium.attachment(SegmentNumber(4)).unwrap().unwrap();
            assert_eq!((found.attachment, found.locks), (AttachmentKind::Lock, lock(8).locks));
        }
    }

    #[test]
    fn a_torn_attachment_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let (host, address) = (LocalDevices::default(), address(dir.path()));
        segments(&host, &address, 1);
        for fault in ["write:1=error", "write:3=error", "mark:1=error", "mark:2=error"] {
            failing(&host, &address, fault)
                .attach(&backup(5, 4 * BLOCK), SegmentNumber(1))
                .unwrap_err();
            assert_eq!(numbers(&host, &address), [0], "{fault}");
        }
        medium(&host, &address).attach(&backup(6, BLOCK)).unwrap();
        assert_eq!(numbers(&host, &address), [0, 6]);
        failing(&host, &address, "write:2=error")
            .attach(&backup(7, BLOCK), SegmentNumber(1))
            .unwrap_err();
        segments(&host, &address, 1);
        assert_eq!(numbers(&host, &address), [0, 6, 0]);
    }

    #[test]
    fn one_record_is_enough_and_damaged_contents_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (host, address) = (LocalDevices::default(), address(dir.path()));
        segments(&host, &address, 1);
        let new = backup(7, 2 * BLOCK);
        medium(&host, &address).attach(&new).unwrap();
        host.release_idle();
        let file = dir.path().join("vtl/tapes/V00001L9.tape");
        let good = std::fs::read(&file).unwrap();
        let said = br#""attachment":"idb-backup""#;
        let all: Vec<usize> =
            (0..good.len() - said.len()).filter(|at| good[*at..].starts_with(said)).collect();
        let [first, last] = all[..] else { panic!("two records: {all:?}") };
        for at in [first, last] {
            let mut bad = good.clone();
            bad[at + 16] ^= 1;
            std::fs::write(&file, bad).unwrap();
            let medium = medium(&host, &address);
            let found = medium.attachment(SegmentNumber(2)).unwrap().unwrap();
            assert_eq!(medium.read_attachment(&found).unwrap(), new.contents);
            host.release_idle();
        }
        let mut bad = good.clone();
        bad[(first + last) / 2] ^= 1;
        std::fs::write(&file, bad).unwrap();
        let medium = medium(&host, &address);
        let found = medium.attachment(SegmentNumber(2)).unwrap().unwrap();
        let said = medium.read_attachment(&found).unwrap_err().to_string();
        assert!(said.contains("attachment 2"), "{said}");
    }

    #[test]
    fn what_has_no_room_is_said_and_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (host, address) = (LocalDevices::default(), address_of(dir.path(), 20_000_000));
        let mut device = open(&host, &address);
        while !device.is_ending() {
            write(&mut device, 40);
        }
        device.commit().unwrap();
        let count = device.next_number().0 - 1;
        drop(device);
        // In what is left behind the warning there is room for little.
        let e = medium(&host, &address).attach(&backup(5, 20_000_000)).unwrap_err();
        assert!(e.is_full(), "{e}");
        medium(&host, &address).attach(&lock(6)).unwrap();
        let numbers = numbers(&host, &address);
        assert_eq!((numbers.len(), numbers.last()), (count as usize + 1, Some(&6)));
    }

    #[test]
    fn a_tape_that_is_written_or_protected_takes_none() {
        let dir = tempfile::tempdir().unwrap();
        let (host, address) = (LocalDevices::default(), address(dir.path()));
        let device = open(&host, &address);
        assert!(medium(&host, &address).attach(&lock(5)).unwrap_err().is_busy());
        drop(device);
        medium(&host, &address).attach(&lock(5)).unwrap();
        host.release_idle();
        let label = dir.path().join("vtl/tapes/V00001L9.json");
        let text = std::fs::read_to_string(&label).unwrap();
        let set = text.replace("\"write_protected\": false", "\"write_protected\": true");
        assert_ne!(text, set);
        std::fs::write(label, set).unwrap();
        let said = medium(&host, &address).attach(&lock(5)).unwrap_err().to_string();
        assert!(said.contains("write-protect"), "{said}");
    }
}
