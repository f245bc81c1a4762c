//! What is damaged on a medium and whole on another one: no file is lost by that.

use std::collections::HashMap;

use capstan_catalog::keys::VersionKeys;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, SegmentId};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::exported;
use crate::reading::frame_keys::frame_keys;
use crate::reading::losses::{Lost, unreadable};
use crate::reading::version::VersionView;
use crate::session::SessionLog;
use crate::versions::damaged::Unsound;

/// What others have of what is damaged at places that were read.
pub(super) struct Others<'a> {
    cell: &'a Cell,
    keys: &'a VersionKeys,
    unsound: Unsound,
    /// Whether what a restore would say is wanted: tapes that are at hand are loaded for it, and what is away may have it, whatever is
    /// recorded of it. Else what is recorded has to do.
    loads: bool,
}

/// What is left of a loss.
pub(super) struct Left {
    /// What none of the others that could be asked has.
    pub lost: Lost,
    /// Media that gave some of it.
    pub gave: Vec<MediumId>,
    /// A medium that was not asked and has it, as far as is known; and why it was not.
    pub unasked: Option<(MediumId, String)>,
}

impl<'a> Others<'a> {
    pub fn of(cell: &'a Cell, keys: &'a VersionKeys, loads: bool) -> Result<Self> {
        Ok(Self { cell, keys, unsound: cell.unsound_places()?, loads })
    }

    /// What is left of what a segment lost at places that were read.
    pub fn left(
        &self,
        view: &VersionView<'_>,
        place: &SegmentPlace,
        was_read: &dyn Fn(&Place) -> bool,
        lost: Lost,
    ) -> Result<Left> {
        let mut left = Left { lost, gave: Vec::new(), unasked: None };
        let mut doubtful = Vec::new();
        for at in place.places().into_iter().filter(|at| !was_read(at)) {
            let is_sound = place.lacks_at(at) == 0 && !self.unsound.has(at.1, at.0);
            let is_far = self.cell.how_far(at.1)?.is_some();
            match view.media.is_sequential(at.1)? && (is_far || !self.loads) {
                true if is_sound || is_far && self.loads => {
                    left.unasked = left.unasked.or(Some((at.1, self.why_away(at.1)?)));
                }
                true if is_far => {}
                true => doubtful.push(at),
                false => self.ask(view, place, at, is_sound, &mut left),
            }
        }
        for at in doubtful {
            if left.unasked.is_none() {
                self.ask(view, place, at, false, &mut left);
            }
        }
        Ok(left)
    }

    fn ask(
        &self,
        view: &VersionView<'_>,
        place: &SegmentPlace,
        at: Place,
        is_sound: bool,
        left: &mut Left,
    ) {
        if left.lost.is_empty() {
            return;
        }
        let spans = left.lost.ranges();
        let read = view.open_place(place, at).and_then(|there| {
            let frames = &frame_keys(self.keys);
            let lost = unreadable(&*there.reader, &there.layout, None, &spans, frames);
            lost.map_err(|e| view.media.unread(at.1, e))
        });
        match read {
            Ok(lost) => {
                let both = left.lost.and(&lost);
                if both.bytes() < left.lost.bytes() {
                    left.gave.push(at.1);
                }
                left.lost = both;
            }
            Err(CellError::Away { medium, why, .. }) if is_sound || self.loads => {
                left.unasked.get_or_insert((medium, why));
            }
            Err(_) => {}
        }
    }

    fn why_away(&self, medium: MediumId) -> Result<String> {
        let exported = exported(&self.cell.idb, medium)?;
        Ok(exported.map_or("which is not at hand".to_owned(), |to| format!("which {to}")))
    }
}

/// What others have of what is damaged on a medium that is read by itself.
pub(super) struct OfMedium<'a> {
    others: Others<'a>,
    views: Vec<VersionView<'a>>,
    /// Which of them has a segment of the medium, and where.
    at: HashMap<SegmentId, (usize, usize)>,
    medium: MediumId,
    /// How many of its segments each of the others made up for.
    gave: Vec<(MediumId, u64)>,
}

impl<'a> OfMedium<'a> {
    pub fn of(cell: &'a Cell, keys: &'a VersionKeys, medium: MediumId) -> Result<Self> {
        let (mut views, mut at): (Vec<VersionView<'a>>, HashMap<_, _>) = Default::default();
        for id in cell.idb.versions_on_medium(medium)? {
            let Some(version) = cell.idb.version(id)? else { continue };
            let view = VersionView::open_alone(cell, version)?;
            for (index, place) in view.segments.iter().enumerate() {
                let here = place.places().into_iter().filter(|at| at.1 == medium);
                at.extend(here.map(|of| (of.0, (views.len(), index))));
            }
            views.push(view);
        }
        let others = Others::of(cell, keys, false)?;
        Ok(Self { others, views, at, medium, gave: Vec::new() })
    }

    /// What of a segment's loss no other medium makes up for.
    pub fn left(&mut self, segment: SegmentId, lost: Lost) -> Result<Lost> {
        let Some((view, index)) = self.at.get(&segment) else { return Ok(lost) };
        let view = &self.views[*view];
        let is_here = |at: &Place| at.1 == self.medium;
        let left = self.others.left(view, &view.segments[*index], &is_here, lost)?;
        let unasked = left.unasked.filter(|_| !left.lost.is_empty());
        if unasked.is_none() && !left.lost.is_empty() {
            return Ok(left.lost);
        }
        for id in left.gave.into_iter().chain(unasked.iter().map(|of| of.0)) {
            match self.gave.iter_mut().find(|of| of.0 == id) {
                Some((_, segments)) => *segments += 1,
                None => self.gave.push((id, 1)),
            }
        }
        Ok(Lost::default())
    }

    /// Says which media have what is damaged there, and what mends it.
    pub fn say(&self, is_readable: bool, log: &SessionLog<'_>) -> Result<()> {
        let label = |id: MediumId| -> Result<String> {
            Ok(self.others.cell.idb.medium(id)?.map_or_else(|| id.short(), |row| row.label))
        };
        let here = label(self.medium)?;
        for (id, segments) in &self.gave {
            let (what, it) = match segments {
                1 => ("one segment".to_owned(), "it"),
                n => (format!("{n} segments"), "them"),
            };
            let place = exported(&self.others.cell.idb, *id)?;
            let place = place.map(|to| format!(", which {to}")).unwrap_or_default();
            let way = match is_readable {
                true => format!("; `capstan media repair {}` writes {it} anew", shell_word(&here)),
                false => String::new(),
            };
            let text = format!(
                "what is damaged or missing here of {what} can be had from '{}'{place}: no file is lost by that{way}",
                label(*id)?
            );
            log.say(Code::WholeElsewhere, "media agent", &here, text);
        }
        Ok(())
    }
}
