//! How long a device is waited for: not longer than somebody wants what it does.
//!
//! Who waits until a device is ready asks between commands. Of the commands themselves only those are left alone that move the tape
//! and nothing else, which take minutes; none that writes, none that reads. What is left alone ends by itself in the device, and the
//! way to it is closed: nobody knows where the tape stands. What the drive has of us then, a key above all, is taken from it when it is
//! done ([`crate::Drive::hand_over`]).

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How soon who waits hears of it.
pub(crate) const SLICE: Duration = Duration::from_millis(100);
/// As long a command that is at work may still end.
const GRACE: Duration = Duration::from_secs(1);

/// How long a connection that was lost is tried again, where nobody says it.
const RECONNECT: Duration = Duration::from_secs(120);
/// The first pause between two tries; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_millis(250);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(15);

static ENDS: OnceLock<fn() -> bool> = OnceLock::new();

/// What is done about connections that were lost. By default they are tried for two minutes, and nobody is told.
pub struct Reconnects {
    /// How long each is tried again.
    pub most: Duration,
    /// Is told, in a sentence, that one is tried again.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Default for Reconnects {
    fn default() -> Self {
        Self { most: RECONNECT, tell: Box::new(|_| ()) }
    }
}

/// Tries to connect again, with pauses that grow.
pub struct Again<'a> {
    begun: Instant,
    reconnects: &'a Reconnects,
    pause: Duration,
    told: bool,
}

impl<'a> Again<'a> {
    /// For as long as lost connections are tried, from now on.
    pub fn begin(reconnects: &'a Reconnects) -> Self {
        Self { begun: Instant::now(), reconnects, pause: SHORTEST, told: false }
    }

    /// Waits a while as a try of that device failed. False where that was the last one.
    pub fn again(&mut self, device: &str) -> bool {
        let left = self.reconnects.most.saturating_sub(self.begun.elapsed());
        if left.is_zero() || is_over() {
            return false;
        }
        if !std::mem::replace(&mut self.told, true) {
            let seconds = self.reconnects.most.as_secs();
            (self.reconnects.tell)(&format!(
                "the connection to {device} is lost, and is tried again for up to {seconds} s"
            ));
        }
        let (begun, pause) = (Instant::now(), self.pause.min(left));
        while let Some(left) = pause.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            && !is_over()
        {
            thread::sleep(left.min(SLICE));
        }
        self.pause = (self.pause * 2).min(LONGEST);
        !is_over()
    }
}

/// Says how who waits for a device learns that nobody wants it any more. The first that is given holds.
pub fn ends_when(nobody_waits: fn() -> bool) {
    let _ = ENDS.set(nobody_waits);
}

/// Whether nobody waits any more.
pub(crate) fn is_over() -> bool {
    ENDS.get().is_some_and(|nobody_waits| nobody_waits())
}

/// Whether nobody waits any more for a device that is too busy for this command. What writes or reads is waited for: the end of a
/// session is written after it was told to end.
pub(crate) fn gives_up(cdb: &[u8]) -> bool {
    const TEST_UNIT_READY: u8 = 0;
    is_over() && cdb.first().is_some_and(|code| *code == TEST_UNIT_READY || only_moves(*code))
}

/// Why the way to a device that was left alone is closed.
pub(crate) const LEFT: &str = "it was at work when the session was told to end, and was left to it";

/// Looks, while a command is at work, whether somebody still waits for it. One that was sent after the session was told to end is a
/// part of its end.
pub(crate) struct Watch {
    may_leave: bool,
    over: Option<Instant>,
}

impl Watch {
    /// Of a command that is sent now.
    pub fn of(cdb: &[u8]) -> Self {
        Self {
            may_leave: cdb.first().is_some_and(|code| only_moves(*code)) && !is_over(),
            over: None,
        }
    }

    /// Whether the command may be left alone at all.
    pub fn may_leave(&self) -> bool {
        self.may_leave
    }

    /// Whether it is to be left alone now.
    pub fn leaves(&mut self) -> bool {
        self.may_leave && is_over() && self.over.get_or_insert_with(Instant::now).elapsed() >= GRACE
    }
}

/// REWIND, SPACE, LOAD UNLOAD, LOCATE.
fn only_moves(code: u8) -> bool {
    matches!(code, 0x01 | 0x11 | 0x91 | 0x1b | 0x2b | 0x92)
}

/// A command that was left alone, and what will come of it.
pub(crate) struct AtWork<T>(Receiver<T>);

impl<T> AtWork<T> {
    /// Whether it ends in that time.
    pub fn ends_within(&self, patience: Duration) -> bool {
        // A thread that is gone without a word has ended too.
        !matches!(self.0.recv_timeout(patience), Err(RecvTimeoutError::Timeout))
    }
}

/// Why a command that runs in a thread of its own came to nothing here.
pub(crate) enum Apart<T> {
    /// It was left alone.
    Left(AtWork<T>),
    /// The kernel has no thread for it: it was not run.
    NoThread,
}

/// Runs a command in a thread of its own, and waits for it as long as somebody wants it.
pub(crate) fn beside<T: Send + 'static>(
    mut watch: Watch,
    command: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Apart<T>> {
    let (done, ended) = channel();
    let thread = thread::Builder::new().name("scsi".to_owned()).spawn(move || {
        // Nobody may be there any more to hear it.
        let _ = done.send(command());
    });
    thread.map_err(|_| Apart::NoThread)?;
    loop {
        match ended.recv_timeout(SLICE) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) if !watch.leaves() => {}
            Err(_) => return Err(Apart::Left(AtWork(ended))),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Whether nobody waits any more, of each test by itself.
        pub static OVER: Cell<bool> = const { Cell::new(false) };
    }

    /// Has [`OVER`] asked.
    pub fn asks_over() {
        ends_when(|| OVER.get());
    }

    #[test]
    fn a_lost_connection_is_tried_for_its_time_with_pauses_that_grow() {
        asks_over();
        let most = Duration::from_millis(1000);
        let reconnects = Reconnects { most, ..Reconnects::default() };
        let mut again = Again::begin(&reconnects);
        let (begun, mut times) = (Instant::now(), Vec::new());
        while again.again("x") {
            times.push(begun.elapsed());
        }
        // After 250, 750 and 1000 ms; a busy machine makes fewer of it, never more.
        assert!((1..=3).contains(&times.len()), "{times:?}");
        assert!(begun.elapsed() >= most && times[0] >= SHORTEST, "{times:?}");
        OVER.set(true);
        assert!(!Again::begin(&reconnects).again("x"), "nobody waits for it");
        OVER.set(false);
    }

    #[test]
    fn what_only_moves_the_tape_is_left_alone_and_nothing_else() {
        asks_over();
        let slow = || thread::sleep(Duration::from_secs(5));
        assert!(matches!(beside(Watch::of(&[0x01]), || 7), Ok(7)));
        let watch = Watch::of(&[0x92]);
        OVER.set(true);
        let begun = Instant::now();
        let Err(Apart::Left(at_work)) = beside(watch, slow) else { panic!("it was waited for") };
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert!(!at_work.ends_within(Duration::ZERO));
        assert!(at_work.ends_within(Duration::from_secs(20)), "who waits on hears of its end");
        // What was sent after that belongs to the end, and writes are never left.
        assert!(!Watch::of(&[0x01]).may_leave());
        OVER.set(false);
        for code in [0x08, 0x0a, 0x10, 0x19, 0x15, 0xb5, 0xa5] {
            assert!(!Watch::of(&[code]).may_leave(), "{code:#x}");
        }
    }
}
