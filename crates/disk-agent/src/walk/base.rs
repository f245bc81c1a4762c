//! What a walk is told of the version that a backup builds on, or goes on with: its rows, read beside the walk.

use capstan_format::entry::{Kind, path_order};
use capstan_port::disk::base::{BaseBroken, BaseRow, BaseRows, NamedRow};
use capstan_port::disk::ctime;
use rustix::fs::Stat;

use crate::linux::source;

/// What stat says of a row of a base.
pub(crate) trait OfStat {
    /// Whether it describes what stat says, apart from whose link it is.
    fn is_of(&self, stat: &Stat) -> bool;
    /// Whether it describes what stat says, and stat proves that nothing else changed. A further name has nothing else.
    fn is_certainly_of(&self, stat: &Stat) -> bool;
}

impl OfStat for BaseRow {
    fn is_of(&self, stat: &Stat) -> bool {
        let kind = source::kind_of_mode(stat.st_mode);
        kind == Some(self.kind)
            && self.size == source::size_of(self.kind, stat)
            && self.mtime == source::mtime_of(stat)
            && self.ctime == source::ctime_of(stat)
            && self.ino == stat.st_ino
            && self.access.is_none_or(|access| access == source::access_of(self.kind, stat))
    }

    fn is_certainly_of(&self, stat: &Stat) -> bool {
        let is_proof = ctime::proves_contents(source::mtime_of(stat), source::ctime_of(stat));
        self.is_of(stat) && (is_proof || self.link_to.is_some())
    }
}

/// Looks names up in a base. Asked in the order of the walk, so that memory stays flat.
pub(crate) trait BaseCursor: Send {
    /// What the base has under that name. What it has before that name and was not asked for is `passed`.
    fn find(
        &mut self,
        dir: &[u8],
        name: &[u8],
        passed: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Option<BaseRow>;
    /// What is left after the last name asked for.
    fn rest(&mut self, passed: &mut Vec<(Vec<u8>, Vec<u8>)>);
    /// Whether it cannot be read any further. The walk ends then: it would take what the base has for what it lacks.
    fn is_broken(&self) -> bool {
        false
    }
}

/// A stream of rows, read beside the walk.
pub(crate) struct Beside<'a> {
    rows: &'a mut dyn BaseRows,
    /// The first row that the walk did not come to yet.
    head: Option<NamedRow>,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Unread,
    Reading,
    Broken,
}

impl<'a> Beside<'a> {
    pub fn new(rows: &'a mut dyn BaseRows) -> Self {
        Self { rows, head: None, state: State::Unread }
    }

    fn advance(&mut self) {
        self.state = State::Reading;
        // Its end would say of all that comes after it that it is not there.
        self.head = self.rows.next().unwrap_or_else(|BaseBroken| {
            self.state = State::Broken;
            None
        });
    }

    /// Passes the rows that come before a name, or all.
    fn pass(&mut self, name: Option<(&[u8], &[u8])>, passed: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        if self.state == State::Unread {
            self.advance();
        }
        let is_before = |row: &mut NamedRow| {
            name.is_none_or(|name| path_order((&row.dir, &row.name), name).is_lt())
        };
        while let Some(NamedRow { dir, name, row }) = self.head.take_if(is_before) {
            if row.kind != Kind::Tombstone {
                passed.push((dir, name));
            }
            self.advance();
        }
    }
}

impl BaseCursor for Beside<'_> {
    fn find(
        &mut self,
        dir: &[u8],
        name: &[u8],
        passed: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Option<BaseRow> {
        self.pass(Some((dir, name)), passed);
        let found = self.head.take_if(|row| row.dir == dir && row.name == name)?;
        self.advance();
        Some(found.row)
    }

    fn rest(&mut self, passed: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        self.pass(None, passed);
    }

    fn is_broken(&self) -> bool {
        self.state == State::Broken
    }
}

#[cfg(test)]
mod tests {
    use capstan_format::entry::Timestamp;

    use super::*;

    /// Rows of these paths; `-` before one is of a name that was removed, `!` is where it breaks.
    struct Given<'r>(std::slice::Iter<'r, &'static str>);

    impl BaseRows for Given<'_> {
        fn next(&mut self) -> Result<Option<NamedRow>, BaseBroken> {
            let Some(path) = self.0.next().copied() else { return Ok(None) };
            if path == "!" {
                return Err(BaseBroken);
            }
            let (path, row) = match path.strip_prefix('-') {
                Some(path) => (path, row(Kind::Tombstone)),
                None => (path, row(Kind::File)),
            };
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            Ok(Some(NamedRow { dir: dir.into(), name: name.into(), row }))
        }
    }

    fn row(kind: Kind) -> BaseRow {
        BaseRow {
            complete: true,
            sum: None,
            kind,
            access: None,
            details: None,
            size: 0,
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            ino: 1,
            dev: 1,
            data: None,
            link_to: None,
            saved: Vec::new(),
        }
    }

    /// Whether the base has a row of each path that is asked for, what was passed, and whether it broke.
    fn asked(rows: &[&'static str], paths: &[&str]) -> (Vec<bool>, Vec<String>, bool) {
        let mut given = Given(rows.iter());
        let mut beside = Beside::new(&mut given);
        let mut passed = Vec::new();
        let found = paths.iter().map(|path| {
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            beside.find(dir.as_bytes(), name.as_bytes(), &mut passed).is_some()
        });
        let found = found.collect();
        beside.rest(&mut passed);
        let passed = passed.into_iter().map(|(dir, name)| {
            String::from_utf8(capstan_format::entry::join(&dir, &name)).unwrap()
        });
        (found, passed.collect(), beside.is_broken())
    }

    #[test]
    fn what_the_walk_does_not_come_to_is_passed() {
        let rows = ["a", "c", "e", "c/x", "c/z"];
        let (found, passed, broken) = asked(&rows, &["a", "b", "c", "f", "c/y", "c/z"]);
        assert_eq!(found, [true, false, true, false, false, true]);
        assert_eq!(passed, ["e", "c/x"]);
        assert!(!broken);
        assert_eq!(asked(&rows, &[]).1, rows, "all of it is left");
        assert_eq!(asked(&[], &["a"]), (vec![false], vec![], false));
    }

    #[test]
    fn what_was_removed_before_is_not_passed() {
        let (found, passed, _) = asked(&["-a", "-b", "c"], &["b", "c"]);
        assert_eq!((found, passed), (vec![true, true], vec![]));
    }

    #[test]
    fn what_cannot_be_read_any_further_is_broken() {
        let (found, passed, broken) = asked(&["a", "b", "!"], &["a", "b"]);
        assert_eq!((found, passed, broken), (vec![true, true], vec![], true));
        assert!(asked(&["!"], &[]).2);
    }
}
