//! What a cell and a disk agent say to each other, in JSON: messages of before are read for ever, and a newer side may say more.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

use std::fmt::Debug;

use capstan_engine::reach::{Reach, Ticket};
use capstan_format::id::{MediumId, StreamId};
use capstan_wire::backup::{Counts, HandedOver};
use capstan_wire::disk::ask::{
    ArchiveAsk, DiskAsk, FilesAsk, How, JobAsk, Names, OnBase, Part, RestoreBegin, RowsEnd,
    TargetAsk, WorkerAsk,
};
use capstan_wire::disk::said::{
    ArchiveSaid, CheckSaid, EndedSaid, JobSaid, NoThreadSaid, PatternSaid, ProblemSaid,
    ScratchSaid, SystemSaid,
};
use capstan_wire::disk::told::{
    ArchiveAnswer, FromAgent, MessageTold, Metered, TargetAnswer, Told, WorkerAnswer,
};
use capstan_wire::restore::{RestoreCounts, RestoreDone};
use capstan_wire::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// As they were when messages were made first, one in a line.
const GOLDEN: &str = include_str!("golden/disk.jsonl");

/// Takes each message in its turn.
struct Lines {
    golden: std::str::Lines<'static>,
    now: String,
}

impl Lines {
    fn next<T: Serialize + DeserializeOwned + PartialEq + Debug>(&mut self, of: &T) {
        let now = String::from_utf8(encode(of).unwrap()).unwrap();
        assert_eq!(&decode::<T>(now.as_bytes()).unwrap(), of);
        if let Some(golden) = self.golden.next() {
            assert_eq!(&decode::<T>(golden.as_bytes()).unwrap(), of, "{golden}");
        }
        self.now += &now;
        self.now.push('\n');
    }
}

fn problem() -> ProblemSaid {
    ProblemSaid { sentence: "it is full".to_owned(), hint: Some("make room".to_owned()) }
}

fn system() -> SystemSaid {
    SystemSaid { errno: Some(13), text: "Permission denied (os error 13)".to_owned() }
}

fn asked(lines: &mut Lines) {
    lines.next(&DiskAsk::Processors);
    lines.next(&DiskAsk::Part { of: 7, part: Part::Worker(3) });
    lines.next(&DiskAsk::Part { of: 7, part: Part::Base });
    lines.next(&DiskAsk::Part { of: 7, part: Part::Files });
    lines.next(&DiskAsk::Part { of: 7, part: Part::Finish });
    lines.next(&DiskAsk::Compare { job: Box::default(), has_frames: true });
    lines.next(&DiskAsk::Prove(Default::default()));
    lines.next(&DiskAsk::MakeScratch(Default::default()));
    lines.next(&DiskAsk::OpenArchive(Default::default()));
    let base = OnBase { of: 7, has_rows: true, saved_by: Some((5, 6)) };
    let blocks = Reach { at: "media1:4444".to_owned(), ticket: Ticket(vec![1, 2]) };
    lines.next(&JobAsk::Run { blocks, block_size: 524_288, base });
    lines.next(&JobAsk::Foresee(OnBase::default()));
    lines.next(&JobAsk::Step(2));
    lines.next(&RowsEnd::Whole);
    lines.next(&RowsEnd::Broken);
    lines.next(&[FilesAsk::Each, FilesAsk::Enough, FilesAsk::Pieces]);
    let begin = RestoreBegin { of: 7, has_links: true, ..RestoreBegin::default() };
    lines.next(&TargetAsk::NotWritable);
    lines.next(&TargetAsk::Has(Names(vec![b"a".to_vec(), b"\xff".to_vec()])));
    lines.next(&[TargetAsk::Foresee, TargetAsk::LeftAlone, TargetAsk::KeptFirsts]);
    lines.next(&TargetAsk::Restore(begin.clone()));
    lines.next(&[TargetAsk::Worker(3), TargetAsk::Finish, TargetAsk::End(How::Done)]);
    lines.next(&[How::Stopped, How::Failed]);
    lines.next(&TargetAsk::Done("home".to_owned()));
    lines.next(&[WorkerAsk::BeginStream, WorkerAsk::EndStream, WorkerAsk::End]);
    lines.next(&[ArchiveAsk::Begin(begin), ArchiveAsk::Hold, ArchiveAsk::End { is_cut: true }]);
}

fn said(lines: &mut Lines) {
    let pattern = PatternSaid { pattern: "[".into(), reason: "it does not end".to_owned() };
    let no_thread = NoThreadSaid { what: "a stream".to_owned(), why: system() };
    lines.next(&[
        JobSaid::Pattern(pattern.clone()),
        JobSaid::Key(problem()),
        JobSaid::Label("x".to_owned()),
        JobSaid::Lost(problem()),
    ]);
    lines.next(&[
        CheckSaid::Pattern(pattern),
        CheckSaid::NoThread(no_thread),
        CheckSaid::Rows,
        CheckSaid::Open { path: "/srv".to_owned(), why: system() },
        CheckSaid::Lost(problem()),
    ]);
    let dir = "/var/tmp".to_owned();
    lines.next(&[
        ScratchSaid::NotWritable { dir: dir.clone(), why: "read-only".to_owned() },
        ScratchSaid::NoRoom { dir, megabytes: 7 },
        ScratchSaid::Lost(problem()),
    ]);
    lines.next(&[
        ArchiveSaid::NotMade("read-only".to_owned()),
        ArchiveSaid::OutputClosed,
        ArchiveSaid::Lost(problem()),
    ]);
    lines.next(&[EndedSaid::Full(problem()), EndedSaid::Lost(problem())]);
}

fn told(lines: &mut Lines) {
    let metered =
        Metered { stage: "file metadata".to_owned(), busy: 5, wait_in: 6, wait_out: 7, bytes: 8 };
    let told = Told {
        meters: vec![metered],
        counts: Some(Counts { found: 9, ..Counts::default() }),
        restored: Some(RestoreCounts { files: 3, ..RestoreCounts::default() }),
        ..Told::default()
    };
    lines.next(&FromAgent::<()>::Told(Box::new(told)));
    lines.next(&FromAgent::<()>::Told(Box::default()));
    lines.next(&FromAgent::<()>::Message(MessageTold {
        code: 101,
        agent: "disk agent".to_owned(),
        path: "/a".to_owned(),
        text: "it is gone".to_owned(),
        time_us: 5,
    }));
    let (medium, why) = (MediumId([1; 16]), "is at the bank".to_owned());
    lines.next(&FromAgent::<()>::Away { medium, why, bytes: 7 });
    lines.next(&FromAgent::<()>::Lost { stream: StreamId([2; 16]), from: 3, to: 4 });
    lines.next(&FromAgent::<()>::More(4));
    lines.next(&FromAgent::<()>::Frame { anywhere: true, stream: StreamId([2; 16]), at: 5 });
    lines.next(&FromAgent::Done(HandedOver { is_whole: true, ..HandedOver::default() }));
    lines.next(&FromAgent::Done(TargetAnswer::NotWritable(Some("read-only".to_owned()))));
    lines.next(&FromAgent::Done(TargetAnswer::Has(vec![true, false])));
    lines.next(&FromAgent::Done(TargetAnswer::Rows));
    lines.next(&FromAgent::Done(TargetAnswer::LeftAlone(Default::default())));
    lines.next(&FromAgent::Done(TargetAnswer::Ended(Err(EndedSaid::Full(problem())))));
    lines.next(&FromAgent::Done(TargetAnswer::Done(RestoreDone::default())));
    lines.next(&[
        WorkerAnswer::Fed,
        WorkerAnswer::All,
        WorkerAnswer::Ended(EndedSaid::Full(problem())),
    ]);
    lines.next(&[
        ArchiveAnswer::Begun(5),
        ArchiveAnswer::Taken(false),
        ArchiveAnswer::Ended(Ok(())),
        ArchiveAnswer::Ended(Err(problem())),
    ]);
}

#[test]
fn their_form_never_changes() {
    let mut lines = Lines { golden: GOLDEN.lines(), now: String::new() };
    asked(&mut lines);
    said(&mut lines);
    told(&mut lines);
    assert_eq!(lines.now, GOLDEN, "the form of a message has changed");
}

#[test]
fn what_a_newer_side_says_besides_is_left_alone() {
    let more = br#"{"more":1,"meters":[{"stage":"source","busy":5,"heat":6}]}"#;
    let told: Told = decode(more).unwrap();
    assert_eq!((told.meters.len(), told.meters[0].busy), (1, 5));
    let problem: ProblemSaid = decode(br#"{"sentence":"no","colour":"red"}"#).unwrap();
    assert_eq!(problem, ProblemSaid { sentence: "no".to_owned(), hint: None });
}
