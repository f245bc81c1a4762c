//! Mount points of a source at which nothing is mounted. Such a directory looks as one of which all was removed: it must not be
//! taken for that.

use std::collections::{HashMap, HashSet};

use capstan_engine::message::path_text;
use capstan_format::entry::{Kind, join};

use crate::linux::mounted::{Mounted, Place, SUBVOLUME_ROOT};
use crate::linux::source::{self, DirHandle, Listed};
use crate::select::MountPoints;
use crate::walk::Walker;
use capstan_port::disk::base::BaseRow;

/// Names in an empty mount point that may lead to what is written to or the home.
const OWN_NAMES: usize = 8;
/// How deep that may lie.
const OWN_DEPTH: usize = 8;

/// Why something is to be mounted at a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Why {
    /// The machine has it on record.
    pub on_record: bool,
    /// And it is mounted without being asked for.
    pub by_itself: bool,
    /// The last version has what was mounted there.
    pub had: bool,
    /// The last version has contents there that another masks.
    pub masked: bool,
}

impl Why {
    /// What holds for either.
    fn and(self, other: Self) -> Self {
        Self {
            on_record: self.on_record || other.on_record,
            by_itself: self.by_itself || other.by_itself,
            had: self.had || other.had,
            masked: self.masked || other.masked,
        }
    }

    /// Whether an empty directory is one that lacks its disk. One that is mounted by hand may well be empty, unless it was named.
    fn is_enough(self, is_named: bool) -> bool {
        self.had || self.masked || self.by_itself || (self.on_record && is_named)
    }
}

/// A mount point at which nothing is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unmounted {
    /// Why something is to be.
    pub why: Why,
    /// Whether there is something in it nevertheless.
    pub holds: bool,
    /// Whether the directory is there.
    pub is_there: bool,
    /// Whether it is below a mount point, and none itself.
    pub is_below: bool,
}

impl Unmounted {
    /// A mount point that went with its disk.
    pub(crate) const VANISHED: Self = Self {
        why: Why { on_record: false, by_itself: false, had: true, masked: false },
        holds: false,
        is_there: false,
        is_below: false,
    };

    /// A directory of which a file system in memory hides what it has.
    pub(crate) const COVERED: Self = Self {
        why: Why { on_record: false, by_itself: false, had: false, masked: true },
        holds: false,
        is_there: true,
        is_below: false,
    };
}

/// What is found where something is to be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// It is there, or what is there is taken for it.
    There,
    /// It is not.
    Missing(Unmounted),
}

/// What a name is to the roots of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It leads to roots.
    Above,
    /// It is one.
    Root,
    /// It lies in one.
    Below,
}

/// What is known of the directory whose names are dealt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Within {
    /// Its device.
    pub dev: u64,
    /// The device that it was on by the base.
    pub base_dev: Option<u64>,
    /// Above the roots: why the innermost mount point lacks its disk that it lies in, if it does.
    pub lost: Why,
}

/// Device and inode number of a directory, by the base.
pub(crate) type Seen = (u64, u64);

/// What a base row says of a directory.
pub(crate) fn seen(base: Option<&BaseRow>) -> Option<Seen> {
    base.filter(|row| row.kind == Kind::Dir).map(|row| (row.dev, row.ino))
}

impl MountPoints {
    /// The mount points that the last version found mounted, by the directories that they lie in. Those that messages do not write
    /// as they are, are left out: their bytes are not known.
    pub(crate) fn last_by_dir(&self) -> HashMap<Vec<u8>, Vec<Vec<u8>>> {
        let mut by_dir: HashMap<_, Vec<_>> = HashMap::new();
        let plain = self.last.mounted.iter().flatten().filter(|path| !path.contains('\\'));
        for (dir, name) in plain.filter_map(|path| path.rsplit_once('/')) {
            let dir = dir.strip_prefix('/').unwrap_or_default();
            by_dir.entry(dir.into()).or_default().push(name.into());
        }
        by_dir
    }

    /// Those that it leaves out, as messages write them.
    pub(crate) fn odd(&self) -> HashSet<&str> {
        let paths = self.last.mounted.iter().flatten().map(String::as_str);
        paths.filter(|path| path.contains('\\')).collect()
    }

    /// Why something is to be mounted at a path, of which the base says so much.
    fn why(&self, path: &[u8], ino: u64, base: Option<Seen>, within: &Within) -> Why {
        let on_record = self.here.on_record.get(path);
        // It was another directory then, on another device than what it lies in.
        let was_another =
            |(dev, its_ino)| its_ino != ino && dev != within.base_dev.unwrap_or(within.dev);
        let had = self.last.rows_tell && base.is_some_and(was_another)
            || is_among(path, self.last.mounted.as_ref())
            || self.here.disks.contains(path);
        let by_itself = on_record.is_some_and(|by_itself| *by_itself);
        Why { on_record: on_record.is_some(), by_itself, had, masked: false }
    }

    /// Whether the last version found contents at a path that another may mask.
    fn is_maskable(&self, path: &[u8], base: Option<Seen>, within: &Within) -> bool {
        let was_subvolume =
            |(dev, ino)| ino == SUBVOLUME_ROOT && dev != within.base_dev.unwrap_or(within.dev);
        self.last.rows_tell && base.is_some_and(was_subvolume)
            || is_among(path, self.last.maskable.as_ref())
    }
}

/// Whether a path is among these, which are as messages write them.
fn is_among(path: &[u8], paths: Option<&HashSet<String>>) -> bool {
    paths.is_some_and(|of| !of.is_empty() && of.contains(&format!("/{}", path_text(path))))
}

impl Walker<'_> {
    /// Of these mount points in a directory below a root, those that are wanted.
    pub(crate) fn wanted_in(&self, dir: &DirHandle, mut names: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let selection = self.selection;
        names.retain(|name| {
            !selection.rules.one_file_system && !selection.excludes(&join(&dir.path, name), true)
        });
        names
    }

    /// Whether something is to be mounted at a directory, and whether it lacks that. A name's directory is open.
    pub(crate) fn expected(
        &self,
        dir: &DirHandle,
        listed: &Listed,
        base: Option<Seen>,
        within: &Within,
        role: Role,
    ) -> Option<Expected> {
        // What is mounted below a root is not wanted then.
        if role == Role::Above || role == Role::Below && self.selection.rules.one_file_system {
            return None;
        }
        let path = join(&dir.path, &listed.name);
        // Whoever excludes a root gives up what was mounted there: itself it is a root still.
        if role == Role::Root && self.selection.excludes(&path, true) {
            return None;
        }
        let mut why = self.selection.mounts.why(&path, listed.ino, base, within);
        let is_named = role == Role::Root;
        let is_below = is_named && !why.is_enough(true);
        if is_named {
            why = why.and(within.lost);
        }
        let is_maskable = self.selection.mounts.is_maskable(&path, base, within);
        if !why.is_enough(is_named) && !is_maskable {
            return None;
        }
        // Where it cannot be opened the walk says so when it comes there.
        let opened = source::open_dir(dir, &listed.name).ok()?;
        let place = Place::of(&opened.fd).ok()?;
        let never = &self.selection.never;
        if never.contains(&(place.dev, place.ino)) {
            return None;
        }
        let mounted = place.mounted(&opened.fd, within.dev);
        let holds = !is_empty_but_for(&opened, never, OWN_DEPTH);
        // Its directory says another number of what is mounted on it, or is a subvolume.
        why.had &= self.selection.mounts.why(&path, place.ino, base, within).had || within.lost.had;
        why.masked =
            is_maskable && (place.is_empty_subvolume(&opened.fd) || mounted == Mounted::NoDisk);
        let is_missed = match mounted {
            Mounted::Disk => false,
            // It lies over the disk, or in its place.
            Mounted::NoDisk => why.had || why.masked,
            // What the last version found mounted is missed whatever is in its place: services make directories where their disk should be.
            Mounted::Nothing => why.is_enough(is_named) && (!holds || why.had),
        };
        Some(match is_missed {
            true => Expected::Missing(Unmounted {
                why,
                holds,
                is_there: true,
                is_below: is_below && !why.masked,
            }),
            false => Expected::There,
        })
    }

    /// Why a directory above the roots lacks its disk, or one that it lies in; and whether one is mounted there.
    pub(crate) fn lost_above(
        &self,
        dir: &DirHandle,
        place: &Place,
        base: Option<Seen>,
        within: &Within,
    ) -> (Why, bool) {
        match place.mounted(&dir.fd, within.dev) {
            Mounted::Disk => (Why::default(), true),
            _ if self.selection.excludes(&dir.path, true) => (Why::default(), false),
            found => {
                let why = self.selection.mounts.why(&dir.path, place.ino, base, within);
                let is_lost = why.had || found == Mounted::Nothing && why.is_enough(true);
                (if is_lost { why } else { within.lost }, false)
            }
        }
    }
}

/// Whether the base has a directory as one of what it lies in.
pub(crate) fn was_no_mount(base: Option<Seen>, outer: &Within) -> bool {
    base.is_some_and(|(dev, _)| outer.base_dev == Some(dev))
}

/// Whether nothing is in a directory but ways to some others.
fn is_empty_but_for(dir: &DirHandle, others: &[(u64, u64)], depth: usize) -> bool {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let listed = source::list(dir, &mut |listed| {
        let may_lead = matches!(listed.kind, None | Some(Kind::Dir)) && names.len() < OWN_NAMES;
        names.push(listed.name);
        may_lead.then_some(()).ok_or_else(|| std::io::Error::other("something else is in it"))
    });
    let leads = |name: &Vec<u8>| {
        let Ok(inner) = source::open_dir(dir, name) else { return false };
        let is_one = source::identity(&inner.fd).is_ok_and(|id| others.contains(&id));
        is_one || depth > 0 && is_way_to(&inner, others, depth - 1)
    };
    listed.is_ok() && names.iter().all(leads)
}

/// The same of one that is not empty.
fn is_way_to(dir: &DirHandle, others: &[(u64, u64)], depth: usize) -> bool {
    let mut is_empty = true;
    let listed = source::open_dir(dir, b".").map_err(std::io::Error::from).and_then(|again| {
        source::list(&again, &mut |_| {
            is_empty = false;
            Ok(())
        })
    });
    listed.is_ok() && !is_empty && is_empty_but_for(dir, others, depth)
}
