//! Writing segments to a tape.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_address::TapeAddress;
use capstan_format::block::BlockKind;
use capstan_format::id::{BlockIndex, SegmentId, SegmentNumber};
use capstan_format::record::{MediumHeader, encode_record};
use capstan_medium::medium::member_alone;
use capstan_medium::tape::{DriveSession, Speeds, Spot, TapeError};
use capstan_medium::{Device, DeviceError, OpenMedium};
use capstan_tape::{DriveKey, Written};

use super::storage::{TapeStorage, header_lost};
use super::{catalog_file, complete, data_file};
use crate::drives::{HEADER_FILE, Tape};
use crate::host::LocalDevices;

/// A tape that is written.
pub struct TapeDevice {
    tape: Arc<Tape>,
    medium: OpenMedium,
    /// The number of the next segment, and of the first one that was written.
    next: u32,
    first: u32,
    /// The least number that it may have; those before it are left out.
    told: u32,
    /// Where the next block of the segment goes, while one is open.
    at: Option<Spot>,
    /// With which its drive encrypts it.
    key: Option<DriveKey>,
    /// Of the segments that were written: blocks and filemarks before the first block, where the drive said so.
    objects: BTreeMap<SegmentNumber, u64>,
    /// The drive has warned that the tape ends soon.
    ending: bool,
    capacity: Option<u64>,
}

impl TapeDevice {
    /// Opens a tape to write. `new` makes the header of one that is blank.
    pub fn open(
        host: &LocalDevices,
        address: &TapeAddress,
        new: impl FnOnce() -> std::io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let device = Self::open_member(host, address, new, block_size)?;
        match device.medium.header().is_array() {
            true => Err(member_alone(device.medium.header(), device.medium.path())),
            false => Ok(device),
        }
    }

    /// The same, of a tape that may be a member of an array.
    pub(crate) fn open_member(
        host: &LocalDevices,
        address: &TapeAddress,
        new: impl FnOnce() -> std::io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let tape = Tape::of(host.tapes(), address);
        if !tape.pin() {
            return Err(
                TapeError::Busy { what: tape.name(), holder: "this session".to_owned() }.into()
            );
        }
        let opened = Self::on(&tape, new, block_size);
        if opened.is_err() {
            tape.unpin();
        }
        opened
    }

    fn on(
        tape: &Arc<Tape>,
        new: impl FnOnce() -> std::io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let name = tape.name();
        let storage = Arc::new(TapeStorage::new(tape.clone()));
        if tape.with(|loaded| Ok(loaded.is_write_protected()))? {
            return Err(TapeError::WriteProtected { tape: name }.into());
        }
        // The tape stands at its begin, and its header is wanted soon. What is wrong with it is said then.
        let _ = storage.header();
        let end = tape.with(|loaded| loaded.end())?;
        if (end.file, end.block) == (0, 0) {
            let header =
                new().map_err(capstan_medium::error::io_error("make a new medium on", &name))?;
            write_header(tape, &header)?;
        }
        let medium = OpenMedium::member_on(storage, &name).map_err(|e| match e {
            DeviceError::Medium { .. } | DeviceError::NoMedium(_) => {
                DeviceError::NotOurs(name.clone())
            }
            e => e,
        })?;
        let have = medium.header().block_size;
        if let Some(want) = block_size.filter(|want| *want != have) {
            return Err(DeviceError::BlockSize { path: name, have, want });
        }
        let capacity = tape.with(|loaded| Ok(loaded.capacity()))?;
        // What is torn at the end of one that is only appended to stays there, and what comes behind it would have no place.
        let is_torn = end.block > u64::from(end.file == 0) || end.file > 1 && end.file % 2 == 0;
        if is_torn {
            tape.with(|loaded| loaded.refuse_worm())?;
        }
        // Where to append is read from the tape: behind the last complete segment. What is torn behind it is overwritten.
        let next = complete(end.file) + 1;
        if end.file == 0 && end.block > 0 {
            tape.with(|loaded| loaded.mark(Spot { block: 1, ..Spot::BEGIN }).map(drop))?;
        }
        let told = next;
        Ok(Self {
            tape: tape.clone(),
            medium,
            next,
            first: next,
            told,
            at: None,
            key: None,
            objects: BTreeMap::new(),
            ending: false,
            capacity,
        })
    }

    /// The medium.
    pub fn medium(&self) -> &OpenMedium {
        &self.medium
    }

    /// What is left of the tape, in bytes at the medium, where that is known.
    pub(super) fn room(&self) -> Option<u64> {
        self.tape.with(|loaded| Ok(loaded.room())).ok().flatten()
    }

    /// Refuses a drive that cannot encrypt, where the tape is encrypted by its drive.
    pub fn check_drive(&self) -> Result<(), DeviceError> {
        match self.medium.header().is_drive_encrypted() {
            true => Ok(self.tape.with(|loaded| loaded.check_encrypts())?),
            false => Ok(()),
        }
    }

    /// Refuses to add anything to a tape whose first block is damaged. All of it can be written anew.
    pub fn refuse_lost_header(&self) -> Result<(), DeviceError> {
        match self.medium.header_problem() {
            Some(_) => Err(header_lost(self.medium.path(), self.medium.header())),
            None => Ok(()),
        }
    }

    /// Refuses a tape of which nothing can be overwritten or erased.
    pub fn refuse_worm(&self) -> Result<(), DeviceError> {
        Ok(self.tape.with(|loaded| loaded.refuse_worm())?)
    }

    /// Gives a medium another header; with it, all that is on the tape is gone.
    pub fn begin_anew(self, header: &MediumHeader) -> Result<(), DeviceError> {
        self.refuse_worm()?;
        write_header(&self.tape, header)
    }

    /// Erases the tape; it is blank then. `secure`: all of its length.
    pub fn erase(self, secure: bool) -> Result<(), DeviceError> {
        self.refuse_worm()?;
        Ok(self.tape.with(|loaded| loaded.erase(secure))?)
    }

    fn note(&mut self, written: Written) {
        self.ending |= written.early_warning;
    }

    fn spot(&self) -> Result<Spot, DeviceError> {
        self.at.ok_or_else(|| DeviceError::NoMedium(self.medium.path().to_owned()))
    }

    fn mark(&mut self) -> Result<(), DeviceError> {
        let spot = self.spot()?;
        let written = self.tape.with(|loaded| loaded.mark(spot))?;
        self.note(written);
        self.at = Some(Spot { file: spot.file + 1, block: 0, object: None });
        Ok(())
    }
}

/// Refuses a drive that cannot encrypt, with a tape of a library in it.
pub(crate) fn check_encrypts(host: &LocalDevices, address: &TapeAddress) -> Result<(), TapeError> {
    Tape::of(host.tapes(), address).with(|loaded| loaded.check_encrypts())
}

/// Refuses a tape that cannot be erased.
pub(crate) fn refuse_worm(host: &LocalDevices, address: &TapeAddress) -> Result<(), DeviceError> {
    Ok(Tape::of(host.tapes(), address).with(|loaded| loaded.refuse_worm())?)
}

/// Erases a tape, whatever is on it. `secure`: all of its length.
pub(crate) fn erase(
    host: &LocalDevices,
    address: &TapeAddress,
    secure: bool,
) -> Result<(), DeviceError> {
    let tape = Tape::of(host.tapes(), address);
    if !tape.pin() {
        let busy = TapeError::Busy { what: tape.name(), holder: "this session".to_owned() };
        return Err(busy.into());
    }
    let erased = tape.with(|loaded| {
        loaded.refuse_worm()?;
        loaded.erase(secure)
    });
    tape.unpin();
    Ok(erased?)
}

pub(super) fn write_header(tape: &Tape, header: &MediumHeader) -> Result<(), DeviceError> {
    let segment = SegmentId([0; 16]);
    let length = header.block_size as usize;
    let block = encode_record(BlockKind::MediumHeader, segment, BlockIndex(0), header, length)
        .map_err(|source| DeviceError::Medium { path: tape.name(), source })?;
    let begin = Spot { file: HEADER_FILE, ..Spot::BEGIN };
    tape.moves.begins(true);
    let written = tape.with(|loaded| {
        if header.is_drive_encrypted() {
            loaded.check_encrypts()?;
        }
        // Who reads it gets to know from it which key the rest takes.
        loaded.use_key(None)?;
        loaded.write(begin, &block)?;
        loaded.mark(Spot { block: 1, object: None, ..begin })?;
        loaded.sync()
    });
    tape.moves.begins(false);
    Ok(written?)
}

impl Device for TapeDevice {
    fn next_number(&self) -> SegmentNumber {
        SegmentNumber(self.next)
    }

    fn advance(&mut self, to: SegmentNumber) {
        self.told = self.told.max(to.0);
    }

    fn can_leave_out_numbers(&self) -> bool {
        false
    }

    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError> {
        while self.next < self.told {
            // A number is a place among filemarks: one that is left out has two files with nothing in them.
            self.at =
                Some(Spot { file: data_file(SegmentNumber(self.next)), block: 0, object: None });
            self.mark()?;
            self.mark()?;
            self.next += 1;
        }
        let number = SegmentNumber(self.next);
        self.tape.moves.stays();
        self.key = self.tape.key_of(self.medium.header())?;
        self.at = Some(Spot { file: data_file(number), block: 0, object: None });
        Ok(number)
    }

    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError> {
        let spot = self.spot()?;
        let (written, begin) = self.tape.with(|loaded| {
            loaded.use_key(self.key.as_ref())?;
            Ok((loaded.write(spot, block)?, loaded.begin_of(spot.file)))
        })?;
        self.note(written);
        let number = SegmentNumber(self.next);
        if (spot.file, spot.block) == (data_file(number), 0)
            && let Some(object) = begin
        {
            self.objects.insert(number, object);
        }
        self.at = Some(Spot { block: spot.block + 1, object: None, ..spot });
        Ok(())
    }

    fn begin_catalog(&mut self) -> Result<(), DeviceError> {
        self.mark()
    }

    fn end_segment(&mut self) -> Result<(), DeviceError> {
        debug_assert_eq!(self.at.map(|at| at.file), Some(catalog_file(SegmentNumber(self.next))));
        self.mark()?;
        self.at = None;
        self.next += 1;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(self.tape.with(|loaded| loaded.sync())?)
    }

    fn salvage(&mut self) -> Result<SegmentNumber, DeviceError> {
        self.abandon_segment();
        self.commit()?;
        Ok(SegmentNumber(self.next))
    }

    fn cut(&mut self, from: SegmentNumber) -> bool {
        self.abandon_segment();
        if from.0 < self.first {
            return false;
        }
        if from.0 >= self.next {
            return true;
        }
        // A filemark in its place ends what is on the tape there. What is written next takes the place.
        let spot = Spot { file: data_file(from), block: 0, object: None };
        let marked = self.tape.with(|loaded| {
            loaded.refuse_worm()?;
            loaded.mark(spot)
        });
        if marked.is_ok() {
            self.next = from.0;
            self.objects.retain(|number, _| *number < from);
        }
        marked.is_ok()
    }

    fn object_of(&self, segment: SegmentNumber) -> Option<u64> {
        self.objects.get(&segment).copied()
    }

    fn abandon_segment(&mut self) {
        // What was begun is overwritten by what comes next: its number is given again.
        self.objects.remove(&SegmentNumber(self.next));
        self.at = None;
    }

    fn short_blocks(&self) -> bool {
        false
    }

    fn commits_each_segment(&self) -> bool {
        false
    }

    fn is_ending(&self) -> bool {
        self.ending
    }

    fn segment_size(&self) -> Option<u64> {
        self.capacity.map(|bytes| bytes / SEGMENTS_OF_A_TAPE)
    }

    fn compresses(&mut self) -> bool {
        self.tape.with(|loaded| Ok(loaded.compresses())).unwrap_or(false)
    }

    fn set_compression(&mut self, on: bool) -> Result<(), DeviceError> {
        self.tape.moves.stays();
        Ok(self.tape.with(|loaded| loaded.set_compression(on))?)
    }

    fn speeds(&self) -> Option<Speeds> {
        self.tape.with(|loaded| Ok(loaded.speeds())).ok().flatten()
    }

    fn drive_sessions(&mut self) -> Vec<DriveSession> {
        let done = self.tape.with(|loaded| {
            let room = self.capacity.zip(loaded.room());
            Ok((loaded.session(), room))
        });
        let Ok((session, room)) = done else { return Vec::new() };
        self.tape.note_used(self.medium.header().medium, room);
        vec![session]
    }
}

/// A tape has about so many segments.
const SEGMENTS_OF_A_TAPE: u64 = 50;

impl Drop for TapeDevice {
    fn drop(&mut self) {
        self.tape.unpin();
    }
}
