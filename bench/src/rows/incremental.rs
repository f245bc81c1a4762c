//! A second backup of which nothing changed.

use std::process::Command;

use crate::capstan::{Backup, Target};
use crate::context::{Context, Place, Set};
use crate::error::BenchError;
use crate::measure::{Contender, alternate};
use crate::report::{Goal, Line};
use crate::rivals::Rival;
use crate::rows::Sheet;

const RIVALS: [Rival; 2] = [Rival::Restic, Rival::Borg];

pub fn unchanged(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Small)?;
    context.need_memory(data.bytes * 4)?;
    let ours = Backup::new(&data, Target::Directory(Place::Memory)).run(context, "run")?;
    let theirs: Vec<_> = RIVALS.iter().map(|rival| rival.make(context, &data)).collect();
    let find = || {
        context.warm_source(&data)?;
        // Reads what a backup reads of each name: size, times, inode.
        let mut command = Command::new("find");
        command.arg(&data.path).args(["-fprintf", "/dev/null", "%s %T@ %C@ %i %p\n"]);
        Ok(context.run(&mut command)?.usage.into())
    };
    let mut contenders = vec![
        Contender::new("capstan", || ours.again(context)),
        Contender::new("find -printf", find),
    ];
    for (rival, archive) in RIVALS.iter().zip(&theirs) {
        contenders.push(Contender::new(rival.label(), || match archive {
            Ok(archive) => {
                context.warm_source(&data)?;
                archive.backup(context, &data)
            }
            Err(error) => Err(BenchError::Skip(error.to_string())),
        }));
    }
    let outcomes = alternate(context, contenders)?;
    let [ours_again, find, rivals @ ..] = &outcomes[..] else { return Ok(()) };
    let work = "small again, nothing changed";
    let value = ours_again.wall_s() / find.wall_s().max(1e-9);
    sheet.add(Line::ratio(&format!("{work}: time"), ours_again, find, value, Goal::AtMost(1.5)));
    for rival in rivals {
        sheet.add(Line::speed(work, ours_again, rival, Goal::AtLeast(3.0)));
    }
    ours.remove()?;
    theirs.into_iter().flatten().try_for_each(|archive| archive.remove())
}
