//! One small file out of a million on tape: what its restore takes beyond loading the tape and locating the block.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use capstan_medium::tape::{Spot, TapeError};
use capstan_tape::TapeDrive;
use capstan_tape::vtl::library::Library;

use crate::context::{Context, Place, parse, remove};
use crate::error::{BenchError, io_error};
use crate::measure::{Outcome, Sample};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

const FILES: u64 = 1_000_000;
/// Bytes of each; blocks and what is said of the files come to it.
const SIZE: u64 = 10 << 10;
const ON_TAPE: u64 = SIZE + 1024;
/// Runs; each takes as long as the drive does.
const RUNS: usize = 3;

/// A full in real time, then one file from its end, as often as it takes.
pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let count = if context.quick { FILES / 10 } else { FILES };
    context.need_memory(count * ON_TAPE)?;
    let source = context.fresh(Place::Disk, "one-file")?;
    eprintln!("  making {count} files");
    let mut make = Command::new(&context.capstan);
    make.args(["assess", "create-data"]).arg(&source).args(["--files", &count.to_string()]);
    let shape = ["--preset", "small", "--files-per-dir", "1000", "--sizes", "10K..10K"];
    context.run(make.args(shape))?;
    let library = context.fresh(Place::Memory, "vtl")?;
    let home = context.fresh(Place::Memory, "home-tape")?;
    let mut make = Command::new(&context.capstan);
    make.args(["vtl", "create"]).arg(&library).args(["--model", "lto-9", "--drives", "1"]);
    context.run(make.args(["--slots", "2", "--tapes", "1", "--scale", "1"]))?;
    let capstan = || {
        let mut command = Command::new(&context.capstan);
        command.arg("--home").arg(&home).arg("--quiet");
        command
    };
    let device = format!("vtape:{}", library.display());
    let mut backup = capstan();
    backup.args(["backup", "--json", "--name", "tape", "--compress", "off", "--to", &device]);
    context.run(backup.arg(&source))?;
    let file = last_file(&source)?;
    let (load_s, locate_s) = drive_alone(&library)?;
    let mut outcome = Outcome { label: "capstan".to_owned(), ..Outcome::default() };
    for _ in 0..RUNS {
        let into = context.fresh(Place::Memory, "restored")?;
        let mut restore = capstan();
        restore.args(["restore", "--json", "tape"]).arg(&file).arg("--into").arg(&into);
        let ran = context.run(&mut restore)?;
        same(&file, &into)?;
        remove(&into)?;
        let report = parse(&ran.stdout, "capstan restore")?;
        let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
        outcome.samples.push(Sample { peak_rss, ..ran.usage.into() });
    }
    for path in [&source, &library, &home] {
        remove(path)?;
    }
    let beyond = outcome.wall_s() - load_s - locate_s;
    let work = format!(
        "restore of one 10 KiB file of {count} from a virtual LTO-9 in real time: beyond load and locate"
    );
    let note = format!("the drive alone: load {load_s:.1} s, locate {locate_s:.1} s");
    sheet.add(Line::alone(&work, &outcome, beyond, "s", Goal::AtMost(1.0)).note(note));
    Ok(())
}

/// The file that comes last in the order of a backup.
fn last_file(dir: &Path) -> Result<PathBuf, BenchError> {
    let (mut files, mut dirs) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(io_error("list", dir))? {
        let path = entry.map_err(io_error("list", dir))?.path();
        if path.is_dir() { dirs.push(path) } else { files.push(path) }
    }
    match (dirs.into_iter().max(), files.into_iter().max()) {
        (Some(dir), _) => last_file(&dir),
        (None, Some(file)) => Ok(file),
        (None, None) => Err(unexpected(format!("{} is empty", dir.display()))),
    }
}

/// Seconds that the drive takes to load the tape, and to go from there to the last block of data, when it is asked for
/// nothing else: in virtual time.
fn drive_alone(library: &Path) -> Result<(f64, f64), BenchError> {
    let measured = || -> Result<(f64, f64), TapeError> {
        let library = Library::open(library)?.in_virtual_time();
        let mut drive = library.drive(1)?;
        let loaded = library.clock().now();
        // Behind it come its filemark, the last segment's catalog, and that one's filemark.
        let tape = drive.tape();
        let file = tape.map_or(0, |tape| tape.filemarks().saturating_sub(2));
        let blocks = tape.and_then(|tape| tape.file(file)).map_or(0, |(_, blocks)| blocks);
        drive.locate(Spot { file, block: blocks.saturating_sub(1), object: None })?;
        Ok((loaded, library.clock().now() - loaded))
    };
    measured().map_err(|e| unexpected(e.to_string()))
}

/// Refuses a file that did not come back as it was.
fn same(file: &Path, into: &Path) -> Result<(), BenchError> {
    let restored = into.join(file.strip_prefix("/").unwrap_or(file));
    let read = |path: &Path| fs::read(path).map_err(io_error("read", path));
    match read(file)? == read(&restored)? {
        true => Ok(()),
        false => Err(unexpected(format!("{} is another", restored.display()))),
    }
}

fn unexpected(problem: String) -> BenchError {
    BenchError::Unexpected { program: "the restore of one file from tape".to_owned(), problem }
}
