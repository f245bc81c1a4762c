//! Versions of which something is to be had nowhere, as far as is known. They are complete on paper only, so nothing else goes for their
//! sake. One rule judges all: each segment of a version, and of what it builds on, has to be at a place that is recorded, that is a
//! whole copy, that nobody found damaged, and that is not on a medium that was retired or exported and does not have it. Media that
//! are away though nobody took them away are judged besides ([`crate::versions::away_media::AwayMedium`]): these may come back any day.

use std::collections::{HashMap, HashSet};

use capstan_address::{Address, TapeAddress};
use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, SegmentId, VersionId};
use capstan_idb::{Claim, Loss, LostData, Management, Medium, torn};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::{Libraries, other_host, tape_away};
use crate::session::local;

/// Versions that are known to be damaged, each with the labels of the media that have the damaged segments.
pub(crate) type DamagedVersions = HashMap<VersionId, String>;

/// Places that are recorded and that nobody may rely on.
pub(crate) struct Unsound {
    /// What verify, drill, restore, copy, stage or repair found damaged.
    damaged: HashSet<(MediumId, SegmentId)>,
    /// What media in use no more do not have; all, where no segments are named.
    out_of_use: HashMap<MediumId, OutOfUse>,
}

/// A medium that was retired or exported, and that does not have all that is recorded of it.
struct OutOfUse {
    /// In words, behind its name.
    why: &'static str,
    segments: Option<HashSet<SegmentId>>,
    /// Whether another host has it, which knows whether it is at hand.
    is_elsewhere: bool,
}

/// Versions of which something is at no sound place.
#[derive(Default)]
pub(crate) struct UnsoundVersions {
    /// Those that were found damaged.
    pub damaged: DamagedVersions,
    /// Those of which only retired or exported media have something, which do not have it or are not at hand; in a sentence.
    pub out_of_use: HashMap<VersionId, String>,
}

impl Unsound {
    /// Without media of other hosts, of which nothing is known here.
    pub fn of_this_host(mut self) -> Self {
        self.out_of_use.retain(|_, of| !of.is_elsewhere);
        self
    }

    /// Whether nobody may rely on a segment on a medium.
    pub fn has(&self, medium: MediumId, segment: SegmentId) -> bool {
        self.damaged.contains(&(medium, segment)) || self.is_out_of_use(medium, segment)
    }

    fn is_out_of_use(&self, medium: MediumId, segment: SegmentId) -> bool {
        let of = self.out_of_use.get(&medium);
        of.is_some_and(|of| of.segments.as_ref().is_none_or(|segments| segments.contains(&segment)))
    }
}

impl Cell {
    /// The places that nobody may rely on. Media that were retired or exported are looked at where they should be; tapes are not loaded
    /// for it.
    pub(crate) fn unsound_places(&self) -> Result<Unsound> {
        let mut out_of_use = HashMap::new();
        let mut libraries = Libraries::new();
        for medium in self.idb.media()? {
            let management = self.idb.management(medium.id)?;
            if management.retired_us.is_some() || management.exported_us.is_some() {
                let of = self.out_of_use(&medium, &management, &mut libraries)?;
                out_of_use.extend(of.map(|of| (medium.id, of)));
            }
        }
        Ok(Unsound { damaged: self.idb.damaged_places()?, out_of_use })
    }

    fn out_of_use(
        &self,
        medium: &Medium,
        management: &Management,
        libraries: &mut Libraries,
    ) -> Result<Option<OutOfUse>> {
        let is_elsewhere = other_host(&self.idb, medium).is_some();
        let all = |why| Ok(Some(OutOfUse { why, segments: None, is_elsewhere }));
        let is_retired = management.retired_us.is_some();
        let address = match &medium.device {
            Address::Null { .. } => return Ok(None),
            Address::Unknown(_) if is_retired => return all("is retired and not at hand"),
            Address::Unknown(_) => return Ok(None),
            address => address,
        };
        if address.as_tape().is_some() && management.changed_us.is_some() {
            return all("is not as it was last written");
        }
        let is_away = match &address {
            // Nobody can say of a tape on a shelf whether it is still there.
            Address::Tape(TapeAddress { tape: None, .. }) => true,
            Address::Tape(_) => tape_away(&*self.devices, address, libraries).is_some(),
            _ => match self.lacking_in_place(medium, address) {
                Ok(None) => true,
                Ok(Some(segments)) if segments.is_empty() => return Ok(None),
                Ok(Some(segments)) => {
                    let why = match is_retired {
                        true => "is retired and lacks some of it",
                        false => "is recorded as exported, is at hand and lacks some of it",
                    };
                    let segments = Some(segments);
                    return Ok(Some(OutOfUse { why, segments, is_elsewhere: false }));
                }
                Err(CellError::Device(_)) => true,
                Err(e) => return Err(e),
            },
        };
        match is_away && is_retired {
            true => all("is retired and not at hand"),
            // It is away on purpose.
            false => Ok(None),
        }
    }

    /// The same with tapes that are not as they were last written: what they still have of it only an import says. To prune they are
    /// away, so its rules stand still.
    pub(crate) fn with_changed_tapes(&self, mut unsound: Unsound) -> Result<Unsound> {
        for id in self.idb.changed_media()? {
            let Some(medium) = self.idb.medium(id)? else { continue };
            if medium.device.is_sequential() {
                let is_elsewhere = other_host(&self.idb, &medium).is_some();
                let why = "is not as it was last written";
                unsound.out_of_use.insert(id, OutOfUse { why, segments: None, is_elsewhere });
            }
        }
        Ok(unsound)
    }

    /// The versions of which a segment, or one of what they build on, is at no place on which anybody may rely.
    pub(crate) fn unsound_versions(&self, unsound: &Unsound) -> Result<UnsoundVersions> {
        if unsound.damaged.is_empty() && unsound.out_of_use.is_empty() {
            return Ok(UnsoundVersions::default());
        }
        let claims = self.all_claims()?;
        let torn = torn(&claims, |c| unsound.has(c.medium, c.segment));
        // What is damaged may be mended, whatever else lies on media that are in use no more.
        let mut damaged: HashMap<VersionId, HashSet<MediumId>> = HashMap::new();
        let mut out_of_use: HashMap<VersionId, HashSet<MediumId>> = HashMap::new();
        let is_torn = |c: &&Claim| torn.contains(&(c.version, c.origin));
        for claim in claims.iter().filter(is_torn) {
            if unsound.damaged.contains(&(claim.medium, claim.segment)) {
                damaged.entry(claim.version).or_default().insert(claim.medium);
            } else if unsound.is_out_of_use(claim.medium, claim.segment) {
                out_of_use.entry(claim.version).or_default().insert(claim.medium);
            }
        }
        let rows = self.idb.prune_rows()?;
        let base: HashMap<VersionId, VersionId> =
            rows.iter().filter_map(|row| Some((row.version.id, row.version.base?))).collect();
        let of_chain = |media: &HashMap<VersionId, HashSet<MediumId>>, version: VersionId| {
            let (mut at, mut seen) = (Some(version), HashSet::new());
            let mut of: Vec<MediumId> = Vec::new();
            while let Some(id) = at.filter(|id| seen.insert(*id)) {
                of.extend(media.get(&id).into_iter().flatten());
                at = base.get(&id).copied();
            }
            of.sort_unstable();
            of.dedup();
            of
        };
        let mut found = UnsoundVersions::default();
        for row in &rows {
            let id = row.version.id;
            let of = of_chain(&damaged, id);
            if !of.is_empty() {
                let mut labels = self.labels(of.iter())?;
                labels.sort_unstable();
                labels.dedup();
                found.damaged.insert(id, labels.join("', '"));
                continue;
            }
            let of = of_chain(&out_of_use, id);
            let mut media = Vec::new();
            for medium in of {
                let label = self.labels([medium].iter())?.concat();
                let why = unsound.out_of_use.get(&medium).map_or("", |of| of.why);
                media.push(format!("on medium '{label}', which {why}"));
            }
            if !media.is_empty() {
                media.sort_unstable();
                found.out_of_use.insert(id, format!("some of it is only {}", media.join(", and ")));
            }
        }
        Ok(found)
    }
}

/// Why a version is not whole.
pub(crate) fn lost_text(lost: &LostData) -> String {
    match &lost.loss {
        Loss::Medium { label, lost_us } => format!(
            "medium '{label}' was imported as it is on {}, and had lost something of it",
            local(*lost_us)
        ),
        Loss::Copy { label } => format!(
            "the copy on medium '{label}' lacks something of it, as what it was copied from did, and nothing else that is known has that"
        ),
        Loss::Segments => {
            "some of it is on no medium that is known; import the medium that has it".to_owned()
        }
        Loss::Base(base) => format!(
            "version {}, which it builds on, is not known; import the medium that has it",
            base.short()
        ),
    }
}

/// That a version is damaged, on which media, in a sentence's rest.
pub(crate) fn damaged_text(labels: &str) -> String {
    let medium = if labels.contains("', '") { "media" } else { "medium" };
    format!("was found damaged on {medium} '{labels}', and no other medium has what is damaged")
}

/// What takes that away, where it is not so any more: a drive may have read badly, and another reads it whole.
pub(crate) fn read_again_text(labels: &str) -> String {
    let verify = |label| format!("`capstan verify --medium {}`", shell_word(label));
    let each: Vec<String> = labels.split("', '").map(verify).collect();
    format!("{} reads it again, and what is whole counts again", each.join(" and "))
}

/// The versions that stay, each with the reason.
pub(crate) type Stays = HashMap<VersionId, String>;
