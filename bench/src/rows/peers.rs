//! Backups to memory, everything at its defaults, against the other backup programs.

use crate::capstan::{Backup, Target};
use crate::context::{Context, Place, Set};
use crate::error::BenchError;
use crate::measure::{Contender, Outcome, alternate};
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
    context.need_memory(data.bytes * 5 / 2)?;
    let backup = Backup::new(&data, Target::Directory(Place::Memory));
    let mut contenders = vec![
        backup.clone().contender(context, "capstan"),
        backup.encrypted().contender(context, "capstan, encrypted"),
    ];
    contenders.extend(Rival::ALL.map(|rival| -> Contender<'_> { rival.backup(context, &data) }));
    let outcomes = alternate(context, contenders)?;
    let [plain, encrypted, rivals @ ..] = &outcomes[..] else { return Ok(()) };
    if let Some(reason) = &encrypted.failed {
        eprintln!("  the encrypted backup failed: {reason}");
    }

    let name = set.name();
    let fastest =
        rivals.iter().filter(|r| r.ran()).min_by(|a, b| a.wall_s().total_cmp(&b.wall_s()));
    for (ours, how) in [(plain, ""), (encrypted, ", encrypted")] {
        let work = format!("{name} to memory at defaults{how}");
        if let (Set::Typical, Some(fastest)) = (set, fastest) {
            let work = format!("{work}, the fastest rival");
            sheet.add(Line::speed(&work, ours, fastest, Goal::AtLeast(2.5)));
        }
        for (rival, theirs) in Rival::ALL.iter().zip(rivals) {
            if !theirs.ran() && !how.is_empty() {
                // That it is missing is said once.
                continue;
            }
            let goal = match (set, rival) {
                (Set::Typical, Rival::Restic) => Goal::AtLeast(4.0),
                (Set::Small, Rival::Restic) => Goal::AtLeast(7.0),
                (Set::Small, Rival::Bacula) => Goal::AtLeast(8.0),
                _ => Goal::Shown,
            };
            sheet.add(Line::speed(&work, ours, theirs, goal).note(stored(ours, theirs)));
        }
    }
    sheet.add(Line::speed(
        &format!("{name} to memory, encrypted against not"),
        encrypted,
        plain,
        Goal::AtLeast(0.8),
    ));
    for (rival, goal) in [(Rival::Rustic, Goal::AtMost(1.15)), (Rival::Restic, Goal::Shown)] {
        let theirs = Rival::ALL.iter().zip(rivals).find(|(r, _)| **r == rival).map(|(_, o)| o);
        if let Some(theirs) = theirs {
            let value = plain.stored() / theirs.stored();
            let work = format!("{name}: bytes stored");
            sheet.add(Line::ratio(&work, plain, theirs, value, goal).note(stored(plain, theirs)));
        }
    }
    Ok(())
}

fn stored(ours: &Outcome, theirs: &Outcome) -> String {
    if !ours.ran() || !theirs.ran() {
        return String::new();
    }
    format!("stored {:.0} and {:.0} MB", ours.stored() / 1e6, theirs.stored() / 1e6)
}
