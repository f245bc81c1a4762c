//! A backup after a directory was moved, and after all its files were touched: what it stores and how long it takes.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::capstan::{Backup, Target};
use crate::context::{Context, Data, Place, Set, remove};
use crate::error::{BenchError, io_error};
use crate::measure::{Contender, Outcome, Sample, alternate};
use crate::report::{Goal, Line};
use crate::rivals::Rival;
use crate::rows::Sheet;

const RIVALS: [Rival; 2] = [Rival::Restic, Rival::Borg];

pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let set = context.data(Set::Home)?;
    context.need_memory(set.bytes * 6)?;
    // The source is a directory with the set in it, under one name after the other.
    let path = context.fresh(Place::Disk, "rename")?;
    fs::create_dir_all(&path).map_err(io_error("create", &path))?;
    let source = Data { path, ..set.clone() };
    let named = |number: u32| source.path.join(format!("name-{number}"));
    rename(&set.path, &named(0))?;
    let number = Cell::new(0);
    let measured = both(context, sheet, &source, &|| {
        number.set(number.get() + 1);
        rename(&named(number.get() - 1), &named(number.get()))
    });
    // The set is used again.
    rename(&named(number.get()), &set.path)?;
    remove(&source.path)?;
    measured
}

fn both(
    context: &Context,
    sheet: &mut Sheet<'_>,
    source: &Data,
    moved: &dyn Fn() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let megabytes = source.bytes / 1_000_000;
    measure(context, sheet, source, &format!("mv of a directory of {megabytes} MB"), moved)?;
    measure(context, sheet, source, &format!("touch of all files of {megabytes} MB"), &|| {
        let mut command = Command::new("find");
        command.arg(&source.path).args(["-type", "f", "-exec", "touch", "{}", "+"]);
        context.run(&mut command).map(drop)
    })
}

/// Each run changes the source and backs it up once more.
fn measure(
    context: &Context,
    sheet: &mut Sheet<'_>,
    source: &Data,
    work: &str,
    change: &dyn Fn() -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let ours = Backup::new(source, Target::Directory(Place::Memory)).run(context, "run")?;
    let theirs: Vec<_> = RIVALS.iter().map(|rival| rival.make(context, source)).collect();
    let changed = || {
        change()?;
        context.warm_source(source)
    };
    let mut contenders = vec![Contender::new("capstan", || {
        changed()?;
        ours.moved(context)
    })];
    for (rival, archive) in RIVALS.iter().zip(&theirs) {
        let stored = Cell::new(archive.as_ref().map_or(0, |archive| archive.sample.stored));
        contenders.push(Contender::new(rival.label(), move || match archive {
            Ok(archive) => {
                changed()?;
                let sample = archive.backup(context, source)?;
                let before = stored.replace(sample.stored);
                Ok(Sample { stored: sample.stored.saturating_sub(before), ..sample })
            }
            Err(error) => Err(BenchError::Skip(error.to_string())),
        }));
    }
    let outcomes = alternate(context, contenders)?;
    let [ours_again, rivals @ ..] = &outcomes[..] else { return Ok(()) };
    for rival in rivals {
        sheet.add(Line::speed(work, ours_again, rival, Goal::AtLeast(3.0)));
        sheet.add(stored(&format!("{work}: bytes stored"), ours_again, rival));
    }
    let share = 100.0 * ours_again.stored() / source.bytes.max(1) as f64;
    let work = format!("{work}: bytes stored, of its data");
    sheet.add(Line::alone(&work, ours_again, share, "%", Goal::AtMost(1.0)));
    ours.remove()?;
    theirs.into_iter().flatten().try_for_each(|archive| archive.remove())
}

fn stored(work: &str, ours: &Outcome, theirs: &Outcome) -> Line {
    let value = ours.stored() / theirs.stored().max(1.0);
    let note = format!("{:.0} and {:.0} kB", ours.stored() / 1e3, theirs.stored() / 1e3);
    Line::ratio(work, ours, theirs, value, Goal::Shown).note(note)
}

fn rename(from: &Path, to: &Path) -> Result<(), BenchError> {
    fs::rename(from, to).map_err(io_error("rename", from))
}
