//! The rows of a version in the order in which archives have them: each directory right before what is in it, and all that is in it
//! before what is beside it. So who unpacks gives a directory its times when it is left, and they hold.

use std::collections::BTreeMap;

use capstan_catalog::row::{Row, path_of};
use capstan_format::entry::Kind;

use crate::error::Result;

/// So many directories are held back until it is their turn. Beyond that they come early, and once more at the end.
const HELD_MAX: usize = 100_000;

/// Puts rows that come in the order of the walk, in which a directory's own comes with its siblings', into that of an archive.
pub(super) struct DepthFirst<N> {
    next: N,
    most: usize,
    /// Directories whose turn has not come, by their paths: a separator sorts before all else.
    held: BTreeMap<Vec<u8>, Row>,
    /// The row before which some of these have to come.
    ahead: Option<Row>,
    /// Some directories came early.
    pub some_early: bool,
}

impl<N: FnMut() -> Result<Option<Row>>> DepthFirst<N> {
    /// Of the rows that come from `next`; where directories are not `held` back, all come as they are.
    pub fn new(held: bool, next: N) -> Self {
        let most = if held { HELD_MAX } else { 0 };
        Self { next, most, held: BTreeMap::new(), ahead: None, some_early: false }
    }

    /// The next row, where there is one.
    pub fn next(&mut self) -> Result<Option<Row>> {
        loop {
            let row = match self.ahead.take() {
                Some(row) => row,
                None => match (self.next)()? {
                    Some(row) => row,
                    None => return Ok(self.held.pop_first().map(|(_, dir)| dir)),
                },
            };
            if let Some(first) = self.held.first_entry()
                && *first.key() <= by_component(&row.entry.dir)
            {
                self.ahead = Some(row);
                return Ok(Some(first.remove()));
            }
            if row.entry.kind != Kind::Dir {
                return Ok(Some(row));
            }
            if self.held.len() >= self.most {
                self.some_early = true;
                return Ok(Some(row));
            }
            self.held.insert(by_component(&path_of(&row)), row);
        }
    }
}

/// A path of which the bytes sort as its components do: no name has a zero byte.
fn by_component(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_catalog::row::Ordinal;
    use capstan_format::entry::Entry;
    use capstan_format::id::StreamId;

    /// Rows of these paths, in the order of the walk; those that end with a slash are directories.
    fn ordered(paths: &[&str], most: usize) -> (Vec<String>, bool) {
        let row = |path: &&str| {
            let kind = if path.ends_with('/') { Kind::Dir } else { Kind::File };
            let path = path.trim_end_matches('/');
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            let entry = Entry {
                kind,
                dir: dir.as_bytes().to_vec(),
                name: name.as_bytes().to_vec(),
                ..Entry::default()
            };
            let at = Ordinal { session: 0, segment: 0, row: 0, stream: StreamId([0; 16]) };
            Row {
                entry,
                ordinal: at,
                start: 0,
                data: at,
                sum: None,
                user: None,
                group: None,
                acl: None,
            }
        };
        let mut rows: Vec<Row> = paths.iter().map(row).collect();
        rows.sort_by(|a, b| {
            let of = |row: &Row| (row.entry.dir.clone(), row.entry.name.clone());
            let ((a_dir, a_name), (b_dir, b_name)) = (of(a), of(b));
            capstan_format::entry::path_order((&a_dir, &a_name), (&b_dir, &b_name))
        });
        let mut rows = rows.into_iter();
        let mut all = DepthFirst { most, ..DepthFirst::new(true, || Ok(rows.next())) };
        let mut out = Vec::new();
        while let Some(row) = all.next().unwrap() {
            out.push(String::from_utf8(path_of(&row)).unwrap());
        }
        (out, all.some_early)
    }

    #[test]
    fn what_is_in_a_directory_comes_right_behind_it() {
        let paths = ["a/", "a/b/", "a/b/f", "a/c/", "a/c/g/", "a/c/g/h", "a/b!/", "a/z", "a/b!/i"];
        let (order, early) = ordered(&paths, 10);
        let expected = ["a", "a/z", "a/b", "a/b/f", "a/b!", "a/b!/i", "a/c", "a/c/g", "a/c/g/h"];
        assert_eq!(order, expected);
        assert!(!early);
    }

    #[test]
    fn where_there_are_too_many_some_come_early_and_that_is_known() {
        let (order, early) = ordered(&["a/", "b/", "c/", "a/f", "c/f"], 2);
        assert_eq!(order.len(), 5);
        assert!(early);
        let at = |path: &str| order.iter().position(|of| of == path).unwrap();
        assert!(at("a") < at("a/f") && at("c") < at("c/f"), "{order:?}");
    }
}
