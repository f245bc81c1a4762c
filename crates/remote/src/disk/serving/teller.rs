//! Tells five times a second how far a conversation is.

use std::sync::Arc;

use capstan_engine::meter::Meters;
use capstan_port::disk::DiskAgent;
use capstan_port::disk::backup::Counting;
use capstan_wire::backup::{Counts, Noted};
use capstan_wire::disk::told::Told;
use capstan_wire::host::Processors;
use capstan_wire::restore::RestoreCounts;
use parking_lot::{Condvar, Mutex};

use crate::connection::Broken;
use crate::disk::post::Post;
use crate::disk::told::{Gauge, OFTEN, told};

/// What is told of.
pub(super) struct Teller<'t> {
    agent: &'t dyn DiskAgent,
    post: &'t Post,
    meters: &'t Meters,
    of: Of<'t>,
    last: Mutex<Last>,
    is_over: Mutex<bool>,
    over: Condvar,
}

/// What counts.
pub(super) enum Of<'t> {
    /// A backup.
    Backup(Arc<dyn Counting>),
    /// A restore.
    Restore(&'t (dyn Fn() -> RestoreCounts + Sync)),
}

/// What was told last.
#[derive(Default)]
struct Last {
    gauge: Gauge,
    processors: Option<Processors>,
    counts: Option<Counts>,
    noted: Option<Noted>,
    restored: Option<RestoreCounts>,
}

/// What is new, and is kept.
fn new<T: Clone + PartialEq>(last: &mut Option<T>, now: T) -> Option<T> {
    (last.as_ref() != Some(&now)).then(|| {
        *last = Some(now.clone());
        now
    })
}

impl<'t> Teller<'t> {
    pub fn new(agent: &'t dyn DiskAgent, post: &'t Post, meters: &'t Meters, of: Of<'t>) -> Self {
        let (last, is_over, over) = (Mutex::default(), Mutex::new(false), Condvar::new());
        Self { agent, post, meters, of, last, is_over, over }
    }

    /// Tells what is new.
    pub fn tell(&self) -> Result<(), Broken> {
        let mut last = self.last.lock();
        let mut now = Told {
            meters: last.gauge.since(self.meters),
            processors: new(&mut last.processors, self.agent.processors()),
            ..Told::default()
        };
        match &self.of {
            Of::Backup(counting) => {
                now.counts = new(&mut last.counts, counting.counts());
                now.noted = new(&mut last.noted, counting.noted());
            }
            Of::Restore(counts) => now.restored = new(&mut last.restored, counts()),
        }
        // In the order in which it was read.
        if now == Told::default() { Ok(()) } else { self.post.tell(&told::<()>(now)) }
    }

    /// Tells, and does what is to be done as often, until it is over.
    pub fn run(&self, each: &mut dyn FnMut() -> Result<(), Broken>) -> Result<(), Broken> {
        let mut is_over = self.is_over.lock();
        while !*is_over {
            self.over.wait_for(&mut is_over, OFTEN);
            parking_lot::MutexGuard::unlocked(&mut is_over, || {
                self.tell()?;
                each()
            })?;
        }
        Ok(())
    }

    /// It is over when this is dropped.
    pub fn ending(&self) -> Ending<'_, 't> {
        Ending(self)
    }
}

/// Ends the telling.
pub(super) struct Ending<'e, 't>(&'e Teller<'t>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        *self.0.is_over.lock() = true;
        self.0.over.notify_all();
    }
}
