//! What must stay on media, and until when.

use capstan_format::id::VersionId;
use capstan_idb::{Keeping, Protection, Status, Version};

use super::AwayMedium;
use crate::Cell;
use crate::error::Result;

/// A version that must stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Until that time, in microseconds since 1970.
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
        let mut away: Option<Vec<AwayMedium>> = None;
        for id in versions {
            let mut longest: Option<Kept> = None;
            for dependant in self.idb.with_dependants(&[*id])? {
                let Some(version) = self.idb.version(dependant)? else { continue };
                let keeping = self.idb.keeping(dependant)?;
                longest = longer(longest, own(&version, &keeping, now_us));
                // Time that passes gives nothing up while a medium of its object is away.
                let has_passed = matches!(keeping.protection, Protection::UntilUs(_));
                if longest.is_none() && has_passed && keeping.expired_us.is_none() {
                    let away = match &mut away {
                        Some(away) => away,
                        away => away.insert(self.media_away()?),
                    };
                    let is_of = |of: &AwayMedium| of.still.iter().any(|o| o.id == version.object);
                    longest = away.iter().any(is_of).then_some(Kept::ForEver);
                }
            }
            kept.extend(longest);
        }
        Ok(kept)
    }
}

/// Whether a version must stay for its own sake. Of what only keep rules decide nothing says that it may go: what is
/// restorable stays. A session that failed left nothing that was asked for, and what expired was given up.
fn own(version: &Version, keeping: &Keeping, now_us: i64) -> Option<Kept> {
    let locked = keeping.lock_at(now_us).map(Kept::Until);
    if version.status == Status::Failed || keeping.expired_us.is_some() {
        return locked;
    }
    let protected = match keeping.protection {
        Protection::Rules | Protection::Permanent => Some(Kept::ForEver),
        Protection::UntilUs(until) => (until > now_us).then_some(Kept::Until(until)),
        Protection::None => None,
    };
    longer(locked, protected)
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

    #[test]
    fn what_is_protected_locked_or_left_to_rules_stays() {
        let id = VersionId([1; 16]);
        let version = |status| Version {
            id,
            object: capstan_format::id::ObjectId([2; 16]),
            status,
            method: "full".to_owned(),
            base: None,
            key: None,
            null_device: false,
            created_us: 1,
            stands_for: None,
        };
        let kept = |protection, locked_until_us, expired_us| {
            let keeping = Keeping { protection, locked_until_us, expired_us, ..Keeping::default() };
            own(&version(Status::Completed), &keeping, 100)
        };
        assert_eq!(kept(Protection::Rules, None, None), Some(Kept::ForEver));
        assert_eq!(kept(Protection::UntilUs(101), None, None), Some(Kept::Until(101)));
        assert_eq!(kept(Protection::UntilUs(99), None, None), None);
        assert_eq!(kept(Protection::None, None, None), None);
        assert_eq!(kept(Protection::None, Some(500), None), Some(Kept::Until(500)));
        assert_eq!(kept(Protection::Permanent, None, Some(50)), None, "it was given up");
        assert_eq!(kept(Protection::None, Some(500), Some(50)), Some(Kept::Until(500)));
        assert_eq!(own(&version(Status::Failed), &Keeping::default(), 100), None);
    }
}
