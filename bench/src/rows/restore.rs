//! Restores from memory to memory, against a raw write of the same files, tar, restic and rustic.
//!
//! The rivals come one after the other, each in turn with Capstan, so that only two archives are in memory.

use crate::baselines::{make_tar, raw_write, untar};
use crate::capstan::{Archive, Backup, Target};
use crate::context::{Context, Data, Place, Set, remove};
use crate::error::BenchError;
use crate::measure::{Contender, Outcome, alternate, median};
use crate::report::{Goal, Line};
use crate::rivals::Rival;
use crate::rows::Sheet;

pub fn typical(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    compare(context, sheet, Set::Typical)
}

pub fn small(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    compare(context, sheet, Set::Small)
}

fn compare(context: &Context, sheet: &mut Sheet<'_>, set: Set) -> Result<(), BenchError> {
    let data = context.data(set)?;
    // Our medium, one more archive and what is restored; tar's adds to files of a few KiB.
    context.need_memory(data.bytes * 3)?;
    let backup = Backup::new(&data, Target::Directory(Place::Memory));
    let mut backups = Vec::new();
    for _ in 0..2 {
        let archive = backup.run(context, "run")?;
        backups.push(archive.sample.wall_s);
        archive.remove()?;
    }
    let archive = backup.run(context, "kept")?;
    backups.push(archive.sample.wall_s);
    let result = with_archive(context, sheet, set, &data, &archive, median(backups));
    archive.remove()?;
    result
}

fn with_archive(
    context: &Context,
    sheet: &mut Sheet<'_>,
    set: Set,
    data: &Data,
    archive: &Archive,
    backup_s: f64,
) -> Result<(), BenchError> {
    let name = set.name();
    let work = format!("restore of {name} in memory");
    let ours = || Contender::new("capstan", || archive.restore(context, Place::Memory));

    let tar = make_tar(context, data, Place::Memory)?;
    let contenders = vec![ours(), raw_write(context, data), untar(context, &tar, data)];
    let outcomes = alternate(context, contenders);
    remove(&tar)?;
    let outcomes = outcomes?;
    let [first, raw, tar] = &outcomes[..] else { return Ok(()) };
    sheet.add(Line::speed(&work, first, raw, Goal::Shown).note("ratio to raw"));
    let value = first.wall_s() / backup_s;
    let note = format!("seconds of restore / of backup, which took {backup_s:.3} s");
    let ratio = Line::alone(&format!("{work} / backup"), first, value, "×", Goal::Shown);
    sheet.add(ratio.note(note));

    let small_tar = if set == Set::Small { Goal::AtLeast(1.2) } else { Goal::Shown };
    sheet.add(Line::speed(&work, first, tar, small_tar));
    let mut pairs = vec![(first.clone(), tar.clone())];
    for rival in [Rival::Restic, Rival::Rustic] {
        let (ours, theirs) = match rival.make(context, data) {
            Ok(theirs) => {
                let run = || theirs.restore(context, data);
                let contenders = vec![ours(), Contender::new(rival.label(), run)];
                let outcomes = alternate(context, contenders);
                theirs.remove()?;
                let mut outcomes = outcomes?;
                let theirs = outcomes.pop().unwrap_or_default();
                (outcomes.pop().unwrap_or_default(), theirs)
            }
            Err(error) => {
                let (label, failed) = (rival.label().into(), Some(error.to_string()));
                (first.clone(), Outcome { label, failed, ..Outcome::default() })
            }
        };
        let goal = if set == Set::Small { Goal::AtLeast(3.0) } else { Goal::Shown };
        sheet.add(Line::speed(&work, &ours, &theirs, goal));
        pairs.push((ours, theirs));
    }
    if set == Set::Typical {
        let speed = |pair: &(Outcome, Outcome)| pair.1.wall_s() / pair.0.wall_s();
        let ran = pairs.iter().filter(|(ours, theirs)| ours.ran() && theirs.ran());
        if let Some((ours, theirs)) = ran.min_by(|a, b| speed(a).total_cmp(&speed(b))) {
            let work = format!("{work}, the fastest rival");
            sheet.add(Line::speed(&work, ours, theirs, Goal::AtLeast(1.2)));
        }
    }
    Ok(())
}
