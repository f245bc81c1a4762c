//! A tape, read like a directory of segments.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use capstan_address::TapeAddress;
use capstan_format::array::ArrayPlace;
use capstan_format::attachment::Attachment;
use capstan_format::block::{BLOCK_ALIGN, BlockKind, HEADER_LEN, MaHeader};
use capstan_format::id::{BlockIndex, SegmentId, SegmentNumber};
use capstan_format::record::{MediumHeader, SegmentEnd, decode_record};
use capstan_medium::ends::blocks_on;
use capstan_medium::error::io_error;
use capstan_medium::host::Wanted;
use capstan_medium::names::{HEADER_NAME, SUFFIX, segment_name, segment_number};
use capstan_medium::storage::{ReadFile, Recorded, Storage, WriteFile};
use capstan_medium::tape::{Spot, TapeError, WINDOW};
use capstan_medium::{DeviceError, NewAttachment, OpenMedium};
use capstan_tape::DriveKey;
use parking_lot::Mutex;

use super::{attachment, catalog_file, complete, data_file, failed};
use crate::drives::loaded::Found;
use crate::drives::passed::Shape;
use crate::drives::{HEADER_FILE, LONGEST, Tape};
use crate::host::LocalDevices;

/// The most that the catalog of a segment can be: what is more is none of ours.
const CATALOG_MAX: usize = 256 << 20;

/// Opens the medium on a tape to read.
pub(crate) fn open(host: &LocalDevices, address: &TapeAddress) -> Result<OpenMedium, DeviceError> {
    let tape = Tape::of(host.tapes(), address);
    let name = tape.name();
    OpenMedium::on(Arc::new(TapeStorage::new(tape)), &name)
}

/// Opens a known medium of a drive that stands alone to read; the operator is asked for its tape.
pub(crate) fn open_wanted(
    host: &LocalDevices,
    address: &TapeAddress,
    wanted: Wanted,
) -> Result<OpenMedium, DeviceError> {
    let tape = Tape::of_medium(host.tapes(), address, wanted);
    let name = tape.name();
    OpenMedium::on(Arc::new(TapeStorage::new(tape)), &name)
}

/// The same as [`open`], of a tape that may be a member of an array.
pub(crate) fn open_member(
    host: &LocalDevices,
    address: &TapeAddress,
) -> Result<OpenMedium, DeviceError> {
    let tape = Tape::of(host.tapes(), address);
    let name = tape.name();
    OpenMedium::member_on(Arc::new(TapeStorage::new(tape)), &name)
}

/// A tape as a flat directory: its header, and its complete segments.
pub(super) struct TapeStorage {
    tape: Arc<Tape>,
    /// Its header, once it was read: no segment goes back to the begin of the tape for it.
    medium: OnceLock<MediumHeader>,
    /// Its first block does not say it: nobody goes back there for it either.
    is_header_lost: AtomicBool,
    /// A block of ours was seen though the header is lost.
    has_ours: AtomicBool,
    /// Where segments were recorded to lie.
    recorded: Mutex<HashMap<SegmentNumber, Recorded>>,
}

/// Whether a block could not be read, and what lies behind it may be.
fn is_of_block(e: &io::Error) -> bool {
    let e = e.get_ref().and_then(|e| e.downcast_ref::<TapeError>());
    matches!(e, Some(TapeError::Medium { .. }))
}

/// Whether a block that is no whole header begins as one: with its magic, its version and its kind, but for one of these bytes.
fn is_nearly_header(block: &[u8]) -> bool {
    let like = MaHeader {
        kind: BlockKind::MediumHeader,
        segment: SegmentId([0; 16]),
        index: BlockIndex(0),
        length: BLOCK_ALIGN as u32,
    };
    let mut header = [0; HEADER_LEN];
    like.encode(&mut header);
    let same = header.iter().zip(block).take(KNOWN_BEGIN).filter(|(a, b)| a == b).count();
    same + 1 >= KNOWN_BEGIN
}

/// So many bytes of a header are the same on all tapes: magic, version, kind, flags, and the segment, which is none.
const KNOWN_BEGIN: usize = 24;

fn not_on_tape() -> io::Error {
    let why = "a tape takes segments at its end only; recycle it as a whole";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

impl Storage for TapeStorage {
    fn create(&self, _: &str) -> io::Result<Box<dyn WriteFile>> {
        Err(not_on_tape())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        if name == HEADER_NAME {
            return Ok(Box::new(HeaderFile { block: self.header()? }));
        }
        let Some(number) = segment_number(name, SUFFIX) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let recorded = self.recorded.lock().get(&number).copied();
        let medium = self.medium()?;
        Ok(Box::new(SegmentFile {
            tape: self.tape.clone(),
            reader: self.tape.abreast.reader(),
            number,
            key: self.key()?,
            // A member of an array has only its share of the blocks that the end record counts.
            array: medium.and_then(|medium| medium.array.clone()),
            block_size: medium.map(|medium| medium.block_size as usize),
            segment: recorded.map(|recorded| recorded.segment),
            layout: Mutex::new(Layout {
                object: recorded.map(|recorded| recorded.object),
                ..Layout::default()
            }),
        }))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(not_on_tape())
    }

    fn replace(&self, _: &str, _: &str) -> io::Result<()> {
        Err(not_on_tape())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(not_on_tape())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let end = self.tape.with(|loaded| loaded.end()).map_err(failed)?;
        let mut names = Vec::new();
        if (end.file, end.block) != (0, 0) {
            names.push(HEADER_NAME.to_owned());
        }
        names.extend((1..=complete(end.file)).map(|n| segment_name(SegmentNumber(n), SUFFIX)));
        Ok(names)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn recall(&self, places: Vec<Recorded>) {
        self.recorded.lock().extend(places.into_iter().map(|place| (place.number, place)));
    }

    fn holds(&self, number: SegmentNumber) -> io::Result<bool> {
        let spot = Spot { file: data_file(number), block: 0, object: None };
        // Without its key it is seen that there is a block, too.
        let key = self.key().ok().flatten();
        let found = self.tape.with(|loaded| {
            loaded.use_key(key.as_ref())?;
            Ok(matches!(loaded.block(spot, LONGEST, &|_| true)?, Found::Block(_)))
        });
        match found {
            Err(e) if e.blames_drive() => Err(failed(e)),
            Err(e) => Ok(!matches!(e, TapeError::BeyondEnd { .. })),
            Ok(found) => Ok(found),
        }
    }

    fn segment_near_end(&self, number: SegmentNumber) -> io::Result<Option<SegmentId>> {
        let spot = Spot { file: catalog_file(number), block: 0, object: None };
        let key = self.key()?;
        let found = self.tape.with(|loaded| {
            loaded.use_key(key.as_ref())?;
            Ok(match loaded.block(spot, LONGEST, &|_| true)? {
                Found::Block(block) => MaHeader::decode(block).ok().map(|header| header.segment),
                Found::Filemark | Found::EndOfData => None,
            })
        });
        match found {
            Err(TapeError::BeyondEnd { .. }) => Ok(None),
            // It may be read at the segment's begin all the same.
            Err(e) if e.blames_tape() => Ok(None),
            other => other.map_err(failed),
        }
    }

    fn is_tape(&self) -> bool {
        true
    }

    fn take_header(&self, header: &MediumHeader) {
        self.is_header_lost.store(true, Relaxed);
        let _ = self.medium.set(header.clone());
    }

    fn has_blocks_of_ours(&self) -> bool {
        self.has_ours.load(Relaxed)
    }

    fn takes_attachments(&self) -> bool {
        self.medium().is_ok_and(|medium| medium.is_some())
    }

    fn attachment(&self, number: SegmentNumber) -> io::Result<Option<Attachment>> {
        attachment::find(&self.tape, self.key()?.as_ref(), number).map_err(failed)
    }

    fn read_attachment(&self, of: &Attachment) -> io::Result<Vec<u8>> {
        attachment::read(&self.tape, self.key()?.as_ref(), of)
    }

    fn has_both_records(&self, of: &Attachment) -> io::Result<bool> {
        attachment::has_both_records(&self.tape, self.key()?.as_ref(), of).map_err(failed)
    }

    fn attach(
        &self,
        new: &NewAttachment,
        least: SegmentNumber,
    ) -> Result<SegmentNumber, DeviceError> {
        match self.medium().map_err(io_error("read", &self.tape.name()))? {
            Some(medium) if self.is_header_lost.load(Relaxed) => {
                Err(header_lost(&self.tape.name(), medium))
            }
            Some(medium) => attachment::append(&self.tape, medium, new, least),
            None => Err(DeviceError::KeepsNoAttachment),
        }
    }
}

impl TapeStorage {
    pub fn new(tape: Arc<Tape>) -> Self {
        Self {
            tape,
            medium: OnceLock::new(),
            is_header_lost: AtomicBool::new(false),
            has_ours: AtomicBool::new(false),
            recorded: Mutex::default(),
        }
    }

    /// What the tape says of itself, where that can be read.
    fn medium(&self) -> io::Result<Option<&MediumHeader>> {
        if self.medium.get().is_none() && !self.is_header_lost.load(Relaxed) {
            let block = match self.header() {
                Err(e) if is_of_block(&e) => Vec::new(),
                read => read?,
            };
            match decode_record::<MediumHeader>(BlockKind::MediumHeader, &block) {
                Ok((_, header)) => {
                    if header.is_array() {
                        self.tape.moves.is_of_array();
                    }
                    drop(self.medium.set(header));
                }
                Err(_) => {
                    self.is_header_lost.store(true, Relaxed);
                    self.note_ours(&block);
                }
            }
        }
        Ok(self.medium.get())
    }

    /// Notes whether a block is one of ours, also where some of it is damaged.
    fn note_ours(&self, block: &[u8]) {
        if MaHeader::decode(block).is_ok() || is_nearly_header(block) {
            self.has_ours.store(true, Relaxed);
        }
    }

    /// What the drive needs to read what is behind the header.
    fn key(&self) -> io::Result<Option<DriveKey>> {
        let key = self.medium()?.map(|medium| self.tape.key_of(medium));
        Ok(key.transpose().map_err(failed)?.flatten())
    }

    /// The first block of the tape.
    pub fn header(&self) -> io::Result<Vec<u8>> {
        let spot = Spot { file: HEADER_FILE, block: 0, object: None };
        let block = self.tape.with(|loaded| match loaded.block(spot, LONGEST, &|_| true)? {
            Found::Block(block) => Ok(Some(block.to_vec())),
            Found::Filemark | Found::EndOfData => Ok(None),
        });
        match block {
            Ok(block) => block.ok_or_else(|| io::ErrorKind::NotFound.into()),
            // Longer than any of ours.
            Err(TapeError::TooLong { .. }) => Ok(vec![0; BLOCK_ALIGN]),
            Err(e) => Err(failed(e)),
        }
    }
}

/// Nothing is added to a tape whose first block is damaged.
pub(super) fn header_lost(path: &str, medium: &MediumHeader) -> DeviceError {
    DeviceError::TapeHeaderLost { path: path.to_owned(), label: medium.label.clone() }
}

struct HeaderFile {
    block: Vec<u8>,
}

impl ReadFile for HeaderFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(copy_at(&self.block, offset, out))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.block.len() as u64)
    }
}

fn copy_at(from: &[u8], offset: u64, out: &mut [u8]) -> usize {
    let from = usize::try_from(offset).ok().and_then(|at| from.get(at..)).unwrap_or_default();
    let n = from.len().min(out.len());
    out[..n].copy_from_slice(&from[..n]);
    n
}

/// What is known of where a segment's bytes lie.
#[derive(Default)]
struct Layout {
    /// Blocks and filemarks before its first block: as it was recorded, or as the drive says.
    object: Option<u64>,
    /// Bytes of its first block.
    first: Option<u64>,
    /// Bytes of the blocks after it.
    full: Option<u64>,
    /// Blocks of its first file after the first, once they were counted.
    data_blocks: Option<u64>,
    /// The catalog and the end record: all blocks of its second file.
    catalog: Option<Arc<Vec<u8>>>,
}

impl Layout {
    fn data_len(&self) -> Option<u64> {
        Some(self.first? + self.data_blocks? * self.full.unwrap_or_default())
    }

    fn take(&mut self, shape: Shape) {
        (self.first, self.full) = (Some(shape.first), Some(shape.full));
        (self.data_blocks, self.catalog) = (Some(shape.data_blocks), Some(shape.catalog));
    }
}

/// A segment on a tape: the blocks of its two files, one after the other.
struct SegmentFile {
    tape: Arc<Tape>,
    /// Its number among the readers of the tape.
    reader: u64,
    number: SegmentNumber,
    /// What the drive needs to read it.
    key: Option<DriveKey>,
    array: Option<ArrayPlace>,
    /// Of the medium.
    block_size: Option<usize>,
    /// What it is, where that is recorded.
    segment: Option<SegmentId>,
    layout: Mutex<Layout>,
}

impl SegmentFile {
    fn spot(&self, block: u64) -> Spot {
        // Blocks of a member of an array do not say by their index where they lie on it.
        let begin = self.layout.lock().object.filter(|_| self.array.is_none());
        let object = begin.and_then(|begin| begin.checked_add(block));
        Spot { file: data_file(self.number), block, object }
    }

    /// Whether it is that block of this segment.
    fn is_block(&self, index: u64, block: &[u8]) -> bool {
        MaHeader::decode(block).is_ok_and(|ma| {
            u64::from(ma.index.0) == index
                && self.segment.is_none_or(|segment| segment == ma.segment)
        })
    }

    /// Has what is found at a block of the first file; nothing where the file ends before it.
    fn find<R>(
        &self,
        block: u64,
        longest: usize,
        take: impl FnOnce(&[u8]) -> R,
    ) -> io::Result<Option<R>> {
        let spot = self.spot(block);
        let most = (WINDOW / 2 / longest.max(1)) as u64;
        self.tape.abreast.come(self.reader, spot.file, block, most);
        let mut take = Some(take);
        let found = self.tape.with(|loaded| {
            loaded.use_key(self.key.as_ref())?;
            // Where the tape has to wind it goes to the first block that anybody wants, and reads on.
            if !loaded.reads_on_to(spot, longest)
                && let Some(first) = self.tape.abreast.first(spot.file)
                && (1..block).contains(&first)
            {
                let found = loaded.block(self.spot(first), longest, &|b| self.is_block(first, b));
                // What is wrong there is told to who wants it.
                found.map(drop).or_else(|e| if e.blames_drive() { Err(e) } else { Ok(()) })?;
            }
            let found = match loaded.block(spot, longest, &|bytes| self.is_block(block, bytes))? {
                Found::Block(bytes) => take.take().map(|take| take(bytes)),
                Found::Filemark | Found::EndOfData => None,
            };
            Ok((found, loaded.begin_of(spot.file)))
        });
        self.tape.abreast.served(self.reader);
        // Others that read take turns with that.
        while let Ok(true) = self.tape.with(|loaded| loaded.read_ahead(longest)) {}
        match found {
            Ok((found, begin)) => {
                let mut layout = self.layout.lock();
                layout.object = begin.or(layout.object);
                Ok(found)
            }
            Err(TapeError::BeyondEnd { .. }) => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    /// Copies from a block of the first file; the block's length, nothing where the file ends before it.
    fn copy(&self, block: u64, offset: u64, out: &mut [u8]) -> io::Result<Option<(u64, usize)>> {
        let longest = self.layout.lock().full.filter(|_| block > 0).map_or(LONGEST, |n| n as usize);
        self.find(block, longest, |bytes| (bytes.len() as u64, copy_at(bytes, offset, out)))
    }

    /// Learns how long the first block is, and those after it.
    fn measure(&self) -> io::Result<(u64, u64)> {
        let known = {
            let layout = self.layout.lock();
            layout.first.zip(layout.full)
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let file = data_file(self.number);
        if let Some(shape) = self.tape.with(|loaded| Ok(loaded.shape(file))).map_err(failed)? {
            let known = (shape.first, shape.full);
            self.layout.lock().take(shape);
            return Ok(known);
        }
        let Some((first, _)) = self.copy(0, 0, &mut [])? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let full = self.copy(1, 0, &mut [])?.map_or(first, |(length, _)| length);
        let mut layout = self.layout.lock();
        (layout.first, layout.full) = (Some(first), Some(full));
        Ok((first, full))
    }

    /// Reads the second file, once; it says also how many blocks the first one has.
    fn read_catalog(&self) -> io::Result<u64> {
        let (first, full) = self.measure()?;
        if let Some(length) = self.layout.lock().data_len() {
            return Ok(length);
        }
        let file = catalog_file(self.number);
        let mut bytes: Vec<u8> = Vec::new();
        let mut last = 0;
        let read = self.tape.with(|loaded| {
            bytes.clear();
            loaded.use_key(self.key.as_ref())?;
            for block in 0.. {
                match loaded.block(Spot { file, block, object: None }, LONGEST, &|_| true)? {
                    Found::Block(found) if bytes.len() + found.len() <= CATALOG_MAX => {
                        last = bytes.len();
                        bytes.extend_from_slice(found);
                    }
                    _ => break,
                }
            }
            Ok(())
        });
        let read = match read {
            Err(e) if !matches!(e, TapeError::BeyondEnd { .. }) && !e.blames_tape() => {
                return Err(failed(e));
            }
            read => read,
        };
        let end = decode_record::<SegmentEnd>(BlockKind::SegmentEnd, &bytes[last..]);
        // What cannot be read now may be at the next try.
        let is_whole = read.is_ok() && end.is_ok();
        let data_blocks = match end {
            Ok((_, end)) => match &self.array {
                Some(place) => blocks_on(place, full, &end)?,
                None => end.data_blocks.into(),
            },
            // Without its end record they are counted.
            Err(_) => self.count()?,
        };
        let shape = Shape { first, full, data_blocks, catalog: Arc::new(bytes) };
        if is_whole {
            let keep = shape.clone();
            let file = data_file(self.number);
            let kept = self.tape.with(|loaded| {
                loaded.keep_shape(file, keep.clone());
                Ok(())
            });
            kept.map_err(failed)?;
        }
        self.layout.lock().take(shape);
        Ok(first + data_blocks * full)
    }

    fn count(&self) -> io::Result<u64> {
        let mut blocks = 1;
        while self.copy(blocks, 0, &mut [])?.is_some() {
            blocks += 1;
        }
        Ok(blocks - 1)
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        self.tape.abreast.leave(self.reader);
    }
}

impl ReadFile for SegmentFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let out = &mut out[done..];
            let in_data = self.layout.lock().data_len().is_none_or(|data| at < data);
            let n = if in_data {
                let (first, full) = if at == 0 { (1, 1) } else { self.measure()? };
                let (block, within) = match at.checked_sub(first) {
                    Some(rest) if at > 0 => (1 + rest / full, rest % full),
                    _ => (0, at),
                };
                match self.copy(block, within, out)? {
                    Some((_, n)) => n,
                    // The catalog comes next.
                    None => {
                        let end = self.read_catalog()?;
                        if at < end {
                            break;
                        }
                        continue;
                    }
                }
            } else {
                let layout = self.layout.lock();
                let begin = layout.data_len().unwrap_or_default();
                let catalog = layout.catalog.as_ref().map_or(&[][..], |bytes| bytes);
                copy_at(catalog, at - begin, out)
            };
            if n == 0 {
                break;
            }
            done += n;
        }
        Ok(done)
    }

    fn read_block(&self, index: u32, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let index = index.into();
        if let Some(full) = self.block_size.filter(|full| index > 0 && *full >= out.len()) {
            let found = self.find(index, full, |bytes| {
                self.is_block(index, bytes).then(|| copy_at(bytes, 0, out))
            });
            match found {
                Ok(Some(Some(n))) => return Ok(n),
                Err(e) => return Err(e),
                // It is not where it should be, or is damaged: what is there is found by its place in bytes.
                Ok(_) => {}
            }
        }
        self.read_at(out, offset)
    }

    fn expect(&self, index: u32) {
        self.tape.abreast.expect(self.reader, data_file(self.number), index.into());
    }

    fn object(&self) -> Option<u64> {
        self.layout.lock().object
    }

    fn len(&self) -> io::Result<u64> {
        let data = self.read_catalog()?;
        let catalog = self.layout.lock().catalog.as_ref().map_or(0, |bytes| bytes.len());
        Ok(data + catalog as u64)
    }
}
