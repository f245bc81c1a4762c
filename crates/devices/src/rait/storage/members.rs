//! The members of an array that is read, and what was made up for of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use capstan_engine::problem::{Explain, Problem};
use capstan_format::array::{Layout, RebuiltMember};
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_medium::device::LostMembers;
use capstan_medium::error::io_error;
use capstan_medium::names::{SUFFIX, segment_number};
use capstan_medium::storage::Storage;
use capstan_medium::tape::TapeError;
use capstan_medium::{DeviceError, LostMember};
use parking_lot::Mutex;

/// A member that was opened.
#[derive(Clone)]
pub struct StoredMember {
    /// Its device, as people name it.
    pub name: String,
    /// What it holds.
    pub storage: Arc<dyn Storage>,
    /// Its own identity.
    pub medium: MediumId,
}

impl StoredMember {
    /// Numbers of the segments that it has, without those that were left out. On tape it looks for each.
    pub fn held(&self) -> Result<Vec<SegmentNumber>, DeviceError> {
        let mut held = Vec::new();
        for number in self.segments()? {
            if self.storage.holds(number).map_err(io_error("read", &self.name))? {
                held.push(number);
            }
        }
        Ok(held)
    }

    /// Numbers of the segments that it has; on tape also those that were left out.
    pub fn segments(&self) -> Result<Vec<SegmentNumber>, DeviceError> {
        let names = self.storage.list().map_err(io_error("list", &self.name))?;
        Ok(names.iter().filter_map(|name| number_of(name)).collect())
    }
}

/// What is shared with the files that are open.
pub(crate) struct State {
    pub layout: Layout,
    pub header: Mutex<MediumHeader>,
    pub members: Mutex<Vec<Option<StoredMember>>>,
    pub lost: LostMembers,
    pub repairs: Mutex<BTreeMap<usize, Repairs>>,
    /// Members that took the place of others.
    pub rebuilt: Mutex<Vec<RebuiltMember>>,
}

/// What was made up for of a member that is there.
#[derive(Default)]
pub(crate) struct Repairs {
    pub blocks: u64,
    /// The segments that it does not have.
    pub lacks: BTreeSet<SegmentNumber>,
    /// Blocks for which too little was left.
    pub lost_blocks: u64,
}

impl State {
    /// Leaves a member that failed.
    pub fn lose(&self, place: usize, name: String, why: &io::Error) {
        if let Some(member) = self.members.lock().get_mut(place) {
            *member = None;
        }
        let tape = why.get_ref().and_then(|e| e.downcast_ref::<TapeError>());
        let is_away = tape.is_some_and(|e| e.is_away() || e.spares_tape());
        let error = tape.map_or_else(|| why.to_string().into(), Explain::problem);
        let (member, device, since) = (place, name, None);
        self.lost.lock().push(LostMember { member, device, error, is_away, since });
    }

    /// The places of members that are lost for reasons that tell nothing of what is on them.
    pub fn away(&self) -> Vec<usize> {
        self.lost.lock().iter().filter(|of| of.is_away).map(|of| of.member).collect()
    }

    /// The first such reason.
    pub fn why_away(&self) -> Option<Problem> {
        let lost = self.lost.lock();
        let first = lost.iter().find(|of| of.is_away);
        first.map(|of| {
            let sentence = format!("{} is lost: {}", of.name(), of.error.sentence);
            Problem { sentence, ..of.error.clone() }
        })
    }

    /// The error for a segment of which so many members have something, and too little: where members are away, these may have it.
    pub fn or_away(&self, e: io::Error, there: usize) -> io::Error {
        let is_enough = there + self.away().len() >= self.layout.data();
        match (e.kind(), self.why_away()) {
            (io::ErrorKind::NotFound | io::ErrorKind::InvalidData, Some(why)) if is_enough => {
                io::Error::other(TapeError::OthersAway(why))
            }
            _ => e,
        }
    }

    /// Notes what had to be made up for.
    pub fn repaired(&self, place: usize, note: impl FnOnce(&mut Repairs)) {
        note(self.repairs.lock().entry(place).or_default());
    }
}

/// The number in a segment's file name.
pub(crate) fn number_of(name: &str) -> Option<SegmentNumber> {
    segment_number(name, SUFFIX)
}
