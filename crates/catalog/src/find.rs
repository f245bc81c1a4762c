//! Finding rows: which of a version have to be read for what is looked for.

use capstan_format::entry::Kind;

use crate::error::Result;
use crate::listed::{Listed, listed};
use crate::row::Row;
use crate::version::{Merged, NameLike};

/// Which rows can match: the others need not be read.
#[derive(Debug, Clone, Copy)]
pub enum Among<'a> {
    /// All.
    All,
    /// That of a path.
    Path(&'a [u8]),
    /// Those whose names are like that.
    Named(NameLike<'a>),
}

/// Calls with those rows of a version, in order; names that are gone are left out.
pub fn each_among(
    merged: &mut Merged<'_>,
    among: Among<'_>,
    each: &mut dyn FnMut(&Row, &Listed),
) -> Result<()> {
    let mut take = |merged: &Merged<'_>, row: &Row| {
        if row.entry.kind != Kind::Tombstone {
            each(row, &listed(merged, row));
        }
    };
    let found = match among {
        Among::Path(path) => return merged.each_below(path, Some(0), &mut take),
        Among::Named(like) => merged.with_names_like(like)?,
        Among::All => None,
    };
    if let Some(found) = found {
        found.iter().for_each(|row| take(merged, row));
        return Ok(());
    }
    while let Some(row) = merged.next()? {
        take(merged, &row);
    }
    Ok(())
}

/// What every name that a pattern matches is or contains: its last component, or the longest run of letters there that mean
/// themselves. `None` where there is none, or where that is hard to say.
pub fn name_like(pattern: &str) -> Option<NameLike<'_>> {
    if pattern.starts_with(['!', '#']) || pattern.contains(['[', '{', '\\']) {
        return None;
    }
    let last = pattern.trim_end().trim_end_matches('/').rsplit('/').next()?;
    let part = last.split(['*', '?']).max_by_key(|part| part.len())?;
    let like = if part == last { NameLike::Whole } else { NameLike::Part };
    (!part.is_empty()).then(|| like(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_narrowed_only_by_what_they_must_contain() {
        let (whole, part) = (NameLike::Whole, NameLike::Part);
        let cases = [
            ("mail.pst", Some(whole(b"mail.pst"))),
            ("*.pst", Some(part(b".pst"))),
            ("/home/**/a*longer?x", Some(part(b"longer"))),
            ("/home/ann/", Some(whole(b"ann"))),
            ("**/ann", Some(whole(b"ann"))),
            ("cache/", Some(whole(b"cache"))),
            ("trailing ", Some(whole(b"trailing"))),
            ("a?", Some(part(b"a"))),
            ("*", None),
            ("/home/**", None),
            ("[ab]c", None),
            ("!x", None),
            ("a\\*b", None),
            ("", None),
        ];
        for (pattern, like) in cases {
            assert_eq!(name_like(pattern), like, "{pattern}");
        }
    }
}
