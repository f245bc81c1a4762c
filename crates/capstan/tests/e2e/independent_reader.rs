//! The independent reader, `tools/read_medium.py`, holds against media that the binary just wrote.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::{same_by_rsync_with, same_manifest};
use crate::support::{Lab, Run, below, finish, is_root, noise, skip, wait_for};
use crate::tape::library_of;

pub struct Reader {
    pub python: PathBuf,
    pub script: PathBuf,
}

impl Reader {
    /// The reader, if `make setup` made its venv. In the gate it has to be there.
    pub fn find() -> Option<Self> {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join("tools/read_medium.py");
        let python = python();
        let gate = std::env::var_os("CI").is_some();
        assert!(
            !gate || (python.is_some() && script.exists()),
            "the gate needs tools/read_medium.py and its venv"
        );
        Some(Self { python: python?, script: script.exists().then_some(script)? })
    }

    pub fn run(&self, lab: &Lab, secret: Option<&str>, args: &[&str]) -> Run {
        let mut command = Command::new(&self.python);
        command.arg(&self.script).args(args).current_dir(lab.path(""));
        command.env_remove("CAPSTAN_PASSPHRASE");
        if let Some(secret) = secret {
            command.env("CAPSTAN_PASSPHRASE", secret);
        }
        finish(&mut command)
    }
}

/// The Python of the venv that `make setup` makes.
pub fn python() -> Option<PathBuf> {
    let venvs = [
        std::env::var_os("CAPSTAN_VENV").map(PathBuf::from),
        Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("../venv")),
        Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv")),
    ];
    venvs.into_iter().flatten().map(|v| v.join("bin/python3")).find(|p| p.exists())
}

fn tree(lab: &Lab) -> PathBuf {
    let tree = lab.mkdir("tree");
    lab.sh(r#"
cd tree; mkdir -p a/b empty $'not-\xff-utf8'; echo x >$'not-\xff-utf8/\xfe'; for i in {1..3000}; do echo $i >a/b/$i; done
seq 1 400000 >a/compressible; ln a/compressible a/linked; ln -s compressible a/link; mkfifo a/fifo; : >a/empty
truncate -s 100M a/sparse; echo island | dd of=a/sparse bs=1M seek=50 conv=notrunc status=none
chmod 4755 a/empty; setfattr -n user.note -v text a/empty; touch -d '2001-02-03 04:05:06.123456789' a/empty a/b empty .
"#);
    lab.file("tree/noise", noise(1, 40_000_003));
    tree
}

fn holds(secret: Option<&str>, options: &[&str]) {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    let lab = Lab::new();
    let tree = tree(&lab);
    if let Some(secret) = secret {
        let mut init = lab.command();
        init.args(["key", "init"])
            .env("CAPSTAN_PASSPHRASE", secret)
            .env("CAPSTAN_NEW_PASSPHRASE", secret);
        finish(&mut init).ok();
    }
    let backup =
        ["tree", "--to", "medium", "--name", "t", "--segment-size", "20M", "--streams", "3"];
    lab.backed_up(backup.iter().chain(options));
    reader.run(&lab, secret, &["check", "medium"]).ok();
    let list = reader.run(&lab, secret, &["list", "medium"]);
    for name in ["a/compressible", "noise", "a/b/1234"] {
        assert!(list.ok().stdout.contains(name), "{name} is not listed");
    }
    reader.run(&lab, secret, &["extract", "medium", "--into", "out"]).ok();
    let there = below(&lab.path("out"), &tree);
    if is_root() {
        same_by_rsync_with(&[], &tree, &there);
        same_manifest(&tree, &there);
    } else {
        same_by_rsync_with(&["--no-owner", "--no-group"], &tree, &there);
    }
    // It is no reader that says yes to everything: a flipped bit is found.
    lab.sh("f=$(ls -S medium/*.segment | head -1); size=$(stat -c %s $f); at=$((size / 3)); \
            b=$(dd if=$f bs=1 skip=$at count=1 status=none | od -An -tu1); \
            printf \"\\\\x$(printf %02x $((b ^ 16)))\" | dd of=$f bs=1 seek=$at conv=notrunc status=none");
    let run = reader.run(&lab, secret, &["check", "medium"]);
    assert_ne!(run.code, 0, "a flipped bit was not found: {}", run.stdout);
    // And the binary says the same.
    let mut verify = lab.command();
    verify.args(["verify", "t"]).env("CAPSTAN_PASSPHRASE", secret.unwrap_or_default());
    assert_eq!(finish(&mut verify).code, 3);
}

#[test]
fn plain_media() {
    holds(None, &[]);
}

#[test]
fn encrypted_media() {
    holds(Some("correct horse battery staple"), &[]);
}

/// Python alone reads what is not encrypted, by the libraries of the system; by modules where these are not there. What lacks is named,
/// in a sentence.
#[test]
fn what_lacks_is_named_where_a_medium_asks_for_it() {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    let without = |lab: &Lab, lacks: &[&str], args: &[&str]| {
        // A directory in front of all others has modules that are not to be had.
        for name in ["lz4", "zstandard", "cryptography"] {
            let _ = std::fs::remove_file(lab.path(format!("lacks/{name}.py")));
        }
        for name in lacks.iter().filter(|name| !name.starts_with("lib")) {
            lab.file(&format!("lacks/{name}.py"), "raise ImportError('not installed')\n");
        }
        // As the first thing that Python does: libraries of the system that are not to be had.
        let gone = format!("{:?}", lacks);
        lab.file(
            "lacks/sitecustomize.py",
            format!(
                "import ctypes\nof_system = ctypes.CDLL\ndef open(name, *more, **options):\n    \
                 if name in {gone}: raise OSError(name)\n    return of_system(name, *more, **options)\nctypes.CDLL = open\n"
            ),
        );
        let mut command = Command::new(&reader.python);
        command.arg(&reader.script).args(args).current_dir(lab.path(""));
        command.env("PYTHONPATH", lab.path("lacks")).env("PYTHONDONTWRITEBYTECODE", "1");
        finish(command.env("CAPSTAN_PASSPHRASE", "correct horse battery staple"))
    };
    let lab = Lab::new();
    let tree = lab.path("tree");
    lab.file("tree/a", noise(1, 300_000));
    lab.file("tree/b", "compressible ".repeat(20_000));
    lab.mkdir("lacks");
    for how in ["off", "zstd", "lz4"] {
        lab.backed_up(["tree", "--to", how, "--name", how, "--compress", how]);
        let all = ["lz4", "zstandard", "cryptography"];
        let libraries = ["liblz4.so.1", "libzstd.so.1", "cryptography"];
        for (n, lacks) in [&all[..], &libraries].into_iter().enumerate() {
            let into = format!("out-{how}-{n}");
            without(&lab, lacks, &["extract", how, "--into", &into]).ok();
            same_by_rsync_with(
                &["--no-owner", "--no-group"],
                &tree,
                &below(&lab.path(&into), &tree),
            );
        }
    }
    let lacks = |run: Run, module: &str| {
        assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
        let names = [format!("pip install {module}"), format!("python3-{module}")];
        assert!(names.iter().all(|name| run.stderr.contains(name)), "{}", run.stderr);
        assert!(!run.stderr.contains("Traceback"), "{}", run.stderr);
    };
    for command in ["check", "list"] {
        lacks(without(&lab, &["libzstd.so.1", "zstandard"], &[command, "off"]), "zstandard");
    }
    let extract = |medium, into| ["extract", medium, "--into", into];
    lacks(without(&lab, &["liblz4.so.1", "lz4"], &extract("lz4", "none")), "lz4");
    // Damage is found by the libraries of the system as by the modules.
    lab.sh("cp -a zstd cut; f=cut/00000001.segment; printf '\\x55' | dd of=$f bs=1 seek=150000 conv=notrunc status=none");
    assert_ne!(without(&lab, &["zstandard", "lz4"], &["check", "cut"]).code, 0);
    let lab = Lab::with_passphrase(Some("correct horse battery staple"));
    lab.file("tree/a", noise(1, 300_000));
    lab.mkdir("lacks");
    lab.backed_up(["tree", "--to", "sealed", "--name", "s"]);
    lacks(without(&lab, &["cryptography"], &extract("sealed", "out")), "cryptography");
    without(&lab, &["lz4", "zstandard"], &extract("sealed", "out")).ok();
}

#[test]
fn lz4_without_payload_checksums_in_small_blocks() {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    let lab = Lab::new();
    let tree = tree(&lab);
    lab.backed_up([
        "tree",
        "--to",
        "medium",
        "--name",
        "t",
        "--compress",
        "lz4",
        "--no-crc",
        "--block-size",
        "64K",
    ]);
    reader.run(&lab, None, &["extract", "medium", "--into", "out"]).ok();
    let there = below(&lab.path("out"), &tree);
    same_by_rsync_with(&["--no-owner", "--no-group"], &tree, &there);
}

#[test]
fn an_input_that_was_cut_off_is_no_damage() {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    let lab = Lab::new();
    let mut command = lab.command();
    command.args(["backup", "--stdin", "--name", "t", "--to", "medium", "--segment-size", "1M"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&noise(1, 6_000_000)).unwrap();
    wait_for("a commit", || lab.path("medium/00000002.segment").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    for args in [&["check", "medium"][..], &["extract", "medium", "--into", "out"]] {
        let run = reader.run(&lab, None, args);
        let said = format!("{}{}", run.ok().stdout, run.stderr);
        assert!(said.contains("stdin: incomplete: the session ended before"), "{said}");
    }
    lab.run(["verify", "--medium", "medium"]).ok();
}

/// What the reader makes of these media of a backup of `tree`: its exit code, what it said, and the files that are not as they are
/// in the tree.
fn extracted(lab: &Lab, reader: &Reader, media: &[String]) -> (i32, String, Vec<String>) {
    let _ = std::fs::remove_dir_all(lab.path("out"));
    let further = media[1..].iter().flat_map(|medium| ["--and", medium]);
    let args = ["extract", &media[0], "--into", "out"].into_iter().chain(further);
    let run = reader.run(lab, None, &args.collect::<Vec<_>>());
    let wrong = |name: &String| {
        let there = below(&lab.path("out"), &lab.path("tree")).join(name);
        std::fs::read(there).ok() != std::fs::read(lab.path("tree").join(name)).ok()
    };
    let names = std::fs::read_dir(lab.path("tree")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (run.code, format!("{}{}", run.stdout, run.stderr), names.filter(wrong).collect())
}

fn strs(media: &[String]) -> Vec<&str> {
    media.iter().map(String::as_str).collect()
}

#[test]
fn what_spans_tapes_is_whole_with_all_of_them_and_named_without() {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    let lab = Lab::new();
    let design = Design { capacity: Some(24_000_000), ..library_of(1, 9) };
    Library::create(&lab.path("vtl"), &design, 9).unwrap();
    for n in 0..5 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 9_000_000));
    }
    let tune = ["--to", "vtape:vtl", "--name", "t", "--streams", "2", "--segment-size", "6M"];
    let full = lab.backed_up(["tree"].iter().chain(&tune));
    let tapes = |report: &Value| -> Vec<String> {
        let labels = report["media"].as_array().unwrap().iter();
        labels.map(|label| format!("vtl/tapes/{}.tape", label.as_str().unwrap())).collect()
    };
    let mut all = tapes(&full);
    assert!(all.len() >= 3, "{full}");
    // In any order.
    all.reverse();
    let (code, said, wrong) = extracted(&lab, &reader, &all);
    assert_eq!((code, wrong), (0, vec![]), "{said}");
    reader.run(&lab, None, &[&["check"], &strs(&all)[..]].concat()).ok();
    for media in
        all.iter().map(|one| vec![one.clone()]).chain([vec![all[0].clone(), all[2].clone()]])
    {
        let (code, said, wrong) = extracted(&lab, &reader, &media);
        assert_eq!(code, 3, "{media:?}: {said}");
        assert!(said.contains("was not given"), "{media:?}: {said}");
        for command in ["check", "list"] {
            let run = reader.run(&lab, None, &[&[command], &strs(&media)[..]].concat());
            assert_eq!(run.code, 3, "{command} {media:?}: {}{}", run.stdout, run.stderr);
        }
        let here = below(&lab.path("out"), &lab.path("tree"));
        for name in wrong.iter().filter(|name| here.join(name).exists()) {
            assert!(
                said.contains(&format!("tree/{name}: incomplete")),
                "{name}, {media:?}: {said}"
            );
            let dated = std::fs::metadata(here.join(name)).unwrap().modified().unwrap();
            assert_eq!(dated, std::time::UNIX_EPOCH, "{name} looks like one that is whole");
        }
    }
    // What an incremental builds on lies on other tapes.
    lab.file("tree/new", noise(9, 9_000_000));
    let incr = lab.backed_up(["tree", "--incr"].iter().chain(&tune));
    let newest = tapes(&incr);
    let (code, said, _) = extracted(&lab, &reader, &newest[newest.len() - 1..]);
    assert!(code == 3 && said.contains("is on no medium that was given"), "{said}");
    all.retain(|tape| !newest.contains(tape));
    let both = [newest, all].concat();
    let (code, said, wrong) = extracted(&lab, &reader, &both);
    assert_eq!((code, wrong), (0, vec![]), "{said}");
}

#[test]
fn of_a_medium_and_its_copy_either_serves() {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    let lab = Lab::new();
    for n in 0..3 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 3_000_000));
    }
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--segment-size", "2M"]);
    lab.run(["copy", "t", "--to", "copy"]).ok();
    // One segment of each is gone, another damaged.
    lab.sh("rm medium/00000002.segment copy/00000004.segment; \
            dd if=/dev/zero of=medium/00000003.segment bs=4096 seek=100 count=40 conv=notrunc status=none");
    for one in ["medium", "copy"] {
        let (code, said, wrong) = extracted(&lab, &reader, &[one.to_owned()]);
        assert!(code == 3 && !wrong.is_empty(), "{one}: {said}");
    }
    let (code, said, wrong) = extracted(&lab, &reader, &["medium".into(), "copy".into()]);
    assert_eq!((code, wrong), (0, vec![]), "{said}");
    assert!(said.contains("it is taken from copy: 00000003.segment"), "{said}");
}

/// Starts a backup, and kills it when it has begun that many segments.
fn killed_at(lab: &Lab, segment_size: &str, segments: usize) {
    let begun = std::time::SystemTime::now();
    let mut command = lab.command();
    command.args([
        "backup",
        "tree",
        "--to",
        "medium",
        "--name",
        "t",
        "--resume",
        "--segment-size",
        segment_size,
    ]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("segments", || {
        let all = std::fs::read_dir(lab.path("medium")).into_iter().flatten().flatten();
        let own = all.filter(|e| e.file_name().to_string_lossy().contains(".segment"));
        own.filter(|e| e.metadata().is_ok_and(|m| m.modified().unwrap() > begun)).count()
            >= segments
    });
    assert_eq!(child.try_wait().unwrap(), None, "it was too fast to be killed");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_session_that_left_nothing_on_the_medium_is_no_gap() {
    let Some(reader) = Reader::find() else {
        return skip("tools/read_medium.py or its venv is missing: make setup");
    };
    let lab = Lab::new();
    for n in 0..60 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 5_000_000));
    }
    killed_at(&lab, "20M", 4);
    // Its only segment has no end: the next session removes it.
    killed_at(&lab, "2G", 1);
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--resume", "--segment-size", "20M"]);
    let (code, said, wrong) = extracted(&lab, &reader, &["medium".to_owned()]);
    assert_eq!((code, wrong), (0, vec![]), "{said}");
    // Without a segment of the first session, something does lack.
    lab.sh("rm medium/00000001.segment");
    let (code, said, _) = extracted(&lab, &reader, &["medium".to_owned()]);
    assert!(code == 3 && said.contains("on no medium"), "{said}");
}
