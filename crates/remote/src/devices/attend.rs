//! The side of a cell: what a device host asks and tells it, whatever is asked of the host meanwhile.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use capstan_medium::host::ledger::{Exported, Keep, Recorded};
use capstan_medium::host::operator::OperatorRequests;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::shared::Common;
use capstan_medium::host::waits::Waits;
use capstan_medium::tape::TapeError;

use super::message::{Reply, ToCell};
use crate::connection::{Broken, Channel};

/// Who knows things on the side of the cell, and who is told.
#[derive(Default)]
pub struct OfCell {
    pub common: OnceLock<Arc<dyn Common>>,
    pub keep: OnceLock<Box<Keep>>,
    pub recorded: OnceLock<Box<Recorded>>,
    pub exported: OnceLock<Box<Exported>>,
}

/// Answers a device host.
pub struct Attendant {
    pub cell: Arc<OfCell>,
    pub operator: Weak<OperatorRequests>,
    pub queue: Weak<Queue>,
    pub waits: Waits,
}

impl Attendant {
    /// Serves a conversation that the host began. One that cannot go on has nothing more to be said.
    pub fn serve(&self, channel: Channel) {
        let _ = self.answer(&channel);
    }

    fn answer(&self, channel: &Channel) -> Result<(), Broken> {
        match channel.hear::<ToCell>()? {
            ToCell::Tell(text) => {
                self.operator.upgrade().into_iter().for_each(|of| of.tell(&text));
                done(channel)
            }
            ToCell::Board(drive, wanted) => {
                self.operator
                    .upgrade()
                    .into_iter()
                    .for_each(|of| of.show(&drive, wanted.as_deref()));
                done(channel)
            }
            ToCell::Name(text) => {
                let name = self.queue.upgrade().map(|queue| queue.name(&text));
                is(channel, &name.unwrap_or(text))
            }
            ToCell::Waits(text) => {
                self.queue.upgrade().into_iter().for_each(|of| of.tell(&text));
                done(channel)
            }
            ToCell::WaitBoard(number, wait) => {
                let wait = wait.as_ref().map(|(why, waited)| (why.as_str(), *waited));
                self.queue.upgrade().into_iter().for_each(|of| of.show(number, wait));
                done(channel)
            }
            ToCell::Waited => loop {
                let (all, for_others) = channel.hear::<(Duration, Duration)>()?;
                self.waits.set_elsewhere(all, for_others);
            },
            ToCell::Happened(event) => {
                self.cell.keep.get().into_iter().for_each(|keep| keep(event.clone()));
                done(channel)
            }
            ToCell::OnRecord(library) => {
                let recorded = self.cell.recorded.get();
                is(channel, &recorded.map(|of| of(&library.0)).unwrap_or_default())
            }
            ToCell::Exported(library, barcode) => {
                let exported = self.cell.exported.get();
                is(channel, &exported.and_then(|of| of(&library.0, &barcode)))
            }
            ToCell::Book(robot) => self.lease(channel, &|common| {
                let queue = self.queue.upgrade();
                queue.map_or_else(|| Ok(free()), |queue| common.book(&queue, &robot))
            }),
            ToCell::Claim(drive) => self.lease(channel, &|common| common.claim(&drive)),
            ToCell::Disturbed(library) => {
                self.cell.common.get().into_iter().for_each(|of| of.disturbed(&library.0));
                done(channel)
            }
        }
    }

    /// Takes something for the host until the conversation ends.
    fn lease(
        &self,
        channel: &Channel,
        take: &dyn Fn(&dyn Common) -> Result<Box<dyn Send>, TapeError>,
    ) -> Result<(), Broken> {
        let taken = self.cell.common.get().map_or_else(|| Ok(free()), |common| take(&**common));
        let lease = match taken {
            Ok(lease) => lease,
            Err(e) => return is(channel, &Err::<(), _>(e)),
        };
        is(channel, &Ok::<(), TapeError>(()))?;
        // The host says that it needs it no more, or is gone.
        let said = channel.receive();
        drop(lease);
        said.and_then(|_| done(channel))
    }
}

fn free() -> Box<dyn Send> {
    Box::new(())
}

fn done(channel: &Channel) -> Result<(), Broken> {
    is(channel, &())
}

fn is<A: serde::Serialize>(channel: &Channel, answer: &A) -> Result<(), Broken> {
    channel.tell(&Reply::Is(answer))
}
