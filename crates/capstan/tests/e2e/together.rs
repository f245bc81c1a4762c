//! Several objects that are written together, a session each, and restored together.

use std::path::Path;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, Run, below, noise};
use crate::tape::library_of;

const NAMES: [&str; 4] = ["mail", "www", "users", "etc"];

/// Four objects: some large, one small.
fn objects(lab: &Lab) {
    for (n, megabytes) in [(0u64, 60), (1, 20), (2, 25), (3, 0)] {
        let name = NAMES[n as usize];
        for part in 0..megabytes / 5 {
            lab.file(&format!("{name}/big-{part}"), noise(100 * n + part, 5_000_000));
        }
        for small in 0..40 {
            lab.file(&format!("{name}/dir/{small}"), noise(1000 * n + small, 2000));
        }
        lab.sh(&format!("cd {name} && ln dir/1 linked && ln -s dir/2 symbolic && mkfifo fifo"));
    }
}

/// A library of one drive whose tapes have room behind their early warning for what four streams have on its way, however
/// slowly it comes: a quarter of a tape, at most 16 MiB.
fn library(lab: &Lab, tapes: u32) {
    let design = Design { capacity: Some(68_000_000), ..library_of(1, tapes) };
    Library::create(&lab.path("vtl"), &design, tapes).unwrap();
}

/// A specification that backs all of them up together.
fn spec(lab: &Lab, device: &str, more: &str) -> String {
    let at = lab.path("").to_str().unwrap().trim_end_matches('/').to_owned();
    let device = device.replace("vtape:", &format!("vtape:{at}/"));
    let options = format!("[options]\nstreams = 1\n{more}\n");
    let mut text = format!("device = \"{device}\"\ntogether = 4\n{options}");
    for name in NAMES {
        text += &format!("[[object]]\nname = \"{name}\"\npaths = [\"{at}/{name}\"]\n");
    }
    lab.file("spec.toml", text).to_str().unwrap().to_owned()
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// The reports of a run, by name in the order of the specification.
fn backed_up(lab: &Lab, spec: &str) -> Vec<Value> {
    let ran = lab.run(["run", "--json", spec]);
    let report: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", ran.stdout, ran.stderr));
    assert_eq!(ran.code, 0, "{report:#}\n{}", ran.stderr);
    report["sessions"].as_array().unwrap().clone()
}

/// Restores them at once; their reports.
fn restored(lab: &Lab, into: &Path) -> Vec<Value> {
    let into = into.to_str().unwrap();
    let line = format!("restore mail --and www --and users --and etc --into {into} --json");
    let ran = run(lab, &line);
    let ended: Value = serde_json::from_str(&ran.ok().stdout).unwrap();
    ended["sessions"].as_array().unwrap().clone()
}

fn same(lab: &Lab, into: &Path, name: &str) {
    same_by_rsync(&lab.path(name), &below(into, &lab.path(name)));
}

#[test]
fn some_of_several_are_read_as_the_tape_passes_by_once() {
    let lab = Lab::new();
    for (n, name) in NAMES.iter().enumerate() {
        // So many files that a stream has several batches, which workers could take from each other.
        for part in 0..1200 {
            let seed = 10_000 * n as u64 + part;
            lab.file(
                &format!("{name}/d{}/{part}", part % 7),
                noise(seed, 20_000 + part as usize * 10),
            );
        }
    }
    let design = Design { capacity: None, ..library_of(1, 1) };
    Library::create(&lab.path("vtl"), &design, 1).unwrap();
    backed_up(&lab, &spec(&lab, "vtape:vtl", "compress = \"off\""));
    let into = lab.path("restored");
    for some in [&NAMES[..1], &NAMES[3..], &NAMES[1..3]] {
        let line = format!("restore {} --into restored --json", some.join(" --and "));
        let ran = run(&lab, &line);
        ran.ok();
        let ended: Value = serde_json::from_str(&ran.stdout).unwrap();
        // One alone has no list of sessions.
        let reports = ended["sessions"].as_array().cloned().unwrap_or(vec![ended]);
        assert_eq!(reports.len(), some.len());
        for (report, name) in reports.iter().zip(some) {
            same(&lab, &into, name);
            let drive = &report["drives"][0];
            // To the tape's header, to the first block, and no more.
            assert!(drive["locates"].as_u64().unwrap() <= 2, "{some:?}: {drive:#}");
            assert_eq!(drive["tape"], "V00001L9", "{drive:#}");
        }
        lab.sh("rm -r restored");
    }
    let text = run(&lab, "restore www --into restored");
    let drive =
        text.ok().stdout.lines().find(|line| line.starts_with("Tape drive")).unwrap().to_owned();
    for what in
        ["V00001L9 in drive 1 of", "streamed 100 %", " locates in ", "loaded in ", " passes"]
    {
        assert!(drive.contains(what), "{drive}");
    }
}

fn all_come_back(lab: &Lab) -> Vec<Value> {
    let into = lab.path("restored");
    let reports = restored(lab, &into);
    assert_eq!(reports.len(), 4);
    for (report, name) in reports.iter().zip(NAMES) {
        assert_eq!((&report["name"], &report["status"]), (&name.into(), &"completed".into()));
        same(lab, &into, name);
    }
    std::fs::remove_dir_all(into).unwrap();
    reports
}

/// The states of the sessions of each object, newest first.
fn states(lab: &Lab, name: &str) -> Vec<String> {
    let list = run(lab, "sessions --kind all --json");
    let all = list.ok().rows().into_iter();
    let own = all.filter(|s| s["name"] == name && s["kind"] == "backup");
    own.map(|s| s["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn four_objects_span_tapes_together_and_come_back_together() {
    let lab = Lab::new();
    library(&lab, 14);
    objects(&lab);
    let reports = backed_up(&lab, &spec(&lab, "vtape:vtl", ""));
    assert_eq!(reports.len(), 4);
    let media = reports[0]["media"].as_array().unwrap().len();
    assert!(media >= 2, "{:#}", reports[0]);
    let mut written = 0;
    for report in &reports {
        assert_eq!(report["status"], "completed", "{report:#}");
        assert_eq!(report["media"], reports[0]["media"], "they are on the same tapes");
        let (read, on_tape) = (report["bytes_read"].as_u64(), report["bytes_written"].as_u64());
        assert!(on_tape > read, "{report:#}");
        written += on_tape.unwrap();
    }
    let device = reports[0]["stages"].as_array().unwrap().iter().find(|s| s["name"] == "device");
    let blocks = device.unwrap()["bytes"].as_u64().unwrap();
    assert!(written >= blocks && written < blocks + blocks / 3, "{written} {blocks}");

    let restores = all_come_back(&lab);
    // Each tape passes by once, but for its label and what is looked for: 105 MB lie on tapes of 68.
    let drives = restores[0]["drives"].as_array().unwrap();
    let passes: f64 = drives.iter().map(|d| d["passes"].as_f64().unwrap()).sum();
    assert!(passes < 1.5 * media as f64, "{passes} passes: {drives:#?}");
    assert!(restores.iter().all(|r| r["drives"] == restores[0]["drives"]));
    // They are built upon.
    lab.sh("echo more > www/more; rm users/dir/7");
    let reports = backed_up(&lab, &spec(&lab, "vtape:vtl", "incr = true"));
    assert!(reports.iter().all(|r| r["base_session"].is_string()), "{reports:#?}");
    all_come_back(&lab);
    lab.mkdir("scratch");
    for name in NAMES {
        run(&lab, &format!("verify {name}")).ok();
        run(&lab, &format!("drill {name} --scratch {}", lab.path("scratch").display())).ok();
    }
}

#[test]
fn the_database_is_lost_and_each_object_is_whole() {
    let lab = Lab::new();
    library(&lab, 14);
    objects(&lab);
    backed_up(&lab, &spec(&lab, "vtape:vtl", ""));
    lab.lose_tables();
    run(&lab, "import vtape:vtl").ok();
    for name in NAMES {
        assert_eq!(states(&lab, name), ["completed"], "{name}");
    }
    all_come_back(&lab);
}

#[test]
fn the_independent_reader_reads_each_object() {
    let Some(reader) = Reader::find() else { return };
    let lab = Lab::new();
    objects(&lab);
    let reports = backed_up(&lab, &spec(&lab, lab.path("medium").to_str().unwrap(), ""));
    reader.run(&lab, None, &["check", "medium"]).ok();
    for report in &reports {
        let id = report["session"].as_str().unwrap();
        let name = report["name"].as_str().unwrap();
        let out = lab.path(format!("out-{name}"));
        reader
            .run(
                &lab,
                None,
                &["extract", "medium", "--into", out.to_str().unwrap(), "--session", id],
            )
            .ok();
        same(&lab, &out, name);
        assert_eq!(std::fs::read_dir(below(&out, &lab.path(""))).unwrap().count(), 1);
    }
}

#[test]
fn a_tape_that_fails_costs_none_of_them_anything() {
    let lab = Lab::new();
    library(&lab, 14);
    objects(&lab);
    run(&lab, "vtl fault vtl --drive 1 write:30=error").ok();
    let reports = backed_up(&lab, &spec(&lab, "vtape:vtl", "segment-size = \"4M\""));
    assert!(reports.iter().all(|r| r["status"] == "completed"), "{reports:#?}");
    assert!(states(&lab, "mail").contains(&"failed".to_owned()), "{:?}", states(&lab, "mail"));
    all_come_back(&lab);
}

#[test]
fn a_killed_run_is_resumed_by_each_of_them() {
    let lab = Lab::new();
    library(&lab, 20);
    objects(&lab);
    let more = "segment-size = \"4M\"\nresume = true";
    let spec = spec(&lab, "vtape:vtl", more);
    let mut killed = false;
    for wait in [150, 300, 600] {
        let mut child = lab.command();
        child.args(["run", "--json", &spec]).stdout(std::process::Stdio::null());
        let mut child = child.stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        killed |= child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(killed);
    backed_up(&lab, &spec);
    all_come_back(&lab);
    run(&lab, "idb check").ok();
}

#[test]
fn they_are_encrypted_together() {
    let lab = Lab::with_passphrase(Some("together"));
    objects(&lab);
    let medium = lab.path("medium");
    backed_up(&lab, &spec(&lab, medium.to_str().unwrap(), "segment-size = \"8M\""));
    all_come_back(&lab);
    lab.lose_tables();
    run(&lab, &format!("import {}", medium.display())).ok();
    for name in NAMES {
        assert_eq!(states(&lab, name), ["completed"], "{name}");
        run(&lab, &format!("verify {name}")).ok();
        run(&lab, &format!("ls {name}")).ok();
    }
    all_come_back(&lab);
}

#[test]
fn copies_have_all_of_those_that_were_copied() {
    let lab = Lab::new();
    objects(&lab);
    let (medium, copy) = (lab.path("medium"), lab.path("copy"));
    let (medium, copy) = (medium.to_str().unwrap(), copy.to_str().unwrap());
    backed_up(&lab, &spec(&lab, medium, "segment-size = \"8M\""));
    run(&lab, &format!("copy www --to {copy}")).ok();
    let other = Lab::new();
    run(&other, &format!("import {copy}")).ok();
    assert_eq!(states(&other, "www"), ["completed"]);
    let into = other.path("into");
    other.restored(["www", "--into", into.to_str().unwrap()]);
    same(&lab, &into, "www");
    // What of it lies in the same segments: how much depends on who was read when.
    assert!(
        !states(&other, "mail").contains(&"completed".to_owned()),
        "it was not copied as a whole"
    );

    run(&lab, &format!("copy --medium {medium} --to {copy}")).ok();
    let other = Lab::new();
    run(&other, &format!("import {copy}")).ok();
    for name in NAMES {
        assert_eq!(states(&other, name), ["completed"], "{name}");
        other.restored([name, "--into", into.to_str().unwrap()]);
        same(&lab, &into, name);
    }
    // Without the original.
    std::fs::remove_dir_all(medium).unwrap();
    all_come_back(&lab);
}

#[test]
fn what_goes_of_one_leaves_the_others() {
    let lab = Lab::new();
    objects(&lab);
    let medium = lab.path("medium");
    let spec = spec(&lab, medium.to_str().unwrap(), "segment-size = \"8M\"\nfull = true");
    backed_up(&lab, &spec);
    backed_up(&lab, &spec);
    let used = || lab.sh("du -sb medium | cut -f1").trim().parse::<u64>().unwrap();
    let before = used();
    // How much of one object lies in segments of its own depends on who was read when.
    run(&lab, "prune mail --keep-last 1").ok();
    assert_eq!(lab.run(["verify", "mail"]).code, 0);
    all_come_back(&lab);
    run(&lab, "prune --keep-last 1").ok();
    assert!(used() < before * 6 / 10, "{before} {}", used());
    all_come_back(&lab);
    run(&lab, "idb check").ok();
}

#[test]
fn one_that_cannot_begin_does_not_keep_the_others() {
    let lab = Lab::new();
    objects(&lab);
    let at = lab.path("");
    let text = format!(
        "together = 8\ndevice = \"{0}/medium\"\n[[object]]\nname = \"gone\"\npaths = [\"{0}/gone\"]\n\
         [[object]]\nname = \"mail\"\npaths = [\"{0}/mail\"]\n\
         [[object]]\nname = \"dump\"\nfrom-command = \"echo dumped\"\nstdin-name = \"dump.sql\"\n\
         [[object]]\nname = \"broken\"\nfrom-command = \"echo half; exit 5\"\nstdin-name = \"half.sql\"\n\
         [[object]]\nname = \"etc\"\npaths = [\"{0}/etc\"]\nto = \"{0}/other\"\n",
        at.to_str().unwrap().trim_end_matches('/')
    );
    let spec = lab.file("spec.toml", text);
    let ran = lab.run(["run", "--json", spec.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let said = |r: &Value| {
        (r["name"].as_str().unwrap().to_owned(), r["status"].as_str().unwrap().to_owned())
    };
    let all: Vec<_> = report["sessions"].as_array().unwrap().iter().map(said).collect();
    let is = |name: &str, status: &str| (name.to_owned(), status.to_owned());
    let wanted = [
        is("gone", "failed"),
        is("mail", "completed"),
        is("dump", "completed"),
        is("broken", "failed"),
        is("etc", "completed"),
    ];
    assert_eq!(all, wanted, "{report:#}");
    let into = lab.path("restored");
    lab.restored(["mail", "--into", into.to_str().unwrap()]);
    same(&lab, &into, "mail");
    let dump = run(&lab, "restore dump --into restored --json");
    dump.ok();
    assert_eq!(std::fs::read_to_string(into.join("dump.sql")).unwrap(), "dumped\n");
    assert_eq!(states(&lab, "gone"), ["failed"]);
}

#[test]
fn what_cannot_go_together_is_refused() {
    let lab = Lab::new();
    lab.file("a/file", "a");
    for value in ["0", "\"many\"", "99"] {
        let text = format!("together = {value}\ndevice = \"/m\"\n[[object]]\npaths = [\"/a\"]\n");
        let spec = lab.file("spec.toml", text);
        lab.run(["run", spec.to_str().unwrap()]).refused(&["1 to 32"]);
    }
    lab.backed_up(["a", "--to", "medium", "--name", "a"]);
    run(&lab, "restore a --and a --into x").refused(&["twice"]);
    run(&lab, "restore a --and nobody --into x").refused(&["no object is called 'nobody'"]);
    run(&lab, "restore a --and a --to-tar x").refused(&["cannot be used with"]);
    assert!(!lab.path("x").exists());
}
