//! Walking a source: directories are listed and their names dealt to streams in one order, without a stat of any file.
//!
//! The order is directory path by component, then name, bytewise: all names of a directory first, then its
//! subdirectories one after the other. A name goes to the stream that its inode number says, so that all names of one
//! inode meet in one stream.

pub mod ahead;
mod base;
mod deal;
pub mod entered;
mod item;
mod listing;
mod missed;
pub mod mounts;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use capstan_engine::meter::Meters;
use capstan_engine::queue::Queue;
use capstan_format::entry::{Kind, is_inside, join};
use rustix::io::Errno;

use self::ahead::Ahead;
pub(crate) use self::base::{BaseCursor, Beside, OfStat};
use self::deal::{Deal, Given};
use self::entered::Entered;
pub use self::item::{GROUP, Group, LeftOut, WalkItem};
use self::listing::{Gather, Sorted};
use self::mounts::{Role, Seen, Unmounted, Within, was_no_mount};
use crate::linux::mounted::{Mounted, Place};
use crate::linux::source::{self, DirHandle, Listed};
use crate::linux::source_file::{Reader, SourceFile};
use crate::select::Selection;

/// The tag of a cache directory (https://bford.info/cachedir/), and what that file begins with.
const CACHE_TAG: &[u8] = b"CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// What a backup of `/` leaves out by itself.
const VOLATILE: [&[u8]; 4] = [b"dev", b"proc", b"run", b"sys"];

/// Why a name was left out, or a directory could not be entered.
#[derive(Debug)]
pub enum WalkEvent<'a> {
    /// Left out by an option.
    Skipped(&'a [u8]),
    /// Left out by itself, and why.
    LeftOut(&'a [u8], &'static str),
    /// Could not be listed; whether what the base has of it is kept.
    Failed(&'a [u8], Errno, bool),
    /// Its names could not be sorted, as a temporary file failed, and why; whether what the base has of it is kept.
    NotSorted(&'a [u8], &'a str, bool),
    /// A root is not there, or cannot be reached; whether what the base has of it is kept.
    NoRoot(&'a [u8], Errno, bool),
    /// A root is what is written to, or the home.
    OwnRoot(&'a [u8]),
    /// Something is mounted there, and something is in it.
    Mounted(&'a [u8]),
    /// A directory whose contents an empty one may mask: a btrfs subvolume that is not mounted by itself.
    Maskable(&'a [u8]),
    /// The last version found something mounted there, as messages write it, and this walk did not come there.
    StillMissed(&'a str),
    /// Likewise a directory whose contents an empty one may mask.
    StillMasked(&'a str),
    /// Nothing is mounted there, and something is to be; whether what the base has of it is kept.
    NotMounted(&'a [u8], Unmounted, bool),
    /// A directory is there and cannot be entered, as what is to be mounted there is not; whether what the base has of it is kept.
    NotEntered(&'a [u8], bool),
}

/// Lists the source and deals names to streams.
pub(crate) struct Walker<'a> {
    /// What is left out.
    pub selection: &'a Selection,
    /// One queue of groups per stream.
    pub queues: &'a [Queue<Arc<Group>>],
    /// Where groups go that are to be fetched ahead.
    pub ahead: &'a Ahead,
    /// Whether names that are left out are dealt too, to be told.
    pub names_left_out: bool,
    /// Set to end the walk early.
    pub stop: &'a AtomicBool,
    /// Names found so far.
    pub found: &'a AtomicU64,
    /// Where the time goes.
    pub meters: &'a Meters,
    /// Takes what was left out.
    pub event: &'a (dyn Fn(WalkEvent<'_>) + Sync),
}

/// A subdirectory to enter.
struct Sub {
    name: Vec<u8>,
    entered: Arc<Entered>,
    /// What the base says of it.
    base: Option<Seen>,
    /// A disk is to be mounted there, and was when the name was dealt.
    mounted: Option<(Listed, Role)>,
    /// Of an ancestor of roots: only these paths below it. Of all others all that is in it.
    towards: Option<Vec<Vec<u8>>>,
}

struct Level {
    dir: Arc<DirHandle>,
    /// Subdirectories to enter, last first.
    subdirs: Vec<Sub>,
    /// The file system the root lies on; `None` above the roots.
    device: Option<u64>,
    within: Within,
}

/// How a directory is come to.
#[derive(Clone, Copy, Default)]
struct Coming {
    /// The file system the root lies on; `None` of a root.
    device: Option<u64>,
    /// What is known of the directory that it lies in; `None` of the root directory.
    within: Option<Within>,
    /// What the base says of it.
    base: Option<Seen>,
    /// Whether the walk began at the root directory.
    whole: bool,
}

impl Walker<'_> {
    /// Walks the roots (absolute, without the leading slash, none inside another) and closes the queues. `base` is what an
    /// earlier run of the same version has, and what the version builds on.
    pub fn run(&self, roots: &[Vec<u8>], base: Option<&mut dyn BaseCursor>) {
        let mut deal = Deal::new(self, base);
        match source::open_root() {
            Ok(top) => self.tree(Arc::new(top), roots, &mut deal),
            Err(e) => {
                deal.failed(b"", errno(&e));
            }
        }
        deal.finish();
        self.queues.iter().for_each(Queue::close);
    }

    /// Deals the roots' ancestors and the roots with all that is in them, in order.
    fn tree(&self, top: Arc<DirHandle>, roots: &[Vec<u8>], deal: &mut Deal<'_, '_>) {
        let whole = roots.iter().any(Vec::is_empty);
        let coming = Coming { whole, ..Coming::default() };
        let first = match whole {
            true => self.enter(top, coming, deal),
            false => self.towards(top, roots, coming, deal),
        };
        let mut levels: Vec<Level> = first.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            if self.stop.load(Relaxed) || deal.stopped {
                return;
            }
            let Some(Sub { name, entered, base, mounted, towards }) = level.subdirs.pop() else {
                levels.pop();
                continue;
            };
            // Hours may have passed since.
            if mounted.is_some_and(|of| !deal.is_still_there(&level.dir, &of, base, &level.within))
            {
                continue;
            }
            let (device, within) = (level.device, Some(level.within));
            let coming = Coming { device, within, base, whole };
            let opened = source::open_dir(&level.dir, &name).map(Arc::new);
            if let Ok(dir) = &opened {
                deal.entered(&level.dir, &name, dir, &entered);
            }
            let path = || join(&level.dir.path, &name);
            match (opened, towards) {
                (Ok(dir), None) => levels.extend(self.enter(dir, coming, deal)),
                (Ok(dir), Some(roots)) => levels.extend(self.towards(dir, &roots, coming, deal)),
                // Above the roots there is no device yet: what is to be entered whole there is one.
                (Err(e), None) if device.is_none() => deal.no_root(&path(), e),
                // What mounts a disk as somebody looks says so where that is not there.
                (Err(Errno::NOENT), None) if is_dir(&level.dir, &name) => deal.not_entered(&path()),
                (Err(e), None) => deal.failed(&path(), e),
                (Err(e), Some(roots)) => deal.no_roots(&path(), &roots, e),
            }
        }
    }

    /// Deals the names in an ancestor that lead to roots. The roots are given as paths below it.
    fn towards(
        &self,
        dir: Arc<DirHandle>,
        roots: &[Vec<u8>],
        coming: Coming,
        deal: &mut Deal<'_, '_>,
    ) -> Option<Level> {
        let place = match Place::of(&dir.fd) {
            Ok(place) => place,
            Err(e) => {
                deal.no_roots(&dir.path, roots, e);
                return None;
            }
        };
        let mut within = Within { dev: place.dev, ..Within::default() };
        within.base_dev = coming.base.map(|(dev, _)| dev);
        if let Some(outer) = &coming.within {
            let (lost, is_mounted) = self.lost_above(&dir, &place, coming.base, outer);
            within.lost = lost;
            if is_mounted {
                (self.event)(WalkEvent::Mounted(&dir.path));
            }
        }
        let mut names: BTreeMap<&[u8], Vec<Vec<u8>>> = BTreeMap::new();
        for root in roots {
            let (name, rest) = match root.iter().position(|b| *b == b'/') {
                Some(at) => (&root[..at], Some(root[at + 1..].to_vec())),
                None => (&root[..], None),
            };
            names.entry(name).or_default().extend(rest);
        }
        let mut subdirs = Vec::new();
        for (name, rest) in names {
            let path = join(&dir.path, name);
            if rest.is_empty() && self.selection.rules.kept_roots.contains(&path) {
                deal.kept_root(path);
                continue;
            }
            let stat = match source::stat_at(&dir, name) {
                Ok(stat) => stat,
                Err(e) => {
                    deal.no_roots(&join(&dir.path, name), &rest, e);
                    continue;
                }
            };
            let kind = source::entry_of(&dir, name, &stat).map(|e| e.kind);
            if kind != Some(Kind::Dir) && !rest.is_empty() {
                deal.no_roots(&join(&dir.path, name), &rest, Errno::NOTDIR);
                continue;
            }
            let listed = Listed { name: name.to_vec(), kind, ino: stat.st_ino };
            let towards = (!rest.is_empty()).then_some(rest);
            let role = if towards.is_none() { Role::Root } else { Role::Above };
            if let Some(Given { entered, base, mounted }) = deal.give(&dir, listed, &within, role) {
                subdirs.push(Sub { name: name.to_vec(), entered, base, mounted, towards });
            }
        }
        subdirs.reverse();
        Some(Level { dir, subdirs, device: None, within })
    }

    /// Lists a directory and deals its names; returns it with the subdirectories to enter.
    fn enter(&self, dir: Arc<DirHandle>, coming: Coming, deal: &mut Deal<'_, '_>) -> Option<Level> {
        let place = match Place::of(&dir.fd) {
            Ok(place) => place,
            Err(e) => {
                deal.failed(&dir.path, e);
                return None;
            }
        };
        let (id, mut device) = ((place.dev, place.ino), coming.device);
        // What was named and is not backed up is no note.
        if self.selection.never.contains(&id) && device.is_none() {
            (self.event)(WalkEvent::OwnRoot(&dir.path));
            deal.failed_root(&dir.path);
            return None;
        }
        if self.selection.never.contains(&id) {
            return self.leave(dir, "it is capstan's own medium or home", deal);
        }
        if let Some(why) = self.why_left(&dir, device.is_some_and(|d| d != id.0), coming.whole) {
            // What was named is wanted all the same.
            let below = self.inner_roots_of(&dir.path);
            if self.selection.rules.inner_roots.contains(&dir.path) {
                device = None;
            } else if below.is_empty() {
                return self.leave(dir, why, deal);
            } else {
                return self.towards(dir, &below, coming, deal);
            }
        }
        let mut sorted = match self.listed(&dir, deal) {
            Ok(sorted) => sorted,
            Err(e) => {
                deal.not_listed(&dir.path, &e);
                return None;
            }
        };
        let base_dev = coming.base.map(|(dev, _)| dev);
        let within = Within { dev: place.dev, base_dev, ..Within::default() };
        let covers = coming.within.is_some_and(|outer| was_no_mount(coming.base, &outer));
        if covers
            && coming.within.is_some_and(|of| place.mounted(&dir.fd, of.dev) == Mounted::NoDisk)
        {
            deal.missed.covered(dir.path.clone());
        }
        let (mut subdirs, mut is_empty) = (Vec::new(), true);
        loop {
            let mut listed = match sorted.next() {
                Ok(Some(listed)) => listed,
                Ok(None) => break,
                Err(e) => {
                    deal.not_listed(&dir.path, &e);
                    break;
                }
            };
            listed.kind = listed.kind.or_else(|| kind_of(&dir, &listed.name));
            let is_dir = listed.kind == Some(Kind::Dir);
            let Some(listed) = self.unless_excluded(&dir, listed, deal) else { continue };
            is_empty = false;
            let name = if is_dir { listed.name.clone() } else { Vec::new() };
            let role = match self.is_inner_root(&dir.path, &listed.name) {
                true => Role::Root,
                false => Role::Below,
            };
            if let Some(Given { entered, base, mounted }) = deal.give(&dir, listed, &within, role) {
                subdirs.push(Sub { name, entered, base, mounted, towards: None });
            }
        }
        if let Some(outer) = coming.within {
            match place.mounted(&dir.fd, outer.dev) {
                Mounted::Disk if !is_empty => (self.event)(WalkEvent::Mounted(&dir.path)),
                Mounted::Nothing if !is_empty && place.is_subvolume(&dir.fd, outer.dev) => {
                    (self.event)(WalkEvent::Maskable(&dir.path));
                }
                _ => {}
            }
        }
        subdirs.reverse();
        Some(Level { dir, subdirs, device: device.or(Some(id.0)), within })
    }

    /// Why a directory that was met is not entered, if it was not named.
    fn why_left(&self, dir: &DirHandle, other_device: bool, whole: bool) -> Option<&'static str> {
        let volatile = whole && VOLATILE.contains(&dir.path.as_slice());
        if other_device && self.selection.rules.one_file_system {
            Some("it is another file system")
        } else if volatile || (other_device && source::is_pseudo(dir.fd.as_fd())) {
            Some("it is made by the kernel or lost at boot")
        } else {
            None
        }
    }

    /// Lists a directory, with the mount points that lack in it. Of one that is tagged as not to be saved, only the tag is listed.
    fn listed(&self, dir: &Arc<DirHandle>, deal: &mut Deal<'_, '_>) -> io::Result<Sorted> {
        let mut gather = Gather::default();
        let mut tag = None;
        let expected = deal.mounted_last.remove(&dir.path).unwrap_or_default();
        let mut expected = self.wanted_in(dir, expected);
        source::list(dir, &mut |listed| {
            if tag.is_none() && self.is_tag(dir, &listed.name) {
                tag = Some(listed.clone());
            }
            // A link or a file in the place of a mount point is none.
            if expected.contains(&listed.name) && !leads_in(dir, &listed) {
                return Ok(());
            }
            expected.retain(|name| *name != listed.name);
            gather.add(listed)
        })?;
        if tag.is_some() {
            expected.clear();
        }
        for name in expected {
            if let Some(listed) = deal.look_for(dir, name) {
                gather.add(listed)?;
            }
        }
        let sorted = gather.sorted()?;
        let Some(tag) = tag else { return Ok(sorted) };
        (self.event)(WalkEvent::Skipped(&dir.path));
        let why = match self.selection.rules.exclude_if_present.contains(&tag.name) {
            true => LeftOut::Present(tag.name.clone()),
            false => LeftOut::Cache,
        };
        deal.left_out(dir, Listed { name: Vec::new(), ..tag.clone() }, why);
        Ok(Sorted::Memory(vec![tag].into_iter()))
    }

    /// What was listed, unless a pattern leaves it out.
    fn unless_excluded(
        &self,
        dir: &Arc<DirHandle>,
        listed: Listed,
        deal: &mut Deal<'_, '_>,
    ) -> Option<Listed> {
        if !self.selection.has_patterns() {
            return Some(listed);
        }
        let path = join(&dir.path, &listed.name);
        let is_dir = listed.kind == Some(Kind::Dir);
        let decision = self.selection.decide(&path, is_dir).filter(|decision| decision.excludes);
        let Some(decision) = decision else { return Some(listed) };
        (self.event)(WalkEvent::Skipped(&path));
        deal.left_out(dir, listed, LeftOut::Pattern(decision.pattern));
        None
    }

    fn is_inner_root(&self, dir: &[u8], name: &[u8]) -> bool {
        let inner = &self.selection.rules.inner_roots;
        !inner.is_empty() && inner.contains(&join(dir, name))
    }

    /// The outermost roots below a directory, as paths from there.
    fn inner_roots_of(&self, dir: &[u8]) -> Vec<Vec<u8>> {
        let is_below = |root: &&Vec<u8>| *root != dir && is_inside(root, dir);
        let below: Vec<&Vec<u8>> =
            self.selection.rules.inner_roots.iter().filter(is_below).collect();
        let is_outer =
            |root: &Vec<u8>| below.iter().all(|other| *other == root || !is_inside(root, other));
        let from_there = |root: &Vec<u8>| {
            let rest = &root[dir.len()..];
            rest.strip_prefix(b"/").unwrap_or(rest).to_vec()
        };
        below.iter().copied().filter(|root| is_outer(root)).map(from_there).collect()
    }

    /// Leaves out what is in a directory, as it is to be by itself.
    fn leave(
        &self,
        dir: Arc<DirHandle>,
        why: &'static str,
        deal: &mut Deal<'_, '_>,
    ) -> Option<Level> {
        (self.event)(WalkEvent::LeftOut(&dir.path, why));
        let listed = Listed { name: Vec::new(), kind: Some(Kind::Dir), ino: 0 };
        deal.left_out(&dir, listed, LeftOut::Itself(why));
        None
    }

    /// Whether the name tags its directory as not to be saved.
    fn is_tag(&self, dir: &DirHandle, name: &[u8]) -> bool {
        if self.selection.rules.exclude_if_present.iter().any(|n| n == name) {
            return true;
        }
        if !self.selection.rules.exclude_caches || name != CACHE_TAG {
            return false;
        }
        let Ok(file) = SourceFile::open(dir, name) else { return false };
        let mut begin = [0; CACHE_SIGNATURE.len()];
        let read = Reader::default().read_at(&file, &mut begin, 0);
        read.is_ok_and(|n| begin[..n] == *CACHE_SIGNATURE)
    }
}

/// The kind of a name, for file systems whose listings do not tell.
fn kind_of(dir: &DirHandle, name: &[u8]) -> Option<Kind> {
    let stat = source::stat_at(dir, name).ok()?;
    source::entry_of(dir, name, &stat).map(|entry| entry.kind)
}

/// Whether a listed name is a directory, or cannot be looked at, which the walk says when it comes there.
fn leads_in(dir: &DirHandle, listed: &Listed) -> bool {
    let kind = listed.kind.or_else(|| {
        source::stat_at(dir, &listed.name).ok().and_then(|s| source::kind_of_mode(s.st_mode))
    });
    kind.is_none_or(|kind| kind == Kind::Dir)
}

/// Whether a name is a directory, whether it can be opened or not.
fn is_dir(dir: &DirHandle, name: &[u8]) -> bool {
    let found = source::stat_at(dir, name);
    found.is_ok_and(|stat| source::kind_of_mode(stat.st_mode) == Some(Kind::Dir))
}

fn errno(e: &std::io::Error) -> Errno {
    e.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
