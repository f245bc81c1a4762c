//! Where a consolidation goes on when its medium takes no more.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_port::media::write::members::Member;

use super::run::{Ended, Run};
use crate::error::{Result, chain};
use crate::media::WriteFailure;
use crate::observe::Observer;
use crate::supply::Wanted;
use crate::supply::unfit::{PassedOver, Why};

/// So many media that fail are not the media's fault.
const FAILURES: usize = 3;

/// How the next medium is chosen, and what was tried.
pub(super) struct NextMedia {
    wanted: Wanted,
    passed: Vec<PassedOver>,
    failures: usize,
}

impl NextMedia {
    /// `wanted`: of each medium that is opened. `passed`: what is not taken.
    pub fn new(wanted: Wanted, passed: Vec<PassedOver>) -> Self {
        Self { wanted, passed, failures: 0 }
    }

    /// The medium on which another session goes on after one that ended so. Nothing where that wrote all, or where none is left; of
    /// that the log says why.
    pub fn after(
        &mut self,
        run: &mut Run<'_>,
        ended: &Ended,
        observer: &dyn Observer,
    ) -> Result<Option<Member>> {
        let Err(e) = &ended.result else { return Ok(None) };
        let of = ended.failure().map_or(WriteFailure::Other, WriteFailure::of);
        let full = of == WriteFailure::Full;
        let last = &ended.last;
        run.cell.note_write_failure(last.medium, of)?;
        let why = (last.medium, Why::ended(full, &chain(e)));
        self.passed.push(why.clone());
        run.supply = run.supply.clone().but([why]);
        // One that got full is no failure, unless it took nothing at all.
        self.failures += usize::from(!(full && ended.took));
        let may = (full || of.is_of_medium()) && self.failures < FAILURES;
        let goes_on = may && !run.stop.0.load(Relaxed) && !run.supply.is_none();
        let next = goes_on.then(|| run.cell.open_to(run.to, &self.wanted, &self.passed, observer));
        if let Some(Ok(next)) = next {
            let label = &next.medium.label;
            let (code, text) = run.cell.gone_on(full, last.medium, label, &chain(e));
            run.log.say(code, "media agent", &last.label, text);
            return Ok(Some(next));
        }
        run.log.say(Code::DeviceFailed, "cell", &run.names.name, chain(e));
        if let Some(Err(e)) = next {
            run.log.say(Code::DeviceFailed, "cell", &run.names.name, chain(&e));
        }
        Ok(None)
    }
}
