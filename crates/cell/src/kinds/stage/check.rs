//! Reading copies back from where they were staged to, and holding them against their originals.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::catalog::Contents;
use capstan_format::id::{MediumId, SegmentId, VersionId};
use capstan_idb::Version;
use capstan_medium::OpenMedium;
use capstan_port::media::read::findings::Scan;

use super::Reasons;
use super::source::Sources;
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::kinds::copy::staged_on::Target;
use crate::observe::Stop;
use crate::reading::unread::of_way;
use crate::reading::version::VersionView;
use crate::session::transfers::watched;
use crate::session::{SessionLog, now_us};

/// What came of it.
#[derive(Default)]
pub(super) struct Checked {
    /// The versions of which not all has a whole copy, and why.
    pub bad: Reasons,
    /// The copies that others rely on from now on, by version.
    pub relied_on: HashMap<VersionId, Vec<Place>>,
    /// Bytes read.
    pub bytes: u64,
}

/// A copy to check.
struct Check<'a> {
    view: &'a VersionView<'a>,
    version: &'a Version,
    place: &'a SegmentPlace,
    /// Where its data lie on the media that are staged.
    originals: Vec<Place>,
    copy: Place,
}

/// Why a copy cannot stand for its original.
enum Flaw {
    /// What lies on the medium cannot be read as it was written.
    OfMedium(String),
    /// It never was whole, or its medium is not at hand.
    OfCopy(String),
}

impl Flaw {
    fn why(&self) -> &str {
        match self {
            Self::OfMedium(why) | Self::OfCopy(why) => why,
        }
    }
}

impl Cell {
    /// Reads the copies of all segments that versions have on the media that are staged, medium by medium, in the order in
    /// which they lie there.
    pub(super) fn check_copies(
        &self,
        chosen: &[Version],
        sources: &Sources,
        target: &Target,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Checked> {
        let mut views = Vec::new();
        for version in chosen {
            views.push(VersionView::open_alone(self, version.clone())?);
        }
        let mut checked = Checked::default();
        let mut checks: Vec<Check<'_>> = Vec::new();
        for (view, version) in views.iter().zip(chosen) {
            for place in view.segments.iter().filter(|p| lies_on(p, sources)) {
                let places = place.places();
                let originals = places.into_iter().filter(|p| sources.has(p.1)).collect();
                // The last one is the newest: an earlier one may be on what was found damaged since.
                let mut copies =
                    place.whole_places().into_iter().rev().filter(|p| !sources.has(p.1));
                match copies.find(|p| target.has(self, p.1)) {
                    Some(copy) => checks.push(Check { view, version, place, originals, copy }),
                    None => {
                        let why = "not all of it was copied".to_owned();
                        checked.bad.entry(version.id).or_insert(why);
                    }
                }
            }
        }
        // Of what is not there as a whole nothing goes: it need not be read now.
        checks.retain(|check| !checked.bad.contains_key(&check.version.id));
        let order = self.media_in_order(&checks)?;
        checks.sort_by_key(|c| (order.get(&c.copy.1).copied(), c.copy.2));
        let meters = Meters::default();
        let total = checks.iter().map(|c| c.place.bytes).sum();
        watched(self.devices.waits(), &meters, log, total, || {
            self.read_all(&checks, &mut checked, &meters, log, stop);
        });
        checked.bytes = meters.of(Stage::Source).read().bytes;
        Ok(checked)
    }

    fn read_all(
        &self,
        checks: &[Check<'_>],
        checked: &mut Checked,
        meters: &Meters,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) {
        let source = meters.of(Stage::Source);
        let mut media: HashMap<MediumId, std::result::Result<OpenMedium, String>> = HashMap::new();
        let mut lap = Lap::start();
        for (at, check) in checks.iter().enumerate() {
            if stop.0.load(Relaxed) {
                return;
            }
            let (_, id, _) = check.copy;
            if let Some(before) = at.checked_sub(1).and_then(|at| checks.get(at))
                && before.copy.1 != id
            {
                self.done_reading(before.copy.1);
            }
            let open = || {
                let medium = self.medium_at_hand(id)?;
                self.open_drive_key(medium.header()).map(|()| medium)
            };
            let opened = media.entry(id).or_insert_with(|| open().map_err(|e| chain(&e)));
            let result = match opened {
                Ok(medium) => check.read(self, medium),
                Err(why) => Err(Flaw::OfCopy(why.clone())),
            };
            lap.busy(source);
            match result {
                Ok(bytes) => {
                    source.bytes(bytes);
                    let relied_on = checked.relied_on.entry(check.version.id).or_default();
                    relied_on.push(check.copy);
                }
                Err(_) if stop.0.load(Relaxed) => return,
                Err(flaw) => {
                    let recorded = match &flaw {
                        Flaw::OfMedium(_) => self.idb.put_damage(id, &[check.copy.0], now_us()),
                        Flaw::OfCopy(_) => Ok(()),
                    };
                    let label = self.labels([id].iter()).unwrap_or_default().concat();
                    if let Err(e) = recorded {
                        log.say(Code::Adapted, "cell", &label, chain(&e));
                    }
                    let why = format!("its copy on '{label}' does not verify: {}", flaw.why());
                    self.say_bad(check, &why, checked, log);
                }
            }
        }
    }

    /// Says once of a version that its copy is not whole.
    fn say_bad(&self, check: &Check<'_>, why: &str, checked: &mut Checked, log: &SessionLog<'_>) {
        let id = check.version.id;
        if checked.bad.insert(id, why.to_owned()).is_none() {
            let object = self.idb.object(check.version.object).ok().flatten();
            let name = object.map(|o| o.name).unwrap_or_default();
            let text = format!("{why}; nothing of it is given back");
            log.say(Code::Damaged, "media agent", &name, text);
        }
    }

    /// The media of copies in the order in which they were written.
    fn media_in_order(
        &self,
        checks: &[Check<'_>],
    ) -> Result<HashMap<MediumId, (Option<i64>, MediumId)>> {
        let mut order = HashMap::new();
        for check in checks {
            let id = check.copy.1;
            if let std::collections::hash_map::Entry::Vacant(place) = order.entry(id) {
                place.insert((self.idb.holdings(id)?.last_us, id));
            }
        }
        Ok(order)
    }
}

/// Whether a segment is on a medium that is staged.
fn lies_on(place: &SegmentPlace, sources: &Sources) -> bool {
    place.places().iter().any(|p| sources.has(p.1))
}

impl Check<'_> {
    /// Reads the copy; its bytes, or why it cannot stand for its original.
    fn read(&self, cell: &Cell, medium: &OpenMedium) -> std::result::Result<u64, Flaw> {
        let (segment, _, number) = self.copy;
        let damaged = |e: capstan_port::media::read::error::ReadError| match of_way(&e) {
            Some(why) => Flaw::OfCopy(why),
            None => Flaw::OfMedium(chain(&e)),
        };
        let reader = cell.read_segment(medium, number).map_err(damaged)?;
        let read = reader.scan().map_err(damaged)?;
        // Which of several copies is known first says nothing, where what they are copies of is lost.
        let other = self.originals.iter().find(|at| at.0 != segment);
        let original = match other {
            Some(at) if self.place.segment == segment => self.view.contents_at(self.place, *at),
            _ => self.view.contents(self.place).map_err(CellError::from),
        };
        let original = original.map_err(|e| Flaw::OfCopy(chain(&e)))?;
        let is_known = original.header.as_ref().is_none_or(|h| h.segment != segment);
        // What was damaged before it was copied is no fault of the medium: the copy says itself that it is not there.
        if let Some(says) = read.catalog.as_ref().filter(|_| is_known) {
            has_all_of(says, &original).map_err(Flaw::OfCopy)?;
        }
        is_whole(&read, segment).map_err(Flaw::OfMedium)?;
        // A mirror is no copy of what it is held against: it is the same segment, and says itself what it holds.
        let is_mirror = self.originals.iter().any(|at| at.0 == segment);
        if is_known || is_mirror {
            has_all_of(&read.contents, &original).map_err(Flaw::OfMedium)?;
        } else if self.is_original_there() {
            // Where a session that was cut short removed it, its catalog was nowhere else.
            return Err(Flaw::OfCopy("what its original holds cannot be read".to_owned()));
        }
        let blocks = read.contents.blocks.iter().flat_map(|blocks| blocks.values());
        Ok(blocks.map(|(_, length)| u64::from(*length)).sum())
    }

    fn is_original_there(&self) -> bool {
        self.originals.iter().any(|(segment, medium, number)| {
            let medium = self.view.media.medium(*medium);
            medium.map_or(true, |m| m.segment_at(*number) == Some(*segment))
        })
    }
}

/// Refuses a segment that is damaged, or not the one that is recorded.
pub(crate) fn is_whole(read: &Scan, segment: SegmentId) -> std::result::Result<(), String> {
    if let Some(damage) = read.damage.first() {
        let more = match read.damage.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        return Err(format!("{}{more}", damage.what));
    }
    match &read.contents.header {
        Some(header) if header.segment == segment => Ok(()),
        _ => Err("another segment lies in its place".to_owned()),
    }
}

/// Refuses a copy that lacks a frame of its original.
pub(crate) fn has_all_of(copy: &Contents, original: &Contents) -> std::result::Result<(), String> {
    for stream in original.streams.iter().filter(|s| !s.index.is_empty()) {
        let found = copy.streams.iter().find(|s| s.stream == stream.stream);
        let frames = |index: &[capstan_format::index::FramePlace]| {
            index.iter().map(|f| (f.sequence, f.logical)).collect::<Vec<_>>()
        };
        let same = found.is_some_and(|found| frames(&found.index) == frames(&stream.index));
        if !same {
            return Err("it lacks something that its original has, or had".to_owned());
        }
    }
    Ok(())
}
