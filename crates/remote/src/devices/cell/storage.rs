//! What stands at a cell for what a medium lies on at its host.

use std::io;
use std::sync::Arc;

use capstan_format::attachment::Attachment;
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_medium::os_form::Form;
use capstan_medium::storage::{
    Handle, NewAttachment, ReadFile, Recorded, SegmentSize, Storage, WriteFile,
};
use capstan_medium::{DeviceError, HeldMedium, OpenMedium};
use serde::de::DeserializeOwned;

use crate::connection::Broken;
use crate::devices::crosses::Crosses;
use crate::devices::far::{Far, Stand, answered, refuse, result};
use crate::devices::message::{
    HeldFound, Kind, MediumFound, OfFile, OfNewFile, OfStorage as Of, Question, hear_bytes,
};

/// The longest attachment that is read: a backup of an internal database.
const LONGEST_ATTACHMENT: u64 = 1 << 32;

/// A medium that was opened.
pub fn medium(far: &Arc<Far>, found: MediumFound) -> OpenMedium {
    let MediumFound { number, path, header, header_problem, .. } = found;
    let storage = RemoteStorage {
        stand: Stand::new(far, Kind::Medium, number),
        is_tape: found.is_tape,
        is_array: found.is_array,
        takes_attachments: found.takes_attachments,
    };
    OpenMedium::as_found(Arc::new(storage), path, header, header_problem)
}

/// A medium that is held.
pub fn held(far: &Arc<Far>, found: HeldFound) -> HeldMedium {
    let guard = Stand::new(far, Kind::Held, found.number);
    HeldMedium::new(medium(far, found.medium), vec![Arc::new(guard)])
}

struct RemoteStorage {
    stand: Stand,
    is_tape: bool,
    is_array: bool,
    takes_attachments: bool,
}

impl RemoteStorage {
    fn of(&self, question: Of) -> Question {
        Question::Storage(self.stand.number, question)
    }

    fn call<T: DeserializeOwned>(&self, question: Of) -> io::Result<T> {
        self.stand.far.call(&self.of(question))
    }

    fn ask<T: DeserializeOwned>(&self, question: Of) -> Result<T, Broken> {
        self.stand.far.ask(&self.of(question))
    }

    /// The contents of files, one after the other.
    fn begins(&self, names: &[String], most: u64) -> Result<Vec<io::Result<Vec<u8>>>, Broken> {
        let channel = self.stand.far.begin(&self.of(Of::ReadBegins(names.to_vec(), most)))?;
        let mut read = Vec::new();
        for _ in names {
            let found = answered::<Result<(), Form>>(&channel, &mut refuse)?;
            read.push(match found {
                Ok(()) => Ok(hear_bytes(&channel, most)?),
                Err(form) => Err(form.0),
            });
        }
        Ok(read)
    }
}

impl Storage for RemoteStorage {
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let number = self.call(Of::Create(name.to_owned()))?;
        Ok(Box::new(RemoteNewFile(Stand::new(&self.stand.far, Kind::NewFile, number))))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        let number = self.call(Of::Open(name.to_owned()))?;
        Ok(Box::new(RemoteFile(Stand::new(&self.stand.far, Kind::File, number))))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Of::Rename(from.to_owned(), to.to_owned()))
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(Of::Replace(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(Of::Remove(name.to_owned()))
    }

    fn empty(&self, name: &str) -> io::Result<()> {
        self.call(Of::Empty(name.to_owned()))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.call(Of::List)
    }

    fn sync(&self) -> io::Result<()> {
        self.call(Of::Sync)
    }

    fn length(&self, name: &str) -> io::Result<Option<u64>> {
        let mut found = self.lengths(&[name.to_owned()]);
        found.pop().unwrap_or(Ok(None))
    }

    fn is_cut(&self, name: &str, size: SegmentSize, looks: &mut u32) -> io::Result<bool> {
        let (is_cut, left) = self.call(Of::IsCut(name.to_owned(), size, *looks))?;
        *looks = left;
        Ok(is_cut)
    }

    fn is_array(&self) -> bool {
        self.is_array
    }

    fn check_spare(&self, name: &str) -> io::Result<()> {
        self.call(Of::CheckSpare(name.to_owned()))
    }

    fn recall(&self, places: Vec<Recorded>) {
        let _ = self.ask::<()>(Of::Recall(places));
    }

    fn holds(&self, number: SegmentNumber) -> io::Result<bool> {
        self.call(Of::Holds(number))
    }

    fn may_be_away(&self, number: SegmentNumber) -> io::Result<bool> {
        self.call(Of::MayBeAway(number))
    }

    fn segment_near_end(&self, number: SegmentNumber) -> io::Result<Option<SegmentId>> {
        self.call(Of::SegmentNearEnd(number))
    }

    fn takes_attachments(&self) -> bool {
        self.takes_attachments
    }

    fn attachment(&self, number: SegmentNumber) -> io::Result<Option<Attachment>> {
        self.call(Of::Attachment(number))
    }

    fn read_attachment(&self, of: &Attachment) -> io::Result<Vec<u8>> {
        let question = self.of(Of::ReadAttachment(Box::new(of.clone())));
        self.stand.far.fetch(&question, LONGEST_ATTACHMENT)
    }

    fn has_both_records(&self, of: &Attachment) -> io::Result<bool> {
        self.call(Of::HasBothRecords(Box::new(of.clone())))
    }

    fn attach(
        &self,
        new: &NewAttachment,
        least: SegmentNumber,
    ) -> Result<SegmentNumber, DeviceError> {
        let NewAttachment { id, kind, contents, locks, written_us } = new;
        let (locks, written_us) = (locks.clone(), *written_us);
        let question = self.of(Of::Attach { id: *id, kind: *kind, locks, written_us, least });
        self.stand.far.send(&question, contents)
    }

    fn is_tape(&self) -> bool {
        self.is_tape
    }

    fn take_header(&self, header: &MediumHeader) {
        let _ = self.ask::<()>(Of::TakeHeader(Box::new(header.clone())));
    }

    fn has_blocks_of_ours(&self) -> bool {
        self.ask(Of::HasBlocksOfOurs).unwrap_or(false)
    }

    fn problems(&self) -> Vec<String> {
        self.ask(Of::Problems).unwrap_or_default()
    }

    fn handle(&self) -> Option<Handle> {
        Some(self.stand.handle())
    }

    fn read_begins(&self, names: &[String], most: u64) -> Vec<io::Result<Vec<u8>>> {
        if names.is_empty() {
            return Vec::new();
        }
        self.begins(names, most).unwrap_or_else(|broken| failed(names.len(), &broken))
    }

    fn read_piece(&self, name: &str, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let question = self.of(Of::ReadPiece(name.to_owned(), at, length));
        self.stand.far.fetch(&question, length.into())
    }

    fn lengths(&self, names: &[String]) -> Vec<io::Result<Option<u64>>> {
        type Found = Vec<Result<Option<u64>, Form>>;
        match self.ask::<Found>(Of::Lengths(names.to_vec())) {
            Ok(found) => found.into_iter().map(|one| one.map_err(|form| form.0)).collect(),
            Err(broken) => failed(names.len(), &broken),
        }
    }

    fn remove_each(&self, names: &[String]) -> (usize, Option<io::Error>) {
        match self.ask::<(usize, Option<Form>)>(Of::RemoveEach(names.to_vec())) {
            Ok((gone, failure)) => (gone.min(names.len()), failure.map(|form| form.0)),
            Err(broken) => (0, failed::<()>(1, &broken).pop().and_then(Result::err)),
        }
    }

    fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.stand.far.send(&self.of(Of::WriteFile(name.to_owned())), bytes)
    }
}

/// The same failure of each of several.
fn failed<T>(number: usize, broken: &Broken) -> Vec<io::Result<T>> {
    let one = |_| result::<T, io::Error>(Err(broken.clone()));
    (0..number).map(one).collect()
}

/// What stands for a file that is read.
pub fn remote_file(far: &Arc<Far>, number: u64) -> Box<dyn ReadFile> {
    Box::new(RemoteFile(Stand::new(far, Kind::File, number)))
}

struct RemoteFile(Stand);

impl RemoteFile {
    fn of(&self, question: OfFile) -> Question {
        Question::File(self.0.number, question)
    }

    fn read(&self, question: OfFile, out: &mut [u8]) -> io::Result<usize> {
        let read = self.0.far.fetch::<io::Error>(&self.of(question), out.len() as u64)?;
        out[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }
}

impl ReadFile for RemoteFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
        self.read(OfFile::ReadAt(offset, length), out)
    }

    fn read_block(&self, index: u32, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
        self.read(OfFile::ReadBlock(index, offset, length), out)
    }

    fn expect(&self, index: u32) {
        self.0.far.tell(&self.of(OfFile::Expect(index)));
    }

    fn object(&self) -> Option<u64> {
        self.0.far.ask::<Option<u64>>(&self.of(OfFile::Object)).ok().flatten()
    }

    fn data_from(&self, offset: u64) -> io::Result<Option<u64>> {
        self.0.far.call(&self.of(OfFile::DataFrom(offset)))
    }

    fn len(&self) -> io::Result<u64> {
        self.0.far.call(&self.of(OfFile::Len))
    }
}

struct RemoteNewFile(Stand);

impl WriteFile for RemoteNewFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.far.send(&Question::NewFile(self.0.number, OfNewFile::Append), bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.far.call(&Question::NewFile(self.0.number, OfNewFile::Sync))
    }
}

/// That a conversation about something of this host broke.
pub fn broke<E: Crosses>(broken: &Broken) -> E {
    E::lost(crate::devices::crosses::lost(broken))
}
