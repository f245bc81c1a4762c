//! What a host asks and tells a cell by itself: of tapes to be put in, of waits, of what happens to tapes, of robots.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use capstan_address::LibraryName;
use capstan_engine::threads;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::operator::Operator;
use capstan_medium::host::queue::{Patience, Queue};
use capstan_medium::host::shared::Common;
use capstan_medium::host::waits::Waits;
use capstan_medium::tape::TapeError;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::connection::{Broken, Channel, Connection};
use crate::devices::crosses::{Crosses, lost};
use crate::devices::far::{answered, refuse, result};
use crate::devices::message::{Knows, Lib, ToCell};

/// How often waits are told.
const PAUSE: Duration = Duration::from_millis(200);

/// The cell at the other end.
#[derive(Default)]
pub struct Cells {
    connection: Mutex<Weak<Connection>>,
    watches: AtomicBool,
}

impl Cells {
    /// It is at the other end of that connection.
    pub fn set(&self, connection: &Arc<Connection>) {
        *self.connection.lock() = Arc::downgrade(connection);
    }

    fn begin(&self, question: &ToCell) -> Result<Channel, Broken> {
        let connection = self.connection.lock().upgrade().ok_or(Broken::Closed)?;
        let channel = connection.open()?;
        channel.tell(question)?;
        Ok(channel)
    }

    fn ask<A: DeserializeOwned>(&self, question: &ToCell) -> Result<A, Broken> {
        answered(&self.begin(question)?, &mut refuse)
    }

    /// Tells something. Where the connection broke nobody is there to be told.
    fn tell(&self, question: &ToCell) {
        let _ = self.ask::<()>(question);
    }

    /// Sets who is asked for tapes at this host and who waits there: the cell.
    pub fn introduce(
        self: &Arc<Self>,
        devices: &dyn DeviceHost,
        operator: Option<Option<Duration>>,
        queue: Option<Option<Duration>>,
    ) {
        if let Some(patience) = operator {
            let (told, shown) = (self.clone(), self.clone());
            devices.operator().set(Operator {
                patience,
                tell: Box::new(move |text| told.tell(&ToCell::Tell(text.to_owned()))),
                board: Box::new(move |drive, wanted| {
                    let wanted = wanted.map(str::to_owned);
                    shown.tell(&ToCell::Board(drive.to_owned(), wanted));
                }),
            });
        }
        if let Some(most) = queue {
            let (named, told, shown) = (self.clone(), self.clone(), self.clone());
            devices.queue().set(Patience {
                most,
                name: Box::new(move |text| {
                    named.ask(&ToCell::Name(text.to_owned())).unwrap_or_else(|_| text.to_owned())
                }),
                tell: Box::new(move |why| told.tell(&ToCell::Waits(why.to_owned()))),
                board: Box::new(move |number, wait| {
                    let wait = wait.map(|(why, waited)| (why.to_owned(), waited));
                    shown.tell(&ToCell::WaitBoard(number, wait));
                }),
            });
        }
    }

    /// Somebody at the cell knows that.
    pub fn knows(self: &Arc<Self>, devices: &dyn DeviceHost, what: Knows) {
        let cells = self.clone();
        match what {
            Knows::Common => devices.share_with(Arc::new(OfCell(cells))),
            Knows::Ledger => {
                devices.keep_with(Box::new(move |event| cells.tell(&ToCell::Happened(event))));
            }
            Knows::Drives => devices.doubt_drives_by(Box::new(move |library| {
                cells.ask(&ToCell::OnRecord(library.into())).unwrap_or_default()
            })),
            Knows::Exported => devices.know_exported_by(Box::new(move |library, barcode| {
                let question = ToCell::Exported(library.into(), barcode.to_owned());
                cells.ask::<Option<String>>(&question).ok().flatten()
            })),
        }
    }

    /// Tells the cell what this host waits, five times a second where it changes, until the connection ends.
    pub fn watch_waits(self: &Arc<Self>, waits: Waits) {
        if self.watches.swap(true, Relaxed) {
            return;
        }
        let cells = self.clone();
        // Without a thread the cell does not know what was waited, and counts it as work of the device.
        let _ = threads::start("device host: waits", move || {
            let _ = cells.tell_waits(&waits);
        });
    }

    fn tell_waits(&self, waits: &Waits) -> Result<(), Broken> {
        let channel = self.begin(&ToCell::Waited)?;
        let so_far = || (waits.waited(), waits.waited_for_others());
        let before = so_far();
        let mut told = before;
        loop {
            // The cell says nothing on it: this waits, and hears of the end.
            channel.receive_within(PAUSE)?;
            let now = so_far();
            if now != told {
                told = now;
                channel.tell(&(now.0.saturating_sub(before.0), now.1.saturating_sub(before.1)))?;
            }
        }
    }
}

/// What the cell shares with other hosts.
struct OfCell(Arc<Cells>);

/// What the cell has taken for this host, until it is dropped.
struct Lease(Channel);

impl Drop for Lease {
    fn drop(&mut self) {
        // It is given back when the cell says so: who takes it next may ask at once.
        if self.0.send(b"back").is_ok() {
            let _ = answered::<()>(&self.0, &mut refuse);
        }
    }
}

impl OfCell {
    fn lease(&self, question: &ToCell) -> Result<Box<dyn Send>, TapeError> {
        let begun = self.0.begin(question);
        let channel = begun.map_err(|broken| TapeError::lost(lost(&broken)))?;
        result::<(), TapeError>(answered(&channel, &mut refuse))?;
        Ok(Box::new(Lease(channel)))
    }
}

impl Common for OfCell {
    fn book(&self, _: &Arc<Queue>, robot: &str) -> Result<Box<dyn Send>, TapeError> {
        self.lease(&ToCell::Book(robot.to_owned()))
    }

    fn claim(&self, drive: &str) -> Result<Box<dyn Send>, TapeError> {
        self.lease(&ToCell::Claim(drive.to_owned()))
    }

    fn disturbed(&self, library: &LibraryName) {
        self.0.tell(&ToCell::Disturbed(Lib(library.clone())));
    }
}
