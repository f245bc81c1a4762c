//! What a restore takes from which medium: the pick list of a dry run, in the order in which media are read.

use std::collections::{HashMap, HashSet};

use capstan_catalog::version::Overview;
use capstan_format::catalog::StreamContents;
use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_format::id::{MediumId, StreamId};

use crate::error::Result;
use crate::kinds::restore::list::Tally;
use crate::kinds::restore::tree::is_in_parts;
use crate::kinds::restore::wanted::scope::Scope;
use crate::media::whereabouts::places_shown;
use crate::media::{TapeAt, place_shown, tape_name};
use crate::reading::version::VersionView;
use crate::report::{Pick, PickedTape};

/// Counts what lies on which medium.
#[derive(Default)]
struct Counted {
    files: u64,
    bytes: u64,
    /// Segments, of which the versions are told.
    segments: Vec<usize>,
}

/// The media that a restore of what is chosen reads, in the order in which it does.
pub(super) fn list(
    view: &VersionView<'_>,
    overview: &Overview,
    scope: &Scope,
    tally: &Tally<'_>,
) -> Result<Vec<Pick>> {
    let first = first_media(view);
    let mut counted = counted(view, overview, scope, tally)?;
    let mut order: Vec<MediumId> = Vec::new();
    let mut others: Vec<MediumId> = Vec::new();
    for medium in first.into_iter().flatten().filter(|medium| counted.contains_key(medium)) {
        let of = if view.media.is_sequential(medium)? { &mut order } else { &mut others };
        if !of.contains(&medium) {
            of.push(medium);
        }
    }
    view.cell.in_order_of_writing(&mut order)?;
    order.extend(others);
    // What is at hand is read first.
    let mut picks = Vec::new();
    for medium in order {
        if let Some(of) = counted.remove(&medium) {
            picks.push(pick(view, medium, &of)?);
        }
    }
    picks.sort_by_key(|pick| pick.away);
    Ok(picks)
}

/// The segments that have data of what is chosen.
pub(super) fn segments(
    view: &VersionView<'_>,
    overview: &Overview,
    scope: &Scope,
    tally: &Tally<'_>,
) -> Result<HashSet<usize>> {
    let counted = counted(view, overview, scope, tally)?;
    Ok(counted.into_values().flat_map(|of| of.segments).collect())
}

/// Of each segment the medium on which it is looked for first.
fn first_media(view: &VersionView<'_>) -> Vec<Option<MediumId>> {
    view.segments.iter().map(|place| Some(place.places().first()?.1)).collect()
}

/// What of that which is chosen lies on which medium.
fn counted(
    view: &VersionView<'_>,
    overview: &Overview,
    scope: &Scope,
    tally: &Tally<'_>,
) -> Result<HashMap<MediumId, Counted>> {
    let (spans, first) = (view.spans(), first_media(view));
    let mut counted: HashMap<MediumId, Counted> = HashMap::new();
    // Of a file in parts each medium that has some counts it once.
    let mut in_parts: HashSet<(MediumId, Vec<u8>)> = HashSet::new();
    scope.rows(view, &mut |stream, row| {
        let e = &row.entry;
        let path = e.path();
        let is_part = e.kind == Kind::Part;
        let is_wanted = (is_part || e.kind == Kind::File && !e.link) && tally.takes(e, &path);
        if !is_wanted
            || !overview.is_first(stream, &row)
            || overview.is_replaced(&path, row.ordinal)
        {
            return Ok(());
        }
        let mut on: Vec<MediumId> = Vec::new();
        for (of, from, len) in ranges(e, stream, row.start) {
            let (mut at, end) = (from, from.saturating_add(len));
            while at < end {
                let Some((segment, to)) = spans.find(of, at) else { break };
                let to = to.min(end);
                if let Some(medium) = first.get(segment as usize).copied().flatten() {
                    let counts = counted.entry(medium).or_default();
                    counts.bytes += to - at;
                    if !counts.segments.contains(&(segment as usize)) {
                        counts.segments.push(segment as usize);
                    }
                    if !on.contains(&medium) {
                        on.push(medium);
                    }
                }
                at = to;
            }
        }
        let has_parts = is_part || is_in_parts(&row, stream);
        for medium in on {
            if !has_parts || in_parts.insert((medium, path.clone())) {
                counted.entry(medium).or_default().files += 1;
            }
        }
        Ok(())
    })?;
    Ok(counted)
}

/// The ranges of streams in which a row's data lie. What goes on behind the end of the segment has a row there, too.
fn ranges(entry: &Entry, stream: &StreamContents, start: u64) -> Vec<(StreamId, u64, u64)> {
    let here = entry.logical_len().min(stream.logical_end.saturating_sub(start));
    let mut ranges = vec![(stream.stream, start, here)];
    for extent in &entry.extents {
        if let ExtentKind::At(of, at) = extent.kind {
            ranges.push((of, at, extent.len));
        }
    }
    ranges.retain(|(.., len)| *len > 0);
    ranges
}

fn pick(view: &VersionView<'_>, medium: MediumId, counted: &Counted) -> Result<Pick> {
    let cell = view.cell;
    let Some(row) = cell.idb.medium(medium)? else {
        return Ok(Pick { medium: medium.to_string(), label: medium.short(), ..Pick::default() });
    };
    let info = cell.medium_info(&row)?;
    let mut versions: Vec<String> = Vec::new();
    for segment in &counted.segments {
        if let Some((version, _)) = cell.idb.version_of_segment(view.segments[*segment].segment)? {
            let shown = cell.version_shown(version)?;
            if !versions.contains(&shown) {
                versions.push(shown);
            }
        }
    }
    let is_tape = row.device.is_sequential();
    let is_out =
        info.management.exported_us.is_some() && info.tapes.iter().all(|t| t.place.is_none());
    let to_bring: Vec<String> = cell.tapes_away(medium)?.iter().map(tape_name).collect();
    let is_wanted = |t: &&TapeAt| t.place.is_some() || to_bring.contains(&t.device);
    let mut tapes: Vec<TapeAt> = match &info.tapes[..] {
        [one] => vec![one.clone()],
        all => all.iter().filter(is_wanted).cloned().collect(),
    };
    // One that lacks something is fetched for nothing where the others are enough.
    if let Some(array) = row.device.as_array() {
        let lacks = cell.incomplete_tapes(medium)?;
        let lacks: Vec<String> = lacks.iter().map(|(tape, _)| tape_name(tape)).collect();
        let is_whole = |tape: &&TapeAt| !lacks.contains(&tape.device);
        if tapes.iter().filter(is_whole).count() >= array.layout.data() {
            tapes.retain(|tape| is_whole(&tape));
        }
    }
    let place = if info.tapes.len() > 1 { places_shown(&tapes) } else { place_shown(&info) };
    let of = |tape: &TapeAt| PickedTape {
        barcode: tape.barcode.clone(),
        place: tape.shown(),
        away: tape.place.is_none(),
        library: tape.library.clone(),
    };
    Ok(Pick {
        tapes: tapes.iter().map(of).collect(),
        medium: medium.to_string(),
        label: row.label.clone(),
        barcode: if let [tape] = &tapes[..] { Some(tape.barcode.clone()) } else { None },
        place,
        away: info.absent.is_some() || is_tape && is_out || !to_bring.is_empty(),
        device: row.device.to_string(),
        files: counted.files,
        bytes: counted.bytes,
        versions,
    })
}
