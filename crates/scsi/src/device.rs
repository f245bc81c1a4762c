//! What drives and changers have in common: sending a command until the device has heard it, and telling what went
//! wrong.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::Error;
use crate::answers::inquiry::{self, Identity, Inquiry, Kind};
use crate::answers::opcodes::{self, Opcodes};
use crate::answers::sense::{ILLEGAL_REQUEST, Sense, UNIT_ATTENTION};
use crate::cdb::{self, Cdb};
use crate::patience::{Again, Reconnects};
use crate::transport::{
    BUSY, CHECK_CONDITION, Data, GOOD, Left, Outcome, RESERVATION_CONFLICT, TASK_SET_FULL,
    Transport, TransportError,
};

/// A device with somebody who speaks its language.
pub struct Device {
    transport: Box<dyn Transport>,
    kind: Kind,
    identity: Identity,
    opcodes: Option<Opcodes>,
    /// Commands that the device said it does not have.
    missing: BTreeSet<u8>,
    disturbed: bool,
    /// It said that its media may have been changed.
    exchanged: bool,
}

/// What came of a command that the device has heard.
#[derive(Debug, Clone, Copy)]
pub struct Reply {
    /// What the device has to say; nothing where all went well.
    pub sense: Option<Sense>,
    /// How many bytes fewer than offered were transferred, says the transport.
    pub residual: usize,
}

impl Device {
    /// A device of which nothing is known yet.
    pub(crate) fn unknown(transport: Box<dyn Transport>) -> Self {
        Self {
            transport,
            kind: Kind::Other(0x1f),
            identity: Identity::default(),
            opcodes: None,
            missing: BTreeSet::new(),
            disturbed: false,
            exchanged: false,
        }
    }

    /// Asks a device what it is, which disturbs nobody who uses it.
    pub fn identify(transport: Box<dyn Transport>) -> Result<(Kind, Identity), Error> {
        let mut device = Self::unknown(transport);
        device.ask_what()?;
        Ok((device.kind, device.identity))
    }

    fn ask_what(&mut self) -> Result<(), Error> {
        let bytes = self.answer(cdb::inquiry(None, inquiry::LEN), inquiry::LEN)?;
        let Inquiry { kind, vendor, product, revision, .. } = Inquiry::decode(&bytes);
        self.kind = kind;
        if let Kind::Other(_) = kind {
            // Not for us; it may not even answer anything else.
            return Ok(());
        }
        let serial = self.serial()?;
        self.identity = Identity { vendor, product, revision, serial };
        Ok(())
    }

    /// Asks a device what it is and what it can do.
    pub fn open(transport: Box<dyn Transport>) -> Result<Self, Error> {
        let mut device = Self::unknown(transport);
        device.ask_what()?;
        if let Kind::Other(_) = device.kind {
            return Ok(device);
        }
        device.opcodes = device.ask_opcodes()?;
        // News of resets before our time are nothing to us.
        device.not_ready()?;
        device.disturbed = false;
        Ok(device)
    }

    /// The device's name for messages.
    pub fn name(&self) -> &str {
        self.transport.name()
    }

    /// Maker, model, serial number.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What kind of device it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Gives the way to the device to somebody else. Here it is closed.
    pub fn hand_over(&mut self) -> Self {
        let closed = Closed(self.transport.name().to_owned());
        let identity = self.identity.clone();
        let here = Self { kind: self.kind, identity, ..Self::unknown(Box::new(closed)) };
        std::mem::replace(self, here)
    }

    /// Whether a command was left at work, and still is.
    pub fn left(&mut self, patience: Duration) -> Left {
        self.transport.left(patience)
    }

    /// The most bytes that one command can carry.
    pub fn max_transfer(&self) -> usize {
        self.transport.max_transfer()
    }

    /// The names of the device, its ports and its target.
    pub fn designators(&mut self) -> Result<Vec<inquiry::Designator>, Error> {
        let page = self
            .answer_if_any(cdb::inquiry(Some(inquiry::PAGE_NAMES), inquiry::LEN), inquiry::LEN)?;
        Ok(page.map(|page| inquiry::designators(&page)).unwrap_or_default())
    }

    fn serial(&mut self) -> Result<String, Error> {
        let page = self
            .answer_if_any(cdb::inquiry(Some(inquiry::PAGE_SERIAL), inquiry::LEN), inquiry::LEN)?;
        Ok(page.and_then(|page| inquiry::serial(&page)).unwrap_or_default())
    }

    fn ask_opcodes(&mut self) -> Result<Option<Opcodes>, Error> {
        for with_timeouts in [true, false] {
            let cdb = cdb::report_opcodes(with_timeouts, opcodes::LEN);
            if let Some(bytes) = self.answer_if_any(cdb, opcodes::LEN as usize)? {
                return Ok(Opcodes::decode(&bytes));
            }
        }
        Ok(None)
    }

    /// Whether a command is worth trying. Once the device refused it, it is not.
    pub fn may_have(&self, cdb: &Cdb) -> bool {
        let listed = self.opcodes.as_ref().is_none_or(|opcodes| opcodes.has(cdb.opcode()));
        listed && !self.missing.contains(&cdb.opcode())
    }

    /// Why the device is not ready, which for a drive means that a medium is loaded; nothing where it is.
    pub fn not_ready(&mut self) -> Result<Option<Sense>, Error> {
        match self.send(cdb::test_unit_ready(), Data::None) {
            // Whoever reserved it does not keep us from asking what it is.
            Err(Error::Reserved { .. }) => Ok(None),
            reply => Ok(reply?.sense.filter(|sense| !sense.is_harmless())),
        }
    }

    /// The device was reset or got another medium since this was last asked.
    pub fn take_disturbed(&mut self) -> bool {
        std::mem::take(&mut self.disturbed)
    }

    /// The device said since this was last asked, and also as it was opened, that its media may have been changed.
    pub fn take_exchanged(&mut self) -> bool {
        std::mem::take(&mut self.exchanged)
    }

    /// Opens the way to the device again, and tries for as long as lost connections are tried. Nothing is known of its position or
    /// settings then.
    pub fn reconnect(&mut self, reconnects: &Reconnects) -> Result<(), Error> {
        self.disturbed = true;
        let mut again = Again::begin(reconnects);
        loop {
            match self.reconnect_once() {
                // What is there is not what was there.
                Err(e @ (Error::WrongKind { .. } | Error::Busy { .. } | Error::NoLibiscsi(_))) => {
                    return Err(e);
                }
                Err(e) if again.again(self.transport.name()) => drop(e),
                ended => return ended,
            }
        }
    }

    fn reconnect_once(&mut self) -> Result<(), Error> {
        self.transport.reconnect()?;
        let serial = self.serial()?;
        if serial != self.identity.serial {
            return Err(Error::WrongKind {
                device: self.name().to_owned(),
                found: format!("one with serial number {serial}"),
                wanted: "device that was there before",
            });
        }
        Ok(())
    }

    /// Sends a command that succeeds or fails. The residual is returned.
    pub fn run(&mut self, cdb: Cdb, data: Data<'_>) -> Result<usize, Error> {
        let reply = self.send(cdb, data)?;
        match reply.sense {
            Some(sense) if !sense.is_harmless() => Err(self.check(cdb, sense)),
            _ => Ok(reply.residual),
        }
    }

    /// Sends a command that answers with up to `len` bytes.
    pub fn answer(&mut self, cdb: Cdb, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        let residual = self.run(cdb, Data::In(&mut bytes))?;
        bytes.truncate(len - residual.min(len));
        Ok(bytes)
    }

    /// The same for what not every device has.
    pub fn answer_if_any(&mut self, cdb: Cdb, len: usize) -> Result<Option<Vec<u8>>, Error> {
        if !self.may_have(&cdb) {
            return Ok(None);
        }
        match self.answer(cdb, len) {
            Err(e) if e.is_unsupported() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Sends a command, and hands over what the device has to say.
    ///
    /// Who says that it is busy, or has something else to tell first, did not do anything yet, so the command is sent again.
    /// Not so after a reset or a change of medium, where the command goes from where the tape stands: it stands elsewhere.
    pub fn send(&mut self, cdb: Cdb, mut data: Data<'_>) -> Result<Reply, Error> {
        const NEWS_MAX: usize = 16;
        const BUSY_MAX: Duration = Duration::from_secs(120);
        const PAUSE: Duration = Duration::from_millis(250);
        let (start, mut news) = (Instant::now(), 0);
        loop {
            let outcome = self.send_once(cdb, data.again())?;
            let sense = match outcome.status {
                GOOD => return Ok(Reply { sense: None, residual: outcome.residual }),
                CHECK_CONDITION => Sense::decode(&outcome.sense).unwrap_or_default(),
                BUSY | TASK_SET_FULL
                    if start.elapsed() < BUSY_MAX && !crate::patience::gives_up(cdb.bytes()) =>
                {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                RESERVATION_CONFLICT => {
                    return Err(Error::Reserved { device: self.name().to_owned() });
                }
                status => return Err(self.status(cdb, status)),
            };
            if sense.key == UNIT_ATTENTION {
                self.disturbed |= sense.is_disturbance();
                self.exchanged |= sense.is_exchange();
                news += 1;
                if news < NEWS_MAX && (cdb.is_repeatable() || !sense.is_disturbance()) {
                    continue;
                }
            }
            if sense.key == ILLEGAL_REQUEST && sense.code() == (0x20, 0x00) {
                self.missing.insert(cdb.opcode());
            }
            // Check condition with nothing to say at all: whether the command was carried out is not known.
            if outcome.sense.is_empty() {
                return Err(self.status(cdb, CHECK_CONDITION));
            }
            return Ok(Reply { sense: Some(sense), residual: outcome.residual });
        }
    }

    fn send_once(&mut self, cdb: Cdb, data: Data<'_>) -> Result<Outcome, Error> {
        let asked = self.opcodes.as_ref().and_then(|opcodes| opcodes.timeout(cdb.opcode()));
        let timeout = asked.unwrap_or_default().max(cdb.timeout());
        let doing = cdb.doing();
        self.transport.execute(cdb.bytes(), data, timeout).map_err(|e| {
            let device = self.transport.name().to_owned();
            match e {
                TransportError::TimedOut => {
                    Error::TimedOut { device, doing, seconds: timeout.as_secs() }
                }
                TransportError::Lost(why) => Error::Lost { device, doing, why },
                TransportError::NotSent(why) => Error::NotSent { device, doing, why },
            }
        })
    }

    /// An error that says what the device said.
    pub fn check(&self, cdb: Cdb, sense: Sense) -> Error {
        let device = self.name().to_owned();
        match sense.is_no_medium() {
            true => Error::NoMedium { device },
            false => Error::Check { device, doing: cdb.doing(), sense },
        }
    }

    fn status(&self, cdb: Cdb, status: u8) -> Error {
        Error::Status { device: self.name().to_owned(), doing: cdb.doing(), status }
    }

    /// An error about an answer that makes no sense.
    pub fn senseless(&self, cdb: Cdb, why: impl Into<String>) -> Error {
        Error::Answer { device: self.name().to_owned(), doing: cdb.doing(), why: why.into() }
    }
}

/// What is left here of a way that another has.
struct Closed(String);

impl Closed {
    const WHY: &str = "the way to it was given up";
}

impl Transport for Closed {
    fn execute(&mut self, _: &[u8], _: Data<'_>, _: Duration) -> Result<Outcome, TransportError> {
        Err(TransportError::Lost(Self::WHY.to_owned()))
    }

    fn left(&mut self, _: Duration) -> Left {
        Left::No
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        let (device, doing) = (self.0.clone(), "opening it again");
        Err(Error::Lost { device, doing, why: Self::WHY.to_owned() })
    }

    fn max_transfer(&self) -> usize {
        cdb::TRANSFER_MAX
    }

    fn name(&self) -> &str {
        &self.0
    }
}
