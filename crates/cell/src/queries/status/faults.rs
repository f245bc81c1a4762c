//! Faults of the media of an object, and what they cost.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::Version;

use crate::Cell;
use crate::error::Result;
use crate::media::{Condition, ways_out_of_poor};
use crate::queries::status::{Health, Known, ObjectStatus};
use crate::versions::away_media::AwayMedium;

impl Cell {
    /// Says what is wrong with the media of the last complete version, and with their pools.
    pub(super) fn say_media(
        &self,
        media: &[MediumId],
        known: &Known<'_>,
        faults: &mut HashMap<MediumId, Vec<String>>,
        status: &mut ObjectStatus,
    ) -> Result<()> {
        for why in self.faults_of(media)? {
            status.say(Health::Warning, why);
        }
        let mut pools: BTreeSet<String> = BTreeSet::new();
        for id in media.iter().filter(|_| !known.pools.is_empty()) {
            pools.extend(self.idb.management(*id)?.pool);
        }
        for why in pools.iter().filter_map(|pool| known.pools.get(pool)) {
            status.say(Health::Warning, why.clone());
        }
        for id in media.iter().copied() {
            // Each medium is looked at once, however many objects it has.
            let found = match faults.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(self.faults_found(id)?),
            };
            for why in found.iter() {
                status.say(Health::Warning, why.clone());
            }
        }
        Ok(())
    }

    /// Says which media of an object are away, and whether its last complete version needs them.
    pub(super) fn say_away(
        &self,
        object: ObjectId,
        complete: Option<&Version>,
        known: &Known<'_>,
        status: &mut ObjectStatus,
    ) {
        let of_it = |of: &&AwayMedium| of.objects.iter().any(|o| o.id == object);
        let away: Vec<AwayMedium> = known.away.iter().filter(of_it).cloned().collect();
        let needs =
            complete.is_some_and(|v| self.needs(v.id, &away, known.unsound).unwrap_or(false));
        for of in &away {
            let (health, and) = match needs {
                true => (Health::Critical, ", and its last version needs it"),
                false => (Health::Warning, ""),
            };
            let still = match of.still.iter().any(|o| o.id == object) {
                _ if of.is_other_cells => "",
                true => ": its keep rules stand still",
                false => "; other media have what it lacks",
            };
            status.say(health, format!("{}{and}{still}", of.text()));
        }
    }

    /// What is wrong with media that have some of an object's last version.
    fn faults_of(&self, media: &[MediumId]) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for id in media {
            let Some(medium) = self.idb.medium(*id)? else { continue };
            let management = self.idb.management(*id)?;
            let label = &medium.label;
            // Of one that is retired it is told where that costs something: of the version.
            if management.damaged_us.is_some() && management.retired_us.is_none() {
                faults.push(format!(
                    "medium '{label}', which has some of its last version, was found damaged; {}",
                    self.ways_out_of_damage(*id, label)?
                ));
            }
            if let (Condition::Poor, reasons) = self.condition_of(&medium, &management)?
                && management.retired_us.is_none()
            {
                faults.push(format!(
                    "medium '{label}', which has some of its last version, is poor ({}); {}",
                    reasons.join(", "),
                    ways_out_of_poor(&medium, management.errors)
                ));
            }
        }
        Ok(faults)
    }

    /// What can be done about a medium that was found damaged.
    fn ways_out_of_damage(&self, id: MediumId, label: &str) -> Result<String> {
        let word = shell_word(label);
        let is_of_segments = self.idb.damaged_places()?.iter().any(|(medium, _)| *medium == id);
        Ok(match is_of_segments && !self.is_on_tape(id)? {
            true => format!(
                "`capstan verify --medium {word}` reads it again, and `capstan media repair {word}` mends what another medium has; what \
                 stays damaged goes with the versions that have it"
            ),
            false => format!("`capstan verify --medium {word}` says whether it still is"),
        })
    }

    fn faults_found(&self, id: MediumId) -> Result<Vec<String>> {
        match self.idb.medium(id)? {
            Some(medium) => self.faults_at_hand(&medium, &self.idb.management(id)?),
            None => Ok(Vec::new()),
        }
    }

    /// Which copies lack something of a version, or of what it builds on.
    pub(super) fn copies_that_lack(
        &self,
        version: &Version,
        lacking: &[(VersionId, MediumId)],
    ) -> Result<Vec<String>> {
        if lacking.is_empty() {
            return Ok(Vec::new());
        }
        let chain = capstan_catalog::version::chain(&self.idb, version.id)?;
        let is_of_it = |of: &&(VersionId, MediumId)| chain.iter().any(|v| v.id == of.0);
        let mut media: Vec<MediumId> = lacking.iter().filter(is_of_it).map(|of| of.1).collect();
        media.sort_unstable();
        media.dedup();
        let mut why = Vec::new();
        for medium in media {
            if self.idb.management(medium)?.retired_us.is_some() {
                continue;
            }
            let label = self.idb.medium(medium)?.map_or_else(|| medium.short(), |m| m.label);
            why.push(format!(
                "the copy of its last version on medium '{label}' lacks something, as what it was copied from did then: `capstan media \
                 repair '{label}'` brings that there once it can be had"
            ));
        }
        Ok(why)
    }

    /// The media that have something of a version, or of what it builds on.
    pub(super) fn media_of(&self, version: &Version) -> Result<Vec<MediumId>> {
        let mut media: Vec<MediumId> = Vec::new();
        for version in capstan_catalog::version::chain(&self.idb, version.id)? {
            for (segment, _) in self.idb.segments_of_version(version.id)? {
                if !media.contains(&segment.medium) {
                    media.push(segment.medium);
                }
            }
        }
        Ok(media)
    }
}
