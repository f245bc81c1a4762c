//! Media that have a version and lack what it builds on, which others have: a mirror that was away some nights and came back. Each
//! night on it is complete, and it restores nothing of them by itself.

use std::collections::{BTreeSet, HashMap, HashSet};

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, SegmentId, VersionId};

use crate::Cell;
use crate::error::Result;
use crate::session::Ears;
use crate::version;

/// Where a segment of a version lies.
#[derive(Default)]
struct Lies {
    media: HashSet<MediumId>,
    /// Whether the segment itself lies there, and not copies alone.
    is_original: bool,
}

impl Cell {
    /// The media that have all of a version and lack something of what it builds on: a sentence each, with the command that brings it
    /// there. Where what it builds on has as many places, on whichever media, nothing is lacking; where its original was given back
    /// after a copy, somebody wanted it so. Retired media count for nothing.
    pub(crate) fn mirrors_behind(&self, version: VersionId) -> Result<Vec<String>> {
        let chain = version::chain(&self.idb, version)?;
        let Some((_, below)) = chain.split_first().filter(|(_, below)| !below.is_empty()) else {
            return Ok(Vec::new());
        };
        let retired: HashSet<MediumId> = self.idb.retired_media()?.into_iter().collect();
        let own = self.lies_of(version, &retired)?;
        let mut all = own.values().map(|of| &of.media);
        let Some(first) = all.next() else { return Ok(Vec::new()) };
        let shared: HashSet<MediumId> =
            all.fold(first.clone(), |shared, of| shared.intersection(of).copied().collect());
        if shared.len() < 2 {
            return Ok(Vec::new());
        }
        let mut behind: BTreeSet<MediumId> = BTreeSet::new();
        for version in below {
            for of in self.lies_of(version.id, &retired)?.values() {
                if of.is_original && of.media.len() < shared.len() {
                    behind.extend(shared.difference(&of.media));
                }
            }
        }
        let name = self.name_of_version(version)?;
        let mut said = Vec::new();
        for id in behind {
            let Some(medium) = self.idb.medium(id)? else { continue };
            said.push(format!(
                "medium '{}' has {name} and not all that it builds on, so it is not enough by itself: `capstan copy {} --to {}` \
                 brings it there",
                medium.label,
                shell_word(&name),
                shell_word(&medium.device)
            ));
        }
        Ok(said)
    }

    /// Says of a version that was just written to mirrors which of them lack what it builds on.
    pub(crate) fn say_mirrors_behind(
        &self,
        version: VersionId,
        name: &str,
        ears: &Ears<'_>,
    ) -> Result<()> {
        for text in self.mirrors_behind(version)? {
            ears.say(Code::MirrorBehind, "cell", name, text);
        }
        Ok(())
    }

    /// Where a version's own segments lie, by original.
    fn lies_of(
        &self,
        version: VersionId,
        but: &HashSet<MediumId>,
    ) -> Result<HashMap<SegmentId, Lies>> {
        let copies = self.idb.copies_of_version(version)?;
        let mut lies: HashMap<SegmentId, Lies> = HashMap::new();
        for (segment, _) in self.idb.segments_of_version(version)? {
            let copy = copies.get(&segment.id);
            let (origin, lacks) = copy.map_or((segment.id, 0), |of| (of.origin, of.lacks));
            if lacks > 0 || but.contains(&segment.medium) {
                continue;
            }
            let of = lies.entry(origin).or_default();
            of.media.insert(segment.medium);
            of.is_original |= copy.is_none();
        }
        Ok(lies)
    }
}
