//! A plan of faults and what was counted of it, in a file, so that it goes on from one opening of a drive or library to the next.
//!
//! The file's first line is the plan, its second one has seven numbers of 20 digits: how many operations of each kind there were. It
//! is given as a whole with a new plan, and its second line written over with each operation while something of the plan is to come.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use capstan_medium::tape::TapeError;
use capstan_medium::tape::error::{damaged, failed};
use rustix::fs::OFlags;

use super::{BadFault, Fault, Faults, KINDS, Operation, StruckLog};
use crate::vtl::small_file::{self, write_whole};

/// A plan that is counted.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// What has the faults.
    of: String,
    faults: Faults,
    /// Where it is kept which of them struck.
    struck: StruckLog,
    /// Where it is counted, and from which byte on. Nothing where the plan is this process's alone, or over.
    file: Option<(PathBuf, File, u64)>,
}

impl Account {
    /// A plan of which nobody else knows.
    pub fn of_process(of: &str, faults: Faults, struck: &StruckLog) -> Self {
        Self { of: of.to_owned(), faults, struck: struck.clone(), file: None }
    }

    /// Begins a plan in a file; the one that was there is over, but for who has it open.
    pub fn begin(path: &Path, plan: &str) -> Result<(), TapeError> {
        let text = format!("{}\n{}", plan.trim(), counts(&Faults::default()));
        write_whole(path, &text).map_err(failed("write", path))
    }

    /// Goes on with the plan of a file, if there is one and something of it is to come.
    pub fn open(path: &Path, of: &str, struck: &StruckLog) -> Result<Self, TapeError> {
        let none = Self::of_process(of, Faults::default(), struck);
        let Some(text) = small_file::read_if_there(path)? else { return Ok(none) };
        let (plan, done) = text.split_once('\n').unwrap_or((&text, ""));
        let mut faults: Faults =
            plan.trim().parse().map_err(|e: BadFault| damaged(path, &e.to_string()))?;
        let numbers = done.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        match numbers {
            Ok(numbers) if numbers.is_empty() => {}
            Ok(numbers) if numbers.len() == KINDS => faults.done.copy_from_slice(&numbers),
            _ => return Err(damaged(path, "it does not say how many operations there were")),
        }
        if faults.is_over() {
            return Ok(none);
        }
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path);
        let file = file.map_err(failed("open", path))?;
        let at = plan.len() as u64;
        let file = Some((path.to_owned(), file, at));
        Ok(Self { file, ..Self::of_process(of, faults, struck) })
    }

    /// Counts an operation; the fault that it has.
    pub fn next(&mut self, operation: Operation) -> Result<Option<Fault>, TapeError> {
        if self.faults.is_over() {
            return Ok(None);
        }
        let fault = self.faults.next(operation);
        if let Some((path, file, at)) = &self.file {
            let text = format!("\n{}", counts(&self.faults));
            file.write_all_at(text.as_bytes(), *at).map_err(failed("write", path))?;
        }
        if let Some(fault) = fault {
            self.struck.keep(&self.of, operation, self.faults.done(operation), fault);
        }
        Ok(fault)
    }
}

fn counts(faults: &Faults) -> String {
    let of = |operation| format!("{:020}", faults.done(operation));
    Operation::ALL.map(of).join(" ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_medium::tape::Struck;

    #[test]
    fn a_plan_goes_on_where_the_last_opening_left_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("drive-1.faults");
        let log = StruckLog::default();
        let open = || Account::open(&path, "drive 1 of x", &log);
        assert_eq!(open().unwrap().next(Operation::Move).unwrap(), None);
        Account::begin(&path, "write:3=error,read:1=dirty\n").unwrap();
        for n in 1..=3 {
            let mut account = open().unwrap();
            assert_eq!(account.next(Operation::Mark).unwrap(), None);
            let expected = (n == 3).then_some(Fault::Error);
            assert_eq!(account.next(Operation::Write).unwrap(), expected, "{n}");
        }
        assert_eq!(open().unwrap().next(Operation::Read).unwrap(), Some(Fault::Dirty));
        let of = |s: &Struck| (s.operation.clone(), s.number, s.fault.clone());
        let struck: Vec<_> = log.take().iter().map(of).collect();
        let said = |operation: &str, n, fault: &str| (operation.to_owned(), n, fault.to_owned());
        assert_eq!(struck, [said("write", 3, "error"), said("read", 1, "dirty")]);
        let mut over = open().unwrap();
        assert!(over.file.is_none());
        assert_eq!(over.next(Operation::Write).unwrap(), None);
        // Who has an old plan open does not count in the new one.
        Account::begin(&path, "write:2=error").unwrap();
        let mut old = open().unwrap();
        Account::begin(&path, "write:1=offline").unwrap();
        old.next(Operation::Write).unwrap();
        assert_eq!(open().unwrap().next(Operation::Write).unwrap(), Some(Fault::Offline));
    }

    #[test]
    fn files_of_before_and_nonsense() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("robot.faults");
        let open = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Account::open(&path, "the robot of y", &StruckLog::default())
        };
        assert_eq!(open("move:1=jam").unwrap().next(Operation::Move).unwrap(), Some(Fault::Jam));
        assert!(open("").unwrap().file.is_none());
        for bad in ["move:1=error", "move:1=jam\n1 2", "move:1=jam\n1 2 3 4 5 6 x"] {
            assert!(matches!(open(bad), Err(TapeError::Damaged { .. })), "{bad}");
        }
    }
}
