//! The narrow door to what a medium lies on: a flat directory of files. A tape and an array show themselves as one.

use std::io;

use capstan_format::attachment::{Attachment, AttachmentKind};
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_format::lock::VersionLock;
use capstan_format::record::MediumHeader;
use serde::{Deserialize, Serialize};

use crate::DeviceError;

/// An attachment to write.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NewAttachment {
    /// Its identity.
    pub id: SegmentId,
    /// What it is.
    pub kind: AttachmentKind,
    /// Its contents.
    pub contents: Vec<u8>,
    /// The locks, if that is what it is.
    pub locks: Vec<VersionLock>,
    /// When it is written, in microseconds since 1970.
    pub written_us: i64,
}

/// What is recorded of a segment.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SegmentSize {
    /// Its bytes.
    pub bytes: u64,
    /// Its data blocks.
    pub blocks: u32,
}

/// A flat directory of files that are written once, from the begin, and never changed.
pub trait Storage: Send + Sync {
    /// Creates a file that must not exist.
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>>;
    /// Opens a file to read.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>>;
    /// Gives a file another name; replaces nothing.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Gives a file the name of another one, whose place it takes at once.
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Takes all bytes of a file durably, and leaves the file.
    fn empty(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Overwrites what a file has with zeros, durably, before it is removed; holes have nothing. Says why, where it is left as it is.
    fn overwrite(&self, name: &str) -> io::Result<Option<&'static str>> {
        let _ = name;
        Ok(Some("lies where nothing can be overwritten"))
    }
    /// Names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals durable.
    fn sync(&self) -> io::Result<()>;
    /// The length of a file in bytes, where that is known without opening it. What is no file has none.
    fn length(&self, name: &str) -> io::Result<Option<u64>> {
        let _ = name;
        Ok(None)
    }
    /// Whether so little is there of a segment that not all of it can be read. What can be told by lengths alone is; where they say
    /// nothing, segments are opened as long as there are `looks`.
    fn is_cut(&self, name: &str, size: SegmentSize, looks: &mut u32) -> io::Result<bool> {
        let _ = looks;
        Ok(self.length(name)?.is_some_and(|length| length < size.bytes))
    }
    /// Whether it is an array of storages.
    fn is_array(&self) -> bool {
        false
    }
    /// Reads what of a file nobody reads while all else is whole, and notes what is damaged.
    fn check_spare(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Ok(())
    }
    /// Where segments lie, as it was recorded: who has to go there finds them faster.
    fn recall(&self, places: Vec<Recorded>) {
        let _ = places;
    }
    /// Whether there is anything under a segment's number that is listed: on a tape one may have been left out.
    fn holds(&self, number: SegmentNumber) -> io::Result<bool> {
        let _ = number;
        Ok(true)
    }
    /// Whether too little is there of a segment to have it, and members of an array that are away may have the rest.
    fn may_be_away(&self, number: SegmentNumber) -> io::Result<bool> {
        let _ = number;
        Ok(false)
    }
    /// Which segment has that number, as its end says where that is nearer than its begin. `None` if nothing there says it.
    fn segment_near_end(&self, number: SegmentNumber) -> io::Result<Option<SegmentId>> {
        let _ = number;
        Ok(None)
    }
    /// Whether it takes attachments; else what they are has files of its own.
    fn takes_attachments(&self) -> bool {
        false
    }
    /// What has that number, if it is an attachment and no segment.
    fn attachment(&self, number: SegmentNumber) -> io::Result<Option<Attachment>> {
        let _ = number;
        Ok(None)
    }
    /// The contents of an attachment, checked.
    fn read_attachment(&self, of: &Attachment) -> io::Result<Vec<u8>> {
        let _ = of;
        Err(io::ErrorKind::NotFound.into())
    }
    /// Whether both records of an attachment can be read; either is enough to have it.
    fn has_both_records(&self, of: &Attachment) -> io::Result<bool> {
        let _ = of;
        Ok(true)
    }
    /// Writes an attachment behind all that is there, durably; under that number or a later one.
    fn attach(
        &self,
        new: &NewAttachment,
        least: SegmentNumber,
    ) -> Result<SegmentNumber, DeviceError> {
        let _ = (new, least);
        Err(DeviceError::KeepsNoAttachment)
    }
    /// Whether it is a tape.
    fn is_tape(&self) -> bool {
        false
    }
    /// Takes the medium's header as its segments repeat it, where its own place does not say it.
    fn take_header(&self, header: &MediumHeader) {
        let _ = header;
    }
    /// Whether anything was found that is a block of a medium, while the header was looked for.
    fn has_blocks_of_ours(&self) -> bool {
        false
    }
    /// What is wrong with it, though it can be read.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// What stands for it, where it is at another host.
    fn handle(&self) -> Option<Handle> {
        None
    }
    /// The first `most` bytes of files, each opened by itself.
    fn read_begins(&self, names: &[String], most: u64) -> Vec<io::Result<Vec<u8>>> {
        names.iter().map(|name| read_begin(&*self.open(name)?, most)).collect()
    }
    /// Up to `length` bytes of a file from `at` on.
    fn read_piece(&self, name: &str, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let n = self.open(name)?.read_at(&mut bytes, at)?;
        bytes.truncate(n);
        Ok(bytes)
    }
    /// [`Self::length`] of files.
    fn lengths(&self, names: &[String]) -> Vec<io::Result<Option<u64>>> {
        names.iter().map(|name| self.length(name)).collect()
    }
    /// Removes files in that order, and says how many are gone, and why no more are. One that is gone already counts.
    fn remove_each(&self, names: &[String]) -> (usize, Option<io::Error>) {
        for (at, name) in names.iter().enumerate() {
            match self.remove(name) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return (at, Some(e)),
                _ => {}
            }
        }
        (names.len(), None)
    }
    /// Creates a file that must not exist, with these bytes, which are aligned as [`WriteFile::append`] wants them. What it holds is durable.
    fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(name)?;
        if !bytes.is_empty() {
            file.append(bytes)?;
        }
        file.sync()
    }
}

fn read_begin(file: &dyn ReadFile, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.len()?.min(most) as usize];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// What stands at one host for something that was opened at another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handle {
    /// Tells the connection from others of this process.
    pub connection: u64,
    /// Its number there.
    pub number: u64,
}

/// Where a segment lies on a tape, as it was recorded when it was written or imported. What is found there has to be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its number.
    pub number: SegmentNumber,
    /// What it is.
    pub segment: SegmentId,
    /// Blocks and filemarks before its first block.
    pub object: u64,
}

/// A file being written from begin to end.
pub trait WriteFile: Send {
    /// Appends; `bytes` is aligned and a multiple of 4096 long.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the contents durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file being read at offsets.
pub trait ReadFile: Send + Sync {
    /// Reads up to `out.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Reads block `index` of a segment, which begins at `offset`. Where it is gone to by its index, the begin of the file need
    /// not be looked at first.
    fn read_block(&self, index: u32, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let _ = index;
        self.read_at(out, offset)
    }
    /// Says that what follows block `index` will be read, so that others who read the same tape do not go on without.
    fn expect(&self, index: u32) {
        let _ = index;
    }
    /// Blocks and filemarks before its first block, on a tape, once that is known.
    fn object(&self) -> Option<u64> {
        None
    }
    /// Where the next bytes from `offset` on lie that may be other than zeros; nothing, if all that comes is a hole.
    fn data_from(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether it has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
