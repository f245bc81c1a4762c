//! What a verification found damaged, segment by segment, as far as it costs data.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufReader;

use capstan_catalog::keys::VersionKeys;
use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_format::catalog::Contents;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber};
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::findings::Scan;

use super::Part;
use super::elsewhere::{OfMedium, Others};
use super::part::Places;
use crate::Cell;
use crate::error::{Result, chain};
use crate::kinds::verify::judge::{Losses, Named};
use crate::reading::away::files::AwayFiles;
use crate::reading::frame_keys::frame_keys;
use crate::reading::losses::{Lost, Range, unreadable};
use crate::reading::unread::of_way;
use crate::reading::version::VersionView;
use crate::session::SessionLog;

/// What a segment of a medium by itself lost.
struct Alone {
    medium: MediumId,
    /// Which one it is, where the database knows it.
    segment: Option<SegmentId>,
    lost: Lost,
    how: How,
}

/// How it is lost.
enum How {
    Damaged,
    /// It is not there, or cannot be read, and why.
    Missing(String),
    /// It could not be read now, and why.
    Away(String),
}

/// What was found so far.
pub(super) struct Damage<'a> {
    view: Option<&'a VersionView<'a>>,
    keys: &'a VersionKeys,
    /// Which of the version's segments lies at a place.
    places: HashMap<(MediumId, SegmentNumber), (usize, Place)>,
    /// Of the version's segments that were read what none of the places that were read has.
    of_segments: HashMap<usize, Lost>,
    /// Those that could not be read now at a place: on which medium, and why.
    unread: HashMap<usize, (MediumId, String)>,
    /// Those of them that were read where they lie first, or that need not be tried again.
    opened: HashSet<SegmentId>,
    /// The places that were read, or could not be.
    read: HashSet<Place>,
    /// Of a medium by itself.
    alone: Vec<Alone>,
    /// What damaged segments hold that the database does not know.
    unknown: HashMap<SegmentNumber, Contents>,
    /// Segments of media by themselves that could not be opened.
    unopened: Vec<SegmentId>,
}

impl<'a> Damage<'a> {
    pub fn new(view: Option<&'a VersionView<'a>>, keys: &'a VersionKeys) -> Self {
        let mut places = HashMap::new();
        for (index, place) in view.iter().flat_map(|view| view.segments.iter().enumerate()) {
            for at in place.places() {
                places.insert((at.1, at.2), (index, at));
            }
        }
        Self {
            view,
            keys,
            places,
            of_segments: HashMap::new(),
            unread: HashMap::new(),
            opened: HashSet::new(),
            read: HashSet::new(),
            alone: Vec::new(),
            unknown: HashMap::new(),
            unopened: Vec::new(),
        }
    }

    /// Takes that a medium which is at hand could not be opened: what is recorded there is not to be had from it.
    pub fn take_unopened(&mut self, cell: &Cell, medium: MediumId, recorded: &Places) {
        for (number, segment) in recorded {
            let Some(view) = self.view else {
                if let Some(contents) = cell.contents_of_recorded(*segment) {
                    let (segment, lost) = (Some(*segment), Lost::all(&spans_of(&contents)));
                    self.alone.push(Alone { medium, segment, lost, how: How::Damaged });
                }
                self.unopened.push(*segment);
                continue;
            };
            if let Some((index, at)) = self.places.get(&(medium, *number)).copied() {
                self.read.insert(at);
                let place = &view.segments[index];
                let lost = Lost::all(&place.spans);
                let known = self.of_segments.get(&index);
                let lost = known.map_or_else(|| lost.clone(), |known| known.and(&lost));
                self.of_segments.insert(index, lost);
                self.opened.insert(place.segment);
            }
        }
    }

    /// What it costs a version: what a place that was not read has is not lost.
    pub fn losses_of_version(&self, cell: &Cell) -> Result<Losses> {
        let mut losses = Losses::default();
        let Some(view) = self.view else { return Ok(losses) };
        let others = Others::of(cell, self.keys, true)?;
        let is_read = |of: &(&usize, &Lost)| !self.unread.contains_key(of.0);
        for (index, lost) in self.of_segments.iter().filter(is_read) {
            if lost.is_empty() {
                continue;
            }
            let was_read = |at: &Place| self.read.contains(at);
            let left = others.left(view, &view.segments[*index], &was_read, lost.clone())?;
            match left.unasked {
                Some((medium, why)) if !left.lost.is_empty() => {
                    losses.away.push((left.lost, medium, why));
                }
                _ => losses.damaged.extend(&left.lost),
            }
        }
        // What other places have is had; of the rest nobody can say now that it is lost.
        for (index, (medium, why)) in &self.unread {
            let spans = || self.view.map(|view| Lost::all(&view.segments[*index].spans));
            let lost = self.of_segments.get(index).cloned().or_else(spans).unwrap_or_default();
            if !lost.is_empty() {
                losses.away.push((lost, *medium, why.clone()));
            }
        }
        Ok(losses)
    }

    /// What it costs, of a medium by itself, that no other medium makes up for; says which ones do.
    fn losses_alone(
        &mut self,
        cell: &'a Cell,
        is_readable: bool,
        log: &SessionLog<'_>,
    ) -> Result<Losses> {
        let mut losses = Losses::default();
        let mut others: Option<OfMedium<'a>> = None;
        for Alone { medium, segment, lost, how } in std::mem::take(&mut self.alone) {
            let others = match &mut others {
                Some(others) => others,
                none => none.insert(OfMedium::of(cell, self.keys, medium)?),
            };
            let left = match segment.filter(|_| !lost.is_empty()) {
                Some(segment) => others.left(segment, lost)?,
                None => lost,
            };
            match how {
                _ if left.is_empty() => {}
                How::Damaged => losses.damaged.extend(&left),
                How::Missing(why) => losses.missing.push((left, why)),
                How::Away(why) => losses.away.push((left, medium, why)),
            }
        }
        others.map_or(Ok(()), |others| others.say(is_readable, log))?;
        Ok(losses)
    }

    /// The version's segments that were read where they lie first.
    pub fn opened(&self) -> &HashSet<SegmentId> {
        &self.opened
    }

    /// Takes a segment as it was read, or that it could not be.
    pub fn take(
        &mut self,
        cell: &Cell,
        part: &Part,
        number: SegmentNumber,
        read: std::result::Result<Scan, String>,
    ) {
        if let Err(e) = self.taken(cell, part, number, read) {
            self.take_unread(cell, part, number, &of_way(&e).unwrap_or_else(|| chain(&e)));
        }
    }

    /// Takes that a segment could not be read now, and why: that tells nothing of it.
    pub fn take_unread(&mut self, cell: &Cell, part: &Part, number: SegmentNumber, why: &str) {
        let medium = part.medium.header().medium;
        let why = format!("which could not be read now: {why}");
        let Some(view) = self.view else {
            let known = cell.recorded_contents(part, number);
            let lost = known.map(|known| Lost::all(&spans_of(&known))).unwrap_or_default();
            let segment = part.recorded.get(&number).copied();
            self.alone.push(Alone { medium, segment, lost, how: How::Away(why) });
            return;
        };
        if let Some((index, _)) = self.places.get(&(medium, number)) {
            self.opened.insert(view.segments[*index].segment);
            self.unread.entry(*index).or_insert((medium, why));
        }
    }

    fn taken(
        &mut self,
        cell: &Cell,
        part: &Part,
        number: SegmentNumber,
        read: std::result::Result<Scan, String>,
    ) -> std::result::Result<(), ReadError> {
        let whole = read.as_ref().is_ok_and(|scan| scan.damage.is_empty());
        let Some(view) = self.view else {
            return if whole { Ok(()) } else { self.take_alone(cell, part, number, read) };
        };
        let medium = part.medium.header().medium;
        let Some((index, at)) = self.places.get(&(medium, number)).copied() else { return Ok(()) };
        self.read.insert(at);
        let place = &view.segments[index];
        let opened = view.open_place(place, at);
        if read.is_ok() && opened.is_ok() && place.places().first() == Some(&at) {
            self.opened.insert(place.segment);
        }
        let lost = match (whole, opened) {
            (true, _) => Lost::default(),
            (false, Ok(opened)) => {
                let read = read.as_ref().ok().map(|scan| &scan.contents);
                unreadable(
                    &*opened.reader,
                    &opened.layout,
                    read,
                    &place.spans,
                    &frame_keys(self.keys),
                )?
            }
            (false, Err(_)) => Lost::all(&place.spans),
        };
        let known = self.of_segments.get(&index);
        let lost = known.map_or_else(|| lost.clone(), |known| known.and(&lost));
        self.of_segments.insert(index, lost);
        Ok(())
    }

    fn take_alone(
        &mut self,
        cell: &Cell,
        part: &Part,
        number: SegmentNumber,
        read: std::result::Result<Scan, String>,
    ) -> std::result::Result<(), ReadError> {
        let known = cell.recorded_contents(part, number);
        let medium = part.medium.header().medium;
        let segment = part.recorded.get(&number).copied();
        let scan = match (read, &known) {
            (Ok(scan), _) => scan,
            (Err(why), Some(known)) => {
                let (lost, how) = (Lost::all(&spans_of(known)), How::Missing(why));
                self.alone.push(Alone { medium, segment, lost, how });
                return Ok(());
            }
            (Err(_), None) => return Ok(()),
        };
        let reader = cell.read_segment(&part.medium, number);
        let layout = known.as_ref().or(scan.catalog.as_ref()).unwrap_or(&scan.contents);
        if let Ok(reader) = reader {
            let (spans, frames) = (spans_of(layout), &frame_keys(self.keys));
            let lost = unreadable(&*reader, layout, Some(&scan.contents), &spans, frames)?;
            self.alone.push(Alone { medium, segment, lost, how: How::Damaged });
        }
        if known.is_none() {
            self.unknown.insert(number, scan.catalog.unwrap_or(scan.contents));
        }
        Ok(())
    }

    /// Names the files that damage to media costs, outside of any version; returns how many there are, and those that could not be read
    /// now. Some of the frames may be `closed`, for want of a key.
    pub fn say(
        &mut self,
        cell: &'a Cell,
        parts: &[Part],
        closed: bool,
        log: &SessionLog<'_>,
    ) -> Result<(u64, AwayFiles)> {
        for (part, missing) in parts.iter().flat_map(|p| p.missing.iter().map(move |m| (p, m))) {
            let contents = cell.recorded_contents(part, missing.number);
            let spans = contents.as_ref().map(spans_of).unwrap_or_default();
            let why = format!("segment {} of {} is missing", missing.number.0, part.medium.path());
            let medium = part.medium.header().medium;
            let segment = part.recorded.get(&missing.number).copied();
            let (lost, how) = (Lost::all(&spans), How::Missing(why));
            self.alone.push(Alone { medium, segment, lost, how });
        }
        let losses = self.losses_alone(cell, !parts.is_empty(), log)?;
        if losses.is_empty() {
            return Ok((0, AwayFiles::default()));
        }
        let mut named = Named::default();
        for part in parts {
            let missing = part.missing.iter().map(|m| m.number);
            for number in part.segments.iter().copied().chain(missing) {
                if matches!(part.medium.attachment(number), Ok(Some(_))) {
                    continue;
                }
                if let Err(e) = self.name(cell, part, number, &losses, &mut named)
                    && !closed
                {
                    let what = format!("segment {} of {}", number.0, part.medium.path());
                    let text = format!("its rows cannot be read: {}", crate::error::chain(&e));
                    log.say(Code::Damaged, "media agent", &what, text);
                }
            }
        }
        for segment in &self.unopened {
            let Some(contents) = cell.contents_of_recorded(*segment) else { continue };
            if let Err(e) = named.take_rows(&contents, self.keys, &losses)
                && !closed
            {
                let what = format!("segment {}", segment.short());
                let text = format!("its rows cannot be read: {}", crate::error::chain(&e));
                log.say(Code::Damaged, "media agent", &what, text);
            }
        }
        let away = named.take_away(&BTreeMap::new());
        Ok((named.say(log), away))
    }

    fn name(
        &self,
        cell: &Cell,
        part: &Part,
        number: SegmentNumber,
        losses: &Losses,
        named: &mut Named,
    ) -> Result<()> {
        if let Some(contents) = cell.recorded_contents(part, number) {
            return named.take_rows(&contents, self.keys, losses);
        }
        if let Some(contents) = self.unknown.get(&number) {
            return named.take_rows(contents, self.keys, losses);
        }
        let contents = cell.read_segment(&part.medium, number).and_then(|r| r.catalog())?;
        named.take_rows(&contents, self.keys, losses)
    }
}

impl Cell {
    /// What the database knows of a medium's segment.
    fn recorded_contents(&self, part: &Part, number: SegmentNumber) -> Option<Contents> {
        self.contents_of_recorded(*part.recorded.get(&number)?)
    }

    fn contents_of_recorded(&self, segment: SegmentId) -> Option<Contents> {
        let file = self.idb.read_catalog(segment).ok()??;
        Contents::from_catalog(segment, BufReader::new(file)).ok()
    }
}

/// What a segment promises of its streams.
fn spans_of(contents: &Contents) -> Vec<Range> {
    let streams = contents.end.iter().flat_map(|end| &end.streams);
    streams.map(|s| (s.stream, s.logical_start, s.logical_end)).collect()
}
