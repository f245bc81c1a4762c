//! Errors of the port and their values: what crossed reads as it would have read here.

use capstan_engine::problem::{Explain, Problem};
use capstan_engine::threads::NoThread;
use capstan_port::disk::archive::ArchiveRefused;
use capstan_port::disk::backup::{ForeseeError, JobError};
use capstan_port::disk::check::{CheckError, ScratchError};
use capstan_port::disk::lost::AgentLost;
use capstan_port::disk::restore::{RestoreEnded, TargetFull};
use capstan_select::BadPattern;
use capstan_wire::disk::said::{
    ArchiveSaid, CheckSaid, EndedSaid, ForeseeSaid, JobSaid, NoThreadSaid, PatternSaid, ScratchSaid,
};

use crate::connection::Broken;

/// What is said of a disk agent whose connection broke.
pub(super) fn lost(why: &Broken) -> AgentLost {
    let sentence = format!("the disk agent does not answer: {}", why.sentence());
    AgentLost(Problem { sentence, hint: why.hint() })
}

/// An answer that answers something else.
pub(super) fn other_answer() -> Broken {
    Broken::Message("an answer answers something else than was asked".to_owned())
}

fn lost_there(why: AgentLost) -> capstan_wire::disk::said::ProblemSaid {
    why.0.into()
}

fn no_thread_said(e: NoThread) -> NoThreadSaid {
    NoThreadSaid { why: (&e.source).into(), what: e.what.into_owned() }
}

fn no_thread(said: NoThreadSaid) -> NoThread {
    NoThread { what: said.what.into(), source: said.why.into() }
}

fn pattern_said(BadPattern { pattern, reason }: BadPattern) -> PatternSaid {
    PatternSaid { pattern, reason }
}

fn pattern(PatternSaid { pattern, reason }: PatternSaid) -> BadPattern {
    BadPattern { pattern, reason }
}

/// An error of a job as a value.
pub(super) fn job_said(e: JobError) -> JobSaid {
    match e {
        JobError::Pattern(e) => JobSaid::Pattern(pattern_said(e)),
        JobError::Key(e) => JobSaid::Key(e.into()),
        JobError::Label(text) => JobSaid::Label(text),
        JobError::Lost(e) => JobSaid::Lost(lost_there(e)),
    }
}

/// The error that a value is.
pub(super) fn job(said: JobSaid) -> JobError {
    match said {
        JobSaid::Pattern(said) => JobError::Pattern(pattern(said)),
        JobSaid::Key(said) => JobError::Key(said.into()),
        JobSaid::Label(text) => JobError::Label(text),
        JobSaid::Lost(said) => JobError::Lost(AgentLost(said.into())),
    }
}

/// Why nothing is foreseen, as a value.
pub(super) fn foresee_said(e: ForeseeError) -> ForeseeSaid {
    match e {
        ForeseeError::NoThread(e) => ForeseeSaid::NoThread(no_thread_said(e)),
        ForeseeError::Lost(e) => ForeseeSaid::Lost(lost_there(e)),
    }
}

/// The error that a value is.
pub(super) fn foresee(said: ForeseeSaid) -> ForeseeError {
    match said {
        ForeseeSaid::NoThread(said) => ForeseeError::NoThread(no_thread(said)),
        ForeseeSaid::Lost(said) => ForeseeError::Lost(AgentLost(said.into())),
    }
}

/// An error of a check as a value.
pub(super) fn check_said(e: CheckError) -> CheckSaid {
    match e {
        CheckError::Pattern(e) => CheckSaid::Pattern(pattern_said(e)),
        CheckError::NoThread(e) => CheckSaid::NoThread(no_thread_said(e)),
        CheckError::Rows => CheckSaid::Rows,
        CheckError::Open { path, source } => CheckSaid::Open { path, why: (&source).into() },
        CheckError::Lost(e) => CheckSaid::Lost(lost_there(e)),
    }
}

/// The error that a value is.
pub(super) fn check(said: CheckSaid) -> CheckError {
    match said {
        CheckSaid::Pattern(said) => CheckError::Pattern(pattern(said)),
        CheckSaid::NoThread(said) => CheckError::NoThread(no_thread(said)),
        CheckSaid::Rows => CheckError::Rows,
        CheckSaid::Open { path, why } => CheckError::Open { path, source: why.into() },
        CheckSaid::Lost(said) => CheckError::Lost(AgentLost(said.into())),
    }
}

/// Why no scratch directory is made, as a value.
pub(super) fn scratch_said(e: ScratchError) -> ScratchSaid {
    match e {
        ScratchError::NotWritable { dir, why } => ScratchSaid::NotWritable { dir, why },
        ScratchError::NoRoom { dir, megabytes } => ScratchSaid::NoRoom { dir, megabytes },
        ScratchError::Lost(e) => ScratchSaid::Lost(lost_there(e)),
    }
}

/// The error that a value is.
pub(super) fn scratch(said: ScratchSaid) -> ScratchError {
    match said {
        ScratchSaid::NotWritable { dir, why } => ScratchError::NotWritable { dir, why },
        ScratchSaid::NoRoom { dir, megabytes } => ScratchError::NoRoom { dir, megabytes },
        ScratchSaid::Lost(said) => ScratchError::Lost(AgentLost(said.into())),
    }
}

/// Why an archive is not opened, as a value.
pub(super) fn archive_said(e: ArchiveRefused) -> ArchiveSaid {
    match e {
        ArchiveRefused::NotMade(why) => ArchiveSaid::NotMade(why),
        ArchiveRefused::OutputClosed => ArchiveSaid::OutputClosed,
        ArchiveRefused::Lost(e) => ArchiveSaid::Lost(lost_there(e)),
    }
}

/// The error that a value is.
pub(super) fn archive(said: ArchiveSaid) -> ArchiveRefused {
    match said {
        ArchiveSaid::NotMade(why) => ArchiveRefused::NotMade(why),
        ArchiveSaid::OutputClosed => ArchiveRefused::OutputClosed,
        ArchiveSaid::Lost(said) => ArchiveRefused::Lost(AgentLost(said.into())),
    }
}

/// Why a restore ends, as a value.
pub(super) fn ended_said(e: RestoreEnded) -> EndedSaid {
    match e {
        RestoreEnded::Full(TargetFull(problem)) => EndedSaid::Full(problem.into()),
        RestoreEnded::Lost(e) => EndedSaid::Lost(lost_there(e)),
    }
}

/// The error that a value is.
pub(super) fn ended(said: EndedSaid) -> RestoreEnded {
    match said {
        EndedSaid::Full(said) => RestoreEnded::Full(TargetFull(said.into())),
        EndedSaid::Lost(said) => RestoreEnded::Lost(AgentLost(said.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// What an error says, and what to do.
    fn read(e: &dyn std::error::Error) -> (String, Option<String>) {
        (e.to_string(), e.source().map(ToString::to_string))
    }

    fn through<T: serde::Serialize + serde::de::DeserializeOwned>(said: &T) -> T {
        capstan_wire::decode(&capstan_wire::encode(said).unwrap()).unwrap()
    }

    #[test]
    fn what_crossed_reads_as_it_would_have_read_here() {
        let no_thread =
            || NoThread { what: "a stream".into(), source: io::Error::from_raw_os_error(11) };
        let bad = || BadPattern { pattern: "[z-a".into(), reason: "ends before it begins".into() };
        let open = |source| CheckError::Open { path: "/srv".to_owned(), source };
        let lost = || AgentLost(Problem::new("it is gone").hint("look for it"));
        let checks: [fn() -> CheckError; 1] = [|| CheckError::Rows];
        for make in checks {
            assert_eq!(read(&check(through(&check_said(make())))), read(&make()));
        }
        for make in [
            &(|| CheckError::Pattern(bad())) as &dyn Fn() -> CheckError,
            &|| CheckError::NoThread(no_thread()),
            &|| open(io::Error::from_raw_os_error(13)),
            &|| open(io::ErrorKind::TimedOut.into()),
            &|| open(io::Error::other("said by others")),
            &|| CheckError::Lost(lost()),
        ] {
            assert_eq!(read(&check(through(&check_said(make())))), read(&make()));
        }
        for make in [
            &(|| JobError::Pattern(bad())) as &dyn Fn() -> JobError,
            &|| JobError::Key(Problem::new("no").hint("yes")),
            &|| JobError::Label("no JSON".to_owned()),
            &|| JobError::Lost(lost()),
        ] {
            assert_eq!(read(&job(through(&job_said(make())))), read(&make()));
        }
        for e in [
            ScratchError::NotWritable { dir: "/s".into(), why: "read-only".into() },
            ScratchError::NoRoom { dir: "/s".into(), megabytes: 7 },
            ScratchError::Lost(lost()),
        ] {
            assert_eq!(scratch(through(&scratch_said(e.clone()))), e);
        }
        for e in [
            ArchiveRefused::NotMade("read-only".into()),
            ArchiveRefused::OutputClosed,
            ArchiveRefused::Lost(lost()),
        ] {
            assert_eq!(archive(through(&archive_said(e.clone()))), e);
        }
        let full = || RestoreEnded::Full(TargetFull(Problem::new("full").hint("make room")));
        assert_eq!(read(&ended(through(&ended_said(full())))), read(&full()));
        let none = || ForeseeError::NoThread(no_thread());
        assert_eq!(read(&foresee(through(&foresee_said(none())))), read(&none()));
    }
}
