//! A command with all that it started. A shell that is told to end does not pass that on to what it waits for, and a process group of
//! its own would stop whoever asks for a password on the terminal: so they are found by their parents.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::wait::readable;

/// Processes that stem from one another. Who was found goes on being one of them when its parent ends.
#[derive(Default)]
pub(crate) struct Descendants {
    /// Each by its number, with what tells it from a later one of that number; parents before their children.
    known: Vec<(i32, OwnedFd)>,
}

impl Descendants {
    /// A command that was not waited for yet, and what it started.
    pub fn of(child: &Child) -> Self {
        let mut all = Self::default();
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
            && let Ok(fd) = pidfd_open(pid, PidfdFlags::empty())
        {
            all.known.push((pid.as_raw_pid(), fd));
        }
        all.look();
        all
    }

    /// Takes what was started since.
    pub fn look(&mut self) {
        loop {
            let found = self.new_ones();
            if found.is_empty() {
                return;
            }
            self.known.extend(found);
        }
    }

    /// Sends a signal to all; to parents first, who would go on with what comes next.
    pub fn tell(&mut self, signal: Signal) {
        self.look();
        let mut told = 0;
        while told < self.known.len() {
            for (_, fd) in &self.known[told..] {
                // Who cannot be told any more has ended.
                let _ = pidfd_send_signal(fd, signal);
            }
            told = self.known.len();
            self.look();
        }
    }

    /// Whether all have ended.
    pub fn are_gone(&self) -> bool {
        self.known.iter().all(|(_, fd)| has_ended(fd))
    }

    /// Processes that are not known, of parents that are, and have not ended.
    fn new_ones(&self) -> Vec<(i32, OwnedFd)> {
        let parents: Vec<i32> =
            self.known.iter().filter(|(_, fd)| !has_ended(fd)).map(|(n, _)| *n).collect();
        let is_new = |number: i32| {
            self.known.iter().all(|(n, _)| *n != number)
                && parent_of(number).is_some_and(|parent| parents.contains(&parent))
        };
        let Some(all) = fs::read_dir("/proc").ok().filter(|_| !parents.is_empty()) else {
            return Vec::new();
        };
        let open = |number: i32| {
            let fd = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
            // It is still the one that was looked at.
            is_new(number).then_some((number, fd))
        };
        let numbers = all.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        numbers.filter(|number| is_new(*number)).filter_map(open).collect()
    }
}

/// The number of a process's parent, as /proc says. One that has ended has none.
fn parent_of(number: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name of the program stands in brackets and may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.next()?.parse().ok(),
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    readable(process, Duration::ZERO).unwrap_or(true)
}
