//! The media that a session writes to: one, or several mirrors that all get the same blocks.
//!
//! Everything is done on all of them at once, and what is slowest sets the pace. One that fails is left, and said; the
//! others go on. One that is full is not left where another medium can take its place: then the segment that is open is written
//! anew, on that one and on the others.

use capstan_engine::threads;
use capstan_format::id::SegmentNumber;
use capstan_format::record::{Follows, MediumHeader};
use capstan_medium::Device;
use capstan_port::media::write::committed::Committed;
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::{Drives, LostMirror, LostMirrors, LostPart, Member};

/// A medium that is written, with the segment that is written there.
pub(crate) struct Mirror {
    pub device: Box<dyn Device>,
    pub medium: MediumHeader,
    pub follows: Option<Follows>,
    pub goes_on: bool,
    /// The segment being written, as this medium numbers it.
    pub number: SegmentNumber,
    /// What was made of the segment here, once it is ended.
    pub ended: Option<Ended>,
}

/// A segment that was ended on one medium.
pub(crate) struct Ended {
    pub end: capstan_format::record::SegmentEnd,
    pub bytes: u64,
    pub catalog: Vec<u8>,
}

impl From<Member> for Mirror {
    fn from(member: Member) -> Self {
        let Member { device, medium, follows, goes_on } = member;
        Self { device, medium, follows, goes_on, number: SegmentNumber(0), ended: None }
    }
}

impl From<Mirror> for Member {
    fn from(mirror: Mirror) -> Self {
        let Mirror { device, medium, follows, goes_on, .. } = mirror;
        Self { device, medium, follows, goes_on }
    }
}

/// All media of a session; at least one.
pub(crate) struct Mirrors {
    members: Vec<Mirror>,
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
        let members = members.into_iter().map(Mirror::from).collect();
        Self { members, goes_on: false, lost: LostMirrors::default(), drives: Drives::default() }
    }

    /// Whether what is not committed can be written again: then one that is full is not left.
    pub fn set_goes_on(&mut self, goes_on: bool) {
        self.goes_on = goes_on;
    }

    pub fn members(&self) -> &[Mirror] {
        &self.members
    }

    pub fn members_mut(&mut self) -> &mut [Mirror] {
        &mut self.members
    }

    /// Takes the media away, to go on on others.
    pub fn take(&mut self) -> Vec<Member> {
        let mut members = std::mem::take(&mut self.members);
        for member in &mut members {
            self.drives.lock().extend(member.device.drive_sessions());
        }
        members.into_iter().map(Member::from).collect()
    }

    /// Goes on on these.
    pub fn put(&mut self, members: Vec<Member>) {
        self.members = members.into_iter().map(Mirror::from).collect();
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
        run: impl Fn(&mut Mirror) -> Result<(), WriteError> + Sync,
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
        for Mirror { medium, .. } in &self.members {
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
