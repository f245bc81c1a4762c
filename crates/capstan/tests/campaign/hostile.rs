//! Media made to do harm: real ones whose structures say what no writer says, with every checksum and seal right. Whatever
//! command reads them: no panic, no more than 20 s and 256 MiB, nothing outside the target, and SIGTERM ends it.
//!
//! 500 of them in the gate, 100,000 with `CAPSTAN_SOAK=1`; `CAPSTAN_SEED=N` tries one again, `CAPSTAN_SEED=N..M` several. What fails
//! is kept. Each mutant meets some of the commands in turn, one in [`WHOLE`] of them each command: all of them on all mutants would
//! be six million processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::clocks::{self, Clock};
use crate::dice::{Dice, seeds_wanted};
use crate::guard::{self, Ran};
use crate::media::{KINDS, Media};
use crate::mutate::{CHANGES, Container, Site, mutate};
use crate::segment::Keys;
use crate::support::{Lab, free_bytes, noise, soak};
use crate::values::ESCAPED;

/// Seeds behind the first 500 that once did harm.
const HARMED: [u64; 1] = [4710];

/// One mutant in so many meets each command, as it was made.
const WHOLE: u64 = 100;

/// Commands that others meet.
const SHARE: usize = 4;

/// A command; `D` stands for the device, `L` for the library.
struct Try {
    args: &'static str,
    /// Whether it may change media.
    writes: bool,
    /// Where it means something.
    fits: fn(Container) -> bool,
}

const fn read(args: &'static str) -> Try {
    Try { args, writes: false, fits: |_| true }
}

const fn write(args: &'static str) -> Try {
    Try { args, writes: true, fits: |_| true }
}

const TRIES: &[Try] = &[
    read("sessions"),
    read("sessions --kind all --json"),
    read("status"),
    read("status --json"),
    read("ls t"),
    read("ls -l s"),
    read("ls -l t --json"),
    read("find * --all-versions"),
    read("find --larger 1K --json"),
    read("versions /TREE/text"),
    read("verify t"),
    read("verify s"),
    read("verify --medium D"),
    read("restore t --into out"),
    read("restore t --into out"),
    read("restore t --into out --numeric-ids --overwrite always --json"),
    read("restore s --into out"),
    read("restore t --into out --dry-run"),
    read("restore t --to-tar out/x.tar"),
    read("restore t --to-tar -"),
    read("restore s --to-tar out/x.tar"),
    read("drill t --sample 100% --scratch scratch"),
    read("drill t --sample 30% --scratch scratch --json"),
    read("compare t"),
    read("compare t --contents --json"),
    read("diff t s"),
    read("copy t --to copied"),
    read("copy --medium D --to copied --json"),
    read("media copy D --to copied"),
    read("consolidate t --to copied"),
    read("catalog load t"),
    read("catalog load --medium D"),
    read("catalog export t --all-versions --parquet out/x.parquet"),
    read("media show D"),
    read("media show D --json"),
    read("media list"),
    read("media verify D"),
    read("import D"),
    read("import D --json"),
    read("idb recover D --code-file code --home recovered"),
    read("idb check"),
    read("idb stats"),
    read("key import D"),
    read("key rewrap"),
    write("media adopt D"),
    write("media label D other"),
    write("media protect D --until 3d"),
    write("backup tree --name t --to D"),
    write("backup tree --name t --to D --full --resume"),
    write("lock t --until 9d"),
    write("protect t --none"),
    write("prune t --keep-last 1"),
    write("prune t --keep-last 1 --dry-run"),
    write("consolidate t"),
    write("stage D --to copied"),
    write("media retire D --to copied"),
    write("media recycle D"),
    write("media erase D"),
    Try { args: "rait status D", writes: false, fits: Container::is_array },
    Try {
        args: "rait rebuild D --member a --onto new",
        writes: true,
        fits: |c| c == Container::Array,
    },
    Try { args: "library status L", writes: false, fits: Container::is_tape },
    Try { args: "library inventory L --rescan", writes: false, fits: Container::is_tape },
];

/// A place of one worker: what was made once, and where each mutant comes to.
struct Bench {
    lab: Lab,
    code: String,
}

impl Bench {
    fn new(media: &Media) -> Self {
        // In memory, where there is room: what is waited for on a disk would be most of the time.
        let memory = Path::new("/dev/shm");
        let has_room = memory.is_dir() && free_bytes(memory) > 8 << 30;
        let lab = if has_room { Lab::within(memory) } else { Lab::new() };
        lab.file("key", noise(3, 64));
        if media.key {
            lab.run(["key", "init", "--key-file", "key"]).ok();
        }
        (media.make)(&lab);
        let sheet = fs::read_to_string(lab.path("code")).unwrap();
        // A home that knows nothing yet, but has its tables.
        lab.run(["--home", "blank", "sessions"]).ok();
        lab.sh("mkdir saved; for f in *; do [ $f = saved ] || [ $f = tree ] || [ $f = key ] || mv $f saved/; done");
        let code =
            sheet.lines().map(str::trim).find(|l| l.len() > 40 && l.contains('-')).unwrap_or("");
        Self { code: code.to_owned(), lab }
    }

    /// Puts everything back as it was made.
    fn lay(&self, knows: bool) {
        let names = fs::read_dir(self.lab.path(".")).unwrap().map(|e| e.unwrap().file_name());
        for name in names.filter(|n| !["saved", "tree", "key"].iter().any(|k| n == k)) {
            remove(&self.lab.path(name));
        }
        for entry in fs::read_dir(self.lab.path("saved")).unwrap().map(|e| e.unwrap()) {
            let name = entry.file_name();
            match name.to_str() {
                Some("home") if !knows => {}
                Some("blank") if knows => {}
                Some("blank") => copy(&entry.path(), &self.lab.path("home")),
                _ => copy(&entry.path(), &self.lab.path(name)),
            }
        }
        for dir in ["out", "scratch", "log"] {
            self.lab.mkdir(dir);
        }
    }

    fn site<'a>(&'a self, media: &Media, key: &'a [u8]) -> Site<'a> {
        Site {
            container: media.container,
            dirs: media.dirs.iter().map(|d| self.lab.path(d)).collect(),
            keys: Keys(media.key.then_some(key)),
            recovery: (!self.code.is_empty()).then_some(self.code.as_str()),
        }
    }

    /// Runs a command on the device.
    fn run(&self, media: &Media, args: &str, clock: Clock, stop_after: Option<Duration>) -> Ran {
        let tree = self.lab.path("tree");
        let words = args.split(' ').map(|word| match word {
            "D" => media.device.to_owned(),
            "L" => "vtape:vtl".to_owned(),
            // What was piped is on some media only.
            "s" if media.container != Container::Directory || media.name == "copies" => {
                "t".to_owned()
            }
            "s" if media.name == "synthetic" => "t".to_owned(),
            "*" => "*".to_owned(),
            word => word.replace("/TREE", tree.to_str().unwrap()),
        });
        let mut command = self.lab.command();
        command.args(words);
        clock.set(&mut command);
        if media.key {
            command.env("CAPSTAN_KEY_FILE", self.lab.path("key"));
        }
        guard::run(&mut command, &self.lab.path("log"), stop_after)
    }

    /// What lies where nothing must have been made or changed: everything but the target, and the media if they may change.
    fn around(&self, media: &Media, with_media: bool) -> BTreeMap<PathBuf, (u64, i64)> {
        let own = ["out", "scratch", "log", "home", "recovered", "copied", "new", "saved"];
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(self.lab.path(".")).unwrap().map(|e| e.unwrap()) {
            let name = entry.file_name();
            let is = |of: &[&str]| of.iter().any(|n| name == *n);
            if is(&own) || (is(media.dirs) && !with_media) {
                continue;
            }
            list(&entry.path(), &mut all);
        }
        // A library keeps account of what is moved and loaded.
        if media.container.is_tape() {
            let libraries: Vec<_> = media.dirs.iter().map(|d| self.lab.path(d)).collect();
            all.retain(|path, _| {
                !libraries.iter().any(|l| path.starts_with(l) && path != l)
                    || path.extension().is_some_and(|e| e == "tape")
            });
        }
        all
    }

    /// Keeps a mutant as it was before any command saw it.
    fn keep(&self, media: &Media, seed: u64) {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{seed}"));
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept).unwrap();
        self.mutant(media, seed);
        let names = ["home", "tree", "key", "code"].into_iter().chain(media.dirs.iter().copied());
        for name in names.filter(|n| self.lab.path(n).exists()) {
            let args = ["-a", name, kept.to_str().unwrap()];
            let _ = Command::new("cp").args(args).current_dir(self.lab.path(".")).status();
        }
        eprintln!("kept: {}", kept.display());
    }

    /// Lays the mutant of a seed. Whether its home knows the media, what was changed, and the dice as they lie then.
    fn mutant(&self, media: &Media, seed: u64) -> (bool, Vec<(&'static str, String)>, Dice) {
        let mut dice = Dice::new(seed);
        // Both who knows the media and who sees them for the first time.
        let knows = dice.once_in(2);
        self.lay(knows);
        let key = fs::read(self.lab.path("key")).unwrap();
        let site = self.site(media, &key);
        let mut done = Vec::new();
        let mut which = seed as usize / KINDS.len();
        for round in 0..60 {
            done.extend(mutate(&site, &mut dice, which));
            if !done.is_empty() && (round > 2 || !dice.once_in(4)) {
                break;
            }
            which = dice.below(CHANGES.len());
        }
        (knows, done, dice)
    }
}

fn list(path: &Path, all: &mut BTreeMap<PathBuf, (u64, i64)>) {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    if meta.is_dir() {
        fs::read_dir(path).into_iter().flatten().flatten().for_each(|e| list(&e.path(), all));
        all.insert(path.to_owned(), (0, 0));
    } else {
        all.insert(path.to_owned(), (meta.len(), meta.mtime_nsec() + meta.mtime()));
    }
}

fn remove(path: &Path) {
    let gone = |path: &Path| match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).is_ok(),
        Ok(_) => fs::remove_file(path).is_ok(),
        Err(_) => true,
    };
    if !gone(path) {
        // What a restore made immutable.
        let _ = Command::new("chattr").args(["-R", "-f", "-i", "-a"]).arg(path).output();
        assert!(gone(path), "cannot remove {}", path.display());
    }
}

fn copy(from: &Path, to: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    let meta = fs::symlink_metadata(from).unwrap();
    if meta.is_dir() {
        fs::DirBuilder::new().mode(0o700).create(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(|e| e.unwrap()) {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// What the campaign did.
#[derive(Default)]
struct Counts {
    mutants: u64,
    commands: BTreeMap<&'static str, u64>,
    changes: BTreeMap<&'static str, u64>,
    codes: BTreeMap<i32, u64>,
    stopped: u64,
    wrong_clocks: u64,
    longest: Duration,
    most_kib: u64,
    faults: Vec<String>,
}

/// One mutant.
fn attack(bench: &Bench, media: &Media, seed: u64, counts: &Mutex<Counts>) {
    let (knows, done, mut dice) = bench.mutant(media, seed);
    let fitting: Vec<_> = TRIES.iter().filter(|t| (t.fits)(media.container)).collect();
    let is_whole = (seed / KINDS.len() as u64).is_multiple_of(WHOLE);
    let mut tries = if is_whole {
        fitting
    } else {
        // In turn, so that each has its share whatever the dice say.
        let at = seed as usize / KINDS.len() * SHARE;
        let in_turn = (at..at + SHARE).map(|n| fitting[n % fitting.len()]);
        let first = TRIES.iter().filter(|t| !knows && t.args == "import D");
        first.chain(in_turn).collect()
    };
    // What reads comes before what writes.
    tries.sort_by_key(|t| (t.args != "import D", t.writes));
    let (mut faults, mut seen) = (Vec::new(), None);
    for t in &tries {
        if is_whole && t.writes {
            bench.mutant(media, seed);
            if !knows {
                bench.run(media, "import D", Clock::Right, None);
            }
            seen = None;
        }
        // What a command that reads left is what the next one finds.
        let before = match seen.take() {
            Some(seen) if !t.writes => seen,
            _ => bench.around(media, !t.writes),
        };
        let stop =
            dice.once_in(2).then(|| Duration::from_millis([5, 30, 300, 1000, 1000][dice.below(5)]));
        let clock = Clock::any(&mut dice);
        let ran = bench.run(media, t.args, clock, stop);
        let after = bench.around(media, !t.writes);
        if seeds_wanted().is_some_and(|seeds| seeds.end - seeds.start == 1) {
            eprintln!(
                "{} -> {:?} in {:?}, {} KiB\n{}{}",
                t.args, ran.code, ran.took, ran.peak_kib, ran.stdout, ran.stderr
            );
        }
        let outside = after.iter().find(|(path, what)| before.get(*path) != Some(what));
        let gone = before.keys().find(|path| !after.contains_key(*path));
        let fault = ran
            .fault
            .clone()
            .or_else(|| outside.map(|(path, _)| format!("makes or changes {}", path.display())))
            .or_else(|| gone.map(|path| format!("removes {}", path.display())));
        seen = (!t.writes).then_some(after);
        let mut counts = counts.lock().unwrap();
        *counts.commands.entry(t.args).or_default() += 1;
        *counts.codes.entry(ran.code.unwrap_or(-1)).or_default() += 1;
        counts.stopped += u64::from(ran.signal.is_some() || ran.code == Some(130));
        counts.wrong_clocks += u64::from(clock != Clock::Right);
        counts.longest = counts.longest.max(ran.took);
        counts.most_kib = counts.most_kib.max(ran.peak_kib);
        if let Some(fault) = fault {
            faults.push(format!("`{}` ({clock:?}) {fault}", t.args));
        }
    }
    let mut counts = counts.lock().unwrap();
    counts.mutants += 1;
    done.iter().for_each(|(name, _)| *counts.changes.entry(name).or_default() += 1);
    if !faults.is_empty() {
        let what = format!(
            "CAPSTAN_SEED={seed} ({}, {}, {done:?}): {}",
            media.name,
            if knows { "known" } else { "new" },
            faults.join("; ")
        );
        eprintln!("{what}");
        counts.faults.push(what);
        if counts.faults.len() <= 10 {
            drop(counts);
            bench.keep(media, seed);
        }
    }
}

#[test]
fn no_hostile_medium_does_harm() {
    let count = if soak() { 100_000 } else { 500 };
    let wanted = seeds_wanted();
    let seeds = wanted.clone().unwrap_or(0..count);
    // A soak ends some time, and says how far it came.
    let most = guard::longest();
    let begun = Instant::now();
    let counts = Mutex::new(Counts::default());
    let next = AtomicU64::new(seeds.start);
    let workers = std::thread::available_parallelism().map_or(2, |n| (2 * n.get()).clamp(2, 8));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                // Each kind's media are made once for each worker, whose path they know.
                let mut benches: Vec<Option<Bench>> = KINDS.iter().map(|_| None).collect();
                while begun.elapsed() < most {
                    let seed = next.fetch_add(1, Relaxed);
                    // Those that once did harm come behind the others, unless a seed was asked for.
                    let again = seed.checked_sub(seeds.end).filter(|_| wanted.is_none());
                    let seed = match again.map(|n| HARMED.get(n as usize)) {
                        Some(Some(seed)) => *seed,
                        None if seed < seeds.end => seed,
                        _ => break,
                    };
                    let kind = seed as usize % KINDS.len();
                    let bench = benches[kind].get_or_insert_with(|| Bench::new(&KINDS[kind]));
                    attack(bench, &KINDS[kind], seed, &counts);
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    let took = begun.elapsed();
    let per_second = counts.mutants as f64 / took.as_secs_f64();
    eprintln!(
        "{} mutants in {took:?}, {per_second:.1} in a second; {} commands, {} of them ended by SIGTERM, {} by wrong clocks ({}); \
         the longest took {:?}, the largest {} MiB",
        counts.mutants,
        counts.commands.values().sum::<u64>(),
        counts.stopped,
        counts.wrong_clocks,
        clocks::told(),
        counts.longest,
        counts.most_kib >> 10
    );
    let (own, commands) =
        (guard::worked_s(libc::RUSAGE_SELF), guard::worked_s(libc::RUSAGE_CHILDREN));
    eprintln!("processors worked {commands:.0} s for commands, {own:.0} s for the campaign itself");
    eprintln!(
        "changes: {:?}\ncommands: {:?}\nexit codes: {:?}",
        counts.changes, counts.commands, counts.codes
    );
    assert!(
        counts.faults.is_empty(),
        "{} of {} mutants did harm:\n{}",
        counts.faults.len(),
        counts.mutants,
        counts.faults.join("\n")
    );
    if wanted.is_none() {
        for (name, _) in CHANGES {
            assert!(counts.changes.contains_key(name), "nothing was changed in any {name}");
        }
        for t in TRIES {
            assert!(counts.commands.contains_key(t.args), "nothing ran `{}`", t.args);
        }
        assert!(!fs::exists(std::env::temp_dir().join(ESCAPED)).unwrap());
    }
}
