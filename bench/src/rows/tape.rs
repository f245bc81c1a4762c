//! Tape: a virtual LTO-9 in real time, fed from warm files; and a source at half the lowest speed of a drive, with a spool and
//! without.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::context::{Context, Place, Set, parse};
use crate::error::{BenchError, io_error};
use crate::measure::{Outcome, Sample, median};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

/// Native rate of an LTO-9 in MB/s (crates/tape/src/models.toml has its source).
pub(super) const LTO9_MB_S: f64 = 408.0;
/// Runs of each; a run takes as long as the drive does.
pub(super) const RUNS: usize = 3;
/// Megabytes that the slow source gives.
const SLOW_MB: u64 = 3_000;
/// How many times as fast as the world the slow source's drive is, an LTO-3: its lowest speed is 27 MB/s.
pub(super) const SLOW_SCALE: u64 = 4;
pub(super) const SLOW_MB_S: f64 = 27.0 / 2.0 * SLOW_SCALE as f64;

pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    streaming(context, sheet)?;
    spool(context, sheet)
}

/// Typical, as often as makes some 20 seconds of tape, by hard links that are read as files of their own.
fn streaming(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    context.need_memory(3 * data.bytes + (2 << 30))?;
    let source = context.fresh(Place::Disk, "twice")?;
    std::fs::create_dir(&source).map_err(io_error("create", &source))?;
    for n in ["1", "2"] {
        context.run(Command::new("cp").arg("-al").arg(&data.path).arg(source.join(n)))?;
    }
    context.warm_source(&data)?;
    let (mut outcome, mut rates, mut hitches) = (named("capstan"), Vec::new(), 0);
    for _ in 0..RUNS {
        let backup = ["--compress", "off", "--hard-links-as-files"];
        let _warm = context.memory_at_hand(2 * data.bytes)?;
        let session = Session { model: "lto-9", scale: 1, spool: None };
        let (sample, report) =
            session.run(context, Place::Memory, &[&[text(&source)], &backup[..]].concat())?;
        outcome.samples.push(sample);
        let drive = &report["drives"][0];
        rates.push(drive["medium_mb_s"].as_f64().unwrap_or(0.0) / LTO9_MB_S);
        hitches += drive["backhitches"].as_u64().unwrap_or(0);
    }
    crate::context::remove(&source)?;
    let work =
        "typical twice to a virtual LTO-9 in real time: rate at the medium, of its native rate";
    sheet.add(Line::alone(work, &outcome, median(rates), "×", Goal::AtLeast(0.99)));
    let work = "backhitches of that, in all runs";
    sheet.add(Line::alone(work, &outcome, hitches as f64, "", Goal::AtMost(0.0)));
    Ok(())
}

fn spool(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    context.need_memory(SLOW_MB * 2_000_000)?;
    let source = format!(
        "import sys,time,os\nb=os.urandom(1000000)\nt=time.monotonic()\n\
         for n in range({SLOW_MB}):\n  sys.stdout.buffer.write(b)\n  \
         time.sleep(max(0,t+(n+1)/{SLOW_MB_S}-time.monotonic()))"
    );
    let script = context.fresh(Place::Memory, "source.py")?;
    std::fs::write(&script, source).map_err(io_error("write", &script))?;
    let line = format!("python3 {}", script.display());
    let backup = ["--compress", "off", "--from-command", &line, "--stdin-name", "slow"];
    let dir = context.root(Place::Disk).to_owned();
    let (mut with, mut without) = (named("with a spool of 1.5 GiB"), named("without"));
    let (mut hitches, mut passes) = ([0.0; 2], [0.0; 2]);
    for _ in 0..RUNS {
        for (n, (outcome, spool)) in
            [(&mut with, Some(dir.as_path())), (&mut without, None)].into_iter().enumerate()
        {
            let session = Session { model: "lto-3", scale: SLOW_SCALE, spool };
            let (sample, report) = session.run(context, Place::Memory, &backup)?;
            outcome.samples.push(sample);
            hitches[n] += report["drives"][0]["backhitches"].as_f64().unwrap_or(0.0);
            passes[n] += report["drives"][0]["passes"].as_f64().unwrap_or(0.0);
        }
    }
    crate::context::remove(&script)?;
    // With a spool there may be none at all.
    let fewer = hitches[1] / hitches[0].max(1.0);
    let work =
        "source at half a drive's lowest speed: how many times fewer backhitches with a spool";
    let mut line = Line::ratio(work, &with, &without, fewer, Goal::AtLeast(10.0));
    line.note = format!(
        "backhitches of {RUNS} runs: {} with, {} without; passes of the tape: {:.3} and {:.3}",
        hitches[0], hitches[1], passes[0], passes[1]
    );
    sheet.add(line);
    Ok(())
}

/// A session to a new virtual library.
struct Session<'a> {
    model: &'a str,
    scale: u64,
    spool: Option<&'a Path>,
}

impl Session<'_> {
    fn run(
        &self,
        context: &Context,
        place: Place,
        backup: &[&str],
    ) -> Result<(Sample, Value), BenchError> {
        let library = context.fresh(place, "vtl")?;
        let home = context.fresh(Place::Memory, "home-tape")?;
        let mut make = Command::new(&context.capstan);
        make.args(["vtl", "create"]).arg(&library).args(["--model", self.model, "--drives", "1"]);
        make.args(["--slots", "2", "--tapes", "1", "--scale", &self.scale.to_string()]);
        context.run(&mut make)?;
        let mut device = format!("vtape:{}", library.display());
        if let Some(dir) = self.spool {
            device += &format!("?spool={}&spool-size=1536M", dir.display());
        }
        let mut command = Command::new(&context.capstan);
        command.arg("--home").arg(&home).args(["--quiet", "backup", "--json", "--name", "tape"]);
        let ran = context.run(command.args(["--to", &device]).args(backup))?;
        let report = parse(&ran.stdout, "capstan backup")?;
        crate::context::remove(&library)?;
        crate::context::remove(&home)?;
        let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
        let (wall_s, cpu_s) = (ran.usage.wall_s, ran.usage.cpu_s);
        Ok((Sample { wall_s, cpu_s, peak_rss, ..Sample::default() }, report))
    }
}

pub(super) fn named(label: &str) -> Outcome {
    Outcome { label: label.to_owned(), ..Outcome::default() }
}

pub(super) fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
