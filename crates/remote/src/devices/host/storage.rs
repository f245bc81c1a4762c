//! Answers what is asked of what media lie on.

use std::io;
use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::block::BLOCK_SIZE_MAX;
use capstan_medium::os_form::Form;
use capstan_medium::storage::{NewAttachment, Storage};
use capstan_wire::LONGEST;
use serde::Serialize;

use super::{Asks, gone};
use crate::connection::Broken;
use crate::devices::message::{OfFile, OfNewFile, OfStorage as Of, hear_bytes};

/// The largest attachment that is taken.
const LARGEST_ATTACHMENT: u64 = 64 * LONGEST as u64;

impl Asks<'_> {
    pub(super) fn storage(&self, number: u64, of: Of) -> Result<(), Broken> {
        let medium = self.side.things.media.get(number);
        let Some(medium) = medium else { return self.came(Err::<(), _>(gone::<io::Error>())) };
        let storage = medium.storage();
        match of {
            Of::ReadPiece(name, at, length) => {
                self.came_bytes(read_piece(&**storage, &name, at, length))
            }
            Of::ReadBegins(names, most) => {
                let most = most.min(BLOCK_SIZE_MAX.into());
                for read in storage.read_begins(&names, most) {
                    self.came_bytes(read)?;
                }
                Ok(())
            }
            Of::ReadAttachment(of) => self.came_bytes(storage.read_attachment(&of)),
            Of::Attach { id, kind, locks, written_us, least } => {
                let contents = hear_bytes(self.channel, LARGEST_ATTACHMENT)?;
                let new = NewAttachment { id, kind, contents, locks, written_us };
                self.came(storage.attach(&new, least))
            }
            Of::WriteFile(name) => {
                let bytes = hear_bytes(self.channel, BLOCK_SIZE_MAX.into())?;
                self.came(aligned(&bytes, |bytes| storage.write_file(&name, bytes)))
            }
            Of::Create(name) => {
                let file = storage.create(&name);
                self.came(file.map(|file| self.side.things.new_files.put_alone(file)))
            }
            Of::Open(name) => {
                let file = storage.open(&name);
                self.came(file.map(|file| self.side.things.files.put(Arc::from(file))))
            }
            other => self.plain(&**storage, other),
        }
    }

    /// What is a question and an answer, without bytes.
    fn plain(&self, storage: &dyn Storage, of: Of) -> Result<(), Broken> {
        match of {
            Of::Rename(from, to) => self.came(storage.rename(&from, &to)),
            Of::Replace(from, to) => self.came(storage.replace(&from, &to)),
            Of::Remove(name) => self.came(storage.remove(&name)),
            Of::Empty(name) => self.came(storage.empty(&name)),
            Of::List => self.came(storage.list()),
            Of::Sync => self.came(storage.sync()),
            Of::Lengths(names) => self.is(&forms(storage.lengths(&names))),
            Of::IsCut(name, size, mut looks) => {
                let is_cut = storage.is_cut(&name, size, &mut looks);
                self.came(is_cut.map(|is_cut| (is_cut, looks)))
            }
            Of::CheckSpare(name) => self.came(storage.check_spare(&name)),
            Of::Recall(places) => {
                storage.recall(places);
                self.is(&())
            }
            Of::Holds(number) => self.came(storage.holds(number)),
            Of::MayBeAway(number) => self.came(storage.may_be_away(number)),
            Of::SegmentNearEnd(number) => self.came(storage.segment_near_end(number)),
            Of::Attachment(number) => self.came(storage.attachment(number)),
            Of::HasBothRecords(of) => self.came(storage.has_both_records(&of)),
            Of::TakeHeader(header) => {
                storage.take_header(&header);
                self.is(&())
            }
            Of::HasBlocksOfOurs => self.is(&storage.has_blocks_of_ours()),
            Of::Problems => self.is(&storage.problems()),
            Of::RemoveEach(names) => {
                let (removed, failure) = storage.remove_each(&names);
                self.is(&(removed, failure.map(Form)))
            }
            // They have bytes, and were answered before.
            Of::ReadPiece(..)
            | Of::ReadBegins(..)
            | Of::ReadAttachment(_)
            | Of::Attach { .. }
            | Of::WriteFile(_)
            | Of::Create(_)
            | Of::Open(_) => Ok(()),
        }
    }

    pub(super) fn file(&self, number: u64, of: OfFile) -> Result<(), Broken> {
        let file = self.side.things.files.get(number);
        let Some(file) = file else { return self.came(Err::<(), _>(gone::<io::Error>())) };
        let read = |length: u32, read: &dyn Fn(&mut [u8]) -> io::Result<usize>| {
            // On tape a block is read where it is put to.
            let length = length.min(BLOCK_SIZE_MAX) as usize;
            let mut bytes = Buffer::new(length);
            let n = read(&mut bytes[..length])?;
            Ok::<_, io::Error>(bytes[..n.min(length)].to_vec())
        };
        match of {
            OfFile::ReadAt(at, length) => {
                self.came_bytes(read(length, &|out| file.read_at(out, at)))
            }
            OfFile::ReadBlock(index, at, length) => {
                self.came_bytes(read(length, &|out| file.read_block(index, at, out)))
            }
            OfFile::Expect(index) => {
                file.expect(index);
                self.is(&())
            }
            OfFile::Object => self.is(&file.object()),
            OfFile::DataFrom(offset) => self.came(file.data_from(offset)),
            OfFile::Len => self.came(file.len()),
        }
    }

    pub(super) fn new_file(&self, number: u64, of: OfNewFile) -> Result<(), Broken> {
        let all = &self.side.things.new_files;
        let done = match of {
            OfNewFile::Append => {
                let bytes = hear_bytes(self.channel, BLOCK_SIZE_MAX.into())?;
                all.with(number, |file| aligned(&bytes, |bytes| file.append(bytes)))
            }
            OfNewFile::Sync => all.with(number, |file| file.sync()),
        };
        self.came(done.unwrap_or_else(|| Err(gone())))
    }
}

/// Does something with bytes in memory that suits direct writing.
pub(super) fn aligned<R>(bytes: &[u8], run: impl FnOnce(&[u8]) -> R) -> R {
    let mut aligned = Buffer::new(bytes.len());
    aligned[..bytes.len()].copy_from_slice(bytes);
    run(&aligned[..bytes.len()])
}

fn read_piece(storage: &dyn Storage, name: &str, at: u64, length: u32) -> io::Result<Vec<u8>> {
    storage.read_piece(name, at, length.min(BLOCK_SIZE_MAX) as usize)
}

/// What came of several, as it is sent.
fn forms<T: Serialize>(all: Vec<io::Result<T>>) -> Vec<Result<T, Form>> {
    all.into_iter().map(|one| one.map_err(Form)).collect()
}
