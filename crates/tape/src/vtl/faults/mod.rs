//! What a virtual drive or library is to do wrong, and when: for training, and for tests.

use capstan_engine::problem::Explain;

mod account;
mod struck;

use std::fmt;
use std::str::FromStr;

pub(crate) use account::Account;
pub use struck::StruckLog;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The medium cannot be read or written there.
    Error,
    /// The drive stops answering, for good.
    Offline,
    /// The drive loses its power: what is in its buffer is lost, and it stops answering.
    Power,
    /// The drive goes on, and asks to be cleaned.
    Dirty,
    /// The robot jams: it moves nothing, and nothing any more.
    Jam,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Blocks written.
    Write,
    /// Blocks read.
    Read,
    /// Filemarks written.
    Mark,
    /// Tapes moved.
    Move,
    /// Places gone to by the drive's own number.
    Locate,
    /// Places gone to by filemarks and blocks.
    Space,
    /// What is in the drive's buffer brought to the tape.
    Sync,
}

impl Fault {
    const ALL: [Self; 5] = [Self::Error, Self::Offline, Self::Power, Self::Dirty, Self::Jam];

    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Offline => "offline",
            Self::Power => "power",
            Self::Dirty => "dirty",
            Self::Jam => "jam",
        }
    }
}

impl Operation {
    /// By their numbers.
    const ALL: [Self; KINDS] =
        [Self::Write, Self::Read, Self::Mark, Self::Move, Self::Locate, Self::Space, Self::Sync];

    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Mark => "mark",
            Self::Move => "move",
            Self::Locate => "locate",
            Self::Space => "space",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many kinds of operations are counted.
const KINDS: usize = 7;

/// A plan: the n-th operation of a kind, counted from 1, has a fault. As text `write:120=error,move:3=jam`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    planned: Vec<(Operation, u64, Fault)>,
    done: [u64; KINDS],
}

impl Faults {
    /// How many operations of that kind there were so far.
    pub(crate) fn done(&self, operation: Operation) -> u64 {
        self.done[operation as usize]
    }

    /// Whether nothing of it is still to come.
    pub(crate) fn is_over(&self) -> bool {
        self.planned.iter().all(|(operation, at, _)| self.done(*operation) >= *at)
    }

    /// Of each that is planned, whether it is the robot's and no drive's.
    pub fn of_robot(&self) -> impl Iterator<Item = bool> {
        self.planned.iter().map(|(operation, ..)| *operation == Operation::Move)
    }

    /// Counts an operation; the fault that it has.
    pub fn next(&mut self, operation: Operation) -> Option<Fault> {
        let done = &mut self.done[operation as usize];
        *done += 1;
        let n = *done;
        self.planned.iter().find(|(o, at, _)| (*o, *at) == (operation, n)).map(|(.., fault)| *fault)
    }
}

/// A text that is no plan of faults.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no fault; {HOW_WRITTEN}")]
pub struct BadFault(String);

/// How faults are written.
const HOW_WRITTEN: &str = "write write:N, read:N, mark:N, sync:N, locate:N, space:N or move:N, and =error, =offline, =power, =dirty or =jam";

impl Explain for BadFault {
    fn hint(&self) -> Option<String> {
        Some(HOW_WRITTEN.to_owned())
    }
}

impl FromStr for Faults {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Self, BadFault> {
        let one = |part: &str| {
            let (place, fault) = part.split_once('=')?;
            let (operation, n) = place.split_once(':')?;
            let operation = Operation::ALL.into_iter().find(|of| of.name() == operation)?;
            let fault = Fault::ALL.into_iter().find(|of| of.name() == fault)?;
            // Robots jam; drives have the others.
            if (operation == Operation::Move) != (fault == Fault::Jam) {
                return None;
            }
            Some((operation, n.parse().ok().filter(|n| *n > 0)?, fault))
        };
        let parts = text.split(',').filter(|part| !part.is_empty());
        let planned = parts.map(|part| one(part).ok_or_else(|| BadFault(part.to_owned())));
        Ok(Self { planned: planned.collect::<Result<_, _>>()?, done: [0; KINDS] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_operation_has_its_fault() {
        let mut faults: Faults = "write:2=error,read:1=offline,move:1=jam".parse().unwrap();
        assert_eq!(faults.next(Operation::Write), None);
        assert_eq!(faults.next(Operation::Read), Some(Fault::Offline));
        assert_eq!(faults.next(Operation::Write), Some(Fault::Error));
        assert_eq!(faults.next(Operation::Write), None);
        assert_eq!(faults.next(Operation::Move), Some(Fault::Jam));
        let mut faults: Faults = "sync:1=power".parse().unwrap();
        assert_eq!(faults.next(Operation::Sync), Some(Fault::Power));
        for bad in [
            "write",
            "write:0=error",
            "write:x=error",
            "fly:1=error",
            "write:1=jam",
            "move:1=error",
        ] {
            assert_eq!(bad.parse::<Faults>(), Err(BadFault(bad.to_owned())));
        }
        assert_eq!("".parse::<Faults>(), Ok(Faults::default()));
    }
}
