//! Objects of which nothing may go now: some of it is on a medium that is away though nobody took it away.

use std::collections::{HashMap, HashSet};

use capstan_engine::message::Code;
use capstan_format::id::{MediumId, ObjectId, SegmentId, VersionId};

use super::PruneRequest;
use crate::Cell;
use crate::error::Result;
use crate::media::AwayMedium;
use crate::session::Ears;

impl Cell {
    /// The media for whose sake nothing of an object that is asked for goes; says so.
    pub(super) fn say_still(
        &self,
        request: &PruneRequest,
        ears: &Ears<'_>,
    ) -> Result<Vec<AwayMedium>> {
        let mut away = self.media_away()?;
        for of in &mut away {
            let is_asked = |name: &String| request.names.is_empty() || request.names.contains(name);
            of.objects.retain(|object| is_asked(&object.name));
        }
        away.retain(|of| !of.objects.is_empty());
        for of in &away {
            let names: Vec<_> = of.objects.iter().map(|o| format!("'{}'", o.name)).collect();
            let text = format!(
                "{}: the keep rules of {} stand still, and nothing is given up or removed of what they keep; {}",
                of.text(),
                names.join(", "),
                of.hint()
            );
            let code = if of.changed { Code::MediumChanged } else { Code::MediumAway };
            ears.say(code, "cell", &of.medium.label, text);
        }
        Ok(away)
    }

    /// By object, why nothing of it goes.
    pub(super) fn standing_still(&self) -> Result<HashMap<ObjectId, String>> {
        let mut still: HashMap<ObjectId, String> = HashMap::new();
        for of in self.media_away()? {
            for object in &of.objects {
                still.entry(object.id).or_insert_with(|| {
                    let what = if of.changed { "was changed" } else { "is away" };
                    format!("keep rules stand still: medium '{}' {what}", of.medium.label)
                });
            }
        }
        Ok(still)
    }

    /// Versions of which a segment lies on media of other cells alone: these are theirs.
    pub(super) fn versions_of_others(&self) -> Result<HashSet<VersionId>> {
        let mut others: HashSet<MediumId> = HashSet::new();
        for medium in self.idb.media()? {
            if self.idb.management(medium.id)?.is_other_cells() {
                others.insert(medium.id);
            }
        }
        if others.is_empty() {
            return Ok(HashSet::new());
        }
        let mut own: HashMap<(VersionId, SegmentId), bool> = HashMap::new();
        for claim in self.idb.claims()? {
            *own.entry((claim.version, claim.segment)).or_default() |=
                !others.contains(&claim.medium);
        }
        Ok(own.into_iter().filter(|(_, own)| !own).map(|((version, _), _)| version).collect())
    }
}
