//! A disk agent behind a connection: a cell gets from it what it gets from the one of its own process. Wherever the connection is cut,
//! each session ends, nothing hangs, and what was begun at the other side is cleaned up.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod behind;
#[path = "../../cell/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use behind::CutAfter;
use capstan_cell::Cell;
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::{Observer, Progress, Stop};
use capstan_cell::report::Report;
use capstan_cell::request::{
    BackupRequest, CompareRequest, Compression, DrillRequest, Level, Overwrite, RestoreRequest,
    RestoreTo, VersionName,
};
use capstan_disk_agent::agent::LocalDiskAgent;
use capstan_engine::message::{Listener, Message};
use capstan_port::Agents;
use capstan_remote::connection::Connection;
use tempfile::TempDir;

/// Keeps what is said.
#[derive(Default)]
struct Ears(Mutex<Vec<String>>);

impl Listener for Ears {
    fn message(&self, of: Message) {
        let said = format!("{} {} {} {}", of.code.name(), of.agent, of.path, of.text);
        self.0.lock().unwrap().push(said);
    }
}

impl Observer for Ears {
    fn progress(&self, _: &Progress) {}
}

/// A cell, of which the disk agent is in this process or behind a connection.
struct Here {
    dir: TempDir,
    cut: Option<Arc<CutAfter>>,
    served: Mutex<Vec<Connection>>,
}

impl Here {
    fn new(cut: Option<Arc<CutAfter>>) -> Self {
        let here = Self { dir: support::fast_dir(), cut, served: Mutex::default() };
        fs::create_dir(here.at("source")).unwrap();
        support::make_tree(&here.at("source"), 20_000);
        here
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn cell(&self) -> Cell {
        let mut agents: Agents = support::agents();
        if let Some(cut) = &self.cut {
            let (agent, served) = behind::disk(Arc::new(LocalDiskAgent::default()), cut);
            agents.disk = Arc::new(agent);
            let mut all = self.served.lock().unwrap();
            all.clear();
            all.push(served);
        }
        Cell::open(&self.at("home"), Secrets::none(), agents).unwrap()
    }

    /// What was said, with nothing of where it was.
    fn said(&self, ears: Ears) -> Vec<String> {
        let mut said = ears.0.into_inner().unwrap();
        let root = self.dir.path().display().to_string();
        said.iter_mut().for_each(|text| *text = text.replace(&root, "ROOT"));
        said.sort();
        said
    }

    fn backup(&self, of: &dyn Fn(&mut BackupRequest)) -> (Report, Vec<String>) {
        let mut request = support::backup_request(&self.at("source"), &self.at("medium"));
        of(&mut request);
        let ears = Ears::default();
        let report = self.cell().backup(&request, &ears, &Stop::default()).unwrap();
        (report, self.said(ears))
    }

    fn restore(&self, of: &dyn Fn(&mut RestoreRequest)) -> (Report, Vec<String>) {
        let ears = Ears::default();
        let report = self.cell().restore(&self.restore_request(of), &ears, &Stop::default());
        (report.unwrap(), self.said(ears))
    }

    fn restore_request(&self, of: &dyn Fn(&mut RestoreRequest)) -> RestoreRequest {
        let mut request = RestoreRequest {
            client: None,
            version: VersionName::parse("made"),
            paths: Vec::new(),
            exclude: Vec::new(),
            include: Vec::new(),
            to: RestoreTo::Into(self.at("restored")),
            strip: 0,
            overwrite: Overwrite::Always,
            dry_run: false,
            numeric_ids: false,
            spool: None,
        };
        of(&mut request);
        request
    }

    fn compare(&self, contents: bool) -> (String, Vec<String>) {
        let request =
            CompareRequest { version: VersionName::parse("made"), paths: vec![], contents };
        let (ears, mut found) = (Ears::default(), Vec::new());
        let done = self.cell().compare(&request, &ears, &Stop::default(), &mut |change| {
            found.push(format!("{:?} {:?}", change.kind, change.what));
        });
        found.extend(self.said(ears));
        (format!("{:?}", done.unwrap().totals), found)
    }

    /// What was restored is what was backed up.
    fn is_restored(&self) {
        let below = self.at("restored").join(self.at("source").strip_prefix("/").unwrap());
        assert!(support::tree(&below) == support::tree(&self.at("source")));
    }

    /// What of a report does not depend on time.
    fn counts(report: &Report) -> String {
        format!(
            "{} {} {} {} {} {} {} {:?}",
            report.status,
            report.method,
            report.files,
            report.dirs,
            report.corrupt,
            report.kept,
            report.moved,
            report.errors.len(),
        )
    }
}

/// Files that changed, were moved, were touched, and are gone.
fn change(source: &Path) {
    fs::write(source.join("letters/letter1"), "another").unwrap();
    fs::write(source.join("letters/new"), "new").unwrap();
    fs::rename(source.join("big"), source.join("zoo/moved")).unwrap();
    fs::remove_file(source.join("letters/letter2")).unwrap();
    let touched = fs::File::options().write(true).open(source.join("letters/letter4")).unwrap();
    touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
}

/// All that a cell asks of a disk agent, as one text for each.
fn all_of(here: &Here) -> Vec<String> {
    let mut told = Vec::new();
    let mut tell = |what: &str, of: String| told.push(format!("{what}: {of}"));
    let without_empty = |request: &mut BackupRequest| request.exclude = vec!["empty".into()];
    let (report, said) = here.backup(&without_empty);
    tell("full", format!("{} {said:?}", Here::counts(&report)));
    change(&here.at("source"));
    let incremental = |request: &mut BackupRequest| {
        request.level = None;
        request.compression = Compression::Auto;
        without_empty(request);
    };
    let mut request = support::backup_request(&here.at("source"), &here.at("medium"));
    incremental(&mut request);
    let mut foreseen = Vec::new();
    let dry = here.cell().foresee_backup(&request, &Ears::default(), &Stop::default(), &mut |of| {
        // What is above belongs to others too.
        let path = String::from_utf8_lossy(&of.path).into_owned();
        let Some((_, name)) = path.split_once("/source/") else { return };
        foreseen.push(format!("{name} {:?} {} {:?}", of.fate, of.bytes, of.rule));
    });
    tell("foreseen", format!("{} {foreseen:?}", Here::counts(&dry.unwrap())));
    let (report, said) = here.backup(&incremental);
    tell("incremental", format!("{} {said:?}", Here::counts(&report)));
    fs::remove_file(here.at("source").join("empty")).unwrap();
    tell("compared", format!("{:?}", here.compare(false)));
    tell("compared by contents", format!("{:?}", here.compare(true)));
    let (report, said) = here.restore(&|request| request.dry_run = true);
    tell("restore foreseen", format!("{} {said:?}", Here::counts(&report)));
    let (report, said) = here.restore(&|_| {});
    tell("restored", format!("{} {said:?}", Here::counts(&report)));
    here.is_restored();
    let (report, said) = here.restore(&|request| request.overwrite = Overwrite::Never);
    tell("restored again", format!("{} {} {said:?}", Here::counts(&report), report.skipped));
    let (report, said) = here.restore(&|request| {
        request.to = RestoreTo::Tar(Some(here.at("archive.tar")));
    });
    tell("archived", format!("{} {said:?}", Here::counts(&report)));
    tell("archive", fs::metadata(here.at("archive.tar")).unwrap().len().to_string());
    let drill = DrillRequest {
        version: VersionName::parse("made"),
        sample: 1.0,
        scratch: Some(here.at("scratch")),
    };
    fs::create_dir(here.at("scratch")).unwrap();
    let ears = Ears::default();
    let report = here.cell().drill(&drill, &ears, &Stop::default()).unwrap();
    let of = report.drill.as_ref().unwrap();
    let proved = (of.files, of.by_live_file, of.by_checksum, of.by_length, of.failed);
    tell("drilled", format!("{} {proved:?} {:?}", Here::counts(&report), here.said(ears)));
    assert_eq!(fs::read_dir(here.at("scratch")).unwrap().count(), 0);
    told
}

#[test]
fn a_cell_gets_from_it_what_it_gets_from_its_own() {
    let (own, other) = (all_of(&Here::new(None)), all_of(&Here::new(Some(Arc::default()))));
    for (own, other) in own.iter().zip(&other) {
        assert_eq!(own, other);
    }
    assert_eq!(own.len(), other.len());
}

/// Runs something whose connection is cut after so many writes. It has to end.
fn cut<T>(here: &Here, after: u64, run: impl FnOnce(&Cell) -> T) -> T {
    let cell = here.cell();
    let cut = here.cut.as_ref().unwrap();
    cut.set(Some(after));
    let begun = Instant::now();
    let done = run(&cell);
    cut.set(None);
    assert!(begun.elapsed() < Duration::from_secs(20), "cut after {after}: {:?}", begun.elapsed());
    done
}

/// Waits until something is so at the other side, which hears of a cut a little later.
fn soon(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// After how many writes a run of so many is cut: everywhere at its begin and its end, here and there between.
fn cuts(writes: u64) -> Vec<u64> {
    let step = (writes / 12).max(1);
    let all = (0..writes).filter(|n| *n < 6 || n % step == 0 || *n + 3 > writes);
    all.collect()
}

/// How many writes a run makes.
fn writes_of<T>(here: &Here, run: impl FnOnce(&Cell) -> T) -> u64 {
    let cell = here.cell();
    let before = here.cut.as_ref().unwrap().count();
    run(&cell);
    here.cut.as_ref().unwrap().count() - before
}

#[test]
fn wherever_it_is_cut_a_backup_ends_and_can_be_made_again() {
    let here = Here::new(Some(Arc::default()));
    let request = support::backup_request(&here.at("source"), &here.at("medium"));
    let run = |cell: &Cell| cell.backup(&request, &Ears::default(), &Stop::default());
    let writes = writes_of(&here, run);
    let (mut broken, mut through) = (0, 0);
    for after in cuts(writes) {
        // How many writes it takes is a matter of time: it may have been through.
        match cut(&here, after, run) {
            Ok(report) if report.status == "completed" => {
                through += 1;
                here.restore(&|_| {});
                here.is_restored();
            }
            _ => broken += 1,
        }
    }
    assert!(broken > through, "{broken} broken, {through} through");
    let (report, _) = here.backup(&|request| request.level = Some(Level::Full));
    assert_eq!(report.status, "completed");
    here.restore(&|_| {});
    here.is_restored();
}

#[test]
fn wherever_it_is_cut_a_restore_ends_and_can_be_made_again() {
    let here = Here::new(Some(Arc::default()));
    here.backup(&|_| {});
    let request = here.restore_request(&|_| {});
    let run = |cell: &Cell| cell.restore(&request, &Ears::default(), &Stop::default());
    let writes = writes_of(&here, run);
    let (mut broken, mut through) = (0, 0);
    for after in cuts(writes) {
        let _ = fs::remove_dir_all(here.at("restored"));
        let done = cut(&here, after, run);
        match done {
            Ok(report) if report.status == "completed" => {
                through += 1;
                here.is_restored();
            }
            _ => broken += 1,
        }
    }
    assert!(broken > through, "{broken} broken, {through} through");
    let _ = fs::remove_dir_all(here.at("restored"));
    let (report, _) = here.restore(&|_| {});
    assert_eq!(report.status, "completed");
    here.is_restored();
}

#[test]
fn wherever_it_is_cut_a_comparison_or_a_drill_ends_and_nothing_is_left() {
    let here = Here::new(Some(Arc::default()));
    here.backup(&|_| {});
    fs::create_dir(here.at("scratch")).unwrap();
    let compare =
        CompareRequest { version: VersionName::parse("made"), paths: vec![], contents: true };
    let run = |cell: &Cell| {
        cell.compare(&compare, &Ears::default(), &Stop::default(), &mut |_| {}).map(drop)
    };
    let writes = writes_of(&here, run);
    let mut broken = 0;
    for after in cuts(writes) {
        broken += u32::from(cut(&here, after, run).is_err());
    }
    assert!(broken > 6, "{broken} broken");
    let drill = DrillRequest {
        version: VersionName::parse("made"),
        sample: 1.0,
        scratch: Some(here.at("scratch")),
    };
    let run = |cell: &Cell| cell.drill(&drill, &Ears::default(), &Stop::default()).map(drop);
    let writes = writes_of(&here, run);
    let is_empty = || fs::read_dir(here.at("scratch")).unwrap().count() == 0;
    for after in cuts(writes) {
        let _ = cut(&here, after, run);
        soon("a scratch directory is left", is_empty);
    }
}
