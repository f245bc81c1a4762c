//! What does not grow: memory with the number of files, the medium with their smallness.

use std::path::Path;
use std::process::Command;

use crate::capstan::{Backup, Target};
use crate::context::{Context, Data, MOUNT, Place, Set, remove};
use crate::error::{BenchError, io_error};
use crate::measure::{Outcome, Sample};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

const FEW: u64 = 30_000;
const MANY: u64 = 3_000_000;
/// What the kernel needs for an empty file in a tmpfs: inode, name, its share of directories.
pub const KERNEL_BYTES_PER_FILE: u64 = 1300;

pub fn flat(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let many = if context.quick { MANY / 10 } else { MANY };
    // The files twice, as source and restored.
    context.need_memory(many * KERNEL_BYTES_PER_FILE * 2 + many / 16 * 4096 * 2 + (1 << 30))?;
    in_own_tmpfs(context, |mount| in_mount(context, sheet, mount, many))
}

/// Works in a tmpfs of its own: the usual one has not inodes enough for millions of files.
pub fn in_own_tmpfs(
    context: &Context,
    work: impl FnOnce(&Path) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mount = context.fresh(Place::Memory, MOUNT)?;
    std::fs::create_dir_all(&mount).map_err(io_error("create", &mount))?;
    let options = ["-t", "tmpfs", "-o", "nr_inodes=0,size=90%", "capstan-bench"];
    let mounted = context.run(Command::new("mount").args(options).arg(&mount));
    mounted.map_err(|e| BenchError::Skip(format!("it needs a tmpfs of its own, as root: {e}")))?;
    let result = work(&mount);
    context.run(Command::new("umount").arg(&mount))?;
    remove(&mount)?;
    result
}

fn in_mount(
    context: &Context,
    sheet: &mut Sheet<'_>,
    mount: &Path,
    many: u64,
) -> Result<(), BenchError> {
    let mut measured = Vec::new();
    for count in [FEW, many] {
        let path = mount.join("files");
        let files = count.to_string();
        eprintln!("  making {count} files");
        let (_, made) = context.raw(&[&"make-files", &path, &"--files", &files])?;
        let bytes = made["bytes"].as_u64().unwrap_or(0);
        let files = made["files"].as_u64().unwrap_or(0);
        let data = Data { path: path.clone(), files, bytes };
        // Memory does not depend on the weather: 3 runs of the few, one of the many.
        let runs = if count == FEW { 3 } else { 1 };
        let mut backups = Vec::new();
        let mut restores = Vec::new();
        for _ in 0..runs {
            let archive =
                Backup::new(&data, Target::Directory(Place::Memory)).run(context, "run")?;
            backups.push(archive.sample);
            let restored = archive.restore_into(context, &mount.join("restored"));
            archive.remove()?;
            restores.push(restored?);
        }
        remove(&path)?;
        measured.push([outcome(count, backups), outcome(count, restores)]);
    }
    let [few, many] = &measured[..] else { return Ok(()) };
    for (what, few, many) in [("backup", &few[0], &many[0]), ("restore", &few[1], &many[1])] {
        let mib = many.peak_rss() as f64 / f64::from(1 << 20);
        let work = format!("peak memory, {what} of {}", many.label);
        let rate = format!("{:.1} s", many.wall_s());
        sheet.add(Line::alone(&work, many, mib, "MiB", Goal::AtMost(64.0)).note(rate));
        let value = many.peak_rss() as f64 / few.peak_rss().max(1) as f64;
        let note = format!("{} of {} MiB", many.peak_rss() >> 20, few.peak_rss() >> 20);
        let work = format!("peak memory, {what}, against {}", few.label);
        sheet.add(Line::ratio(&work, many, few, value, Goal::AtMost(1.1)).note(note));
    }
    Ok(())
}

fn outcome(count: u64, samples: Vec<Sample>) -> Outcome {
    Outcome { label: format!("{count} files"), samples, failed: None }
}

pub fn overhead(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Small)?;
    context.need_memory(data.bytes * 2)?;
    let backup = Backup::new(&data, Target::Directory(Place::Memory));
    let archive = backup.options(&["--compress", "off"]).run(context, "run")?;
    let sample = archive.sample;
    archive.remove()?;
    let ours = Outcome { label: "capstan".into(), samples: vec![sample], failed: None };
    let percent = (sample.stored as f64 / data.bytes as f64 - 1.0) * 100.0;
    let note =
        format!("{} bytes for {} of data; one run, it does not vary", sample.stored, data.bytes);
    let work = "small: what the medium holds besides data";
    sheet.add(Line::alone(work, &ours, percent, "%", Goal::AtMost(0.8)).note(note));
    Ok(())
}
