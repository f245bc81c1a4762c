//! What a prune is asked for: of which objects, by which rules.

use capstan_address::HostName;
use std::collections::{HashMap, HashSet};

use capstan_catalog::CatalogError;
use capstan_catalog::version::chain;
use capstan_format::id::{ObjectId, VersionId};
use capstan_idb::Object;

use super::decide::Asked;
use super::report::PruneRequest;
use super::still::standing_still;
use crate::Cell;
use crate::error::{PruneRefusal, Result};
use crate::versions::away_media::AwayMedium;
use crate::versions::leap::{Leap, believed_by};

impl PruneRequest {
    /// The host of which objects are asked for; nothing, for those of all.
    pub(super) fn of_host(&self, here: &HostName) -> Option<HostName> {
        self.host.clone().or_else(|| self.give_up.then(|| here.to_owned()))
    }
}

impl Cell {
    /// What is asked for, as the versions are decided by it while these media are away, by the clock as it is.
    pub(super) fn asked<'a>(
        &self,
        request: &'a PruneRequest,
        away: &[AwayMedium],
    ) -> Result<Asked<'a>> {
        self.asked_by(request, away, self.leap()?)
    }

    /// The same by a leap that was found before: a run that removes what is old judges the clock once.
    pub(super) fn asked_by<'a>(
        &self,
        request: &'a PruneRequest,
        away: &[AwayMedium],
        leap: Option<Leap>,
    ) -> Result<Asked<'a>> {
        if request.give_up && (request.names.is_empty() || !request.rules.is_empty()) {
            return Err(PruneRefusal::GiveUpUnnamed.into());
        }
        // Who gives up objects names their host, if it is another one.
        let elsewhere = match request.give_up {
            true => HashMap::new(),
            false => self.decided_elsewhere(&self.idb.objects()?)?.into_iter().collect(),
        };
        let unsound = self.unsound_versions(&self.unsound_places()?)?;
        Ok(Asked {
            rules: &request.rules,
            give_up: request.give_up,
            leftovers: request.leftovers,
            unended_before_us: request.unended_before_us,
            objects: self.objects_asked(request)?,
            locks: HashMap::new(),
            lost: self.idb.lost_versions()?.into_iter().map(|of| (of.version, of)).collect(),
            damaged: unsound.damaged,
            out_of_use: unsound.out_of_use,
            lacking: self.lacking_paths()?,
            still: standing_still(away),
            elsewhere,
            not_at_hand: self.not_at_hand(away)?,
            of_others: self.versions_of_others()?,
            of_sets: self.versions_of_sets()?,
            in_turn: false,
            past_turn: HashSet::new(),
            crowded: self.crowded()?,
            now_us: believed_by(leap),
            leap,
            here: jiff::tz::TimeZone::system(),
        })
    }

    /// The newest complete versions of each object, down to the first that needs none of the media that are away, and all of whose bases
    /// are known.
    fn not_at_hand(&self, away: &[AwayMedium]) -> Result<HashSet<VersionId>> {
        let objects: HashSet<ObjectId> =
            away.iter().flat_map(|of| &of.objects).map(|object| object.id).collect();
        let mut found = HashSet::new();
        if objects.is_empty() {
            return Ok(found);
        }
        let unsound = self.unsound_places()?;
        for object in objects {
            let versions = self.idb.versions_of(object)?.into_iter();
            for version in versions.filter(|v| !v.null_device && v.is_complete_by(None)) {
                // One whose base nobody knows cannot be had, either.
                let knows_bases = match chain(&self.idb, version.id) {
                    Err(CatalogError::UnknownBase { .. }) => false,
                    chain => chain.map(|_| true)?,
                };
                if knows_bases && !self.needs(version.id, away, &unsound)? {
                    break;
                }
                found.insert(version.id);
            }
        }
        Ok(found)
    }

    /// The objects that are asked for; nothing, if that is all.
    pub(super) fn objects_asked(
        &self,
        request: &PruneRequest,
    ) -> Result<Option<HashSet<ObjectId>>> {
        let host = request.of_host(self.host());
        let is_of_host = |o: &Object| host.as_ref().is_none_or(|host| *host == o.host);
        if request.names.is_empty() {
            let Some(host) = &host else { return Ok(None) };
            let of_host: HashSet<_> =
                self.idb.objects()?.into_iter().filter(is_of_host).map(|o| o.id).collect();
            return match of_host.is_empty() {
                true => Err(PruneRefusal::UnknownHost { host: host.to_string() }.into()),
                false => Ok(Some(of_host)),
            };
        }
        let mut asked = HashSet::new();
        for name in &request.names {
            let all = self.idb.objects_by_name(name)?;
            if all.is_empty() {
                return Err(PruneRefusal::UnknownObject { name: name.clone() }.into());
            }
            asked.extend(all.iter().filter(|o| is_of_host(o)).map(|o| o.id));
            // One may be named twice.
            if let Some(host) = host.as_ref().filter(|_| !all.iter().any(is_of_host)) {
                let others: Vec<_> = all.iter().map(|o| format!("'{}'", o.host)).collect();
                return Err(PruneRefusal::OfAnotherHost {
                    name: name.clone(),
                    host: host.to_string(),
                    others: others.join(", "),
                }
                .into());
            }
        }
        Ok(Some(asked))
    }
}
