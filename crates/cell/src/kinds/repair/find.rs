//! What of a medium is not whole: segments that are damaged or missing, what of them can be had, and what their loss costs.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::keys::VersionKeys;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_engine::meter::Stage;
use capstan_format::catalog::Contents;
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_medium::OpenMedium;
use capstan_port::media::read::known::Opened;

use super::Repair;
use super::unneeded::Unneeded;
use crate::drives::attached::DamagedAttachment;
use crate::error::{CellError, Result, chain};
use crate::kinds::stage::is_whole;
use crate::kinds::verify::judge::{Losses, Named};
use crate::reading::away::files::AwaySegments;
use crate::reading::frame_keys::frame_keys;
use crate::reading::losses::{Lost, Range, unreadable};
use crate::reading::unread::{not_now, of_way, of_way_to_device};
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::session::transfers::watched;

/// A segment that is not whole on the medium.
pub(super) struct Broken {
    /// Which of the views, and which of its segments.
    pub at: (usize, usize),
    /// Its places on the medium, none of them whole.
    pub places: Vec<Place>,
    /// What is wrong there.
    pub why: String,
    /// What none of its places at hand has.
    pub lost: Lost,
    /// Whether names of it are whole in none of its places at hand.
    pub lacks_names: bool,
    /// Why other places of it are out of reach, where their media are away.
    pub away: Vec<CellError>,
    /// Whether writing it anew would gain something.
    pub helps: bool,
}

impl Broken {
    pub fn number(&self) -> u32 {
        self.places.last().map_or(0, |(_, _, number)| number.0)
    }

    /// Whether all of it is to be had.
    pub fn is_to_be_had(&self) -> bool {
        self.lost.is_empty() && !self.lacks_names
    }
}

/// What is not whole.
#[derive(Default)]
pub(super) struct Found {
    pub broken: Vec<Broken>,
    /// Damaged places of segments that lie there whole besides: a repair was cut short, or somebody read them.
    pub stale: Vec<(Place, u64)>,
    /// Damaged segments that no version needs.
    pub unneeded: Vec<Unneeded>,
    /// Attachments of a tape that are damaged, and in no later one.
    pub attachments: Vec<DamagedAttachment>,
}

impl Found {
    /// Whether all is whole.
    pub fn is_empty(&self) -> bool {
        self.broken.is_empty()
            && self.stale.is_empty()
            && self.unneeded.is_empty()
            && self.attachments.is_empty()
    }
}

impl Repair<'_> {
    /// Reads all of the medium.
    pub fn find(&self, medium: &OpenMedium, views: &[VersionView<'_>]) -> Result<Found> {
        let mut known: HashSet<SegmentId> = HashSet::new();
        let mut needed: HashSet<SegmentNumber> = HashSet::new();
        let mut all = Vec::new();
        for (v, view) in views.iter().enumerate() {
            for (s, place) in view.segments.iter().enumerate() {
                let here: Vec<Place> =
                    place.places().into_iter().filter(|at| at.1 == self.row.id).collect();
                needed.extend(here.iter().map(|at| at.2));
                if !here.is_empty() && known.insert(place.segment) {
                    all.push(((v, s), here));
                }
            }
        }
        // In the order in which they lie there.
        all.sort_by_key(|(_, here)| here.iter().map(|at| at.2).min());
        let total = all.iter().map(|((v, s), _)| views[*v].segments[*s].bytes).sum();
        let source = self.meters.of(Stage::Source);
        let (found, _) = watched(self.cell.devices.waits(), &self.meters, self.log, total, || {
            let mut found = Found::default();
            for ((v, s), places) in all {
                if self.stop.0.load(Relaxed) {
                    break;
                }
                let view = &views[v];
                let bytes = view.segments[s].bytes;
                source.bytes(bytes);
                let place = &view.segments[s];
                let mut flaws: Vec<(Place, String)> = Vec::new();
                for at in &places {
                    let flaw = self.flaw(view, medium, place, *at)?;
                    flaws.extend(flaw.map(|why| (*at, why)));
                }
                // What was mended before lies there twice; one of them is whole.
                if flaws.len() < places.len() {
                    found.stale.extend(flaws.into_iter().map(|(at, _)| (at, bytes)));
                } else if let Some((_, why)) = flaws.into_iter().next_back() {
                    found.broken.push(self.examined(view, (v, s), places, why)?);
                }
            }
            (found.unneeded, found.attachments) = self.unneeded(medium, &needed)?;
            Ok(found)
        });
        found
    }

    /// What is wrong with a segment at a place, if anything is. An error where it cannot be read now: nothing is decided then.
    fn flaw(
        &self,
        view: &VersionView<'_>,
        medium: &OpenMedium,
        place: &SegmentPlace,
        at: Place,
    ) -> Result<Option<String>> {
        let (segment, id, number) = at;
        let lacks = place.lacks_at(at);
        let on_tape = view.media.is_sequential(id).unwrap_or(false);
        if !on_tape && medium.segment_at(number).is_some_and(|found| found != segment) {
            return Ok(Some("another segment lies in its place".to_owned()));
        }
        if let Err(e) = medium.check_spare(number) {
            return match of_way_to_device(&e) {
                Some(why) => Err(not_now(view.idb, id, &why)),
                None => Ok(Some(chain(&e))),
            };
        }
        Ok(match self.cell.read_segment(medium, number).and_then(|reader| reader.scan()) {
            Ok(read) => is_whole(&read, segment)
                .err()
                .or_else(|| (lacks > 0).then(|| format!("it is a copy that lacks {lacks} frames"))),
            // It was not read to its end.
            Err(_) if self.stop.0.load(Relaxed) => None,
            Err(e) if of_way(&e).is_some() => return Err(view.media.unread(id, e)),
            Err(e) => Some(chain(&e)),
        })
    }

    /// What of a segment that is not whole can be had.
    fn examined(
        &self,
        view: &VersionView<'_>,
        at: (usize, usize),
        places: Vec<Place>,
        why: String,
    ) -> Result<Broken> {
        let place = &view.segments[at.1];
        let spans = data_of(view.contents(place).ok().as_deref(), &place.spans);
        let keys = VersionKeys::default();
        let lost_at = |at: Place| match view.open_place(place, at) {
            Ok(Opened { reader, layout, .. }) => {
                unreadable(&*reader, &layout, None, &spans, &frame_keys(&keys))
                    .map_err(|e| view.media.unread(at.1, e))
            }
            Err(e) => match view.media.unread_or(at.1, e) {
                e if e.away().is_some() => Err(e),
                _ => Ok(Lost::all(&spans)),
            },
        };
        let mut here = Lost::all(&spans);
        for at in &places {
            here = here.and(&lost_at(*at)?);
        }
        let mut lost = here.clone();
        let lacks_names = view.lacks_names(place, &self.cell.keys_of_names(view, "repair"));
        let mut away = Vec::new();
        for other in place.places().into_iter().filter(|other| !places.contains(other)) {
            if lost.is_empty() && !lacks_names {
                break;
            }
            match view.media.medium_once(other.1) {
                Err(e) if e.away().is_some() => away.push(e),
                _ => match lost_at(other) {
                    Ok(there) => lost = lost.and(&there),
                    Err(e) => away.push(e),
                },
            }
        }
        // Where data or names are lost and nobody has them, a new segment would have no more than the damaged one.
        let helps = !lacks_names && (here.is_empty() || lost.bytes() < here.bytes());
        Ok(Broken { at, places, why, lost, lacks_names, away, helps })
    }

    /// Says what is whole nowhere, and names the files that this costs, where their names can be read; returns how many they are.
    /// The media are named that are away and have the same.
    pub fn name_lost(
        &self,
        views: &[VersionView<'_>],
        broken: &[Broken],
        report: &mut Report,
    ) -> Result<u64> {
        let (cell, label, log) = (self.cell, &self.row.label, self.log);
        let mut losses = Losses::default();
        let mut away = AwaySegments::default();
        for b in broken.iter().filter(|b| !b.is_to_be_had()) {
            let bytes = views[b.at.0].segments[b.at.1].bytes;
            for e in &b.away {
                away.take(e, bytes);
            }
        }
        for b in broken.iter().filter(|b| !b.is_to_be_had()) {
            let text = format!(
                "segment {} cannot be mended: what is damaged there ({}) is whole nowhere at hand",
                b.number(),
                b.why
            );
            log.say(Code::Damaged, "media agent", label, text);
            losses.damaged.extend(&b.lost);
        }
        report.away_media = away.say(cell, log)?;
        if losses.is_empty() {
            return Ok(0);
        }
        let mut named = Named::default();
        let mut sealed = false;
        let mut known: HashSet<SegmentId> = HashSet::new();
        for view in views {
            let keys = cell.keys_of_names(view, "repair");
            // Rows of what was passed on lie in other segments.
            for place in view.segments.iter().filter(|place| known.insert(place.segment)) {
                if let Ok(contents) = view.contents(place) {
                    sealed |= named.take_rows(&contents, &keys, &losses).is_err();
                }
            }
        }
        if sealed {
            let text = "the names of some files that this costs are encrypted".to_owned();
            log.say(Code::Damaged, "media agent", label, text);
        }
        Ok(named.say(log))
    }
}

/// What a segment must have of streams' data: not of those that a consolidation passed on in part.
pub(super) fn data_of(contents: Option<&Contents>, spans: &[Range]) -> Vec<Range> {
    let ends = contents.and_then(|c| c.end.as_ref()).map(|end| &end.streams);
    let sparse: HashSet<_> =
        ends.into_iter().flatten().filter(|e| e.sparse).map(|e| e.stream).collect();
    spans.iter().copied().filter(|(stream, ..)| !sparse.contains(stream)).collect()
}
