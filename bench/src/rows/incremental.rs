//! A second backup of which nothing changed, or little.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::cold::need_disk;
use crate::capstan::{Backup, Target};
use crate::context::{Context, Data, Place, Set};
use crate::error::{BenchError, io_error};
use crate::measure::{Contender, Outcome, Sample, alternate};
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
        find(context, &data)
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
    sheet.add(time(&format!("{work}: time"), ours_again, find, 1.0));
    for rival in rivals {
        sheet.add(Line::speed(work, ours_again, rival, Goal::AtLeast(3.0)));
    }
    ours.remove()?;
    theirs.into_iter().flatten().try_for_each(|archive| archive.remove())
}

/// The same while two other processes have the processors busy, and of a source that is not in the caches.
pub fn disturbed(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    need_disk(context)?;
    let data = context.data(Set::Small)?;
    let ours = Backup::new(&data, Target::Directory(Place::Memory)).run(context, "run")?;

    let busy = |run: &dyn Fn() -> Result<Sample, BenchError>| {
        context.warm_source(&data)?;
        let _burners = Burners::start(2)?;
        run()
    };
    let outcomes = alternate(
        context,
        vec![
            Contender::new("capstan", || busy(&|| ours.incremental(context, 0))),
            Contender::new("find -printf", || busy(&|| find(context, &data))),
        ],
    )?;
    let [again, found] = &outcomes[..] else { return Ok(()) };
    let work = "small again, nothing changed, two other processes busy: time";
    sheet.add(time(work, again, found, 1.5));

    let cold = |run: &dyn Fn() -> Result<Sample, BenchError>| {
        context.drop_caches()?;
        run()
    };
    let outcomes = alternate(
        context,
        vec![
            Contender::new("capstan", || cold(&|| ours.incremental(context, 0))),
            Contender::new("find -printf", || cold(&|| find(context, &data))),
        ],
    )?;
    let [again, found] = &outcomes[..] else { return Ok(()) };
    let work = "small again, nothing changed, cold";
    sheet.add(time(&format!("{work}: time"), again, found, 0.6));
    let read = again.disk_read() / found.disk_read().max(1.0);
    let note = format!("{:.0} and {:.0} MB", again.disk_read() / 1e6, found.disk_read() / 1e6);
    let work = format!("{work}: bytes from the disk");
    sheet.add(Line::ratio(&work, again, found, read, Goal::AtMost(1.3)).note(note));

    // Each run finds as many files changed since the last backup.
    let changed: Vec<PathBuf> = files(&data.path)?.into_iter().step_by(CHANGED_EVERY).collect();
    let since = context.fresh(Place::Memory, "since")?;
    let change = || {
        fs::write(&since, "").map_err(io_error("write", &since))?;
        changed.iter().try_for_each(|path| rewrite(path))
    };
    let find_and_read = r#"find "$1" -type f -newer "$2" -print0 | xargs -0 cat >/dev/null"#;
    let outcomes = alternate(
        context,
        vec![
            Contender::new("capstan", || {
                change()?;
                cold(&|| ours.incremental(context, changed.len() as u64))
            }),
            Contender::new("find, cat", || {
                change()?;
                cold(&|| {
                    let mut command = Command::new("sh");
                    command.args(["-c", find_and_read, "sh"]).arg(&data.path).arg(&since);
                    Ok(context.run(&mut command)?.usage.into())
                })
            }),
        ],
    )?;
    let [again, found] = &outcomes[..] else { return Ok(()) };
    sheet.add(time("small again, 1 % changed, cold: time", again, found, 1.0));
    ours.remove()
}

/// Of so many files one changes.
const CHANGED_EVERY: usize = 100;

fn time(work: &str, ours: &Outcome, theirs: &Outcome, goal: f64) -> Line {
    let value = ours.wall_s() / theirs.wall_s().max(1e-9);
    Line::ratio(work, ours, theirs, value, Goal::AtMost(goal))
}

/// Reads what a backup reads of each name: size, times, inode.
fn find(context: &Context, data: &Data) -> Result<Sample, BenchError> {
    let mut command = Command::new("find");
    command.arg(&data.path).args(["-fprintf", "/dev/null", "%s %T@ %C@ %i %p\n"]);
    Ok(context.run(&mut command)?.usage.into())
}

/// All files of a tree.
fn files(tree: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tree).map_err(io_error("list", tree))? {
        let path = entry.map_err(io_error("list", tree))?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

/// Writes a file's own contents over it: it counts as changed, and the data set stays what it is.
fn rewrite(path: &Path) -> Result<(), BenchError> {
    let contents = fs::read(path).map_err(io_error("read", path))?;
    let file = fs::OpenOptions::new().write(true).open(path);
    let written = file.and_then(|file| file.write_all_at(&contents, 0));
    written.map_err(io_error("write", path))
}

/// Processes that do nothing but compute, until this is dropped.
struct Burners(Vec<Child>);

impl Burners {
    fn start(number: usize) -> Result<Self, BenchError> {
        let mut burners = Self(Vec::new());
        for _ in 0..number {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            let child = command
                .spawn()
                .map_err(|source| BenchError::Start { program: "sh".into(), source })?;
            burners.0.push(child);
        }
        Ok(burners)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that ended by itself cannot be killed, and is waited for all the same.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
