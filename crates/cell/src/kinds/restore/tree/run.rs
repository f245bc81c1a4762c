//! The work: groups of segments in their order, in slices for the workers.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::meter::{Lap, Stage};
use capstan_engine::threads;
use capstan_format::id::StreamId;
use capstan_medium::tape::WINDOW as TAPE_WINDOW;
use capstan_port::disk::restore::{Ending, RestoreRun};
use parking_lot::Mutex;

use crate::error::{CellError, Result};
use crate::kinds::restore::tree::Restore;
use crate::kinds::restore::tree::feed::Feed;
use crate::kinds::restore::tree::referred::Lent;
use crate::kinds::restore::tree::slice::Slice;

/// Into how many slices a segment's rows are cut for the workers.
const SLICES: usize = 8;

/// What a worker does at a time.
pub(in crate::kinds::restore) enum Job {
    /// What a segment's own rows have there.
    Own(Slice),
    /// What others refer to.
    Lent(Lent),
}

impl Restore<'_> {
    pub(in crate::kinds::restore) fn run(
        &self,
        agent: &dyn RestoreRun,
        workers: usize,
    ) -> Result<()> {
        let done = self.run_groups(agent, workers);
        // Also where it was stopped: what was not finished is not whole.
        let how = match &done {
            Err(_) => Ending::Failed,
            Ok(()) if self.stop.0.load(Relaxed) => Ending::Stopped,
            Ok(()) => Ending::Done,
        };
        let ended = agent.end(how);
        done?;
        Ok(ended?)
    }

    fn run_groups(&self, agent: &dyn RestoreRun, workers: usize) -> Result<()> {
        // A slice has what all streams saved at about the same time, so that two workers seldom meet in a directory.
        let mut groups = self.groups()?;
        while !groups.is_empty() {
            let (tape, segments) = groups.remove(self.next_group(&groups));
            let Some(tape) = tape else {
                self.turn.inspect(|turn| turn.leave());
                let slices = segments.into_iter().flat_map(|i| self.slices(i));
                let jobs: Vec<Job> = slices.map(Job::Own).collect();
                self.run_jobs(agent, workers, &jobs)?;
                continue;
            };
            let station = self.station(tape)?;
            // Of a tape one segment after the other: who is done with one early would wind to the next, and back for others.
            for segment in segments {
                let number = self.number_on(segment, tape);
                self.turn.inspect(|turn| turn.come(station, number));
                // All streams are read at once; who waits for the tape needs no processor.
                let mut jobs: Vec<Job> = self.lent(segment)?.into_iter().map(Job::Lent).collect();
                let mut streams = 0;
                if self.scope.has_any(segment as u32, &self.view.segments[segment].streams) {
                    let slices = self.slices(segment);
                    streams = slices.iter().filter(|slice| slice.stream.is_some()).count();
                    streams = workers.max(streams);
                    jobs.extend(slices.into_iter().map(Job::Own));
                    streams += jobs.iter().filter(|job| matches!(job, Job::Lent(_))).count();
                }
                // Where all begin is known before the first one reads.
                self.expect(&jobs)?;
                self.turn.inspect(|turn| turn.begin(station, number));
                self.run_jobs(agent, workers.max(streams), &jobs)?;
            }
            if self.turn.is_none_or(|turn| turn.is_last_on(station)) {
                self.view.cell.done_reading(tape);
            }
        }
        self.turn.inspect(|turn| turn.leave());
        if !self.stop.0.load(Relaxed) {
            self.finish(agent)?;
        }
        Ok(())
    }

    /// A segment in slices. On a tape each is what one stream has in it, as all streams are read together while the tape passes by
    /// once; a stream that is alone is cut so that what two neighbours have is kept when it has passed by.
    pub(in crate::kinds::restore) fn slices(&self, segment: usize) -> Vec<Slice> {
        let place = &self.view.segments[segment];
        // An error was told when they were grouped.
        let on_tape = self.tapes.of_segment(self.view, segment).is_ok_and(|tape| tape.is_some());
        let slice = |number, of, stream| {
            let opened = Mutex::default();
            Slice { segment, number, of, stream, opened }
        };
        // Between the blocks of one of several lie those of the others, also of other versions: its neighbours would be far ahead.
        if on_tape && self.view.contents(place).is_ok_and(|all| all.streams.len() > 1) {
            return place.streams.iter().map(|id| slice(0, 1, Some(*id))).collect();
        }
        let pieces = place.bytes / (TAPE_WINDOW as u64 / 4);
        let of = if on_tape { SLICES.max(pieces as usize) } else { SLICES };
        (0..of).map(|number| slice(number, of, None)).collect()
    }

    /// Says of what is read of a tape where it begins: who reads it keeps abreast of them all. What cannot be opened is told by who would
    /// read it.
    pub(in crate::kinds::restore) fn expect(&self, jobs: &[Job]) -> Result<()> {
        let mut lap = Lap::start();
        for job in jobs {
            let (segment, opened) = match job {
                Job::Lent(lent) => (lent.segment, &lent.opened),
                Job::Own(slice) => (slice.segment, &slice.opened),
            };
            let place = &self.view.segments[segment];
            if let Job::Own(slice) = job {
                let of = slice.stream.as_ref();
                let streams = of.map_or(&place.streams[..], std::slice::from_ref);
                if !self.scope.has_data(segment as u32, streams) {
                    continue;
                }
            }
            let contents = self.view.contents(place)?;
            lap.busy(self.meters.of(Stage::Cell));
            let waited = self.view.cell.devices.waits().waited();
            let data = self.view.open_data(place);
            // To load is a stage of its own.
            let waited = self.view.cell.devices.waits().waited().saturating_sub(waited);
            self.meters.of(Stage::Device).busy(lap.split().saturating_sub(waited));
            let Ok(data) = data else { continue };
            // A batch's data come behind it.
            let block = |id: &StreamId, begin: u64| {
                let index = &data.layout.streams.iter().find(|s| s.stream == *id)?.index;
                let at = index.partition_point(|place| place.logical < begin);
                Some(index.get(at.saturating_sub(1))?.block.0)
            };
            let first = match job {
                Job::Lent(lent) => lent.streams.first().and_then(|id| block(id, lent.begin)),
                Job::Own(slice) => {
                    let of = slice.stream.as_ref();
                    let streams = of.map_or(&place.streams[..], std::slice::from_ref);
                    let first = |id: &StreamId| {
                        let stream = contents.streams.iter().find(|s| s.stream == *id)?;
                        let asked = |n: &usize| self.scope.has(segment as u32, *id, *n);
                        let first = slice.batches(stream.batches.len()).find(asked)?;
                        block(id, stream.batches.get(first)?.header.logical)
                    };
                    streams.iter().filter_map(first).min()
                }
            };
            if let Some(block) = first {
                data.reader.expect(block);
                *opened.lock() = Some(data);
            }
        }
        Ok(())
    }

    fn run_jobs(&self, agent: &dyn RestoreRun, workers: usize, jobs: &[Job]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<CellError>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                // All take from one list: where there is no thread, this one does the work of all.
                threads::beside(scope, "restore", || {
                    let mut feed = Feed::new(self, agent);
                    while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
                        if self.stop.0.load(Relaxed) || failed.lock().is_some() {
                            return;
                        }
                        let done = match job {
                            Job::Own(slice) => feed.slice(slice),
                            Job::Lent(lent) => feed.lent(lent),
                        };
                        if let Err(e) = done {
                            failed.lock().get_or_insert(e);
                            return;
                        }
                    }
                });
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }
}
