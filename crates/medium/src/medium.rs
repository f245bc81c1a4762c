//! A medium of any kind, to read: a directory, a tape, or an array of them.
//!
//! Whatever a medium lies on shows itself as a [`Storage`]: the [header](`header`), and the segments under their [`names`]. Who writes
//! segments has a [`device`]; [`held`] is what else is done to a medium: removing segments and locking versions. [`attached`] is what lies
//! on a tape beside segments, [`ends`] finds the end record of a segment on a member of an array.

use std::sync::Arc;

use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;

use crate::DeviceError;
use crate::error::io_error;
use crate::header::{
    check, header_behind, header_from_segments, is_of_one_block, read_header, segments, unread,
};
use crate::names::{SUFFIX, segment_name};
use crate::storage::{ReadFile, Recorded, Storage};

/// A medium that was opened, to read. What it lies on, a directory, a tape or an array, makes no difference to who reads it.
#[derive(Clone)]
pub struct OpenMedium {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) path: String,
    header: MediumHeader,
    header_problem: Option<String>,
}

impl OpenMedium {
    /// Opens the medium in a storage; `path` is what errors call it. A member of an array is none.
    pub fn on(storage: Arc<dyn Storage>, path: &str) -> Result<Self, DeviceError> {
        let medium = Self::member_on(storage, path)?;
        if medium.header.is_array() && !medium.storage.is_array() {
            return Err(member_alone(&medium.header, path));
        }
        Ok(medium)
    }

    /// Opens the medium in a storage, which may be a member of an array.
    pub fn member_on(storage: Arc<dyn Storage>, path: &str) -> Result<Self, DeviceError> {
        let (header, header_problem) = match read_header(&*storage, path) {
            Ok(Ok(header)) => (header, None),
            // A medium whose header file is lost still says in every segment what it is.
            Ok(Err(problem)) => {
                let header = header_from_segments(&storage, path, &problem)?;
                (header, Some(problem.to_string()))
            }
            // So does a tape whose first block cannot be read.
            Err(e) if is_of_one_block(&e) => match header_behind(&*storage, path)? {
                Some(header) => (check(header, path)?, Some(unread(&e))),
                None => return Err(e),
            },
            Err(e) => return Err(e),
        };
        if header_problem.is_some() {
            storage.take_header(&header);
        }
        Ok(Self { storage, path: path.to_owned(), header, header_problem })
    }

    /// The medium in a storage as one of this header, whatever is said there.
    pub fn of_header(storage: Arc<dyn Storage>, path: String, header: MediumHeader) -> Self {
        Self { storage, path, header, header_problem: None }
    }

    /// A medium as another host opened it: what was found is known.
    pub fn as_found(
        storage: Arc<dyn Storage>,
        path: String,
        header: MediumHeader,
        header_problem: Option<String>,
    ) -> Self {
        Self { storage, path, header, header_problem }
    }

    /// Reads what of a segment nobody reads while all else is whole; [`Self::problems`] says what is damaged.
    pub fn check_spare(&self, number: SegmentNumber) -> Result<(), DeviceError> {
        let name = segment_name(number, SUFFIX);
        let checked = self.storage.check_spare(&name);
        checked.map_err(io_error("read", &format!("{}/{name}", self.path)))
    }

    /// What is wrong with where it lies, though it can be read: of an array the members that are lost.
    pub fn problems(&self) -> Vec<String> {
        self.storage.problems()
    }

    /// What is wrong with the header file, if [`Self::header`] had to be taken from a segment.
    pub fn header_problem(&self) -> Option<&str> {
        self.header_problem.as_deref()
    }

    /// Whether it is on a tape by itself.
    pub fn is_on_tape(&self) -> bool {
        self.storage.is_tape()
    }

    /// What the medium says of itself.
    pub fn header(&self) -> &MediumHeader {
        &self.header
    }

    /// What it lies on.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Where it is, as text.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Numbers of its complete segments, ascending.
    pub fn segments(&self) -> Result<Vec<SegmentNumber>, DeviceError> {
        segments(&*self.storage, &self.path)
    }

    /// Whether a segment that it does not have whole may be on members of the array that are away.
    pub fn may_be_away(&self, number: SegmentNumber) -> Result<bool, DeviceError> {
        self.storage.may_be_away(number).map_err(io_error("read", &self.path))
    }

    /// Says where segments lie, as far as it is recorded, so that a tape can go there by the drive's own numbers.
    pub fn recall(&self, places: Vec<Recorded>) {
        self.storage.recall(places);
    }

    /// Opens a segment.
    pub fn open_segment(&self, number: SegmentNumber) -> Result<Box<dyn ReadFile>, DeviceError> {
        let name = segment_name(number, SUFFIX);
        self.storage.open(&name).map_err(io_error("open", &format!("{}/{name}", self.path)))
    }
}

/// That a medium is a part of an array and cannot be used alone.
pub fn member_alone(header: &MediumHeader, path: &str) -> DeviceError {
    let place = header.array.as_ref().map_or_else(String::new, |p| {
        format!(" ({}: member {} of {} of {})", p.layout, p.member + 1, p.members, p.array.short())
    });
    DeviceError::ArrayMember { path: path.to_owned(), place }
}
