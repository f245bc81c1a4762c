//! A tape in a file: blocks and filemarks, one after the other.
//!
//! The file is 16 bytes that say what it is, then records: a byte `B`, `E` or `F`, 256 times the ratio of the drive's
//! compression (2, little endian; 0 without any), a zero, the length in bytes (4, little endian), and as many bytes: of a block
//! (`B`); of one that the drive encrypted (`E`: a nonce, the block by AES-256-GCM, the tag); none of a filemark (`F`). A record
//! that was cut by a crash ends the tape before it. Beside it lies `….json` with what is known of the cartridge.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use capstan_engine::problem::Explain;
use capstan_medium::tape::error::{damaged, failed};
use capstan_medium::tape::{Media, TapeError};
use serde::{Deserialize, Serialize};

use crate::drive::Read;
use crate::encryption::{DriveKey, OVERHEAD, open, seal};
use crate::vtl::small_file::{self, write_whole};

const MAGIC: &[u8; 16] = b"capstan vtape 1\n";
const RECORD: u64 = 8;
/// Headers read at once when a tape is opened.
const BLOCK_MAX: u32 = 16 << 20;

/// What is known of a cartridge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// What is on the sticker.
    pub barcode: String,
    /// Bytes that it holds, as they come to the medium.
    pub capacity: f64,
    /// Whether its tab is set.
    #[serde(default)]
    pub write_protected: bool,
    /// How often it was loaded.
    #[serde(default)]
    pub loads: u64,
    /// Passes of its whole length by a head.
    #[serde(default)]
    pub passes: f64,
    /// Of a cleaning tape: uses that are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanings: Option<u32>,
    /// What it is, as on a sticker (`L9`, `LV`), where its own says something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<String>,
}

impl Label {
    /// What the tape is; nothing where neither it nor its sticker says so: then it is of its drives' generation.
    pub fn media(&self) -> Option<Media> {
        match &self.media {
            Some(id) => Media::of_barcode(&format!("000000{id}")),
            None => Media::of_barcode(&self.barcode),
        }
    }
}

/// What a record is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Block = b'B',
    Encrypted = b'E',
    Filemark = b'F',
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Record {
    /// Where its header lies.
    offset: u64,
    length: u32,
    kind: Kind,
    /// Bytes on the medium before it.
    medium: f64,
}

/// A tape.
#[derive(Debug)]
pub struct Cartridge {
    /// What is known of it.
    pub label: Label,
    file: File,
    path: PathBuf,
    records: Vec<Record>,
    /// Which of them are filemarks.
    marks: Vec<u64>,
    /// Where the next record comes in the file.
    end: u64,
    /// Bytes on the medium.
    medium: f64,
}

impl Cartridge {
    /// Makes a blank tape; the file must not exist.
    pub fn create(path: &Path, label: &Label) -> Result<(), TapeError> {
        let make = || -> io::Result<()> {
            // It has what was backed up.
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o640).open(path)?;
            file.write_all_at(MAGIC, 0)?;
            file.sync_all()
        };
        make().map_err(failed("make the tape", path))?;
        write_label(path, label)
    }

    /// Takes a tape from its file.
    pub fn open(path: &Path) -> Result<Self, TapeError> {
        let label = read_label(path).map_err(|e| no_tape(path, e))?;
        is_regular(path).map_err(|e| no_tape(path, e))?;
        let file = OpenOptions::new().read(true).write(true).open(path);
        // Others can be opened, so this is a matter of this tape.
        let file = file
            .map_err(failed("open the tape", path))
            .map_err(|e| TapeError::BadTape { tape: label.barcode.clone(), said: e.problem() })?;
        let length = file.metadata().map_err(failed("examine the tape", path))?.len();
        let mut magic = [0; 16];
        let has_magic = file.read_exact_at(&mut magic, 0).is_ok() && &magic == MAGIC;
        if !has_magic {
            let e = damaged(path, "it is not the file of a virtual tape");
            return Err(no_tape(path, e));
        }
        let mut this = Self {
            label,
            file,
            path: path.to_owned(),
            records: Vec::new(),
            marks: Vec::new(),
            end: MAGIC.len() as u64,
            medium: 0.0,
        };
        while let Some((record, ratio)) =
            this.record_at(this.end, length).map_err(|e| this.unreadable(e))?
        {
            this.push(record, ratio);
        }
        Ok(this)
    }

    /// What is wrong in its file is wrong with this tape, as with one that a drive cannot thread: others can be had.
    fn unreadable(&self, e: TapeError) -> TapeError {
        TapeError::BadTape { tape: self.label.barcode.clone(), said: e.problem() }
    }

    /// The record there, if it is whole, and its compression.
    fn record_at(&self, offset: u64, file_length: u64) -> Result<Option<(Record, u16)>, TapeError> {
        if offset + RECORD > file_length {
            return Ok(None);
        }
        let mut header = [0; RECORD as usize];
        let read = self.file.read_exact_at(&mut header, offset);
        read.map_err(failed("read the tape", &self.path))?;
        if header == [0; RECORD as usize] {
            // Its header never came.
            return Ok(None);
        }
        let [kind, low, high, 0, length @ ..] = header else {
            return Err(damaged(&self.path, &format!("no record begins at byte {offset}")));
        };
        let (length, ratio) = (u32::from_le_bytes(length), u16::from_le_bytes([low, high]));
        let kind = match kind {
            b'B' if (1..=BLOCK_MAX).contains(&length) => Kind::Block,
            b'E' if (1 + OVERHEAD as u32..=BLOCK_MAX).contains(&length) => Kind::Encrypted,
            b'F' if length == 0 => Kind::Filemark,
            _ => return Err(damaged(&self.path, &format!("no record begins at byte {offset}"))),
        };
        let whole = offset + RECORD + u64::from(length) <= file_length;
        let record = Record { offset, length, kind, medium: self.medium };
        Ok(whole.then_some((record, ratio)))
    }

    fn push(&mut self, record: Record, ratio: u16) {
        if record.kind == Kind::Filemark {
            self.marks.push(self.len());
        }
        self.end = record.offset + RECORD + u64::from(record.length);
        self.medium = record.medium + on_medium(record.length, ratio);
        self.records.push(record);
    }

    /// Filemarks on it.
    pub fn filemarks(&self) -> u64 {
        self.marks.len() as u64
    }

    /// Blocks and filemarks before the first block of a file, and its number of blocks.
    pub fn file(&self, file: u64) -> Option<(u64, u64)> {
        let begin = match file.checked_sub(1) {
            None => 0,
            Some(before) => self.marks.get(before as usize)? + 1,
        };
        let end = self.marks.get(file as usize).copied().unwrap_or(self.len());
        Some((begin, end - begin))
    }

    /// Blocks and filemarks on it.
    pub fn len(&self) -> u64 {
        self.records.len() as u64
    }

    /// Whether nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of blocks before a place.
    pub fn bytes_before(&self, at: u64) -> u64 {
        let at = at.min(self.len());
        let offset = self.records.get(at as usize).map_or(self.end, |r| r.offset);
        offset - MAGIC.len() as u64 - at * RECORD
    }

    /// Bytes on the medium before a place.
    pub fn medium_before(&self, at: u64) -> f64 {
        self.records.get(at as usize).map_or(self.medium, |record| record.medium)
    }

    /// Writes a block, or a filemark where there is none, at a place. What was there and behind it goes. Of `ratio` bytes of the
    /// block one comes to the medium.
    pub fn write(&mut self, at: u64, block: Option<&[u8]>, ratio: f64) -> Result<(), TapeError> {
        let kind = if block.is_some() { Kind::Block } else { Kind::Filemark };
        self.append(at, kind, block.unwrap_or_default(), ratio)
    }

    /// The same with a block that is encrypted.
    pub fn write_encrypted(
        &mut self,
        at: u64,
        block: &[u8],
        key: &DriveKey,
        ratio: f64,
    ) -> Result<(), TapeError> {
        let refused = || io::Error::other("the library of ciphers refused to encrypt it");
        let sealed = seal(key, block).ok_or_else(refused);
        let sealed = sealed.map_err(failed("write the tape", &self.path))?;
        self.append(at, Kind::Encrypted, &sealed, ratio)
    }

    fn append(&mut self, at: u64, kind: Kind, bytes: &[u8], ratio: f64) -> Result<(), TapeError> {
        self.cut(at)?;
        let (offset, length) = (self.end, bytes.len() as u32);
        let record = Record { offset, length, kind, medium: self.medium };
        let ratio = if kind == Kind::Filemark { 0 } else { ratio_code(ratio) };
        let mut header = [0; RECORD as usize];
        header[0] = kind as u8;
        header[1..3].copy_from_slice(&ratio.to_le_bytes());
        header[4..].copy_from_slice(&record.length.to_le_bytes());
        // The header last: what a crash leaves before it is no record.
        let written = self
            .file
            .write_all_at(bytes, self.end + RECORD)
            .and_then(|()| self.file.write_all_at(&header, self.end));
        written.map_err(failed("write the tape", &self.path))?;
        self.push(record, ratio);
        Ok(())
    }

    /// Removes what lies from a place on.
    pub fn cut(&mut self, at: u64) -> Result<(), TapeError> {
        let Some(first) = self.records.get(at as usize).copied() else { return Ok(()) };
        self.file.set_len(first.offset).map_err(failed("write the tape", &self.path))?;
        self.records.truncate(at as usize);
        self.marks.truncate(self.marks.partition_point(|mark| *mark < at));
        (self.end, self.medium) = (first.offset, first.medium);
        Ok(())
    }

    /// Removes all that is on it; with `overwrite` what the file had is overwritten first.
    pub fn erase(&mut self, overwrite: bool) -> Result<(), TapeError> {
        const CHUNK: u64 = 1 << 20;
        let begin = MAGIC.len() as u64;
        let erase = || -> io::Result<()> {
            if overwrite {
                let zeros = vec![0; CHUNK as usize];
                let length = self.file.metadata()?.len();
                // From the end on: what a crash leaves is a tape that ends sooner.
                for chunk in (0..length.saturating_sub(begin).div_ceil(CHUNK)).rev() {
                    let at = begin + chunk * CHUNK;
                    let here = CHUNK.min(length - at);
                    self.file.write_all_at(&zeros[..here as usize], at)?;
                }
                self.file.sync_all()?;
            }
            self.file.set_len(begin)?;
            self.file.sync_all()
        };
        erase().map_err(failed("erase the tape", &self.path))?;
        self.records.clear();
        self.marks.clear();
        (self.end, self.medium) = (begin, 0.0);
        Ok(())
    }

    /// Reads what lies at a place; `Err` with its length where a block is too long for `into`. What is encrypted is read with
    /// its key only.
    pub fn read(
        &self,
        at: u64,
        into: &mut [u8],
        key: Option<&DriveKey>,
    ) -> Result<Result<Read, usize>, TapeError> {
        let Some(record) = self.records.get(at as usize) else { return Ok(Ok(Read::EndOfData)) };
        let stored = record.length as usize;
        let length = match record.kind {
            Kind::Filemark => return Ok(Ok(Read::Filemark)),
            Kind::Block => stored,
            Kind::Encrypted => stored - OVERHEAD,
        };
        let Some(into) = into.get_mut(..length) else { return Ok(Err(length)) };
        let read = |bytes: &mut [u8]| {
            let read = self.file.read_exact_at(bytes, record.offset + RECORD);
            read.map_err(failed("read the tape", &self.path))
        };
        if record.kind == Kind::Block {
            read(into)?;
        } else {
            let mut sealed = vec![0; stored];
            read(&mut sealed)?;
            let block = key.and_then(|key| open(key, sealed));
            let tape = &self.label.barcode;
            let closed = || TapeError::CannotDecrypt { tape: tape.clone() };
            into.copy_from_slice(&block.ok_or_else(closed)?);
        }
        Ok(Ok(Read::Block(length)))
    }

    /// Makes what was written outlive a power cut of this machine.
    pub fn sync(&self) -> Result<(), TapeError> {
        self.file.sync_data().map_err(failed("synchronise the tape", &self.path))
    }

    /// Writes down what is known of it.
    pub fn save_label(&self) -> Result<(), TapeError> {
        write_label(&self.path, &self.label)
    }
}

/// A ratio of compression as it is recorded.
fn ratio_code(ratio: f64) -> u16 {
    let code = (ratio * 256.0).round().clamp(1.0, f64::from(u16::MAX)) as u16;
    if code == 256 { 0 } else { code }
}

/// What a block takes on the medium.
fn on_medium(length: u32, ratio: u16) -> f64 {
    let ratio = if ratio == 0 { 1.0 } else { f64::from(ratio) / 256.0 };
    f64::from(length) / ratio
}

fn label_path(path: &Path) -> PathBuf {
    path.with_extension("json")
}

/// Refuses what is no regular file: a pipe is waited for, a device may have no end.
fn is_regular(path: &Path) -> Result<(), TapeError> {
    match fs::metadata(path).map_err(failed("examine", path))?.is_file() {
        true => Ok(()),
        false => Err(damaged(path, "it is not a regular file")),
    }
}

/// What should be a tape is none, as that says. What else went wrong stays what it is.
fn no_tape(path: &Path, e: TapeError) -> TapeError {
    let problem = match e {
        TapeError::Damaged { problem, .. } => problem,
        TapeError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            "it is not there".to_owned()
        }
        other => return other,
    };
    TapeError::NotATape { path: path.display().to_string(), problem }
}

fn read_label(path: &Path) -> Result<Label, TapeError> {
    let path = label_path(path);
    let text = small_file::read(&path)?;
    serde_json::from_str(&text).map_err(|e| damaged(&path, &e.to_string()))
}

fn write_label(path: &Path, label: &Label) -> Result<(), TapeError> {
    let path = label_path(path);
    let text = serde_json::to_string_pretty(label).map_err(|e| damaged(&path, &e.to_string()))?;
    write_whole(&path, &text).map_err(failed("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("A00001.tape");
        let label = Label {
            barcode: "A00001".into(),
            capacity: 1e6,
            write_protected: false,
            loads: 0,
            passes: 0.0,
            cleanings: None,
            media: None,
        };
        Cartridge::create(&path, &label).unwrap();
        (dir, path)
    }

    #[test]
    fn what_is_no_regular_file_is_refused_and_not_waited_for() {
        let (_dir, path) = tape();
        for file in [path.clone(), label_path(&path)] {
            Cartridge::open(&path).unwrap();
            let kept = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
            let refused = Cartridge::open(&path).unwrap_err().to_string();
            assert!(refused.contains("not a regular file"), "{refused}");
            fs::remove_file(&file).unwrap();
            fs::write(&file, kept).unwrap();
        }
    }

    fn contents(tape: &Cartridge) -> String {
        let mut block = [0; 64];
        let each =
            (0..=tape.len()).map(|at| match tape.read(at, &mut block, None).unwrap().unwrap() {
                Read::Block(n) => String::from_utf8_lossy(&block[..n]).into_owned(),
                Read::Filemark => "|".into(),
                Read::EndOfData => "$".into(),
            });
        each.collect()
    }

    #[test]
    fn what_is_written_in_the_middle_ends_the_tape() {
        let (_dir, path) = tape();
        let mut tape = Cartridge::open(&path).unwrap();
        for (at, block) in [(0, Some("one")), (1, None), (2, Some("two")), (3, None)] {
            tape.write(at, block.map(str::as_bytes), 1.0).unwrap();
        }
        assert_eq!(contents(&tape), "one|two|$");
        assert_eq!((tape.bytes_before(2), tape.bytes_before(9)), (3, 6));
        drop(tape);
        let mut tape = Cartridge::open(&path).unwrap();
        assert_eq!(contents(&tape), "one|two|$");
        tape.write(1, Some(b"three"), 1.0).unwrap();
        assert_eq!(contents(&tape), "onethree$");
        assert_eq!(tape.read(1, &mut [0; 2], None).unwrap(), Err(5));
        assert_eq!(contents(&Cartridge::open(&path).unwrap()), "onethree$");
    }

    #[test]
    fn what_is_encrypted_is_read_with_its_key_alone() {
        let (_dir, path) = tape();
        let key = DriveKey::new([7; 32]);
        let mut tape = Cartridge::open(&path).unwrap();
        tape.write(0, Some(b"in clear"), 1.0).unwrap();
        tape.write_encrypted(1, b"encrypted", &key, 1.0).unwrap();
        tape.write(2, None, 1.0).unwrap();
        let file = fs::read(&path).unwrap();
        let has = |text: &[u8]| file.windows(text.len()).any(|w| w == text);
        assert!(has(b"in clear") && !has(b"encrypted"));
        let tape = Cartridge::open(&path).unwrap();
        let mut block = [0; 64];
        assert_eq!(tape.read(0, &mut block, Some(&key)).unwrap(), Ok(Read::Block(8)));
        assert_eq!(tape.read(1, &mut block, Some(&key)).unwrap(), Ok(Read::Block(9)));
        assert_eq!(&block[..9], b"encrypted");
        assert_eq!(tape.read(1, &mut block[..8], None).unwrap(), Err(9));
        for wrong in [None, Some(&DriveKey::new([8; 32]))] {
            let refused = tape.read(1, &mut block, wrong).unwrap_err();
            assert!(matches!(refused, TapeError::CannotDecrypt { .. }), "{refused}");
        }
    }

    #[test]
    fn a_torn_record_ends_it_and_damage_is_named() {
        let (_dir, path) = tape();
        let mut tape = Cartridge::open(&path).unwrap();
        tape.write(0, Some(b"one"), 1.0).unwrap();
        tape.write(1, Some(b"two"), 1.0).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 16 + 11..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(contents(&Cartridge::open(&path).unwrap()), "one$", "{cut}");
        }
        for at in [0, 16, 19, 20] {
            let mut bad = whole.clone();
            bad[at] ^= 0x40;
            fs::write(&path, &bad).unwrap();
            let opened = Cartridge::open(&path);
            let lost = opened.as_ref().is_ok_and(|t| contents(t) != "onetwo$");
            // Without the file's first bytes it is no tape at all.
            let named = match &opened {
                Err(TapeError::NotATape { .. }) => at == 0,
                Err(TapeError::BadTape { .. }) => at != 0,
                _ => false,
            };
            assert!(lost || named, "{at}");
        }
    }
}
