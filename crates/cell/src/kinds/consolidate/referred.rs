//! Frames of a version to which versions that build on it refer by their places: contents of files that were moved since. A full
//! that takes the version's place must have these frames as they are.

use std::collections::HashMap;

use capstan_format::entry::Kind;
use capstan_format::id::{StreamId, VersionId};

use super::frames::{Frames, elsewhere};
use crate::Cell;
use crate::error::{ConsolidateRefusal, Result};
use crate::reading::version::VersionView;

/// Frames that are noted side by side.
const RUN: u64 = 1024;

/// Frames of streams.
#[derive(Default)]
pub(crate) struct Referred {
    /// By stream and run of frames, a bit for each.
    runs: HashMap<(StreamId, u64), Box<[u64; RUN as usize / 64]>>,
    /// Ranges that are referred to and that no frame has.
    unmet: u64,
}

impl Referred {
    fn add(&mut self, stream: StreamId, sequence: u64) {
        let run = self.runs.entry((stream, sequence / RUN)).or_default();
        let at = sequence % RUN;
        run[(at / 64) as usize] |= 1 << (at % 64);
    }

    fn remove(&mut self, stream: StreamId, sequence: u64) {
        if let Some(run) = self.runs.get_mut(&(stream, sequence / RUN)) {
            let at = sequence % RUN;
            run[(at / 64) as usize] &= !(1 << (at % 64));
        }
    }

    /// Whether a frame is referred to.
    pub fn has(&self, stream: StreamId, sequence: u64) -> bool {
        let at = sequence % RUN;
        let run = self.runs.get(&(stream, sequence / RUN));
        run.is_some_and(|run| run[(at / 64) as usize] & (1 << (at % 64)) != 0)
    }

    /// How many frames they are, with the ranges that no frame has.
    fn count(&self) -> u64 {
        let words = self.runs.values().flat_map(|run| run.iter());
        self.unmet + words.map(|word| u64::from(word.count_ones())).sum::<u64>()
    }
}

impl Cell {
    /// The frames of a version and what it builds on to which what builds on it refers. An error if the rows of any of these cannot be
    /// read.
    pub(super) fn referred(&self, view: &VersionView<'_>) -> Result<Referred> {
        let mut referred = Referred::default();
        let mut frames = Frames::new(view, view.spans());
        for id in self.idb.with_dependants(&[view.version])? {
            let Some(version) = self.idb.version(id)?.filter(|_| id != view.version) else {
                continue;
            };
            let mut above = VersionView::open_alone(self, version)?;
            self.add_keys(&mut above, false)?;
            above.all_rows(&mut |_, row| -> Result<()> {
                if row.entry.kind != Kind::File {
                    return Ok(());
                }
                for (stream, from, len) in elsewhere(&row.entry) {
                    if !frames.has(stream) {
                        continue;
                    }
                    frames.each(stream, from, len, &mut |frame, _, _| match frame {
                        Some(frame) => referred.add(stream, frame.sequence),
                        None => referred.unmet += 1,
                    })?;
                }
                Ok(())
            })?;
        }
        Ok(referred)
    }

    /// Refuses a full in the place of a version where it lacks frames to which what builds on that refers.
    pub(crate) fn refuse_without_referred(&self, of: VersionId, full: VersionId) -> Result<()> {
        let mut view = VersionView::open(self, of)?;
        self.add_keys(&mut view, false)?;
        let mut referred = self.referred(&view)?;
        if referred.count() == 0 {
            return Ok(());
        }
        let full = VersionView::open(self, full)?;
        for place in &full.segments {
            for s in &full.contents(place)?.streams {
                let frames = s.index.iter().filter(|p| p.logical_frame);
                frames.for_each(|p| referred.remove(s.stream, p.sequence));
            }
        }
        match referred.count() {
            0 => Ok(()),
            lacking => Err(ConsolidateRefusal::LacksReferred { frames: lacking }.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_noted_one_by_one() {
        let (a, b) = (StreamId([1; 16]), StreamId([2; 16]));
        let mut referred = Referred::default();
        for sequence in [0, 63, 64, 1023, 1024, u64::MAX] {
            referred.add(a, sequence);
        }
        referred.add(a, 64);
        assert_eq!(referred.count(), 6);
        assert!(referred.has(a, 1024) && referred.has(a, u64::MAX) && !referred.has(b, 0));
        assert!(!referred.has(a, 65) && !referred.has(a, 1025));
        referred.remove(a, 64);
        referred.remove(b, 64);
        referred.remove(a, 5);
        assert_eq!((referred.count(), referred.has(a, 64)), (5, false));
    }
}
