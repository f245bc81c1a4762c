//! What differs between two states of a path: two versions, or a version and the file system.

use std::cmp::Ordering;

use capstan_format::acl;
use capstan_format::entry::{Entry, Kind, OutcomeCode, path_order};

use crate::error::Result;
use crate::listed::{Listed, listed};
use crate::row::Row;
use crate::version::Merged;

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is in the second state only.
    Added,
    /// It is in the first state only.
    Removed,
    /// It is something else now: a file where a directory was.
    Type,
    /// Its contents changed: length, time of change or text of the link, or the bytes themselves where they were compared.
    Contents,
    /// Only what is known of it changed.
    Metadata,
}

impl ChangeKind {
    /// Its word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Type => "type",
            Self::Contents => "contents",
            Self::Metadata => "metadata",
        }
    }
}

/// One thing in which two states of a path differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// Its kind.
    Type,
    /// Its length.
    Size,
    /// The time of the last change of its contents.
    Mtime,
    /// Its bytes, compared.
    Contents,
    /// Where a symbolic link leads.
    Target,
    /// Of which other name it is a further one.
    HardLink,
    /// Numbers of a device node.
    Device,
    /// Permissions.
    Mode,
    /// Owner.
    Owner,
    /// Group.
    Group,
    /// Extended attributes, ACLs and capabilities.
    Xattrs,
    /// Inode flags.
    Flags,
    /// The inode's time alone: something changed that shows nowhere else, as contents with their time put back.
    Ctime,
}

impl Aspect {
    /// Its word in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Size => "size",
            Self::Mtime => "mtime",
            Self::Contents => "contents",
            Self::Target => "target",
            Self::HardLink => "hard link",
            Self::Device => "device",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Group => "group",
            Self::Xattrs => "xattrs",
            Self::Flags => "flags",
            Self::Ctime => "ctime",
        }
    }
}

/// A path that differs.
#[derive(Debug, Clone)]
pub struct Change {
    /// What became of it.
    pub kind: ChangeKind,
    /// In what it differs; empty where it is in one state only.
    pub what: Vec<Aspect>,
    /// The first state.
    pub before: Option<Listed>,
    /// The second state.
    pub after: Option<Listed>,
}

impl Change {
    /// Of a path that is in the first state only.
    pub fn removed(before: Listed) -> Self {
        Self { kind: ChangeKind::Removed, what: Vec::new(), before: Some(before), after: None }
    }

    /// Of a path that is in the second state only.
    pub fn added(after: Listed) -> Self {
        Self { kind: ChangeKind::Added, what: Vec::new(), before: None, after: Some(after) }
    }

    /// The change that these differences are, `None` where there are none. `compared`: the contents are known to be the same.
    pub fn of(before: Listed, after: Listed, what: Vec<Aspect>, compared: bool) -> Option<Self> {
        let kind = kind_of(&what, before.entry.kind, compared)?;
        Some(Self { kind, what, before: Some(before), after: Some(after) })
    }

    /// The row of the path, of the second state where there is one.
    pub fn entry(&self) -> Option<&Entry> {
        self.after.as_ref().or(self.before.as_ref()).map(|l| &l.entry)
    }
}

/// How many paths differ, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeTotals {
    /// Paths that were added.
    pub added: u64,
    /// Bytes of files that were added.
    pub added_bytes: u64,
    /// Paths that were removed.
    pub removed: u64,
    /// Bytes of files that were removed.
    pub removed_bytes: u64,
    /// Paths whose kind changed.
    pub types: u64,
    /// Paths whose contents changed.
    pub contents: u64,
    /// Paths of which only metadata changed.
    pub metadata: u64,
    /// Paths that are the same.
    pub unchanged: u64,
}

impl ChangeTotals {
    /// Whether anything differs.
    pub fn differ(&self) -> bool {
        self.added + self.removed + self.types + self.contents + self.metadata > 0
    }

    /// Counts a path that differs.
    pub fn count(&mut self, change: &Change) {
        let bytes = change.entry().map_or(0, |e| if e.link { 0 } else { e.size });
        match change.kind {
            ChangeKind::Added => {
                self.added += 1;
                self.added_bytes = self.added_bytes.saturating_add(bytes);
            }
            ChangeKind::Removed => {
                self.removed += 1;
                self.removed_bytes = self.removed_bytes.saturating_add(bytes);
            }
            ChangeKind::Type => self.types += 1,
            ChangeKind::Contents => self.contents += 1,
            ChangeKind::Metadata => self.metadata += 1,
        }
    }
}

/// Whether times say that contents changed: a directory's change with every name in it.
fn kind_of(what: &[Aspect], kind: Kind, compared: bool) -> Option<ChangeKind> {
    use Aspect as A;
    let of_contents = |a: &A| match a {
        A::Size | A::Contents | A::Target | A::Device => true,
        A::Mtime => kind == Kind::File && !compared,
        _ => false,
    };
    match what {
        [] => None,
        _ if what.contains(&A::Type) => Some(ChangeKind::Type),
        _ if what.iter().any(of_contents) => Some(ChangeKind::Contents),
        _ => Some(ChangeKind::Metadata),
    }
}

/// In what two states of a path differ, as far as their rows say.
pub fn differences(a: &Listed, b: &Listed) -> Vec<Aspect> {
    let (x, y) = (&a.entry, &b.entry);
    if x.kind != y.kind {
        return vec![Aspect::Type];
    }
    let mut what = Vec::new();
    let mut add = |differs: bool, aspect| {
        if differs {
            what.push(aspect);
        }
    };
    let file = x.kind == Kind::File;
    add(file && x.size != y.size, Aspect::Size);
    add(x.mtime != y.mtime, Aspect::Mtime);
    // Of a further name the target is the first name, of a symbolic link its text.
    add(x.link != y.link || x.link && x.target != y.target, Aspect::HardLink);
    add(!x.link && !y.link && x.target != y.target, Aspect::Target);
    add(x.rdev != y.rdev, Aspect::Device);
    // Linux gives symbolic links no permissions of their own.
    add(x.kind != Kind::Symlink && x.mode != y.mode, Aspect::Mode);
    add(another(x.uid, &a.user, y.uid, &b.user), Aspect::Owner);
    add(another(x.gid, &a.group, y.gid, &b.group), Aspect::Group);
    // The rows of further names have neither.
    if !x.link && !y.link {
        let same = acl::are_same((&x.xattrs, a.acl.as_deref()), (&y.xattrs, b.acl.as_deref()));
        add(!same, Aspect::Xattrs);
        add(x.inode_flags != y.inode_flags, Aspect::Flags);
    }
    // Of another inode, as after a restore, the time says nothing; nor where all else that there is was compared.
    let same_inode = (x.dev, x.ino) == (y.dev, y.ino);
    if what.is_empty() && same_inode && file && x.ctime != y.ctime {
        what.push(Aspect::Ctime);
    }
    what
}

/// Owners are told by name where both have one, as a restore does.
fn another(a: u32, a_name: &Option<String>, b: u32, b_name: &Option<String>) -> bool {
    match (a_name, b_name) {
        (Some(a), Some(b)) => a != b,
        _ => a != b,
    }
}

/// The order of two rows in a catalog.
pub fn order(a: &Entry, b: &Entry) -> Ordering {
    path_order((&a.dir, &a.name), (&b.dir, &b.name))
}

/// What a version has, in the order of the walk: without names that are gone, or vanished before they could be read.
pub struct LiveRows<'a>(Merged<'a>);

impl<'a> LiveRows<'a> {
    /// The rows of a version, at the first path.
    pub fn new(merged: Merged<'a>) -> Self {
        Self(merged)
    }

    /// The checksum of a file's contents, holes left out, where all of it is known and the rows were opened with checksums.
    pub fn content_sum(&self, row: &Row) -> Option<u64> {
        let overview = &self.0.overview;
        overview.is_whole(row).then(|| overview.content_sum(row)).flatten()
    }

    /// The length to which a file is restored: that of its row, or less where it was cut while it was read.
    pub fn restored_len(&self, row: &Row) -> u64 {
        self.0.overview.cut_at(row).unwrap_or(row.entry.size)
    }

    /// Goes back to the first path.
    pub fn rewind(&mut self) {
        self.0.rewind();
    }

    /// The next path's row, and as it is shown.
    #[expect(clippy::should_implement_trait, reason = "reading a row may fail")]
    pub fn next(&mut self) -> Result<Option<(Row, Listed)>> {
        while let Some(row) = self.0.next()? {
            let path = row.entry.path();
            let overview = &self.0.overview;
            let vanished = overview.outcome(&path, row.data).is_some_and(|o| {
                o.code == OutcomeCode::Vanished && !overview.is_replaced(&path, row.ordinal)
            });
            if row.entry.kind != Kind::Tombstone && !vanished {
                let listed = listed(&self.0, &row);
                return Ok(Some((row, listed)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_format::entry::Timestamp;

    fn state(change: impl FnOnce(&mut Entry)) -> Listed {
        let mut entry = Entry { size: 7, mode: 0o644, ino: 5, dev: 1, ..Entry::default() };
        change(&mut entry);
        Listed { entry, user: Some("ann".to_owned()), group: None, acl: None, state: None }
    }

    fn of(change: impl FnOnce(&mut Entry)) -> (Vec<Aspect>, Option<ChangeKind>) {
        let (a, b) = (state(|_| {}), state(change));
        let what = differences(&a, &b);
        let kind = Change::of(a, b, what.clone(), false).map(|c| c.kind);
        (what, kind)
    }

    #[test]
    fn each_difference_is_named_and_judged() {
        use Aspect as A;
        use ChangeKind::{Contents, Metadata, Type};
        let later = Timestamp { sec: 9, nsec: 1 };
        assert_eq!(of(|_| {}), (vec![], None));
        assert_eq!(of(|e| e.kind = Kind::Dir), (vec![A::Type], Some(Type)));
        assert_eq!(of(|e| e.size = 8), (vec![A::Size], Some(Contents)));
        assert_eq!(of(|e| e.mtime = later), (vec![A::Mtime], Some(Contents)));
        assert_eq!(of(|e| e.mode = 0o600), (vec![A::Mode], Some(Metadata)));
        assert_eq!(of(|e| e.gid = 6), (vec![A::Group], Some(Metadata)));
        assert_eq!(of(|e| e.ctime = later), (vec![A::Ctime], Some(Metadata)));
        assert_eq!(of(|e| e.link = true), (vec![A::HardLink], Some(Metadata)));
        let xattr = (b"user.a".to_vec(), b"b".to_vec());
        assert_eq!(of(|e| e.xattrs.push(xattr)), (vec![A::Xattrs], Some(Metadata)));
        // A restored file has another inode, and so another time of it.
        assert_eq!(of(|e| (e.ino, e.ctime) = (6, later)), (vec![], None));
        // The number of a user differs from machine to machine, the name counts.
        assert_eq!(of(|e| e.uid = 6), (vec![], None));
    }

    #[test]
    fn totals_count_each_kind_and_bytes() {
        let mut totals = ChangeTotals::default();
        totals.count(&Change::added(state(|_| {})));
        totals.count(&Change::removed(state(|e| e.link = true)));
        assert_eq!((totals.added_bytes, totals.removed_bytes), (7, 0));
        assert!(totals.differ() && !ChangeTotals { unchanged: 4, ..Default::default() }.differ());
    }
}
