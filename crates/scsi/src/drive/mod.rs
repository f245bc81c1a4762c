//! A tape drive: a stream of blocks and filemarks.
//!
//! Blocks are of variable length, one command each. The drive keeps account of where the tape stands; after anything
//! that leaves that uncertain (an error, a reset, a lost connection) the position is unknown until the caller asks for it
//! and the drive says it, or until the tape was rewound or located, and meanwhile nothing is written.

mod blocks;
mod counters;
mod keys;
mod places;
mod settings;
mod standing;
#[cfg(test)]
mod tests;

pub use blocks::{Read, Written};
pub use settings::{BlockLimits, Medium};

use std::time::{Duration, Instant};

use crate::Error;
use crate::answers::inquiry::{Identity, Kind};
use crate::cdb::{self, Cdb};
use crate::device::{Device, Reply};
use crate::patience::Reconnects;
use crate::transport::{Data, Left, Transport};

/// A tape drive.
pub struct Drive {
    device: Device,
    at: standing::Standing,
    limits: Option<BlockLimits>,
    form: places::Form,
    key: keys::KeyState,
    /// The drive forgot its settings.
    unset: bool,
}

impl Drive {
    /// Opens a drive by its name (see [`crate::open`]).
    pub fn open(name: &str) -> Result<Self, Error> {
        Self::on(crate::open(name)?)
    }

    /// Opens a drive behind a transport.
    pub fn on(transport: Box<dyn Transport>) -> Result<Self, Error> {
        let device = Device::open(transport)?;
        if device.kind() != Kind::Tape {
            let found = device.kind().to_string();
            return Err(Error::WrongKind {
                device: device.name().to_owned(),
                found,
                wanted: "tape drive",
            });
        }
        Ok(Self::of(device))
    }

    /// A drive of which no more is known than what it is.
    fn of(device: Device) -> Self {
        Self {
            device,
            at: standing::Standing::NEW,
            limits: None,
            form: places::Form::Untried,
            key: keys::KeyState::None,
            unset: true,
        }
    }

    /// Gives the drive to somebody else, who opens the way to it again ([`Self::reconnect`]). Here it is closed.
    pub fn hand_over(&mut self) -> Self {
        Self::of(self.device.hand_over())
    }

    /// Whether a command was left at work, as the process was told to end; one that is gets so long to end.
    pub fn left(&mut self, patience: Duration) -> Left {
        self.device.left(patience)
    }

    /// The drive's name for messages.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// Maker, model, serial number.
    pub fn identity(&self) -> &Identity {
        self.device.identity()
    }

    /// Whether a medium is loaded and ready.
    pub fn is_loaded(&mut self) -> Result<bool, Error> {
        let why_not = self.device.not_ready()?;
        self.settle();
        match why_not {
            None => Ok(true),
            Some(sense) if sense.is_no_medium() || sense.is_becoming_ready() => Ok(false),
            Some(sense) => Err(self.device.check(cdb::test_unit_ready(), sense)),
        }
    }

    /// Waits until a medium is ready. Loading a new LTO-9 medium takes up to two hours, which the drive says; one that
    /// says that it is empty is believed after a while. Who ends waits no longer ([`crate::patience`]).
    pub fn wait_ready(&mut self, patience: Duration) -> Result<(), Error> {
        /// Drives say that they are empty for a while after the robot has put a medium in.
        const EMPTY: Duration = Duration::from_secs(20);
        const PAUSE: Duration = Duration::from_millis(500);
        let start = Instant::now();
        loop {
            let why_not = self.device.not_ready()?;
            self.settle();
            let Some(sense) = why_not else { return Ok(()) };
            let patience = match sense {
                s if s.is_no_medium() => patience.min(EMPTY),
                s if s.is_becoming_ready() => patience,
                _ => Duration::ZERO,
            };
            if start.elapsed() >= patience || crate::patience::is_over() {
                return Err(self.device.check(cdb::test_unit_ready(), sense));
            }
            std::thread::sleep(PAUSE.min(patience));
        }
    }

    /// Loads the medium that is in the drive, and rewinds it.
    pub fn load(&mut self) -> Result<(), Error> {
        let cdb = cdb::load_unload(true);
        self.at.lose();
        self.device.run(cdb, Data::None)?;
        self.wait_ready(cdb.timeout())?;
        // Not every drive rewinds when it loads what is loaded already.
        self.rewind()
    }

    /// Unloads the medium, so that the robot can take it. Some drives leave it where it is, and the robot takes it all the
    /// same.
    pub fn unload(&mut self) -> Result<(), Error> {
        self.at.moved();
        self.device.run(cdb::load_unload(false), Data::None)?;
        self.unset = true;
        self.key.medium_gone();
        Ok(())
    }

    /// Keeps the medium from being taken out, or no longer.
    pub fn prevent_removal(&mut self, prevent: bool) -> Result<(), Error> {
        self.device.run(cdb::prevent_removal(prevent), Data::None).map(drop)
    }

    /// Reserves the drive for this host. False where the drive has no reservations.
    pub fn reserve(&mut self) -> Result<bool, Error> {
        let cdb = cdb::reserve();
        if !self.device.may_have(&cdb) {
            return Ok(false);
        }
        match self.device.run(cdb, Data::None) {
            Err(e) if e.is_unsupported() => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Ends the reservation.
    pub fn release(&mut self) -> Result<(), Error> {
        match self.device.run(cdb::release(), Data::None) {
            Err(e) if e.is_unsupported() => Ok(()),
            result => result.map(drop),
        }
    }

    /// Connects again after [`Error::Lost`] or [`Error::TimedOut`]. The position is unknown then, the settings are gone, and
    /// so is the key.
    pub fn reconnect(&mut self, reconnects: &Reconnects) -> Result<(), Error> {
        let result = self.device.reconnect(reconnects);
        self.settle();
        result
    }

    /// Sends a command, and draws the consequences where the device was reset or the way to it was lost.
    fn send(&mut self, cdb: Cdb, data: Data<'_>) -> Result<Reply, Error> {
        let reply = self.device.send(cdb, data);
        if reply.as_ref().is_err_and(|e| !matches!(e, Error::NotSent { .. })) {
            self.at.lose();
        }
        self.settle();
        reply
    }

    /// After a reset or a change of medium nothing is as it was.
    fn settle(&mut self) {
        if self.device.take_disturbed() {
            self.at.moved();
            self.unset = true;
            self.key.reset();
        }
    }
}
