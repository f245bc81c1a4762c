//! A comparison of a version with the file system: the version's rows come in the order of the walk, and are held against it beside the
//! walk.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_engine::frames::FramePort;
use capstan_engine::message::{Code, Listener, plain};
use capstan_format::entry::{Entry, Kind, is_below, path_order, selected};
use capstan_port::disk::check::{
    Both, CheckError, ComparedRow, Contents, Inquiry, Met, RowsBroken,
};
use capstan_port::disk::contents::Piece;
use capstan_stream::contents::{self, opened_by};
use capstan_stream::owners::OwnerNames;
use capstan_wire::backup::MountedLast;
use capstan_wire::check::CompareJob;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::look::{look, same_inode, was_born_after};
use super::same_bytes::{Same, Version};
use crate::backup::say;
use crate::linux::mount_table::HostMounts;
use crate::linux::names::{looked, owner_names};
use crate::linux::source::DirHandle;
use crate::linux::source_file::SourceFile;
use crate::select::Selection;
use crate::walk::WalkEvent;

/// Streams of which a frame is kept.
const STREAMS: usize = 8;

/// Compares.
pub(crate) fn compare(
    job: &CompareJob,
    frames: Option<&mut dyn FramePort>,
    (listener, stop): (&dyn Listener, &AtomicBool),
    inquiry: &mut dyn Inquiry<ComparedRow, Met>,
) -> Result<(), CheckError> {
    let mut rules = job.rules.clone();
    // What is of another size is left out where both sides are held against each other.
    let sizes = rules.sizes.take();
    let (last, here) = (MountedLast::default(), HostMounts::default());
    let selection = Selection::new(&rules, &job.roots, &last, here)?;
    let closed: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let mut comparison = Comparison {
        job,
        inquiry,
        ahead: VecDeque::new(),
        is_at_end: false,
        version: frames.map(|frames| {
            let contents = contents::Contents::new(opened_by(&job.keys), STREAMS);
            Version { contents, frames }
        }),
        sizes,
        owners: owner_names(),
        closed: &closed,
        stop,
    };
    let event = |event: WalkEvent<'_>| not_walked(event, &closed, listener);
    let mut failed = None;
    look(&both(&job.roots, &job.paths), &selection, stop, &event, &mut |dir, entry| {
        failed = comparison.meet(dir, entry).err();
        failed.is_none()
    })?;
    if let Some(RowsBroken) = failed {
        return Err(CheckError::Rows);
    }
    if !stop.load(Relaxed) {
        comparison.rest()?;
    }
    Ok(())
}

/// Both sides, as far as they were met.
struct Comparison<'a> {
    job: &'a CompareJob,
    inquiry: &'a mut dyn Inquiry<ComparedRow, Met>,
    /// Rows that came and were not met yet.
    ahead: VecDeque<ComparedRow>,
    is_at_end: bool,
    /// What the version has of files, where contents are compared.
    version: Option<Version<'a>>,
    /// Sizes of files that the backup took.
    sizes: Option<RangeInclusive<u64>>,
    owners: OwnerNames,
    /// Directories that were not entered: what is in them is not compared.
    closed: &'a Mutex<Vec<Vec<u8>>>,
    stop: &'a AtomicBool,
}

impl Comparison<'_> {
    /// The version's next row.
    fn head(&mut self) -> Result<Option<&ComparedRow>, RowsBroken> {
        if self.ahead.is_empty() && !self.is_at_end {
            self.ahead = self.inquiry.rows()?.into();
            self.is_at_end = self.ahead.is_empty();
            if let Some(version) = &mut self.version {
                let pieces = self.ahead.iter().flat_map(|row| row.pieces.iter().flatten());
                version.frames.expect(&pieces.filter_map(Piece::expected).collect::<Vec<_>>());
            }
        }
        Ok(self.ahead.front())
    }

    /// A name of the file system; those of the version that come before it are gone.
    fn meet(&mut self, dir: &DirHandle, entry: Entry) -> Result<(), RowsBroken> {
        while let Some(row) = self.head()? {
            match path_order((&row.entry.dir, &row.entry.name), (&entry.dir, &entry.name)) {
                Ordering::Less => self.gone(),
                Ordering::Equal => {
                    self.both(dir, entry);
                    return Ok(());
                }
                Ordering::Greater => break,
            }
        }
        if self.is_asked(&entry) {
            let is_of_other_size = entry.kind == Kind::File
                && self.sizes.as_ref().is_some_and(|sizes| !sizes.contains(&entry.size));
            self.inquiry.found(match is_of_other_size {
                true => Met::OtherSize(entry.path()),
                false => Met::New(Box::new(looked(&self.owners, entry))),
            });
        }
        Ok(())
    }

    /// What the version has after the last name of the file system.
    fn rest(&mut self) -> Result<(), RowsBroken> {
        while self.head()?.is_some() {
            self.gone();
        }
        Ok(())
    }

    fn gone(&mut self) {
        let Some(row) = self.ahead.pop_front() else { return };
        let path = row.entry.path();
        let is_closed =
            || self.closed.lock().iter().any(|dir| path != *dir && is_below(&path, dir));
        self.inquiry.found(match self.is_asked(&row.entry) {
            false => Met::NotAsked,
            true if is_closed() => Met::Closed,
            true => Met::Gone,
        });
    }

    fn both(&mut self, dir: &DirHandle, entry: Entry) {
        let Some(ComparedRow { entry: row, pieces }) = self.ahead.pop_front() else { return };
        if !self.is_asked(&entry) {
            self.inquiry.found(Met::NotAsked);
            return;
        }
        let mut now = looked(&self.owners, entry);
        if row.link {
            // A name has its first one only in the order of a backup: whether it still is a name of that is looked up.
            now.entry.link = same_inode(dir, &row.name, &row.target);
            if now.entry.link {
                now.entry.target.clone_from(&row.target);
            }
        }
        let is_new_inode =
            row.ctime != now.entry.ctime && was_born_after(dir, &row.name, row.ctime);
        let may_be_same = !row.link
            && (row.kind, row.size) == (now.entry.kind, now.entry.size)
            && row.kind == Kind::File;
        let contents = match (&mut self.version, pieces) {
            (Some(version), Some(pieces)) if may_be_same => {
                match SourceFile::open(dir, &row.name) {
                    Ok(file) => of_same(version.is_in(&file, &row, &pieces, self.stop)),
                    Err(e) => of_same(Same::Unreadable(e)),
                }
            }
            _ => Contents::NotCompared,
        };
        let contents = if self.stop.load(Relaxed) { Contents::Stopped } else { contents };
        self.inquiry.found(Met::Both(Box::new(Both { now, is_new_inode, contents })));
    }

    fn is_asked(&self, entry: &Entry) -> bool {
        let path = entry.path();
        selected(&self.job.roots, &path) && selected(&self.job.paths, &path)
    }
}

fn of_same(same: Same) -> Contents {
    match same {
        Same::Yes => Contents::Same,
        Same::No => Contents::Other,
        Same::Unreadable(e) => Contents::Unreadable(plain(&std::io::Error::from(e))),
        Same::Lacking(why) => Contents::Lacking(why),
    }
}

/// A name or directory that the walk left out: nothing in it is compared.
fn not_walked(event: WalkEvent<'_>, closed: &Mutex<Vec<Vec<u8>>>, listener: &dyn Listener) {
    match event {
        // What patterns leave out now was left out by the backup.
        WalkEvent::Skipped(_)
        | WalkEvent::Failed(_, Errno::NOENT | Errno::NOTDIR, _)
        | WalkEvent::NoRoot(_, Errno::NOENT | Errno::NOTDIR, _)
        | WalkEvent::Mounted(_)
        | WalkEvent::Maskable(_)
        | WalkEvent::StillMissed(_)
        | WalkEvent::StillMasked(_) => {}
        WalkEvent::NotMounted(path, ..) | WalkEvent::NotEntered(path, _) => {
            closed.lock().push(path.to_vec());
            let why = "cannot be compared: nothing is mounted there".to_owned();
            say(listener, Code::NotMounted, path, why);
        }
        WalkEvent::OwnRoot(path) => {
            closed.lock().push(path.to_vec());
            let why = "not compared: it is capstan's own medium or home".to_owned();
            say(listener, Code::LeftOut, path, why);
        }
        WalkEvent::LeftOut(path, why) => {
            closed.lock().push(path.to_vec());
            say(listener, Code::LeftOut, path, format!("not compared: {why}"));
        }
        WalkEvent::NotSorted(path, e, _) => {
            closed.lock().push(path.to_vec());
            let why = format!("cannot be compared: {e}");
            say(listener, Code::NotListed, path, why);
        }
        WalkEvent::Failed(path, e, _) | WalkEvent::NoRoot(path, e, _) => {
            closed.lock().push(path.to_vec());
            let text = plain(&std::io::Error::from(e));
            say(listener, Code::NotOpened, path, format!("cannot be compared: {text}"));
        }
    }
}

/// The roots, as far as they are asked for.
fn both(roots: &[Vec<u8>], paths: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if paths.is_empty() {
        return roots.to_vec();
    }
    let mut both: Vec<Vec<u8>> = Vec::new();
    for root in roots {
        for path in paths {
            if is_below(path, root) {
                both.push(path.clone());
            } else if is_below(root, path) {
                both.push(root.clone());
            }
        }
    }
    both.sort();
    both.dedup();
    let all = both.clone();
    both.retain(|path| !all.iter().any(|other| path != other && is_below(path, other)));
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_meet_the_paths_that_are_asked_for() {
        let own = |p: &[&str]| p.iter().map(|p| p.as_bytes().to_vec()).collect::<Vec<_>>();
        let roots = own(&["etc", "srv/a"]);
        assert_eq!(both(&roots, &[]), roots);
        assert_eq!(both(&roots, &own(&["etc/ssh", "etc"])), own(&["etc"]));
        assert_eq!(both(&roots, &own(&["srv", "home"])), own(&["srv/a"]));
        assert_eq!(both(&own(&[""]), &own(&["etc/ssh"])), own(&["etc/ssh"]));
    }
}
