//! From tape: a restore of multiplexed streams, a slow one with a spool and without, copies to another tape and from disk, and the
//! memory of a process that drives two drives.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::tape::{LTO9_MB_S, RUNS, SLOW_MB_S, SLOW_SCALE, named, text};
use crate::context::{Context, Data, Place, Set, parse, remove};
use crate::error::{BenchError, io_error};
use crate::measure::{Outcome, Sample, median};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

/// What memory there may be beside the block buffers: 48 MiB.
const BESIDES: u64 = 48 << 20;
/// What is written together.
pub(super) const OBJECTS: [&str; 4] = ["mail", "www", "home", "etc"];

pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    context.need_memory(3 * data.bytes + (2 << 30))?;
    restore(context, sheet)?;
    slowly(context, sheet, &data)?;
    copies(context, sheet, &data)?;
    memory(context, sheet, &data)
}

/// A virtual library, and the home of who uses it.
pub(super) struct Lab<'a> {
    context: &'a Context,
    pub library: PathBuf,
    home: PathBuf,
}

impl<'a> Lab<'a> {
    pub fn new(
        context: &'a Context,
        model: &str,
        drives: u32,
        scale: u64,
    ) -> Result<Self, BenchError> {
        let library = context.fresh(Place::Memory, "vtl")?;
        let home = context.fresh(Place::Memory, "home-tape")?;
        let mut make = Command::new(&context.capstan);
        make.args(["vtl", "create"]).arg(&library).args(["--model", model, "--slots", "4"]);
        make.args(["--drives", &drives.to_string(), "--tapes", "2"]);
        context.run(make.args(["--scale", &scale.to_string()]))?;
        Ok(Self { context, library, home })
    }

    pub fn tape(&self, n: u32, suffix: &str) -> String {
        format!("vtape:{}?tape=V{n:05}{suffix}", self.library.display())
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.context.capstan);
        command.arg("--home").arg(&self.home).arg("--quiet").args(arguments);
        command
    }

    /// Runs a session; its cost and its report.
    fn run(&self, arguments: &[&str]) -> Result<(Sample, Value), BenchError> {
        let ran = self.context.run(self.command(arguments).arg("--json"))?;
        let report = parse(&ran.stdout, "capstan")?;
        let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
        Ok((Sample { peak_rss, ..ran.usage.into() }, report))
    }

    pub fn end(self) -> Result<(), BenchError> {
        remove(&self.library)?;
        remove(&self.home)
    }
}

pub(super) fn number(report: &Value, drive: usize, field: &str) -> f64 {
    report["drives"][drive][field].as_f64().unwrap_or(0.0)
}

/// The report of a restore, of several objects that of the first one: all have what the drive did.
pub(super) fn first_report(stdout: &str) -> Result<Value, BenchError> {
    let ended = parse(stdout, "capstan restore")?;
    Ok(ended["sessions"].get(0).cloned().unwrap_or(ended))
}

/// Four objects that were written together, restored together.
fn restore(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Quarter)?;
    let lab = Lab::new(context, "lto-9", 1, 1)?;
    let source = context.fresh(Place::Disk, "objects")?;
    std::fs::create_dir(&source).map_err(io_error("create", &source))?;
    let mut spec = format!("device = \"{}\"\ntogether = 4\n", lab.tape(1, "L9"));
    spec += "options = { compress = \"off\", streams = 1, hard-links-as-files = true }\n";
    for name in OBJECTS {
        // By hard links, read as files of their own.
        let path = source.join(name);
        context.run(Command::new("cp").arg("-al").arg(&data.path).arg(&path))?;
        spec += &format!("[[object]]\nname = \"{name}\"\npaths = [\"{}\"]\n", path.display());
    }
    let file = context.fresh(Place::Memory, "objects.toml")?;
    std::fs::write(&file, spec).map_err(io_error("write", &file))?;
    context.warm_source(&data)?;
    context.run(&mut lab.command(&["run", "--json", text(&file)]))?;
    let (mut outcome, mut rates, mut passes) = (named("capstan"), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let into = context.fresh(Place::Memory, "restored")?;
        let mut restore = vec!["restore", OBJECTS[0], "--into", text(&into), "--json"];
        OBJECTS[1..].iter().for_each(|name| restore.extend(["--and", name]));
        let ran = context.run(&mut lab.command(&restore))?;
        let report = first_report(&ran.stdout)?;
        let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
        outcome.samples.push(Sample { peak_rss, ..ran.usage.into() });
        rates.push(number(&report, 0, "medium_mb_s") / LTO9_MB_S);
        passes.push(number(&report, 0, "passes"));
        remove(&into)?;
    }
    remove(&source)?;
    remove(&file)?;
    let written = 4.0 * data.bytes as f64 / 18e12 * 280.0;
    let work = "four multiplexed objects restored together from a virtual LTO-9 in real time: rate at the medium, of its native rate";
    let note = format!(
        "passes of the tape in a restore: {:.4}; the data take {written:.4}",
        median(passes)
    );
    sheet.add(Line::alone(work, &outcome, median(rates), "×", Goal::AtLeast(0.95)).note(note));
    lab.end()
}

/// A restore whose target takes half of the drive's lowest speed.
fn slowly(context: &Context, sheet: &mut Sheet<'_>, data: &Data) -> Result<(), BenchError> {
    let lab = Lab::new(context, "lto-3", 1, SLOW_SCALE)?;
    let tape = lab.tape(1, "L3");
    // One stream: an archive has the files of several in another order than a tape, which costs more than a slow reader does.
    let backup = ["backup", text(&data.path), "--name", "t", "--compress", "off", "--streams", "1"];
    lab.run(&[&backup[..], &["--to", &tape]].concat())?;
    let reader = format!(
        "import sys,time\nt=time.monotonic()\nn=0\n\
         while sys.stdin.buffer.read(1000000):\n  n+=1\n  time.sleep(max(0,t+n/{SLOW_MB_S}-time.monotonic()))"
    );
    let disk = context.root(Place::Disk).to_owned();
    let spools = [("with a spool of 8 GiB", true), ("without", false)];
    let (mut outcomes, mut hitches, mut passes) = (spools.map(|s| named(s.0)), [0.0; 2], [0.0; 2]);
    for _ in 0..RUNS {
        for (n, (_, with)) in spools.iter().enumerate() {
            let mut command = lab.command(&["restore", "t", "--to-tar", "-", "--json"]);
            if *with {
                command.arg("--spool").arg(&disk).args(["--spool-size", "8G"]);
            }
            let report = piped(&mut command, &reader)?;
            let wall_s = report["elapsed_s"].as_f64().unwrap_or(f64::NAN);
            let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(0);
            outcomes[n].samples.push(Sample { wall_s, peak_rss, ..Sample::default() });
            hitches[n] += number(&report, 0, "backhitches");
            passes[n] += number(&report, 0, "passes");
        }
    }
    let fewer = hitches[1] / hitches[0].max(1.0);
    let work = "restore target at half a drive's lowest speed: how many times fewer backhitches with a spool";
    let [with, without] = &outcomes;
    let note = format!(
        "backhitches of {RUNS} runs: {} with, {} without; passes of the tape: {:.3} and {:.3}",
        hitches[0], hitches[1], passes[0], passes[1]
    );
    sheet.add(Line::ratio(work, with, without, fewer, Goal::AtLeast(10.0)).note(note));
    lab.end()
}

/// Runs a command into a reader; the report that it prints on standard error.
fn piped(command: &mut Command, reader: &str) -> Result<Value, BenchError> {
    let failed = io_error("run", Path::new("capstan restore"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(failed)?;
    let stdout = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let failed = io_error("run", Path::new("python3"));
    Command::new("python3").args(["-c", reader]).stdin(stdout).status().map_err(failed)?;
    let output = child.wait_with_output();
    let output = output.map_err(io_error("wait for", Path::new("capstan restore")))?;
    parse(&String::from_utf8_lossy(&output.stderr), "capstan restore")
}

/// Tape to tape, and disk to tape: at the rate of the drive that is written.
fn copies(context: &Context, sheet: &mut Sheet<'_>, data: &Data) -> Result<(), BenchError> {
    let (mut tape, mut disk) = (named("tape to tape with a spool of 1 GiB"), named("disk to tape"));
    let (mut of_tape, mut of_disk) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let lab = Lab::new(context, "lto-8", 2, 1)?;
        context.warm_source(data)?;
        let warm = context.memory_at_hand(2 * data.bytes + (1 << 30))?;
        let (first, second) = (lab.tape(1, "L8"), lab.tape(2, "L8"));
        let backup = ["backup", text(&data.path), "--name", "t", "--compress", "off", "--to"];
        lab.run(&[&backup[..], &[&first]].concat())?;
        // Where the source cannot be faster than the target, a spool lets the target write at full speed.
        let spool = context.fresh(Place::Memory, "spool")?;
        std::fs::create_dir(&spool).map_err(io_error("create", &spool))?;
        let spooled = format!("{second}&spool={}&spool-size=1G", spool.display());
        let (sample, report) = lab.run(&["copy", "t", "--to", &spooled])?;
        remove(&spool)?;
        tape.samples.push(sample);
        of_tape.push(number(&report, 0, "medium_mb_s") / LTO8_MB_S);
        lab.end()?;
        drop(warm);
        let _warm = context.memory_at_hand(2 * data.bytes)?;
        let lab = Lab::new(context, "lto-8", 1, 1)?;
        let medium = context.fresh(Place::Memory, "medium-stage")?;
        lab.run(&[&backup[..], &[text(&medium)]].concat())?;
        let (sample, report) = lab.run(&["copy", "t", "--to", &lab.tape(1, "L8")])?;
        disk.samples.push(sample);
        of_disk.push(number(&report, 0, "medium_mb_s") / LTO8_MB_S);
        remove(&medium)?;
        lab.end()?;
    }
    for (outcome, rates) in [(&tape, of_tape), (&disk, of_disk)] {
        let work = format!(
            "copy of typical, {}, virtual LTO-8 in real time: rate at the medium, of its native rate",
            outcome.label
        );
        sheet.add(Line::alone(&work, outcome, median(rates), "×", Goal::AtLeast(0.97)));
    }
    Ok(())
}

/// Native rate of an LTO-8 in MB/s (crates/tape/src/models.toml has its source).
const LTO8_MB_S: f64 = 360.0;

/// Two drives, each with all of the data, and eight streams.
fn memory(context: &Context, sheet: &mut Sheet<'_>, data: &Data) -> Result<(), BenchError> {
    const BUFFERS: u64 = 64;
    const BLOCK: u64 = 512 << 10;
    let mut outcome: Outcome = named("capstan");
    for _ in 0..RUNS {
        let lab = Lab::new(context, "lto-9", 2, 100)?;
        let (first, second) = (lab.tape(1, "L9"), lab.tape(2, "L9"));
        let (buffers, block) = (BUFFERS.to_string(), BLOCK.to_string());
        let backup = ["backup", text(&data.path), "--name", "t", "--streams", "8"];
        let layout = ["--buffers", &buffers, "--block-size", &block, "--to", &first];
        let mirror = ["--mirror", &second];
        outcome.samples.push(lab.run(&[&backup[..], &layout, &mirror].concat())?.0);
        lab.end()?;
    }
    let most = (BUFFERS * BLOCK + BESIDES) as f64 / f64::from(1 << 20);
    let mib = outcome.peak_rss() as f64 / f64::from(1 << 20);
    let work =
        "memory of a process that drives two drives with 8 streams and 64 buffers of 512 KiB";
    sheet.add(Line::alone(work, &outcome, mib, "MiB", Goal::AtMost(most)));
    Ok(())
}
