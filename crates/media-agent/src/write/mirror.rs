//! The media that a session writes to: one, or several mirrors that all get the same blocks.
//!
//! Everything is done on all of them at once, and what is slowest sets the pace. One that fails is left, and said; the
//! others go on. One that is full is not left where another medium can take its place: then the segment that is open is written
//! anew, on that one and on the others.

use std::sync::Arc;

use capstan_engine::threads;
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::record::{Follows, MediumHeader};
use capstan_medium::tape::DriveSession;
use capstan_medium::{Device, LostMember};
use parking_lot::Mutex;

use crate::write::committed::Committed;
use crate::write::error::WriteError;

/// A medium to write to, on its device.
pub struct Member {
    /// The device.
    pub device: Box<dyn Device>,
    /// What the medium says of itself.
    pub medium: MediumHeader,
    /// The medium that it continues, until its first segment says so.
    pub follows: Option<Follows>,
    /// Whether it is of a library or pool, of which another medium may take its place where it is full.
    pub goes_on: bool,
    /// The segment being written, as this medium numbers it.
    pub(crate) number: SegmentNumber,
    /// What was made of the segment here, once it is ended.
    pub(crate) ended: Option<Ended>,
}

/// A segment that was ended on one medium.
pub(crate) struct Ended {
    pub end: capstan_format::record::SegmentEnd,
    pub bytes: u64,
    pub catalog: Vec<u8>,
}

impl Member {
    /// A medium on its device.
    pub fn new(device: Box<dyn Device>, medium: MediumHeader) -> Self {
        Self {
            device,
            medium,
            follows: None,
            goes_on: false,
            number: SegmentNumber(0),
            ended: None,
        }
    }
}

/// What was lost, while a session goes on without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LostPart {
    /// A mirror.
    Mirror,
    /// Segments that the others have: its medium was full before it had them, and they cannot be written anew.
    Segments,
    /// A member of an array, whose others are written.
    Member(LostMember),
    /// The spool before a tape, which has all of it none the less.
    Spool,
}

/// A mirror that failed, and was left; or a part of a medium.
#[derive(Debug, Clone)]
pub struct LostMirror {
    /// Its identity.
    pub medium: MediumId,
    /// Its label.
    pub label: String,
    /// Why.
    pub error: String,
    /// What of it was lost.
    pub part: LostPart,
}

/// Mirrors that failed since somebody looked.
pub type LostMirrors = Arc<Mutex<Vec<LostMirror>>>;

/// What the tape drives did that a session left, and what they have to say: all of them when it has ended, also if it failed.
pub type Drives = Arc<Mutex<Vec<DriveSession>>>;

/// All media of a session; at least one.
pub(crate) struct Mirrors {
    members: Vec<Member>,
    /// Whether what is not committed can be written again where a medium is full.
    goes_on: bool,
    pub lost: LostMirrors,
    pub drives: Drives,
}

impl Drop for Mirrors {
    fn drop(&mut self) {
        self.take();
    }
}

impl Mirrors {
    pub fn new(members: Vec<Member>) -> Self {
        Self { members, goes_on: false, lost: LostMirrors::default(), drives: Drives::default() }
    }

    /// Whether what is not committed can be written again: then one that is full is not left.
    pub fn set_goes_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on;
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn members_mut(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// Takes the media away, to go on on others.
    pub fn take(&mut self) -> Vec<Member> {
        let mut members = std::mem::take(&mut self.members);
        for member in &mut members {
            self.drives.lock().extend(member.device.drive_sessions());
        }
        members
    }

    /// Goes on on these.
    pub fn put(&mut self, members: Vec<Member>) {
        self.members = members;
    }

    pub fn into_members(mut self) -> Vec<Member> {
        self.take()
    }

    /// Whether a stream's last block in a segment may be short: on all, or on none.
    pub fn short_blocks(&self) -> bool {
        self.members.iter().all(|m| m.device.short_blocks())
    }

    /// Does something on all of them at once. An error if it worked on none, or one is full whose place another medium may take.
    pub fn each(
        &mut self,
        run: impl Fn(&mut Member) -> Result<(), WriteError> + Sync,
    ) -> Result<(), WriteError> {
        let [first, others @ ..] = &mut self.members[..] else { return Err(WriteError::Thread) };
        if others.is_empty() {
            let result = run(first);
            self.note_members();
            return self.or_full(vec![result]);
        }
        let run = &run;
        let results: Vec<_> = std::thread::scope(|scope| {
            let start = |m| threads::beside(scope, "mirror", move || run(m));
            let others: Vec<_> = others.iter_mut().map(start).collect();
            let mut results = vec![run(first)];
            results.extend(others.into_iter().map(|t| t.join().unwrap_or(Err(WriteError::Thread))));
            results
        });
        let result = self.or_full(results);
        self.note_members();
        result
    }

    /// Leaves those that failed. An error if all did, or one of them is full and not to be left.
    fn or_full(&mut self, results: Vec<Result<(), WriteError>>) -> Result<(), WriteError> {
        let goes_on = self.goes_on;
        let mut full = Vec::new();
        let mut why = None;
        for (member, result) in self.members.iter().zip(&results) {
            match result {
                Err(WriteError::Device(e)) if goes_on && member.goes_on && e.is_full() => {
                    full.push(member.medium.medium);
                    why.get_or_insert_with(|| e.to_string());
                }
                _ => {}
            }
        }
        if full.is_empty() && results.iter().all(Result::is_err) {
            return results.into_iter().next().unwrap_or(Err(WriteError::Thread));
        }
        let mut kept = Vec::new();
        for (mut member, result) in std::mem::take(&mut self.members).into_iter().zip(results) {
            match result {
                Err(e) if !full.contains(&member.medium.medium) => {
                    member.device.abandon_segment();
                    self.drives.lock().extend(member.device.drive_sessions());
                    let (medium, label) = (member.medium.medium, member.medium.label);
                    let (error, part) = (e.to_string(), LostPart::Mirror);
                    self.lost.lock().push(LostMirror { medium, label, error, part });
                }
                _ => kept.push(member),
            }
        }
        self.members = kept;
        match why {
            Some(why) => Err(WriteError::Full { media: full, why }),
            None => Ok(()),
        }
    }

    /// Notes members of arrays and spools that failed.
    fn note_members(&mut self) {
        for member in &mut self.members {
            if let Some(error) = member.device.take_lost_spool() {
                let (medium, label) = (member.medium.medium, member.medium.label.clone());
                let lost = LostMirror { medium, label, error, part: LostPart::Spool };
                self.lost.lock().push(lost);
            }
            for of in member.device.take_lost() {
                let (medium, label) = (member.medium.medium, &member.medium.label);
                let (label, error) = (format!("{} of {label}", of.name()), of.error.clone());
                let lost = LostMirror {
                    medium,
                    label,
                    error: error.to_string(),
                    part: LostPart::Member(of),
                };
                self.lost.lock().push(lost);
            }
        }
    }

    /// Notes which of the media lack some of these segments, that others have.
    pub fn note_lacking(&self, segments: &[Committed]) {
        for Member { medium, .. } in &self.members {
            let lacks = |c: &&Committed| c.places.iter().all(|p| p.medium != medium.medium);
            let count = segments.iter().filter(lacks).count();
            if count > 0 {
                self.lost.lock().push(LostMirror {
                    medium: medium.medium,
                    label: medium.label.clone(),
                    error: format!("it lacks {count} of the session's segments"),
                    part: LostPart::Segments,
                });
            }
        }
    }

    /// Drops what was begun.
    pub fn abandon(&mut self) {
        self.members.iter_mut().for_each(|m| m.device.abandon_segment());
    }
}
