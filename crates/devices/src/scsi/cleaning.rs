//! Cleaning of a real drive: it does so by itself when it gets a cleaning tape, and ejects that when it is done.

use std::thread;
use std::time::{Duration, Instant};

use capstan_engine::leaving;
use capstan_scsi::{Changer, Drive, Error};

use super::Initiator;

const PAUSE: Duration = Duration::from_secs(2);
/// Makers say one to five minutes.
const LONGEST: Duration = Duration::from_secs(20 * 60);
/// A drive says that it is empty until it has noticed the tape.
const NOTICE: Duration = Duration::from_secs(60);

/// What a drive with a cleaning tape does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It says that nothing is in it.
    Empty,
    /// It is at work.
    Busy,
    /// It is ready to be written.
    Ready,
}

/// Waits until a drive that got a cleaning tape is done. What went wrong, if anything.
pub(super) fn wait(initiator: &Initiator, device: &str) -> Result<Option<String>, Error> {
    // One that answers nothing while it cleans is no news.
    let mut drive = initiator.transport(device).and_then(Drive::on)?;
    let start = Instant::now();
    let mut seen = false;
    let ended = loop {
        match state(&mut drive)? {
            State::Ready => break Some("it took the tape for one with data".to_owned()),
            State::Empty if seen || start.elapsed() > NOTICE => break None,
            State::Busy if start.elapsed() > LONGEST => {
                break Some("it did not end; look at its front panel".to_owned());
            }
            now => seen |= now == State::Busy,
        }
        if !leaving::nap(PAUSE) {
            break Some("nobody waited until it was done; put the tape back when it is".to_owned());
        }
    };
    let said = drive.alerts()?.into_iter().find(|alert| alert.refuses_cleaning_tape());
    Ok(said.map(|alert| alert.to_string()).or(ended))
}

fn state(drive: &mut Drive) -> Result<State, Error> {
    match drive.wait_ready(Duration::ZERO) {
        Ok(()) => Ok(State::Ready),
        Err(Error::NoMedium { .. }) => Ok(State::Empty),
        Err(e) if e.sense().is_some() => Ok(State::Busy),
        Err(e) => Err(e),
    }
}

/// Puts the cleaning tape back. A drive that is not quite done keeps it for a while.
pub(super) fn take_back(robot: &mut Changer, drive: u16, to: u16) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        match robot.move_medium(drive, to) {
            Err(e) if e.sense().is_some() && start.elapsed() < NOTICE => thread::sleep(PAUSE),
            moved => return moved,
        }
    }
}
