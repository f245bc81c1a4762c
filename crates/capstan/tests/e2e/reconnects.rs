//! Connections to libraries that are lost and come back, or do not: with a library that is not ours (tgt).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, report, wait_for};
use crate::tape_software::tgt::{CHANGER, Library as Tgt};

/// A tree that takes a while.
fn large(lab: &Lab) {
    crate::mirror::tree(lab);
    for n in 0..12 {
        lab.file(&format!("tree/big-{n:02}"), noise(n, 10_000_000));
    }
}

fn begun(lab: &Lab, args: &[&str]) -> Child {
    let mut command = lab.command();
    let command = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The report of a command that was begun, and what it said.
fn ended(child: Child) -> (Value, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let code = output.status.code().unwrap_or(-1);
    (report(crate::support::Run { code, stdout, stderr: stderr.clone() }), stderr)
}

fn is_on_tape(tgt: &Tgt, bytes: u64) {
    let first = tgt.tape("TAPE01L6");
    wait_for("a part of it is on the tape", || {
        std::fs::metadata(&first).is_ok_and(|meta| meta.len() > bytes)
    });
}

/// What is recorded of the errors of each medium.
fn errors(lab: &Lab) -> Vec<u64> {
    let media = lab.run(["media", "list", "--json"]).ok().rows();
    let of = |medium: &Value| {
        let label = medium["label"].as_str().unwrap();
        let shown = lab.run(["media", "show", label, "--json"]);
        let shown: Value = serde_json::from_str(&shown.ok().stdout).unwrap();
        shown["errors"].as_u64().unwrap_or_else(|| panic!("{shown:#}"))
    };
    media.iter().map(of).collect()
}

#[test]
fn a_backup_goes_on_when_its_library_is_back() {
    let lab = Lab::new();
    let Some(mut tgt) = Tgt::start(400, None) else { return };
    large(&lab);
    let library = tgt.url(CHANGER);
    let child = begun(&lab, &["backup", "tree", "--to", &library, "--name", "t", "--json"]);
    is_on_tape(&tgt, 60_000_000);
    tgt.kill();
    thread::sleep(Duration::from_secs(1));
    tgt.restart();
    let (done, said) = ended(child);
    assert_eq!(done["status"], "completed", "{done:#} {said}");
    assert!(said.contains("is lost, and is tried again for up to 120 s"), "{said}");
    assert_eq!(errors(&lab), [0], "the tape is as good as it was, and was gone on with: {done:#}");
    let into = lab.path("restored");
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

#[test]
fn a_connection_that_does_not_come_back_is_named_and_the_tape_is_not_blamed() {
    let lab = Lab::new();
    let Some(mut tgt) = Tgt::start(400, None) else { return };
    large(&lab);
    let library = tgt.url(CHANGER);
    let args = ["backup", "tree", "--to", &library, "--name", "t", "--json", "--reconnect", "2s"];
    let child = begun(&lab, &args);
    is_on_tape(&tgt, 60_000_000);
    tgt.kill();
    let (failed, said) = ended(child);
    assert_eq!(failed["status"], "failed", "{failed:#}");
    assert!(said.contains("tried again for up to 2 s") && said.contains(&library), "{said}");
    assert!(failed["errors"].to_string().contains("iscsi://127.0.0.1"), "{failed:#}");
    tgt.restart();
    assert_eq!(errors(&lab), [0]);
    lab.backed_up(["tree", "--to", &library, "--name", "t", "--resume"]);
    lab.run(["backup", "tree", "--to", &library, "--reconnect", "soon"])
        .refused(&["no span of time"]);
}

/// A host that answers nothing for a while, and one whose library is started anew: a restore goes on from where it was.
#[test]
fn a_restore_goes_on_when_its_library_is_back() {
    let lab = Lab::new();
    let Some(mut tgt) = Tgt::start(400, None) else { return };
    large(&lab);
    let library = tgt.url(CHANGER);
    lab.backed_up(["tree", "--to", &library, "--name", "t"]);
    let into = lab.path("restored");
    let child = begun(&lab, &["restore", "t", "--into", into.to_str().unwrap(), "--json"]);
    wait_for("some of it is restored", || below(&into, &lab.path("tree")).join("big-03").exists());
    tgt.kill();
    thread::sleep(Duration::from_secs(1));
    tgt.restart();
    let (done, said) = ended(child);
    assert_eq!(done["status"], "completed", "{done:#} {said}");
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
    assert_eq!(errors(&lab), [0]);
}

/// A way to a library that can be cut.
struct Way {
    port: u16,
    cut: Arc<Cut>,
}

/// Where it is cut, and what passed.
#[derive(Default)]
struct Cut {
    is_cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
    /// So many more bytes come from the library until it is cut; 0 for no end.
    bytes: AtomicU64,
}

impl Cut {
    fn set(&self, whether: bool) {
        self.is_cut.store(whether, SeqCst);
        for end in self.open.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Counts what comes from the library.
    fn pass(&self, bytes: u64) {
        let less = |left: u64| (left > 0).then(|| left.saturating_sub(bytes));
        if self.bytes.fetch_update(SeqCst, SeqCst, less).is_ok_and(|left| left <= bytes) {
            self.set(true);
        }
    }
}

/// Passes on what comes, until either end is closed.
fn pass_on(mut from: TcpStream, mut to: TcpStream, count: &dyn Fn(u64)) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(n) if n > 0 && to.write_all(&buffer[..n]).is_ok() => count(n as u64),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

impl Way {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = Self { port: listener.local_addr().unwrap().port(), cut: Arc::default() };
        let cut = way.cut.clone();
        // It ends with the test's process.
        thread::spawn(move || {
            for here in listener.incoming().flatten().filter(|_| !cut.is_cut.load(SeqCst)) {
                let Ok(there) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let ends = || [here.try_clone().unwrap(), there.try_clone().unwrap()];
                cut.open.lock().unwrap().extend(ends());
                let ([from, to], counts) = (ends(), cut.clone());
                thread::spawn(move || pass_on(from, to, &|_| ()));
                thread::spawn(move || pass_on(there, here, &|n| counts.pass(n)));
            }
        });
        way
    }

    /// The name of a library behind it.
    fn library(&self, tgt: &Tgt) -> String {
        tgt.url(CHANGER).replace(&tgt.port().to_string(), &self.port.to_string())
    }

    /// Cuts it, or lets it be used again.
    fn cut(&self, whether: bool) {
        self.cut.bytes.store(0, SeqCst);
        self.cut.set(whether);
    }

    /// Lets it be used, and cuts it when so many bytes have come.
    fn cut_after(&self, bytes: u64) {
        self.cut(false);
        self.cut.bytes.store(bytes, SeqCst);
    }
}

/// The library knows nothing of it: its drive has the tape still, and what was in its buffer.
#[test]
fn a_way_that_is_cut_for_a_while_costs_neither_backup_nor_restore() {
    let lab = Lab::new();
    let Some(tgt) = Tgt::start(400, None) else { return };
    large(&lab);
    let way = Way::to(tgt.port());
    let library = way.library(&tgt);
    let child = begun(&lab, &["backup", "tree", "--to", &library, "--name", "t", "--json"]);
    is_on_tape(&tgt, 60_000_000);
    way.cut(true);
    thread::sleep(Duration::from_secs(2));
    way.cut(false);
    let (done, said) = ended(child);
    assert_eq!(done["status"], "completed", "{done:#} {said}");
    assert_eq!(done["media"], serde_json::json!(["TAPE01L6"]), "{done:#}");
    let into = lab.path("restored");
    let child = begun(&lab, &["restore", "t", "--into", into.to_str().unwrap(), "--json"]);
    wait_for("some of it is restored", || below(&into, &lab.path("tree")).join("big-03").exists());
    way.cut(true);
    thread::sleep(Duration::from_secs(2));
    way.cut(false);
    let (done, said) = ended(child);
    assert_eq!(done["status"], "completed", "{done:#} {said}");
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
    assert_eq!(errors(&lab), [0]);
}

/// Twelve files of 2.5 MB on tape behind a way that can be cut, and eight more of the next version on disk.
fn on_tape_and_disk(lab: &Lab, tgt: &Tgt) -> Way {
    let way = Way::to(tgt.port());
    for n in 0..12 {
        lab.file(&format!("tree/tape-{n:02}"), noise(n, 2_500_000));
    }
    lab.backed_up(["tree", "--to", &way.library(tgt), "--name", "t"]);
    for n in 12..20 {
        lab.file(&format!("tree/disk-{n:02}"), noise(n, 100_000));
    }
    lab.backed_up(["tree", "--to", "disk", "--name", "t", "--incr"]);
    way
}

/// How often it was said that a connection is tried again.
fn waits(said: &str) -> usize {
    said.matches("is tried again for up to").count()
}

/// What reads a library waits once for one that is gone, however much is to be read there: all of it is away then. Disks are read on.
#[test]
fn a_library_that_is_gone_for_good_is_waited_for_once() {
    let lab = Lab::new();
    let Some(tgt) = Tgt::start(400, None) else { return };
    let way = on_tape_and_disk(&lab, &tgt);
    for line in [
        "restore t --into restored",
        "restore t --to-tar t.tar",
        "drill t --sample 100%",
        "compare t --contents",
        "verify t",
        "copy t --to copies",
        "consolidate t --to full",
    ] {
        way.cut_after(10_000_000);
        let begun = Instant::now();
        let run = lab.run(line.split(' ').chain(["--reconnect", "1s"]));
        let text = format!("{line}: {} {}", run.stdout, run.stderr);
        assert!(run.code == 3 || line.starts_with("consolidate") && run.code != 0, "{text}");
        assert_eq!(waits(&run.stderr), 1, "{text}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?} {text}", begun.elapsed());
        let is_one_line = run.stderr.matches(" away: ").count() == 1;
        assert!(is_one_line || line.starts_with("consolidate"), "{text}");
        assert!(!run.stderr.contains("damaged"), "{text}");
    }
    way.cut(false);
    let restored = below(&lab.path("restored"), &lab.path("tree"));
    let names = |tree: &Path, of: &str| {
        let names = std::fs::read_dir(tree).unwrap().map(|e| e.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with(of)).count()
    };
    assert_eq!(names(&restored, "disk"), 8);
    assert!((2..8).contains(&names(&restored, "tape")), "{}", names(&restored, "tape"));
    lab.restored(["t", "--into", "whole"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("whole"), &lab.path("tree")));
    assert_eq!(errors(&lab).iter().sum::<u64>(), 0);
}

#[test]
fn an_import_waits_once_for_a_library_that_is_gone() {
    let lab = Lab::new();
    let Some(tgt) = Tgt::start(400, None) else { return };
    let way = on_tape_and_disk(&lab, &tgt);
    way.cut_after(1_000_000);
    let library = way.library(&tgt);
    let run = lab.run(["import", &library, "--home", "other", "--reconnect", "1s"]);
    assert!(run.code != 0 && waits(&run.stderr) == 1, "{} {}", run.code, run.stderr);
}
