//! The files of a base by their inodes, whatever their names are: for those that were moved.
//!
//! The table is made when the first file is asked for that may have been moved; most incrementals ask for none.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_format::entry::{Kind, Timestamp};
use capstan_format::id::StreamId;
use capstan_port::disk::base::{BaseFile, BaseFiles, BaseRow, FilePlace, Pieces, RowPlace, Saved};
use parking_lot::Mutex;

use super::inodes::{Known, Place, Table};

/// Looks files up by inode in a base.
pub(crate) struct ByInode<'a> {
    files: &'a dyn BaseFiles,
    state: Mutex<State>,
}

enum State {
    /// Nobody asked yet.
    Unmade,
    Made(Box<Index>),
    /// It cannot be made.
    Failed,
}

/// The table, and the streams that it names by their numbers.
#[derive(Default)]
struct Index {
    table: Table,
    streams: Vec<StreamId>,
}

impl<'a> ByInode<'a> {
    pub fn new(files: &'a dyn BaseFiles) -> Self {
        Self { files, state: Mutex::new(State::Unmade) }
    }

    /// When the last of the files had been saved.
    pub fn saved_by(&self) -> Timestamp {
        self.files.saved_by()
    }

    /// The files of that inode number and length. To get ready for the first question takes a pass over the base, which ends
    /// where `stop` is set. An error, of which it is said that moved files are saved anew, comes once.
    pub fn find(&self, ino: u64, size: u64, stop: &AtomicBool) -> Result<Vec<BaseRow>, String> {
        let mut state = self.state.lock();
        let found = match &mut *state {
            State::Failed => return Ok(Vec::new()),
            State::Made(index) => index.find(self.files, ino, size),
            State::Unmade => Index::of(self.files, stop).and_then(|index| {
                let found = index.find(self.files, ino, size);
                *state = State::Made(Box::new(index));
                found
            }),
        };
        found.inspect_err(|_| *state = State::Failed)
    }
}

impl Index {
    fn of(files: &dyn BaseFiles, stop: &AtomicBool) -> Result<Self, String> {
        let mut index = Self::default();
        let mut added = Ok(());
        files.each(&mut |file| {
            added = index.add(&file);
            added.is_ok() && !stop.load(Relaxed)
        })?;
        if stop.load(Relaxed) {
            return Err("stopped".to_owned());
        }
        let full = |e: io::Error| format!("cannot remember the files of the base: {e}");
        added.and_then(|()| index.table.finish()).map_err(full)?;
        Ok(index)
    }

    fn add(&mut self, file: &BaseFile) -> io::Result<()> {
        let BaseFile { ino, dev, size, mtime, ctime, sum, stream, place } = *file;
        let stream = self.number(stream);
        let place = match place {
            FilePlace::Run(logical) => Place::Run { stream, logical },
            FilePlace::Row(RowPlace { segment, row }) => Place::Row { stream, segment, row },
        };
        self.table.add(Known { ino, dev, size, mtime, ctime, sum, place })
    }

    fn number(&mut self, stream: StreamId) -> u32 {
        let known = self.streams.iter().rposition(|s| *s == stream);
        known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        }) as u32
    }

    fn find(&self, files: &dyn BaseFiles, ino: u64, size: u64) -> Result<Vec<BaseRow>, String> {
        let lost = |e: io::Error| format!("cannot look up a file of the base: {e}");
        let found = self.table.find(ino).map_err(lost)?.into_iter();
        let found = found.filter(|known| known.size == size);
        found.filter_map(|known| self.base_row(files, known).transpose()).collect()
    }

    fn base_row(&self, files: &dyn BaseFiles, known: Known) -> Result<Option<BaseRow>, String> {
        let Known { ino, dev, size, mtime, ctime, sum, place } = known;
        let stream = |number: u32| self.streams.get(number as usize).copied();
        let pieces = match place {
            Place::Run { stream: number, logical } => stream(number).map(|stream| {
                let saved = vec![Saved { offset: 0, len: size, stream, logical }];
                Pieces { data: None, saved }
            }),
            Place::Row { stream: number, segment, row } => match stream(number) {
                Some(stream) => files.pieces(stream, RowPlace { segment, row })?,
                None => None,
            },
        };
        Ok(pieces.map(|Pieces { data, saved }| BaseRow {
            complete: true,
            sum,
            kind: Kind::File,
            access: None,
            details: None,
            size,
            mtime,
            ctime,
            ino,
            dev,
            data,
            link_to: None,
            saved,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId([1; 16]);

    /// Files of these inode numbers; the last one's contents are as its row says. Counts the passes, and the files that it gave.
    struct Base {
        numbers: Vec<u64>,
        passes: Mutex<u32>,
        given: Mutex<u32>,
        fails: bool,
    }

    impl BaseFiles for Base {
        fn saved_by(&self) -> Timestamp {
            Timestamp::default()
        }

        fn each(&self, each: &mut dyn FnMut(BaseFile) -> bool) -> Result<(), String> {
            *self.passes.lock() += 1;
            for (at, ino) in self.numbers.iter().enumerate() {
                let is_last = at + 1 == self.numbers.len();
                let row = RowPlace { segment: 3, row: 4 };
                let place = if is_last { FilePlace::Row(row) } else { FilePlace::Run(at as u64) };
                let (mtime, ctime) = Default::default();
                let (dev, size, sum, stream) = (1, 10, None, STREAM);
                let file = BaseFile { ino: *ino, dev, size, mtime, ctime, sum, stream, place };
                *self.given.lock() += 1;
                if !each(file) {
                    return Ok(());
                }
            }
            if self.fails { Err("a catalog is gone".to_owned()) } else { Ok(()) }
        }

        fn pieces(&self, stream: StreamId, at: RowPlace) -> Result<Option<Pieces>, String> {
            assert_eq!((stream, at), (STREAM, RowPlace { segment: 3, row: 4 }));
            let saved = vec![Saved { offset: 5, len: 5, stream, logical: 77 }];
            Ok(Some(Pieces { data: Some(vec![(5, 5)]), saved }))
        }
    }

    fn base(numbers: &[u64], fails: bool) -> Base {
        let (passes, given) = Default::default();
        Base { numbers: numbers.to_vec(), passes, given, fails }
    }

    #[test]
    fn files_are_found_by_inode_and_length_after_one_pass() {
        let (base, stop) = (base(&[5, 9, 5, 7], false), AtomicBool::new(false));
        let known = ByInode::new(&base);
        assert_eq!(*base.passes.lock(), 0, "nobody asked");
        let logical = |ino, size| {
            let found = known.find(ino, size, &stop).unwrap();
            found.iter().map(|row| row.saved[0].logical).collect::<Vec<_>>()
        };
        assert_eq!((logical(5, 10), logical(9, 10)), (vec![0, 2], vec![1]));
        assert!(logical(5, 11).is_empty() && logical(6, 10).is_empty());
        let of_row = known.find(7, 10, &stop).unwrap();
        assert_eq!((of_row[0].data.clone(), of_row[0].saved[0].offset), (Some(vec![(5, 5)]), 5));
        assert_eq!(*base.passes.lock(), 1);
    }

    #[test]
    fn a_base_that_cannot_be_read_is_told_once() {
        let (base, stop) = (base(&[5], true), AtomicBool::new(false));
        let known = ByInode::new(&base);
        assert_eq!(known.find(5, 10, &stop), Err("a catalog is gone".to_owned()));
        assert_eq!(known.find(5, 10, &stop), Ok(Vec::new()));
        assert_eq!(*base.passes.lock(), 1);
    }

    #[test]
    fn a_pass_ends_where_the_session_is_to_end() {
        let (base, stop) = (base(&[5, 6, 7], false), AtomicBool::new(true));
        assert!(ByInode::new(&base).find(5, 10, &stop).is_err());
        assert_eq!(*base.given.lock(), 1);
    }
}
