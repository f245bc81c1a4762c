//! Places that have a version and lack what it builds on, or a part of it, which others have: a mirror that was away some nights and
//! came back, or that failed in a session and takes part in the one which goes on. It restores nothing of them by itself.
//!
//! A place is a medium; of tapes their library, whichever of them has what. Of what lies on two tapes of a library there are two
//! copies, as many as of what lies on two disks.

use std::collections::{BTreeMap, HashMap, HashSet};

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, SegmentId, SessionId, VersionId};
use capstan_idb::Segment;

use crate::Cell;
use crate::error::Result;
use crate::media::libraries::libraries_for;
use crate::session::SessionLog;

/// What has all of a version or not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    Medium(MediumId),
    /// A library, or the libraries of arrays of tapes, as a device; and which of the copies there, from 1.
    Library(String, usize),
}

/// Where a segment of a version lies.
#[derive(Default)]
struct Lies {
    places: HashSet<Place>,
    /// Whether the segment itself lies there, and not copies alone.
    is_original: bool,
    /// The session that wrote it, and when.
    by: Option<(i64, SessionId)>,
}

impl Cell {
    /// The places that have all that the last session of a version wrote, and lack something of what was written before: by a session
    /// that it goes on with, or of what it builds on. A sentence each, with the command that brings it there. Where there are as many
    /// copies of that, wherever, nothing is lacking; where its original was given back
    /// after a copy, somebody wanted it so. Retired media count for nothing.
    pub(crate) fn mirrors_behind(&self, version: VersionId) -> Result<Vec<String>> {
        let chain = capstan_catalog::version::chain(&self.idb, version)?;
        let Some((_, below)) = chain.split_first() else { return Ok(Vec::new()) };
        let retired: HashSet<MediumId> = self.idb.retired_media()?.into_iter().collect();
        let own = self.lies_of(version, &retired)?;
        let last = own.values().filter_map(|of| of.by).max().map(|(_, session)| session);
        let (of_last, before): (Vec<&Lies>, Vec<&Lies>) =
            own.values().partition(|of| of.by.map(|(_, session)| session) == last);
        let mut all = of_last.into_iter().map(|of| &of.places);
        let Some(first) = all.next() else { return Ok(Vec::new()) };
        let shared: HashSet<Place> =
            all.fold(first.clone(), |shared, of| shared.intersection(of).cloned().collect());
        if shared.len() < 2 {
            return Ok(Vec::new());
        }
        // Each with the newest version that lacks there.
        let mut behind: BTreeMap<Place, VersionId> = BTreeMap::new();
        let mut look = |version: VersionId, lies: &mut dyn Iterator<Item = &Lies>| {
            for of in lies.filter(|of| of.is_original && of.places.len() < shared.len()) {
                for place in shared.difference(&of.places) {
                    behind.entry(place.clone()).or_insert(version);
                }
            }
        };
        look(version, &mut before.into_iter());
        for version in below {
            look(version.id, &mut self.lies_of(version.id, &retired)?.values());
        }
        let name = self.name_of_version(version)?;
        let mut said = Vec::new();
        let mut libraries: HashSet<String> = HashSet::new();
        for (place, lacks) in behind {
            let has = match lacks == version {
                true => format!("a part of {name} only"),
                false => format!("{name} and not all that it builds on"),
            };
            // What is there already is not copied once more; what was given up is copied with what builds on it.
            let lacks = match self.idb.keeping(lacks)?.expired_us {
                None => self.name_of_version(lacks)?,
                Some(_) => name.clone(),
            };
            let (what, device) = match place {
                // One copy is brought there after the other.
                Place::Library(library, _) if !libraries.insert(library.clone()) => continue,
                Place::Library(library, 1) => (library.clone(), library),
                Place::Library(library, copies) => {
                    said.push(format!(
                        "{library} has {copies} copies of {name}, and fewer of what it builds on: `capstan copy {} --to {}` makes one \
                         more there",
                        shell_word(&lacks),
                        shell_word(&library)
                    ));
                    continue;
                }
                Place::Medium(id) => {
                    let Some(medium) = self.idb.medium(id)? else { continue };
                    (format!("medium '{}'", medium.label), medium.device.to_string())
                }
            };
            said.push(format!(
                "{what} has {has}, so it is not enough by itself: `capstan copy {} --to {}` brings \
                 it there",
                shell_word(&lacks),
                shell_word(&device)
            ));
        }
        Ok(said)
    }

    /// How many places have all of what a version has of its own, at least.
    pub(crate) fn copies_of(&self, version: VersionId) -> Result<usize> {
        let retired: HashSet<MediumId> = self.idb.retired_media()?.into_iter().collect();
        let lies = self.lies_of(version, &retired)?;
        Ok(lies.values().map(|of| of.places.len()).min().unwrap_or(0))
    }

    /// Says of a version that was just written to mirrors which of them lack what it builds on.
    pub(crate) fn say_mirrors_behind(
        &self,
        version: VersionId,
        name: &str,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        for text in self.mirrors_behind(version)? {
            log.say(Code::MirrorBehind, "cell", name, text);
        }
        Ok(())
    }

    /// The segments that a version needs of its own, wherever they lie: also those that say no more than that a session ended in which
    /// nothing had changed. Without them a medium alone does not have the version.
    fn all_of_version(&self, version: VersionId) -> Result<Vec<Segment>> {
        let data = self.idb.segments_of_version(version)?;
        let mut all: Vec<Segment> = data.into_iter().map(|(segment, _)| segment).collect();
        all.extend(self.idb.ends_of_version(version)?);
        if all.is_empty() {
            all = self.idb.end_beside(version)?;
        }
        Ok(all)
    }

    /// Where a version's own segments lie, by original.
    fn lies_of(
        &self,
        version: VersionId,
        but: &HashSet<MediumId>,
    ) -> Result<HashMap<SegmentId, Lies>> {
        let copies = self.idb.copies_of_version(version)?;
        let mut lies: HashMap<SegmentId, Lies> = HashMap::new();
        let mut known: HashSet<(SegmentId, MediumId)> = HashSet::new();
        for segment in self.all_of_version(version)? {
            let copy = copies.get(&segment.id);
            let (origin, lacks) = copy.map_or((segment.id, 0), |of| (of.origin, of.lacks));
            if lacks > 0 || but.contains(&segment.medium) {
                continue;
            }
            let of = lies.entry(origin).or_default();
            of.is_original |= copy.is_none();
            if copy.is_none() {
                of.by = Some((segment.committed_us, segment.session));
            }
            // On one medium it may lie twice, where it was mended.
            if known.insert((origin, segment.medium)) {
                let mut place = self.side_place(segment.medium)?;
                while !of.places.insert(place.clone()) {
                    let Place::Library(_, copy) = &mut place else { break };
                    *copy += 1;
                }
            }
        }
        Ok(lies)
    }

    fn side_place(&self, medium: MediumId) -> Result<Place> {
        let device = self.idb.medium(medium)?.map(|row| row.device);
        let libraries = device.as_ref().and_then(libraries_for);
        Ok(libraries.map_or(Place::Medium(medium), |of| Place::Library(of.to_string(), 1)))
    }
}
