//! What is done with versions that there are: expiring, pruning, copying, consolidating.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::{Context, Data, Place, Set, remove, tree_bytes};
use crate::error::{BenchError, io_error};
use crate::measure::{Contender, Sample, alternate};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

const VERSIONS: u64 = 10_000;
/// Files of the object that is compared with `small`.
const FEW: u64 = 300;
const PRUNE: [&str; 4] = ["prune", "--keep-last", "1", "--json"];
/// What changes between a full and its incremental.
const CHANGING: u64 = 100 << 20;

/// A home and a medium that are made once and put back before each run: the database names the medium's place.
struct Kept<'a> {
    context: &'a Context,
    root: PathBuf,
    saved: PathBuf,
}

impl<'a> Kept<'a> {
    fn new(context: &'a Context, place: Place, name: &str) -> Result<Self, BenchError> {
        let root = context.fresh(place, name)?;
        fs::create_dir_all(&root).map_err(io_error("create", &root))?;
        let saved = context.fresh(place, &format!("{name}-saved"))?;
        Ok(Self { context, root, saved })
    }

    fn medium(&self) -> PathBuf {
        self.root.join("medium")
    }

    fn capstan(&self) -> Command {
        let mut command = Command::new(&self.context.capstan);
        command.arg("--home").arg(self.root.join("home")).arg("--quiet");
        command
    }

    /// Backs paths up to the medium.
    fn backup(&self, name: &str, how: &str, paths: &[&Path]) -> Result<(), BenchError> {
        let mut command = self.capstan();
        command.arg("backup").args(paths).args(["--name", name, how, "--to"]).arg(self.medium());
        self.context.run(&mut command).map(drop)
    }

    fn save(&self) -> Result<(), BenchError> {
        let mut command = Command::new("cp");
        self.context.run(command.arg("-a").arg(&self.root).arg(&self.saved)).map(drop)
    }

    fn put_back(&self) -> Result<(), BenchError> {
        remove(&self.root)?;
        let mut command = Command::new("cp");
        self.context.run(command.arg("-a").arg(&self.saved).arg(&self.root)).map(drop)
    }

    /// Runs Capstan on the state that was saved; `words` must be in what it prints.
    fn timed(&self, args: &[&str], words: &str) -> Result<Sample, BenchError> {
        self.put_back()?;
        let ran = self.context.run(self.capstan().args(args))?;
        if !ran.stdout.contains(words) {
            return Err(BenchError::Unexpected {
                program: format!("capstan {}", args[0]),
                problem: format!("'{words}' is not in: {}", ran.stdout.trim()),
            });
        }
        Ok(ran.usage.into())
    }

    fn remove(self) -> Result<(), BenchError> {
        remove(&self.root)?;
        remove(&self.saved)
    }
}

/// Pruning: one version of many files and one of few, and very many versions.
pub fn prune(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    one_version(context, sheet)?;
    let versions = if context.quick { VERSIONS / 10 } else { VERSIONS };
    let kept = Kept::new(context, Place::Memory, "prune")?;
    let file = kept.root.join("file");
    fs::write(&file, "one file\n").map_err(io_error("write", &file))?;
    eprintln!("  making {versions} versions");
    kept.backup("o", "--full", &[&file])?;
    let script = "n=$1; shift; for i in $(seq $n); do \"$@\" >/dev/null || exit; done";
    let one = kept.capstan();
    let mut all = Command::new("sh");
    all.args(["-c", script, "sh", &versions.to_string()]).arg(one.get_program());
    all.args(one.get_args()).args(["backup", "--name", "o", "--full", "--to"]);
    context.run(all.arg(kept.medium()).arg(&file))?;
    kept.save()?;
    let words = format!("\"removed_versions\":{versions}");
    let run = || kept.timed(&PRUNE, &words);
    let outcomes = alternate(context, vec![Contender::new("capstan", run)])?;
    if let [ours] = &outcomes[..] {
        let work = format!("prune of {versions} versions");
        sheet.add(Line::alone(&work, ours, ours.wall_s(), "s", Goal::AtMost(10.0)));
    }
    kept.remove()
}

fn one_version(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let many = context.data(Set::Small)?;
    context.need_memory(many.bytes * 6)?;
    let few = context.fresh(Place::Memory, "few")?;
    context.raw(&[&"make-files", &few, &"--files", &FEW.to_string()])?;
    let prepared = |name: &str, path: &Path| {
        let kept = Kept::new(context, Place::Memory, name)?;
        kept.backup("o", "--full", &[path])?;
        kept.backup("o", "--full", &[path])?;
        kept.save()?;
        Ok::<_, BenchError>(kept)
    };
    let of_many = prepared("prune-many", &many.path)?;
    let of_few = prepared("prune-few", &few)?;
    let one = "\"removed_versions\":1";
    let unlink = || {
        // What giving the space back costs by itself: half of what there is.
        of_many.put_back()?;
        let path = of_many.medium();
        let mut all: Vec<PathBuf> = fs::read_dir(&path)
            .map_err(io_error("list", &path))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
            .collect();
        all.sort();
        all.truncate(all.len() / 2);
        let ran = context.run(Command::new("rm").args(&all))?;
        Ok(ran.usage.into())
    };
    let outcomes = alternate(
        context,
        vec![
            Contender::new("capstan, 300,000 files", || of_many.timed(&PRUNE, one)),
            Contender::new("capstan, 300 files", || of_few.timed(&PRUNE, one)),
            Contender::new("rm of the segments", unlink),
        ],
    )?;
    if let [many, few, unlink] = &outcomes[..] {
        let value = many.wall_s() - unlink.wall_s() - few.wall_s();
        let note = format!(
            "{:.3} s; with {FEW} files {:.3} s; rm of its segments {:.3} s",
            many.wall_s(),
            few.wall_s(),
            unlink.wall_s()
        );
        let work = "prune of one version: what 300,000 files take longer than 300, without rm";
        sheet.add(Line::alone(work, many, value * 1000.0, "ms", Goal::Shown).note(note));
    }
    of_many.remove()?;
    of_few.remove()?;
    remove(&few)
}

/// Copying and consolidating from directory to directory, against cp of the bytes that end up there.
pub fn media(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    let kept = Kept::new(context, Place::Disk, "media")?;
    let changing = kept.root.join("changing");
    // By another process: our own peak would count as that of the programs that we start.
    let write = |byte: u8| {
        let script = format!("head -c {CHANGING} /dev/zero | tr '\\0' '\\{byte:o}' >\"$1\"");
        context.run(Command::new("sh").args(["-c", &script, "sh"]).arg(&changing)).map(drop)
    };
    write(1)?;
    kept.backup("o", "--full", &[&data.path, &changing])?;
    copied(context, sheet, &kept, &data, &["copy", "o"], "copy")?;
    write(2)?;
    kept.backup("o", "--incr", &[&data.path, &changing])?;
    copied(context, sheet, &kept, &data, &["consolidate", "o"], "consolidation")?;
    kept.remove()
}

/// One of the two: onto a new medium, and what is there then by cp.
fn copied(
    context: &Context,
    sheet: &mut Sheet<'_>,
    kept: &Kept<'_>,
    data: &Data,
    args: &[&str],
    what: &str,
) -> Result<(), BenchError> {
    let (target, other) = (kept.root.join("target"), kept.root.join("cp"));
    let (home, saved) = (kept.root.join("home"), kept.root.join("home-saved"));
    context.run(Command::new("cp").arg("-a").arg(&home).arg(&saved))?;
    let warm = |path: &Path| {
        let bytes = tree_bytes(path)?;
        context.warm_source(&Data { path: path.to_owned(), files: 0, bytes })
    };
    let ours = || {
        // What earlier runs made is forgotten.
        remove(&target)?;
        remove(&home)?;
        context.run(Command::new("cp").arg("-a").arg(&saved).arg(&home))?;
        rustix::fs::sync();
        warm(&kept.medium())?;
        let mut command = kept.capstan();
        let ran = context.run(command.args(args).arg("--to").arg(&target))?;
        let stored = tree_bytes(&target)?;
        Ok(Sample { stored, ..ran.usage.into() })
    };
    let theirs = || {
        remove(&other)?;
        rustix::fs::sync();
        warm(&target)?;
        let mut command = Command::new("sh");
        command.args(["-c", "cp -r --reflink=never \"$1\" \"$2\" && sync -f \"$2\"", "sh"]);
        let ran = context.run(command.arg(&target).arg(&other))?;
        Ok(Sample { stored: tree_bytes(&other)?, ..ran.usage.into() })
    };
    let outcomes = alternate(
        context,
        vec![Contender::new("capstan", ours), Contender::new("cp, sync", theirs)],
    )?;
    if let [ours, cp] = &outcomes[..] {
        let work = format!(
            "{what} of typical ({:.1} GB), directory to directory",
            data.bytes as f64 / 1e9
        );
        let note = format!("{:.0} and {:.0} MB written", ours.stored() / 1e6, cp.stored() / 1e6);
        sheet.add(Line::speed(&work, ours, cp, Goal::AtLeast(0.8)).note(note));
    }
    [target, other, saved].iter().try_for_each(|path| remove(path))
}
