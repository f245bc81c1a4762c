//! Some of several objects that were written together: what their restore takes beside the way that the tape has to go.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use capstan_format::block::{BLOCK_SIZE_MAX, BlockKind, DaHeader, MaHeader};
use capstan_format::id::StreamId;
use capstan_medium::tape::{Spot, TapeError};
use capstan_tape::vtl::library::Library;
use capstan_tape::{Read, TapeDrive};

use super::tape::{LTO9_MB_S, named, text};
use super::tape_back::{Lab, OBJECTS, first_report, number};
use crate::context::{Context, Place, remove};
use crate::error::{BenchError, io_error};
use crate::measure::{Sample, median};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

/// Runs of each choice.
const RUNS: usize = 10;
/// What is restored: each alone, two, and all.
const CHOICES: [&[usize]; 6] = [&[0], &[1], &[2], &[3], &[0, 3], &[0, 1, 2, 3]];

/// Each of four, two of four, and all four, by turns.
pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let (bytes, runs) = if context.quick { ("128M", 2) } else { ("1G", RUNS) };
    context.need_memory(12 << 30)?;
    let lab = Lab::new(context, "lto-9", 1, 1)?;
    let source = context.fresh(Place::Disk, "objects")?;
    std::fs::create_dir(&source).map_err(io_error("create", &source))?;
    let mut spec = format!("device = \"{}\"\ntogether = 4\n", lab.tape(1, "L9"));
    spec += "options = { compress = \"off\", streams = 1 }\n";
    for (n, name) in OBJECTS.iter().enumerate() {
        // Files so small that a stream's part of a segment has many batches: workers could take them from each other.
        let path = source.join(name);
        let mut make = Command::new(&context.capstan);
        make.args(["assess", "create-data"]).arg(&path).args(["--seed", &n.to_string()]);
        make.args(["--bytes", bytes, "--sizes", "16K..4M", "--files-per-dir", "200"]);
        context.run(&mut make)?;
        spec += &format!("[[object]]\nname = \"{name}\"\npaths = [\"{}\"]\n", path.display());
    }
    let file = context.fresh(Place::Memory, "objects.toml")?;
    std::fs::write(&file, spec).map_err(io_error("write", &file))?;
    context.run(&mut lab.command(&["run", "--json", text(&file)]))?;
    remove(&source)?;
    let tape = passed(&lab.library)?;
    let mut outcome = named("capstan");
    let mut ratios = [const { Vec::new() }; CHOICES.len()];
    let mut locates = 0.0_f64;
    for _ in 0..runs {
        for (choice, ratios) in CHOICES.iter().zip(&mut ratios) {
            let into = context.fresh(Place::Memory, "restored")?;
            let mut restore = vec!["restore", OBJECTS[choice[0]], "--into", text(&into), "--json"];
            choice[1..].iter().for_each(|n| restore.extend(["--and", OBJECTS[*n]]));
            let ran = context.run(&mut lab.command(&restore))?;
            let report = first_report(&ran.stdout)?;
            let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
            let sample = Sample { peak_rss, ..ran.usage.into() };
            ratios.push((sample.wall_s - tape.before_s) / tape.way_s(choice.len()));
            locates = locates.max(number(&report, 0, "locates"));
            outcome.samples.push(sample);
            remove(&into)?;
        }
    }
    remove(&file)?;
    let slowest = |ratios: &[f64]| ratios.iter().copied().fold(f64::NAN, f64::max);
    let each: Vec<String> = CHOICES
        .iter()
        .zip(&ratios)
        .map(|(choice, ratios)| {
            let names: Vec<&str> = choice.iter().map(|n| OBJECTS[*n]).collect();
            format!("{} {:.3} ({:.3})", names.join("+"), slowest(ratios), median(ratios.clone()))
        })
        .collect();
    let all: Vec<f64> = ratios.concat();
    let work = "one, two and four of four multiplexed objects restored by turns from a virtual LTO-9 in real time: the slowest, \
                of the tape's way from its first to its last block";
    let note = format!(
        "slowest (median) of {runs} runs each: {}; load and locate of {:.1} s are left out; ways of {:.1} s (one) to {:.1} s (all); locates at \
         most {locates:.0}",
        each.join(", "),
        tape.before_s,
        tape.way_s(1),
        tape.way_s(4),
    );
    sheet.add(Line::alone(work, &outcome, slowest(&all), "×", Goal::AtMost(1.15)).note(note));
    lab.end()
}

/// What the tape has to do.
struct Passed {
    /// Seconds that the drive takes to load it and to go to the first block of data.
    before_s: f64,
    /// Of each stream the bytes of tape before its first block and behind its last one, in the order of their lengths.
    streams: Vec<(f64, f64)>,
}

impl Passed {
    /// Seconds from the first to the last block of so many of the streams: the least of any.
    fn way_s(&self, of: usize) -> f64 {
        let longest = self.streams.iter().take(of.max(1));
        let begin = longest.clone().map(|s| s.0).fold(f64::INFINITY, f64::min);
        let end = longest.map(|s| s.1).fold(0.0, f64::max);
        (end - begin) / (LTO9_MB_S * 1e6)
    }
}

/// Reads the tape with nothing but its drive, in virtual time.
fn passed(library: &Path) -> Result<Passed, BenchError> {
    let measured = || -> Result<Passed, TapeError> {
        let library = Library::open(library)?.in_virtual_time();
        let mut drive = library.drive(1)?;
        drive.locate(Spot { file: 1, block: 1, object: None })?;
        let before_s = library.clock().now();
        let mut block = vec![0; BLOCK_SIZE_MAX as usize];
        let (mut at, mut streams) = (0.0, HashMap::<StreamId, (f64, f64)>::new());
        loop {
            let length = match drive.read_block(&mut block)? {
                Read::Block(length) => length,
                Read::Filemark => continue,
                Read::EndOfData => break,
            };
            let bytes = &block[..length];
            if MaHeader::decode(bytes).is_ok_and(|ma| ma.kind == BlockKind::Data)
                && let Ok(da) = DaHeader::decode(bytes)
            {
                let stream = streams.entry(da.stream).or_insert((at, at));
                stream.1 = at + length as f64;
            }
            at += length as f64;
        }
        let mut streams: Vec<_> = streams.into_values().collect();
        streams.sort_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        Ok(Passed { before_s, streams })
    };
    measured()
        .map_err(|e| io_error("read the tape in", library)(std::io::Error::other(e.to_string())))
}
