//! An incremental on a base of 5 million entries, and what a lost database costs with as many.

use std::path::Path;
use std::process::Command;

use crate::capstan::{Archive, Backup, Target};
use crate::context::{Context, Data, Place, remove};
use crate::error::BenchError;
use crate::measure::Outcome;
use crate::report::{Goal, Line};
use crate::rows::Sheet;
use crate::rows::memory::{KERNEL_BYTES_PER_FILE, in_own_tmpfs};

const FEW: u64 = 1_000_000;
const MANY: u64 = 5_000_000;

pub fn large(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let scale = if context.quick { 10 } else { 1 };
    context.need_memory(MANY / scale * (KERNEL_BYTES_PER_FILE + 4096 / 16) + (2 << 30))?;
    in_own_tmpfs(context, |mount| in_mount(context, sheet, mount, scale))
}

fn in_mount(
    context: &Context,
    sheet: &mut Sheet<'_>,
    mount: &Path,
    scale: u64,
) -> Result<(), BenchError> {
    let mut measured = Vec::new();
    for count in [FEW / scale, MANY / scale] {
        let path = mount.join("files");
        eprintln!("  making {count} files");
        let (_, made) = context.raw(&[&"make-files", &path, &"--files", &count.to_string()])?;
        let number = |key: &str| made[key].as_u64().unwrap_or(0);
        let data = Data { path: path.clone(), files: number("files"), bytes: number("bytes") };
        let archive = Backup::new(&data, Target::Directory(Place::Memory)).run(context, "run")?;
        let label = format!("{count} files");
        let again: Result<Vec<_>, _> = (0..3).map(|_| archive.again(context)).collect();
        let again = Outcome { label: label.clone(), samples: again?, failed: None };
        let imported: Result<Vec<_>, _> = (0..3).map(|_| import(context, &archive)).collect();
        let imported = Outcome { label, samples: imported?, failed: None };
        archive.remove()?;
        remove(&path)?;
        measured.push((data.files, again, imported));
    }
    let [(few_files, few, _), (many_files, many, imported)] = &measured[..] else { return Ok(()) };
    let mib = |o: &Outcome| o.peak_rss() as f64 / f64::from(1 << 20);
    let work = format!("peak memory, {} again, nothing changed", many.label);
    let rate = |files: u64, o: &Outcome| files as f64 / o.wall_s().max(1e-9);
    let note = format!("{:.0} files/s", rate(*many_files, many));
    sheet.add(Line::alone(&work, many, mib(many), "MiB", Goal::AtMost(96.0)).note(note));
    let value = rate(*many_files, many) / rate(*few_files, few);
    let work = format!("files/s, {} again, against {}", many.label, few.label);
    sheet.add(Line::ratio(&work, many, few, value, Goal::AtLeast(0.9)));
    let million = rate(*many_files, imported) / 1e6;
    let work = format!("import of {}, lost database", imported.label);
    let unit = "million entries/s";
    // The medium has its rows once for the full, the incrementals of which nothing changed have none.
    sheet.add(Line::alone(&work, imported, million, unit, Goal::AtLeast(1.0)));
    Ok(())
}

/// Imports an archive's medium into a new home.
fn import(context: &Context, archive: &Archive) -> Result<crate::measure::Sample, BenchError> {
    let home = context.fresh(Place::Memory, "home-import")?;
    let mut command = Command::new(&context.capstan);
    command.arg("--home").arg(&home).args(["--quiet", "import", "--json"]).args(archive.medium());
    let ran = context.run(&mut command)?;
    remove(&home)?;
    Ok(ran.usage.into())
}
