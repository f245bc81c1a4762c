//! Incremental backups: which version one builds on, and whether that can be built on.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use capstan_address::LibraryName;
use capstan_catalog::places::SegmentPlace;
use capstan_catalog::version::{Merged, chain};
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, SegmentId, SessionId, VersionId};
use capstan_idb::{Object, Status, Version};

use crate::Cell;
use crate::error::{self, BackupRefusal, Result};
use crate::keys::names_key;
use crate::kinds::backup::base::resume::Cursor;
use crate::reading::version::VersionView;
use crate::request::Level;
use crate::session::SessionLog;

/// What makes incrementals run where no secret is at hand.
const NAMES_KEY_HELPS: &str = "; `capstan key names`, with a secret at hand, makes or completes the key with which incrementals run \
                               unattended";

/// So many of the last versions are looked at for one that is kept together with what is written.
const CANDIDATES: usize = 64;

/// What an incremental builds on.
pub(crate) struct Based<'a> {
    pub version: VersionId,
    /// The session that completed it.
    pub session: SessionId,
    pub cursor: Cursor<'a>,
}

/// Where a base lies that whoever keeps the media that are written may not have.
struct Apart {
    /// Labels of these media.
    labels: Vec<String>,
    /// Whether something of the version itself is there, and not only of what it builds on.
    is_own: bool,
}

/// What a backup that was asked for no level builds on.
enum Beside<'v> {
    /// That version.
    Builds(&'v Version),
    /// None: all that is kept with it goes before it.
    Slower,
    /// None: they lie elsewhere, as that says.
    Apart(String),
}

const SLOWER_SET: &str = "this is a full backup: nothing lies on media of a slower rotation set that are kept for longer than it";

/// Why a backup that is encrypted does not build on what is not, or the other way round.
const fn encrypted_otherwise(encrypted: bool) -> &'static str {
    match encrypted {
        true => {
            "this one is encrypted, and what it would build on is not; --incr builds on that all the same"
        }
        false => {
            "what it would build on is encrypted, and this one is not; --incr builds on that all the same"
        }
    }
}

impl Cell {
    /// Whether a backup ended before it committed anything.
    fn has_nothing(&self, version: &Version) -> Result<bool> {
        let is_ended = matches!(version.status, Status::Incomplete | Status::Failed);
        Ok(is_ended && !self.idb.has_segments(version.id)?)
    }

    /// Whether the last backup of an object was a full one that ended before it committed anything.
    pub(crate) fn began_full_in_vain(&self, object: &Object) -> Result<bool> {
        let versions = self.idb.versions_of(object.id)?;
        match versions.iter().find(|v| !v.null_device) {
            Some(last) => Ok(last.method == Level::Full.to_string() && self.has_nothing(last)?),
            None => Ok(false),
        }
    }

    /// The version that a backup builds on; `None` if it is a full one, or has to be one, which is said where something else
    /// was asked for, or could be expected. It may lie on any number of media. Where nothing was asked for, it is the last one that is kept
    /// together with the media that are written, so that disks that take turns are each enough by themselves, and encrypted if this one
    /// is: who begins to encrypt wants all encrypted.
    pub(crate) fn base_for(
        &self,
        object: &Object,
        asked: Option<Level>,
        media: &[MediumId],
        encrypted: bool,
        log: &SessionLog<'_>,
        notes: &mut Vec<String>,
    ) -> Result<Option<Based<'_>>> {
        let level = asked.unwrap_or(Level::Incremental);
        if level == Level::Full {
            return Ok(None);
        }
        let mut versions = self.idb.versions_of(object.id)?;
        versions.retain(|v| !v.null_device);
        let full = |why: &str| {
            let text = format!("a full backup is made: {why}");
            log.say(Code::NoBase, "cell", &object.name, text);
        };
        let Some(last) = versions.iter().find(|v| is_base(v, level)) else {
            // The first, or one after all were given up, surprises nobody who asked for no level.
            match (self.is_first(&versions)?, asked) {
                (true, None) => {}
                (true, Some(_)) => {
                    let text = format!(
                        "a full backup is made: there is no version that {level} builds on"
                    );
                    log.say(Code::Adapted, "cell", &object.name, text);
                }
                (false, _) => full(&format!(
                    "none of its earlier versions is complete and of a level that {level} builds on"
                )),
            }
            return Ok(None);
        };
        let beside = match asked {
            Some(_) => Beside::Builds(last),
            None => {
                let candidates = versions.iter().filter(|v| is_base(v, level)).take(CANDIDATES);
                self.base_beside(candidates, last, media)?
            }
        };
        let base = match beside {
            Beside::Builds(base) => base,
            Beside::Slower => {
                notes.push(SLOWER_SET.to_owned());
                return Ok(None);
            }
            Beside::Apart(why) => {
                full(&why);
                return Ok(None);
            }
        };
        match self.open_if_whole(base)? {
            Ok(based) if asked.is_none() && !based.cursor.is_all_encrypted(encrypted) => {
                full(encrypted_otherwise(encrypted));
                Ok(None)
            }
            Ok(based) => {
                if asked.is_some() {
                    notes.extend(self.needs_other_media(base.id, media)?);
                }
                Ok(Some(based))
            }
            Err(e) => {
                let mut text =
                    format!("what {level} builds on is not all at hand: {}", error::chain(&e));
                if e.is_of_keys() {
                    notes.push(self.full_for_want_of_keys());
                    text.push_str(NAMES_KEY_HELPS);
                }
                full(&text);
                Ok(None)
            }
        }
    }

    /// Opens the version that a backup is to build on; the inner error says why it cannot be built on.
    fn open_if_whole(&self, base: &Version) -> Result<Result<Based<'_>>> {
        Ok(match self.lost_of(base.id)? {
            Some(why) => Err(BackupRefusal::BaseNotWhole { why }.into()),
            None => self.open_base(base),
        })
    }

    /// What is to be noted where a base was asked for that lies on other media than those that are written.
    fn needs_other_media(&self, base: VersionId, media: &[MediumId]) -> Result<Option<String>> {
        let labels = self.apart(base, media)?.labels;
        Ok((!labels.is_empty()).then(|| {
            format!(
                "this builds on what lies on {}: a restore needs both; --full makes a backup that is enough by itself",
                labels.join(", ")
            )
        }))
    }

    /// Whether none of an object's versions, newest first, is one that a backup could go by. One that failed said so then: what the
    /// next one did instead, maybe at once, surprises nobody.
    fn is_first(&self, versions: &[Version]) -> Result<bool> {
        for version in versions {
            let is_none = matches!(version.status, Status::Failed | Status::Running);
            if !is_none && !self.has_nothing(version)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first of these versions that is kept with what is written to these media, and as long. `last` is the first of all.
    fn base_beside<'v>(
        &self,
        mut candidates: impl Iterator<Item = &'v Version>,
        last: &Version,
        media: &[MediumId],
    ) -> Result<Beside<'v>> {
        let mut is_near = false;
        let seats = self.seats()?;
        let together = candidates.find(|version| {
            // Why it cannot be looked at is why it cannot be built on.
            let is_together =
                self.apart(version.id, media).map_or(true, |apart| apart.labels.is_empty());
            is_near |= is_together;
            is_together && !self.goes_before(&seats, version.id, media).unwrap_or(false)
        });
        Ok(match together {
            Some(base) => Beside::Builds(base),
            None if is_near => Beside::Slower,
            None => {
                let Apart { labels, is_own } = self.apart(last.id, media)?;
                let lies = match is_own {
                    true => "the last version lies on",
                    false => "the last version builds on what lies on",
                };
                Beside::Apart(format!(
                    "{lies} {}, and this one is to be enough by itself; --incr builds on that all the same",
                    labels.join(", ")
                ))
            }
        })
    }

    /// What a report says of a backup that is full because the names of the last one do not open.
    fn full_for_want_of_keys(&self) -> String {
        match names_key::load(&self.home) {
            Ok(Some(_)) => "this is a full backup: the names of the last one are encrypted, and the names key of this home, \
                            which was made later, does not open them; those that follow build on this one. `capstan key names`, \
                            with a secret, lets it open the earlier ones too"
                .to_owned(),
            _ => "this is a full backup: the names of the last one are encrypted, and nothing at hand opens them; give \
                  CAPSTAN_PASSPHRASE or a key file, or let `capstan key names` make a names key, with which incrementals \
                  run unattended"
                .to_owned(),
        }
    }

    /// The media that a base lies on and that whoever keeps those that are written may not know of: what lies there lies not on
    /// these, was not staged from them, and they are neither of the same pool nor of the same library.
    fn apart(&self, base: VersionId, media: &[MediumId]) -> Result<Apart> {
        let sessions = self.idb.sessions_of_version(base)?;
        let mut is_own = false;
        let view = VersionView::open(self, base)?;
        let mut staged = HashMap::new();
        let mut copies: Option<HashSet<SegmentId>> = None;
        let mut labels: Vec<String> = Vec::new();
        let mut kin = HashMap::new();
        // A night in which nothing changed is in the chain as well, with no more than its end.
        for segment in view.segments.iter().chain(&view.ends()?) {
            let places = segment.whole_places();
            let mut near = places.iter().any(|(_, id, _)| media.contains(id));
            let mut by_it = false;
            for medium in media.iter().filter(|_| !near) {
                by_it |= match staged.entry((segment.by, *medium)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => *new.insert(self.was_staged(segment.by, *medium)?),
                };
            }
            // What was staged away is there as copies. What is as it was written is on another disk that was in the same place then.
            if by_it {
                let copies = match &mut copies {
                    Some(copies) => copies,
                    none => none.insert(self.copies_in(base)?),
                };
                near = places.iter().all(|(id, ..)| copies.contains(id));
            }
            for (_, on, _) in &places {
                near |= match kin.entry(*on) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(new) => *new.insert(self.are_kept_together(*on, media)?),
                };
            }
            let Some((_, on, _)) = places.first().filter(|_| !near) else { continue };
            is_own |= sessions.iter().any(|session| session.id == segment.by);
            if let Some(row) = self.idb.medium(*on)?
                && !labels.contains(&row.label)
            {
                labels.push(row.label);
            }
        }
        Ok(Apart { labels, is_own })
    }

    /// The segments of a version, and of what it builds on, that are copies.
    fn copies_in(&self, version: VersionId) -> Result<HashSet<SegmentId>> {
        let mut copies = HashSet::new();
        for version in chain(&self.idb, version)? {
            copies.extend(self.idb.copies_of_version(version.id)?.into_keys());
        }
        Ok(copies)
    }

    /// Whether a medium is of the pool or of a library of one of these. An array of tapes is of each library that its tapes are of.
    pub(crate) fn are_kept_together(&self, medium: MediumId, media: &[MediumId]) -> Result<bool> {
        let of = |id| -> Result<_> {
            let tapes = self.tapes_of(id).into_iter().map(|tape| tape.library);
            Ok((self.idb.management(id)?.pool, tapes.collect::<Vec<LibraryName>>()))
        };
        let (pool, libraries) = of(medium)?;
        for other in media {
            let (its_pool, its_libraries) = of(*other)?;
            let has_library = || libraries.iter().any(|library| its_libraries.contains(library));
            if pool.is_some() && pool == its_pool || has_library() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether what a session wrote lay on a medium and was brought elsewhere from there. Nothing but a stage takes segments
    /// of a version from a medium that keeps its identity and leaves the version. Sessions name their device; there is one medium
    /// in a directory, on tape there are others that it may have gone on on.
    fn was_staged(&self, session: SessionId, medium: MediumId) -> Result<bool> {
        let (Some(session), Some(medium)) = (self.idb.session(session)?, self.idb.medium(medium)?)
        else {
            return Ok(false);
        };
        let on_disk = medium.device.is_on_stores();
        // A session that ended before wrote a medium that was given up since.
        let on_this = session.ended_us.unwrap_or(session.started_us) >= medium.created_us;
        let (device, place) = (session.device.as_str(), medium.device.to_string());
        let there = device == place || device.split(", ").any(|d| d == place);
        Ok(on_disk && on_this && there)
    }

    /// Opens a version and all that it builds on; an error if any segment of them cannot be opened.
    fn open_base(&self, base: &Version) -> Result<Based<'_>> {
        let view = VersionView::open(self, base.id)?;
        self.require_to_build_on(&view)?;
        // A session without data is in the chain as well: without its end a restore does not know the version.
        let damage = self.known_damage()?;
        for place in view.ends()? {
            self.refuse_damaged(&place, &damage)?;
            view.require_or_known_away(&place)?;
        }
        let session = self.writer_of(base.id)?.map(|s| s.id);
        Ok(Based {
            version: base.id,
            session: session.unwrap_or(SessionId(base.id.0)),
            cursor: self.cursor_in(view)?,
        })
    }

    /// Looks names up in a version that is built on. An error if some of its names are lost, or cannot be read now: their media are
    /// away, or their drive is busy, as in a library of one drive. A full is made then, once.
    pub(super) fn cursor_in<'a>(&'a self, mut view: VersionView<'a>) -> Result<Cursor<'a>> {
        self.add_keys(&mut view, false)?;
        self.look_at_names(&view)?;
        match view.names_lost() {
            Some(e) => Err(e),
            None => Ok(Cursor::new(Merged::with_sums(view.into_rows())?)),
        }
    }
}

impl Cell {
    /// Refuses a version of which any segment cannot be read: what is built on it would lack that, and the source has its files still.
    pub(crate) fn require_to_build_on(&self, view: &VersionView<'_>) -> Result<()> {
        let damage = self.known_damage()?;
        for place in &view.segments {
            self.refuse_damaged(place, &damage)?;
            view.require_or_known_away(place)?;
        }
        Ok(())
    }

    fn known_damage(&self) -> Result<KnownDamage> {
        let places = self.idb.damaged_places()?;
        let named = places.iter().map(|(medium, _)| *medium).collect();
        Ok(KnownDamage { places, named })
    }

    /// Refuses a segment that is nowhere but where it was found damaged, or on tapes that are not as they were last written: the source
    /// has its files still. What else of a medium is damaged says nothing of it, but on a tape of which no segment is known for the damage:
    /// any may be. What lies in a directory is opened, so it need not be taken from what is recorded.
    fn refuse_damaged(&self, place: &SegmentPlace, damage: &KnownDamage) -> Result<()> {
        let mut why_not = None;
        for (segment, medium, _) in place.whole_places() {
            let of = self.idb.management(medium)?;
            let label = || -> Result<String> {
                Ok(self.idb.medium(medium)?.map_or_else(|| medium.short(), |m| m.label))
            };
            let why = if damage.places.contains(&(medium, segment)) {
                BackupRefusal::BasePartDamaged { label: label()? }
            } else if of.damaged_us.is_some()
                && !damage.named.contains(&medium)
                && self.is_on_tape(medium)?
            {
                BackupRefusal::BaseMediumDamaged { label: label()? }
            } else if of.changed_us.is_some() && self.is_on_tape(medium)? {
                let why = of.changed_why.unwrap_or_default();
                BackupRefusal::BaseMediumChanged { label: label()?, why }
            } else {
                return Ok(());
            };
            why_not = why_not.or(Some(why));
        }
        why_not.map_or(Ok(()), |why| Err(why.into()))
    }
}

/// Damage that was found and that nobody took back.
struct KnownDamage {
    places: HashSet<(MediumId, SegmentId)>,
    /// The media of which segments are known for it.
    named: HashSet<MediumId>,
}

fn is_base(version: &Version, level: Level) -> bool {
    let lower = version.method.parse::<Level>().is_ok_and(|of| level.builds_on(of));
    version.is_complete_by(None) && lower && !version.null_device
}
