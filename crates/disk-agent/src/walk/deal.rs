//! Dealing the names that a walk comes to: each to the stream of its inode, with what the base has under it; and what the walk misses.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use capstan_engine::message::path_text;
use capstan_engine::meter::{Lap, Stage};
use capstan_format::entry::{Kind, is_inside, join};
use rustix::io::Errno;

use super::entered::Entered;
use super::missed::{Missed, Stays};
use super::mounts::{Expected, Role, Seen, Unmounted, Within, seen};
use super::{BaseCursor, GROUP, Group, LeftOut, WalkEvent, WalkItem, Walker, errno};
use crate::linux::source::{self, DirHandle, Listed};
use crate::spill::is_of_spill;
use capstan_port::disk::base::BaseRow;

/// A subdirectory that was dealt and is to be entered.
pub(super) struct Given {
    pub entered: Arc<Entered>,
    pub base: Option<Seen>,
    /// Something is to be mounted there, and was: this name, and what it is. Whoever enters it looks again.
    pub mounted: Option<(Listed, Role)>,
}

impl Given {
    fn new(base: Option<Seen>) -> Self {
        Self { entered: Arc::default(), base, mounted: None }
    }
}

/// Deals names to the streams, in groups.
pub(super) struct Deal<'a, 'b> {
    walker: &'a Walker<'a>,
    groups: Vec<Vec<WalkItem>>,
    lap: Lap,
    pub stopped: bool,
    base: Option<&'b mut dyn BaseCursor>,
    pub missed: Missed,
    /// The directory that was removed last, with all that was in it.
    last_gone: Option<Vec<u8>>,
    /// The mount points that the last version found mounted and that messages do not write as they are, as they write them.
    odd_mounts: HashSet<&'a str>,
    /// The names of mount points that the last version found mounted, by the directories that they lie in and that were not entered yet.
    pub mounted_last: HashMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl<'a, 'b> Deal<'a, 'b> {
    pub fn new(walker: &'a Walker<'a>, base: Option<&'b mut dyn BaseCursor>) -> Self {
        let mut groups = Vec::new();
        groups.resize_with(walker.queues.len(), Vec::new);
        Self {
            walker,
            groups,
            lap: Lap::start(),
            stopped: false,
            base,
            missed: Missed::default(),
            last_gone: None,
            odd_mounts: walker.selection.mounts.odd(),
            mounted_last: walker.selection.mounts.last_by_dir(),
        }
    }

    /// A root is not there, or not all that leads to it: its disk may not be mounted. What the base has of it stays.
    pub fn no_root(&mut self, path: &[u8], e: Errno) {
        let kept = self.base.is_some();
        // Of one that is kept it was said why.
        if !self.walker.selection.rules.kept_roots.iter().any(|root| root == path) {
            (self.walker.event)(WalkEvent::NoRoot(path, e, kept));
        }
        self.failed_root(path);
        self.missed.absent(path.to_vec());
    }

    /// A root is not to be looked at, which was said. What the base has of it stays.
    pub fn kept_root(&mut self, path: Vec<u8>) {
        self.failed_root(&path);
        self.missed.root(path);
    }

    /// Deals a root that cannot be backed up, where it is asked for what is left out.
    pub fn failed_root(&mut self, path: &[u8]) {
        if self.walker.names_left_out
            && let Ok(top) = source::open_root()
        {
            let (dir, name) = match path.iter().rposition(|b| *b == b'/') {
                Some(at) => (&path[..at], &path[at + 1..]),
                None => (&[][..], path),
            };
            let dir = Arc::new(DirHandle { fd: top.fd, path: dir.to_vec() });
            let listed = Listed { name: name.to_vec(), kind: None, ino: 0 };
            self.left_out(&dir, listed, LeftOut::Failed);
        }
    }

    /// The same of each of these roots, which lie below a path, or of the path itself if there are none.
    pub fn no_roots(&mut self, path: &[u8], below: &[Vec<u8>], e: Errno) {
        if below.is_empty() {
            self.no_root(path, e);
        }
        below.iter().for_each(|root| self.no_root(&join(path, root), e));
    }

    /// A directory could not be listed.
    pub fn failed(&mut self, path: &[u8], e: Errno) {
        let is_there = !matches!(e, Errno::NOENT | Errno::NOTDIR);
        (self.walker.event)(WalkEvent::Failed(path, e, is_there && self.base.is_some()));
        if is_there {
            self.missed.dir(path.to_vec());
        }
    }

    /// The names of a directory could not be listed, or not be sorted.
    pub fn not_listed(&mut self, path: &[u8], e: &std::io::Error) {
        if !is_of_spill(e) {
            return self.failed(path, errno(e));
        }
        let why = e.to_string();
        (self.walker.event)(WalkEvent::NotSorted(path, &why, self.base.is_some()));
        self.missed.dir(path.to_vec());
    }

    /// A directory is there and cannot be entered as if it were not. What the base has of it stays.
    pub fn not_entered(&mut self, path: &[u8]) {
        (self.walker.event)(WalkEvent::NotEntered(path, self.base.is_some()));
        self.missed.dir(path.to_vec());
    }

    /// Looks for a mount point that is not listed in its directory, and that the last version found mounted. What mounts disks as
    /// somebody asks for them may list it only then. Else it is not mounted: what mounts a disk by itself removes its mount point
    /// with it. What the base has of it stays.
    pub fn look_for(&mut self, dir: &DirHandle, name: Vec<u8>) -> Option<Listed> {
        let path = join(&dir.path, &name);
        match source::open_dir(dir, &name).and_then(|found| source::stat(&found.fd)) {
            Ok(stat) => return Some(Listed { name, kind: Some(Kind::Dir), ino: stat.st_ino }),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                let kept = self.base.is_some();
                (self.walker.event)(WalkEvent::NotMounted(&path, Unmounted::VANISHED, kept));
                self.missed.dir(path);
            }
            Err(e) => self.failed(&path, e),
        }
        None
    }

    /// Deals a name. Of a directory that is to be entered: where to say that it is.
    pub fn give(
        &mut self,
        dir: &Arc<DirHandle>,
        listed: Listed,
        within: &Within,
        role: Role,
    ) -> Option<Given> {
        let mut base = None;
        if let Some(cursor) = &mut self.base {
            let mut passed = Vec::new();
            base = cursor.find(&dir.path, &listed.name, &mut passed);
            if cursor.is_broken() {
                self.stopped = true;
                return None;
            }
            passed.into_iter().for_each(|(dir, name)| self.gone(dir, name));
            if let Some(row) = &base
                && self.missed.met(dir, &listed.name, row)
            {
                return self.stands_in(dir, &listed, row);
            }
        }
        self.walker.found.fetch_add(1, Relaxed);
        let is_dir = listed.kind == Some(Kind::Dir);
        let mut given = is_dir.then(|| Given::new(seen(base.as_ref())));
        let expected =
            given.as_ref().and_then(|of| self.walker.expected(dir, &listed, of.base, within, role));
        match (expected, &mut given) {
            (Some(Expected::Missing(found)), Some(of)) => {
                let seen = of.base;
                self.not_mounted(dir, &listed, seen, within, (role, found));
                given = given.filter(|_| found.holds);
                // The base's row is of the disk, this directory is not.
                if seen.is_some() {
                    return given;
                }
            }
            (Some(Expected::There), Some(of)) => of.mounted = Some((listed.clone(), role)),
            _ => {}
        }
        let mut item = WalkItem::new(dir.clone(), listed, base, false);
        item.entered = given.as_ref().map(|given| given.entered.clone());
        self.push(item);
        given
    }

    /// Nothing is mounted where something is to be: that is said, and what the base has of it stays.
    fn not_mounted(
        &mut self,
        dir: &DirHandle,
        listed: &Listed,
        base: Option<Seen>,
        within: &Within,
        (role, found): (Role, Unmounted),
    ) {
        let (path, kept) = (join(&dir.path, &listed.name), self.base.is_some());
        (self.walker.event)(WalkEvent::NotMounted(&path, found, kept));
        match role {
            Role::Root => self.missed.root(path.clone()),
            _ => self.missed.dir(path.clone()),
        }
        if found.holds && !found.why.masked {
            // What stands in for the disk may have been backed up in its place.
            let of_disk = |(dev, ino): &Seen| *dev != within.dev && *ino != listed.ino;
            let dev = base.filter(of_disk).map(|(dev, _)| dev);
            self.missed.holds(path, !found.is_below, dev);
        }
    }

    /// Looks again at a directory that is to be entered, where a disk was mounted when it was dealt: it may have gone meanwhile. Whether
    /// there is anything to enter.
    pub fn is_still_there(
        &mut self,
        dir: &DirHandle,
        (listed, role): &(Listed, Role),
        base: Option<Seen>,
        within: &Within,
    ) -> bool {
        match self.walker.expected(dir, listed, base, within, *role) {
            Some(Expected::Missing(found)) => {
                self.not_mounted(dir, listed, base, within, (*role, found));
                found.holds
            }
            _ => true,
        }
    }

    /// Something has the name of what a disk has that is not mounted. The disk's stays; a directory is entered, as it may hold more.
    fn stands_in(&mut self, dir: &DirHandle, listed: &Listed, row: &BaseRow) -> Option<Given> {
        if row.kind == Kind::Dir && listed.kind == Some(Kind::Dir) {
            return Some(Given::new(seen(Some(row))));
        }
        self.missed.dir(join(&dir.path, &listed.name));
        None
    }

    /// A directory is entered that was dealt. If its stream did not find it, it is dealt again.
    pub fn entered(
        &mut self,
        parent: &Arc<DirHandle>,
        name: &[u8],
        dir: &Arc<DirHandle>,
        entered: &Arc<Entered>,
    ) {
        // Without it there is nothing to list either, and that says so.
        let Ok(stat) = source::stat(&dir.fd) else { return };
        if entered.enter(dir, stat) {
            let listed = Listed { name: name.to_vec(), kind: Some(Kind::Dir), ino: stat.st_ino };
            let mut item = WalkItem::new(parent.clone(), listed, None, false);
            item.entered = Some(entered.clone());
            self.push(item);
        }
    }

    /// Deals a name that is left out, where that is asked for.
    pub fn left_out(&mut self, dir: &Arc<DirHandle>, listed: Listed, why: LeftOut) {
        if self.walker.names_left_out {
            let mut item = WalkItem::new(dir.clone(), listed, None, false);
            item.left_out = Some(Box::new(why));
            self.push(item);
        }
    }

    /// The base has it, the source does not.
    fn gone(&mut self, dir: Vec<u8>, name: Vec<u8>) {
        // All that does not stay was removed, or is not to be backed up any more.
        let path = join(&dir, &name);
        match self.missed.stays(&path) {
            Stays::Yes => return,
            Stays::Covered(dir) => {
                (self.walker.event)(WalkEvent::NotMounted(&dir, Unmounted::COVERED, true));
                return;
            }
            Stays::No if self.went_with_its_disk(&path) => {
                (self.walker.event)(WalkEvent::NotMounted(&path, Unmounted::VANISHED, true));
                return self.missed.dir(path);
            }
            Stays::No => {}
        }
        if !self.last_gone.as_ref().is_some_and(|gone| is_inside(&path, gone)) {
            self.last_gone = Some(path);
        }
        let Ok(top) = source::open_root() else { return };
        let dir = Arc::new(DirHandle { fd: top.fd, path: dir });
        let listed = Listed { name, kind: Some(Kind::Tombstone), ino: 0 };
        self.push(WalkItem::new(dir, listed, None, true));
    }

    /// Whether something that was removed is a mount point that the last version found mounted, and that was not looked for by its
    /// name, as messages do not write it as it is.
    fn went_with_its_disk(&self, path: &[u8]) -> bool {
        let went_with_more = || self.last_gone.as_ref().is_some_and(|of| is_inside(path, of));
        !self.odd_mounts.is_empty()
            && !went_with_more()
            && self.odd_mounts.contains(&*format!("/{}", path_text(path)))
    }

    fn push(&mut self, item: WalkItem) {
        let stream = stream_of(item.listed.ino, self.groups.len());
        self.groups[stream].push(item);
        if self.groups[stream].len() >= GROUP {
            self.send(stream);
        }
    }

    fn send(&mut self, stream: usize) {
        let group = std::mem::take(&mut self.groups[stream]);
        if !group.is_empty() {
            let group = Arc::new(Group { items: group, fetched: AtomicUsize::new(0) });
            self.walker.ahead.add(&group);
            self.lap.busy(self.walker.meters.of(Stage::Metadata));
            self.stopped |= self.walker.queues[stream].give(group).is_err();
            // Waiting for streams that have enough to do limits nothing.
            self.lap.split();
        }
    }

    pub fn finish(&mut self) {
        if let Some(cursor) = self.base.take()
            && !self.stopped
            && !self.walker.stop.load(Relaxed)
        {
            let mut passed = Vec::new();
            cursor.rest(&mut passed);
            passed.into_iter().for_each(|(dir, name)| self.gone(dir, name));
        }
        // What was mounted where the walk did not come to is missed by the next one still.
        for path in self.missed.give_up() {
            (self.walker.event)(WalkEvent::StillMissed(&path_text(&path)));
        }
        let (mounts, event) = (&self.walker.selection.mounts, self.walker.event);
        let last = self.missed.among(mounts.last.mounted.iter().flatten());
        last.into_iter().for_each(|path| event(WalkEvent::StillMissed(path)));
        let maskable = self.missed.among(mounts.last.maskable.iter().flatten());
        maskable.into_iter().for_each(|path| event(WalkEvent::StillMasked(path)));
        (0..self.groups.len()).for_each(|s| self.send(s));
    }
}

/// The stream of an inode number: neighbours spread evenly (Fibonacci hashing, Knuth vol. 3, 6.4).
fn stream_of(ino: u64, streams: usize) -> usize {
    ((u128::from(ino.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * streams as u128) >> 64) as usize
}
