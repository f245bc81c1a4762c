//! Versions that are known to be damaged: verify, drill, restore, copy, stage or repair found it, and no other place of what is damaged
//! is recorded. They are complete on paper only, so nothing else goes for their sake.

use std::collections::{HashMap, HashSet};

use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{Claim, torn};

use crate::Cell;
use crate::error::Result;

/// Versions that are known to be damaged, each with the labels of the media that have the damaged segments.
pub(crate) type DamagedVersions = HashMap<VersionId, String>;

impl Cell {
    /// The versions of which a segment, or one of what they build on, is damaged at all places where it is recorded.
    pub(crate) fn damaged_versions(&self) -> Result<DamagedVersions> {
        let places = self.idb.damaged_places()?;
        if places.is_empty() {
            return Ok(DamagedVersions::new());
        }
        let is_damaged = |c: &Claim| places.contains(&(c.medium, c.segment));
        let claims = self.all_claims()?;
        let torn = torn(&claims, is_damaged);
        let mut media: HashMap<VersionId, HashSet<MediumId>> = HashMap::new();
        for claim in claims.iter().filter(|c| torn.contains(&(c.version, c.origin))) {
            media.entry(claim.version).or_default().insert(claim.medium);
        }
        let rows = self.idb.prune_rows()?;
        let base: HashMap<VersionId, VersionId> =
            rows.iter().filter_map(|row| Some((row.version.id, row.version.base?))).collect();
        let mut damaged = DamagedVersions::new();
        for row in &rows {
            let (mut at, mut seen) = (Some(row.version.id), HashSet::new());
            let mut of: Vec<&MediumId> = Vec::new();
            while let Some(id) = at.filter(|id| seen.insert(*id)) {
                of.extend(media.get(&id).into_iter().flatten());
                at = base.get(&id).copied();
            }
            if !of.is_empty() {
                let mut labels = self.labels(of.into_iter())?;
                labels.sort_unstable();
                labels.dedup();
                damaged.insert(row.version.id, labels.join("', '"));
            }
        }
        Ok(damaged)
    }
}

/// That a version is damaged, on which media, in a sentence's rest.
pub(crate) fn damaged_text(labels: &str) -> String {
    let medium = if labels.contains("', '") { "media" } else { "medium" };
    format!("was found damaged on {medium} '{labels}', and no other medium has what is damaged")
}
