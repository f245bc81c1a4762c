//! What must stay on media, and until when.

use capstan_format::id::VersionId;
use capstan_idb::{Status, Version};

use crate::Cell;
use crate::error::Result;

/// A version that must stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Until that time, in microseconds since 1970.
    #[cfg_attr(not(test), expect(dead_code, reason = "no version records its protection yet"))]
    Until(i64),
    /// Without end: it is locked, protected for ever, or nothing says that it may go.
    ForEver,
}

impl Kept {
    /// Until when, if it has an end.
    pub fn until_us(&self) -> Option<i64> {
        match self {
            Self::Until(us) => Some(*us),
            Self::ForEver => None,
        }
    }
}

impl Cell {
    /// Which of these versions must stay: for their own sake, or since one builds on them that must.
    pub(crate) fn kept(&self, versions: &[VersionId], now_us: i64) -> Result<Vec<Kept>> {
        let mut kept = Vec::new();
        for id in versions {
            let mut longest: Option<Kept> = None;
            for dependant in self.idb.with_dependants(&[*id])? {
                let Some(version) = self.idb.version(dependant)? else { continue };
                longest = longer(longest, own(&version, now_us));
            }
            kept.extend(longest);
        }
        Ok(kept)
    }
}

/// Whether a version must stay for its own sake. Whoever records no protection has not said that it may go: what is
/// restorable stays. A session that failed left nothing that was asked for.
fn own(version: &Version, _now_us: i64) -> Option<Kept> {
    (version.status != Status::Failed).then_some(Kept::ForEver)
}

fn longer(a: Option<Kept>, b: Option<Kept>) -> Option<Kept> {
    match (a, b) {
        (Some(Kept::Until(a)), Some(Kept::Until(b))) => Some(Kept::Until(a.max(b))),
        (Some(Kept::ForEver), _) | (_, Some(Kept::ForEver)) => Some(Kept::ForEver),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_protection_counts() {
        let until = |us| Some(Kept::Until(us));
        assert_eq!(longer(until(1), until(2)), until(2));
        assert_eq!(longer(until(1), Some(Kept::ForEver)), Some(Kept::ForEver));
        assert_eq!(longer(None, until(2)), until(2));
        assert_eq!(longer(None, None), None);
    }
}
