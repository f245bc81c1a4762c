//! Damaged media: `verify`, `restore`, `drill` and the independent reader name the same files, and these are the files whose
//! contents do not come back. Where and how media are damaged is drawn by seed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::independent_reader::Reader;
use crate::support::{Lab, Run, below, noise, report, soak};

/// Damaged media of each kind of backup; 200 in all in the soak.
fn seeds() -> std::ops::Range<u64> {
    if let Ok(seed) = std::env::var("CAPSTAN_SEED") {
        let seed = seed.parse().unwrap();
        return seed..seed + 1;
    }
    if soak() { 0..50 } else { 0..6 }
}

/// Numbers by seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }
}

fn segments(medium: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(medium).unwrap().map(|e| e.unwrap().path());
    let mut segments: Vec<_> =
        all.filter(|p| p.extension().is_some_and(|e| e == "segment")).collect();
    segments.sort();
    segments
}

/// Places in a file where these bytes begin, at multiples of 8.
fn places_of(bytes: &[u8], magic: &[u8], kind: impl Fn(&[u8]) -> bool) -> Vec<usize> {
    let last = bytes.len().saturating_sub(64);
    (0..last)
        .step_by(8)
        .filter(|at| bytes[*at..].starts_with(magic) && kind(&bytes[*at..]))
        .collect()
}

/// Damages a medium once; says how.
fn damage(medium: &Path, dice: &mut Dice) -> String {
    let all = segments(medium);
    let path = all[dice.below(all.len())].clone();
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut bytes = fs::read(&path).unwrap();
    let len = bytes.len();
    let what = match dice.below(10) {
        0 | 1 => {
            let at = dice.below(len);
            bytes[at] ^= 1 << dice.below(8);
            format!("byte {at}")
        }
        2 => {
            let from = dice.below(len);
            let to = (from + 1 + dice.below(100_000)).min(len);
            bytes[from..to].copy_from_slice(&noise(from as u64, to - from));
            format!("bytes {from} to {to}")
        }
        3 | 4 => {
            let from = dice.below(len);
            let to = (from + (1 << 20)).min(len);
            bytes[from..to].fill(0);
            format!("zeros from {from} to {to}")
        }
        5 => {
            bytes[..4096].fill(0x55);
            "its header".to_owned()
        }
        6 => {
            let from = len - len.min(4096 << dice.below(6));
            let to = (from + 1 + dice.below(20_000)).min(len);
            bytes[from..to].copy_from_slice(&noise(from as u64, to - from));
            format!("of its end and catalog, bytes {from} to {to}")
        }
        7 => {
            let places = places_of(&bytes, b"CpMA", |_| true);
            let at = places[dice.below(places.len())] + dice.below(128);
            bytes[at] ^= 1 << dice.below(8);
            format!("byte {at}, of a block's header")
        }
        8 => {
            let places = places_of(&bytes, b"CpFr", |b| b[4] == 2);
            if let Some(at) = places.get(dice.below(places.len())) {
                bytes[at + dice.below(200)] ^= 0x40;
            }
            "a batch".to_owned()
        }
        _ if dice.below(2) == 0 && all.len() > 1 => {
            fs::remove_file(&path).unwrap();
            return format!("{name}: gone");
        }
        _ => {
            bytes.truncate(dice.below(len));
            format!("cut to {} of {len}", bytes.len())
        }
    };
    fs::write(&path, bytes).unwrap();
    format!("{name}: {what}")
}

/// The files that a report names as lost.
fn named(json: &Value) -> BTreeSet<String> {
    let errors = json["errors"].as_array().unwrap().iter();
    let lost =
        errors.filter(|e| ["damaged", "missing", "not-proved"].iter().any(|c| e["code"] == *c));
    let paths = lost.map(|e| e["path"].as_str().unwrap().to_owned());
    paths.filter(|p| p.starts_with('/')).collect()
}

/// The files that the independent reader names as damaged.
fn named_by_reader(run: &Run, lab: &Lab) -> BTreeSet<String> {
    let root = lab.path("tree").to_str().unwrap().trim_start_matches('/').to_owned();
    let said = format!("{}{}", run.stdout, run.stderr);
    // What a session that did not end lacks is no damage to it.
    let cut = |l: &&str| l.contains(": incomplete");
    let notes = said.lines().filter_map(|l| l.strip_prefix("note: ")).filter(cut);
    let lines = said.lines().filter_map(|l| l.strip_prefix("damage: ")).chain(notes);
    let paths = lines.filter(|l| l.starts_with(&root)).filter_map(|l| l.split(": ").next());
    paths.map(|p| format!("/{p}")).collect()
}

/// The files of the tree whose contents are not in a restored one; those that are there at all.
fn not_as_before(lab: &Lab, into: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let tree = lab.path("tree");
    let restored = below(into, &tree);
    let (mut lost, mut there) = (BTreeSet::new(), BTreeSet::new());
    for path in files(&tree) {
        let name = path.to_str().unwrap().to_owned();
        let now = fs::read(restored.join(path.strip_prefix(&tree).unwrap()));
        if now.is_ok() {
            there.insert(name.clone());
        }
        if now.ok() != fs::read(&path).ok() {
            lost.insert(name);
        }
    }
    (lost, there)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            t if t.is_dir() => found.extend(files(&entry.path())),
            t if t.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// A backup of which the medium is damaged again and again.
struct Trial {
    lab: Lab,
    reader: Option<Reader>,
    passphrase: Option<&'static str>,
    session: String,
    /// Whether the medium has nothing else than the version.
    alone: bool,
}

impl Trial {
    fn new(passphrase: Option<&'static str>, options: &[&str]) -> Self {
        let lab = Lab::with_passphrase(passphrase);
        for i in 0..150 {
            lab.file(&format!("tree/d{}/f{i:03}", i % 7), noise(i, 200 + 137 * i as usize));
        }
        for i in 0..6 {
            lab.file(&format!("tree/large/{i}"), noise(1000 + i, 300_000 + 170_001 * i as usize));
        }
        lab.sh("cd tree; ln d1/f001 linked; ln large/3 large/other; : >empty; seq 1 60000 >text; ln -s text symlink");
        let mut trial =
            Self { lab, reader: Reader::find(), passphrase, session: String::new(), alone: true };
        trial.back_up(options);
        trial
    }

    fn back_up(&mut self, options: &[&str]) {
        let small = ["--block-size", "64K", "--streams", "2"];
        let args = ["tree", "--to", "medium", "--name", "t"];
        let report = self.lab.backed_up(args.iter().chain(&small).chain(options));
        self.session = report["session"].as_str().unwrap()[..12].to_owned();
    }

    fn run(&self, home: &str, args: &[&str]) -> Run {
        let mut command = self.lab.command();
        command.env("CAPSTAN_HOME", self.lab.path(home)).args(args);
        crate::support::finish(&mut command)
    }

    /// Damages the medium by seed, and holds against each other what is said of it.
    fn hold(&self, seeds: impl Iterator<Item = u64>) {
        self.lab.sh("cp -a medium whole");
        let (mut lossy, mut media) = (0, 0);
        let mut differ = Vec::new();
        for seed in seeds {
            let dice = &mut Dice::new(seed);
            let what: Vec<_> =
                (0..1 + dice.below(3)).map(|_| damage(&self.lab.path("medium"), dice)).collect();
            let what = format!("seed {seed}, {}", what.join("; "));
            let mut found = Differences { lab: self.lab.path(""), what, all: Vec::new() };
            lossy += u64::from(self.with_the_database(&mut found));
            self.by_the_medium_alone(&mut found);
            media += 1;
            differ.append(&mut found.all);
            self.lab.sh("rm -r medium; cp -a whole medium");
        }
        eprintln!("{lossy} of {media} damaged media lost files");
        assert!(differ.is_empty(), "{}", differ.join("\n"));
    }

    fn with_the_database(&self, found: &mut Differences) -> bool {
        let t = "t";
        let restored = report(self.run("home", &["restore", "--json", t, "--into", "out"]));
        let (lost, _) = not_as_before(&self.lab, &self.lab.path("out"));
        self.lab.sh("rm -r out");
        found.same("restore names", &named(&restored), "does not come back", &lost);
        let verified = report(self.run("home", &["verify", "--json", t]));
        found.same("verify", &named(&verified), "restore", &lost);
        if verified["corrupt"] != restored["corrupt"] {
            found
                .all
                .push(format!("{}: {} {}", found.what, verified["corrupt"], restored["corrupt"]));
        }
        let drilled = ["drill", "--json", t, "--sample", "100%", "--scratch", "."];
        let drilled = report(self.run("home", &drilled));
        found.same("drill", &named(&drilled), "restore", &lost);
        let verified = report(self.run("home", &["verify", "--json", "--medium", "medium"]));
        let by_medium = named(&verified);
        if self.alone {
            found.same("verify --medium", &by_medium, "restore", &lost);
        } else {
            let less: BTreeSet<_> = by_medium.intersection(&lost).cloned().collect();
            found.same("verify --medium", &less, "restore", &lost);
        }
        !lost.is_empty()
    }

    /// The same where nothing is known but what the medium says.
    fn by_the_medium_alone(&self, found: &mut Differences) {
        self.lab.sh("rm -rf home2; mkdir home2; cp home/keyring.json home2/ 2>/dev/null || true");
        let imported = report(self.run("home2", &["import", "--json", "medium"]));
        let version = format!("t@{}", self.session);
        let restored = self.run("home2", &["restore", "--json", &version, "--into", "out"]);
        if restored.code == 2 {
            // Nothing is left that says what it was. Of a session whose only segment went nothing says even that.
            let says = imported["errors"] != serde_json::json!([]) || found.what.contains("gone");
            assert!(says, "{}: {}", found.what, restored.stderr);
            return;
        }
        let restored = report(restored);
        let (lost, there) = not_as_before(&self.lab, &self.lab.path("out"));
        self.lab.sh("rm -r out");
        let by_restore = named(&restored);
        let known: BTreeSet<_> = by_restore.intersection(&lost).cloned().collect();
        found.same("imported, restore names", &by_restore, "does not come back", &known);
        // Where the rows of what changed are lost, its former state comes back: nobody knows of another.
        let there = if self.alone { there } else { BTreeSet::new() };
        let silent: BTreeSet<_> =
            there.intersection(&lost).filter(|path| !by_restore.contains(*path)).cloned().collect();
        found.same("imported, wrong and not named", &silent, "nothing", &BTreeSet::new());
        let verified = report(self.run("home2", &["verify", "--json", &version]));
        found.same("imported, verify", &named(&verified), "restore", &by_restore);
        let Some(reader) = &self.reader else { return };
        let extract = ["extract", "medium", "--into", "out", "--session", &self.session];
        let run = reader.run(&self.lab, self.passphrase, &extract);
        let (by_reader, _) = not_as_before(&self.lab, &self.lab.path("out"));
        self.lab.sh("rm -rf out");
        found.same("lost by the reader", &by_reader, "by restore", &lost);
        let named = named_by_reader(&run, &self.lab);
        found.same("named by the reader", &named, "by restore", &by_restore);
        if self.alone {
            let run = reader.run(&self.lab, self.passphrase, &["check", "medium"]);
            let named = named_by_reader(&run, &self.lab);
            found.same("named by the reader's check", &named, "by restore", &by_restore);
        }
    }
}

/// Where what should be the same is not.
struct Differences {
    lab: PathBuf,
    /// What was damaged.
    what: String,
    all: Vec<String>,
}

impl Differences {
    fn same(&mut self, left: &str, a: &BTreeSet<String>, right: &str, b: &BTreeSet<String>) {
        if a == b {
            return;
        }
        let short = |only: Vec<&String>| {
            let lab = self.lab.to_str().unwrap();
            let names = only.iter().take(5).map(|n| n.trim_start_matches(lab));
            format!("{} {:?}", only.len(), names.collect::<Vec<_>>())
        };
        self.all.push(format!(
            "{}: only {left}: {}; only {right}: {}",
            self.what,
            short(a.difference(b).collect()),
            short(b.difference(a).collect())
        ));
    }
}

#[test]
fn all_name_the_same_files() {
    Trial::new(None, &["--compress", "off", "--segment-size", "2M"]).hold(seeds());
}

#[test]
fn all_name_the_same_files_of_compressed_backups() {
    Trial::new(None, &["--compress", "zstd:1", "--segment-size", "1M"])
        .hold(seeds().map(|s| s + 1000));
}

#[test]
fn all_name_the_same_files_of_encrypted_backups() {
    Trial::new(Some("correct horse"), &["--segment-size", "2M"]).hold(seeds().map(|s| s + 2000));
}

#[test]
fn all_name_the_same_files_of_an_incremental_and_its_base() {
    let mut trial = Trial::new(None, &["--compress", "off", "--segment-size", "2M"]);
    let change = "cd tree; for i in 3 30 50 77 120; do f=$(printf 'd%d/f%03d' $((i % 7)) $i); echo $i >>$f; done; \
                  rm d2/f009; echo new >new; chmod 600 d3/f010; truncate -s 1000 large/1";
    trial.lab.sh(change);
    trial.alone = false;
    trial.back_up(&["--incr"]);
    trial.hold(seeds().map(|s| s + 3000));
}
