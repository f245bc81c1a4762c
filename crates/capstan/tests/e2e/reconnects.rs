//! Connections to libraries that are lost and come back, or do not: with a library that is not ours (tgt).

use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

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
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = Self {
            port: listener.local_addr().unwrap().port(),
            is_cut: Arc::default(),
            open: Arc::default(),
        };
        let (is_cut, open) = (way.is_cut.clone(), way.open.clone());
        // It ends with the test's process.
        thread::spawn(move || {
            for here in listener.incoming().flatten() {
                let there = TcpStream::connect(("127.0.0.1", port));
                let (Ok(there), false) = (there, is_cut.load(SeqCst)) else { continue };
                let ends = || [here.try_clone().unwrap(), there.try_clone().unwrap()];
                open.lock().unwrap().extend(ends());
                for [mut from, mut to] in
                    [ends(), [there.try_clone().unwrap(), here.try_clone().unwrap()]]
                {
                    thread::spawn(move || match io::copy(&mut from, &mut to) {
                        Err(e) if e.kind() == ErrorKind::Interrupted => {}
                        _ => drop(to.shutdown(Shutdown::Both)),
                    });
                }
            }
        });
        way
    }

    /// Cuts it, or lets it be used again.
    fn cut(&self, whether: bool) {
        self.is_cut.store(whether, SeqCst);
        for end in self.open.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// The library knows nothing of it: its drive has the tape still, and what was in its buffer.
#[test]
fn a_way_that_is_cut_for_a_while_costs_neither_backup_nor_restore() {
    let lab = Lab::new();
    let Some(tgt) = Tgt::start(400, None) else { return };
    large(&lab);
    let way = Way::to(tgt.port());
    let library = tgt.url(CHANGER).replace(&tgt.port().to_string(), &way.port.to_string());
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
