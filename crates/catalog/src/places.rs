//! Where a version's segments lie: each once, with all the media that have it, mirrors and copies.

use std::collections::HashMap;

use capstan_engine::frames::Place;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, SessionId, StreamId};
use capstan_idb::{Idb, Segment, StreamPart, Version};

use crate::error::Result;

/// How far a medium is that is not at hand: the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Away {
    /// Somebody has to put its tape into a drive that stands alone.
    ByHand,
    /// It is not where it is read.
    Gone,
}

/// A segment that the version has rows or data in.
#[derive(Debug, Clone)]
pub struct SegmentPlace {
    /// Its identity.
    pub segment: SegmentId,
    /// Media it lies on, each with its number there.
    pub media: Vec<(MediumId, SegmentNumber)>,
    /// Its bytes.
    pub bytes: u64,
    /// Copies of it: segments of their own with the same frames.
    pub copies: Vec<Place>,
    /// The version's streams in it that have rows.
    pub streams: Vec<StreamId>,
    /// What it has of each stream: logical begin and end.
    pub spans: Vec<(StreamId, u64, u64)>,
    /// Which of the version's sessions wrote it, from 0.
    pub session: u32,
    /// That session.
    pub by: SessionId,
    /// Its media that are retired or out of the house: they are read where nothing else is there.
    pub last: Vec<MediumId>,
    /// Its tapes that are not loaded as long as others have it.
    pub behind: Vec<MediumId>,
    /// Its media that are not at hand, as far as somebody looked: they are read where nothing else has it.
    pub away: Vec<(MediumId, Away)>,
    /// Of its copies those that lack frames of it, and how many: they stand for no original.
    pub lacking: Vec<(SegmentId, u64)>,
}

impl SegmentPlace {
    /// Leaves out places on other media than these.
    pub fn keep(&mut self, keep: &dyn Fn(MediumId) -> bool) {
        self.media.retain(|(medium, _)| keep(*medium));
        self.copies.retain(|(_, medium, _)| keep(*medium));
    }

    /// All places of its data, its own first, but those on tapes that need not be loaded behind the others, those on media that are
    /// retired or out of the house behind them, those on media that are not at hand behind these, copies that lack something last. What
    /// a repair wrote anew on a medium comes before what was damaged there.
    pub fn places(&self) -> Vec<Place> {
        let own = self.media.iter().map(|(medium, number)| (self.segment, *medium, *number));
        let mut places: Vec<Place> = own.chain(self.copies.iter().copied()).collect();
        if !self.behind.is_empty() {
            places.sort_by_key(|(_, medium, _)| self.behind.contains(medium));
        }
        if !self.copies.is_empty() {
            let known = places.clone();
            places.sort_by_key(|(_, medium, number)| {
                let is_older = known.iter().any(|p| p.1 == *medium && p.2 > *number);
                (is_older, known.iter().position(|p| p.1 == *medium))
            });
        }
        if !self.last.is_empty() {
            places.sort_by_key(|(_, medium, _)| self.last.contains(medium));
        }
        if !self.away.is_empty() {
            places.sort_by_key(|(_, medium, _)| self.how_far(*medium));
        }
        if !self.lacking.is_empty() {
            places.sort_by_key(|at| self.lacks_at(*at) > 0);
        }
        places
    }

    /// Has these media come last.
    pub fn put_last(&mut self, media: &[MediumId]) {
        let new = media.iter().filter(|id| !self.last.contains(id) && self.is_on(**id));
        let new: Vec<MediumId> = new.copied().collect();
        self.last.extend(new);
    }

    /// Has media that are not at hand come behind those that are.
    pub fn put_away(&mut self, how_far: &dyn Fn(MediumId) -> Option<Away>) {
        let media = self.media.iter().map(|(id, _)| *id);
        let media = media.chain(self.copies.iter().map(|(_, id, _)| *id));
        self.away = media.filter_map(|id| Some((id, how_far(id)?))).collect();
    }

    /// How far a medium is that is not at hand; nothing of others.
    pub fn how_far(&self, medium: MediumId) -> Option<Away> {
        self.away.iter().find(|(id, _)| *id == medium).map(|(_, away)| *away)
    }

    /// Has these tapes come behind the others; no more than these.
    pub fn put_behind(&mut self, is_behind: &dyn Fn(MediumId) -> bool) {
        let mut behind: Vec<MediumId> = self.media.iter().map(|(id, _)| *id).collect();
        behind.extend(self.copies.iter().map(|(_, id, _)| *id));
        behind.retain(|id| is_behind(*id));
        self.behind = behind;
    }

    /// The places that have all of it, as far as is known.
    pub fn whole_places(&self) -> Vec<Place> {
        let mut places = self.places();
        places.retain(|at| self.lacks_at(*at) == 0);
        places
    }

    /// How many of its frames a place lacks.
    pub fn lacks_at(&self, (segment, ..): Place) -> u64 {
        self.lacking.iter().find(|of| of.0 == segment).map_or(0, |of| of.1)
    }
}

/// A segment with all that is known of where it is, while they are gathered.
struct Known {
    place: SegmentPlace,
    committed_us: i64,
    order: Order,
}

impl Known {
    /// Adds a place of the same data. Where the original is on no medium, that of its copies which lacks least stands for it: by what
    /// that one has readers look for data.
    fn add(&mut self, segment: &Segment, parts: &[StreamPart], lacks: u64) {
        let place = &mut self.place;
        let first = place.segment;
        let least = place.lacking.iter().find(|of| of.0 == first).map_or(0, |of| of.1);
        place.note_lack(segment.id, lacks);
        if first == segment.id {
            place.media.push((segment.medium, segment.number));
            return;
        }
        place.copies.push((segment.id, segment.medium, segment.number));
        if lacks < least {
            let mut better = first_place(segment, parts, place.session);
            better.by = place.by;
            better.lacking = std::mem::take(&mut place.lacking);
            let (own, copies) = std::mem::take(&mut place.copies)
                .into_iter()
                .partition::<Vec<Place>, _>(|copy| copy.0 == segment.id);
            better.media = own.into_iter().map(|(_, medium, number)| (medium, number)).collect();
            better.copies =
                place.media.iter().map(|(medium, number)| (first, *medium, *number)).collect();
            better.copies.extend(copies);
            *place = better;
            self.committed_us = segment.committed_us;
        }
    }
}

/// Where a segment comes among the others: behind that one of them, as the so many-th that was put between.
type Order = (i64, u64);

/// Notes which media of segments are read where nothing else is there: those that are retired or out of the house.
fn put_last(idb: &Idb, all: &mut [Known]) -> Result<()> {
    let mut last = idb.retired_media()?;
    last.extend(idb.exported_media()?);
    for known in all.iter_mut().filter(|_| !last.is_empty()) {
        known.place.last = last.iter().copied().filter(|id| known.place.is_on(*id)).collect();
    }
    Ok(())
}

/// The segments of a version and what it builds on (`chain`, newest first), oldest first; `with_ends` also those with no more than
/// the end of a session that wrote no data.
pub fn places_of(idb: &Idb, chain: &[Version], with_ends: bool) -> Result<Vec<SegmentPlace>> {
    let mut sessions: Vec<SessionId> = Vec::new();
    let mut all: Vec<Known> = Vec::new();
    let mut by_origin: HashMap<SegmentId, usize> = HashMap::new();
    let mut orphans = false;
    // Media that have all of a session say its order, whichever of them comes first: of one that was repaired, or lost a segment,
    // some lie on another only.
    let (mut put_between, mut greatest): (u64, Order) = (0, (-1, 0));
    for version in chain.iter().rev() {
        let copies = idb.copies_of_version(version.id)?;
        let mut rows = idb.segments_of_version(version.id)?;
        if with_ends {
            let ends = idb.ends_of_version(version.id)?;
            rows.extend(ends.into_iter().map(|segment| (segment, Vec::new())));
        }
        // They come in the order of their sessions.
        for (segment, _) in &rows {
            if !sessions.contains(&segment.session) {
                sessions.push(segment.session);
            }
        }
        let (copied, own): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|(s, _)| copies.contains_key(&s.id));
        let last_own = own.len();
        let rows: Vec<_> = own.into_iter().chain(copied).collect();
        let of = |at: usize| rows[..last_own].get(at).map(|(s, _)| (s.session, s.medium));
        let mut before: Option<Order> = None;
        for (at, (segment, parts)) in rows.iter().enumerate() {
            if at == 0 || at >= last_own || of(at) != of(at - 1) {
                before = None;
            }
            let copy = copies.get(&segment.id);
            let (origin, lacks) = copy.map_or((segment.id, 0), |of| (of.origin, of.lacks));
            match by_origin.get(&origin) {
                Some(known) => {
                    all[*known].add(segment, parts, lacks);
                    before = Some(all[*known].order);
                }
                None => {
                    let end = (all.len() as i64, 0);
                    let next = || {
                        let mut rest = (at + 1..last_own).take_while(|n| of(*n) == of(at));
                        let known = rest.find_map(|n| by_origin.get(&rows[n].0.id));
                        known.map(|known| (all[*known].order.0 - 1, 0))
                    };
                    let behind = before.or_else(|| (at < last_own).then(next).flatten());
                    // Of two that lie on different media behind one that is on both, the streams say which comes first.
                    let behind = behind.filter(|order| *order < greatest).map(|behind| {
                        let before = all.iter().filter(|known| comes_before(known, parts));
                        before.map(|known| known.order).fold(behind, Order::max)
                    });
                    let order = match behind.filter(|order| *order < greatest) {
                        Some(behind) => {
                            put_between += 1;
                            (behind.0, put_between)
                        }
                        None => end,
                    };
                    greatest = greatest.max(order);
                    before = Some(order);
                    orphans |= origin != segment.id;
                    by_origin.insert(origin, all.len());
                    let session = sessions.iter().position(|s| *s == segment.session);
                    let mut place = first_place(segment, parts, session.unwrap_or(0) as u32);
                    place.note_lack(segment.id, lacks);
                    all.push(Known { place, committed_us: segment.committed_us, order });
                }
            }
        }
    }
    if put_between > 0 {
        all.sort_by_key(|known| known.order);
    }
    put_last(idb, &mut all)?;
    // A copy whose original is not known has its time.
    if orphans {
        all.sort_by_key(|k| (k.place.session, k.committed_us));
    }
    Ok(all.into_iter().map(|k| k.place).collect())
}

/// Whether a segment has what comes before these parts in one of their streams.
fn comes_before(known: &Known, parts: &[StreamPart]) -> bool {
    let is_before = |p: &StreamPart| {
        let mut spans = known.place.spans.iter().filter(|span| span.0 == p.stream);
        spans.any(|(_, from, to)| *to <= p.logical_start && *from < p.logical_start)
    };
    parts.iter().any(is_before)
}

impl SegmentPlace {
    fn is_on(&self, medium: MediumId) -> bool {
        let own = self.media.iter().any(|(id, _)| *id == medium);
        own || self.copies.iter().any(|(_, id, _)| *id == medium)
    }

    fn note_lack(&mut self, segment: SegmentId, lacks: u64) {
        if lacks > 0 && self.lacking.iter().all(|of| of.0 != segment) {
            self.lacking.push((segment, lacks));
        }
    }
}

fn first_place(segment: &Segment, parts: &[StreamPart], session: u32) -> SegmentPlace {
    // Streams that were passed on by a consolidation have data and no rows; where no rows were counted, any may have.
    let counted = parts.iter().any(|p| p.rows > 0);
    let with_rows = parts.iter().filter(|p| p.rows > 0 || !counted);
    SegmentPlace {
        segment: segment.id,
        media: vec![(segment.medium, segment.number)],
        bytes: segment.bytes,
        copies: Vec::new(),
        streams: with_rows.map(|p| p.stream).collect(),
        spans: parts.iter().map(|p| (p.stream, p.logical_start, p.logical_end)).collect(),
        session,
        by: segment.session,
        last: Vec::new(),
        behind: Vec::new(),
        away: Vec::new(),
        lacking: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_address::HostName;
    use capstan_format::id::{ObjectId, VersionId};
    use capstan_idb::{Medium, Object, Session, Status};

    fn id(n: u8) -> [u8; 16] {
        [n; 16]
    }

    /// A database with a version, its session and media 1 to 3.
    fn with_version(dir: &std::path::Path) -> (Idb, Version, SessionId) {
        let idb = Idb::open(&dir.join("home")).unwrap();
        let (name, host) = ("t".to_owned(), HostName::recorded("here"));
        let object = Object { id: ObjectId(id(1)), name, host, sealed: None };
        idb.put_object(&object).unwrap();
        let version = Version {
            id: VersionId(id(1)),
            object: object.id,
            status: Status::Running,
            method: "full".to_owned(),
            base: None,
            key: None,
            null_device: false,
            created_us: 1,
            stands_for: None,
        };
        let session = Session {
            id: SessionId(id(1)),
            kind: "backup".to_owned(),
            object: None,
            version: Some(version.id),
            parent: None,
            status: Status::Running,
            host: HostName::recorded("here"),
            device: "there".to_owned(),
            started_us: 1,
            run_us: None,
            ended_us: None,
            files: 0,
            dirs: 0,
            bytes_read: 0,
            bytes_written: 0,
            tags: Vec::new(),
            report: None,
            pid: 1,
            birth: String::new(),
        };
        idb.begin_session(&session, Some(&version)).unwrap();
        for n in [1, 2, 3] {
            idb.put_medium(&Medium {
                id: MediumId(id(n)),
                label: format!("medium-{n}"),
                device: format!("file:/mnt/{n}").parse().unwrap(),
                block_size: 1 << 16,
                created_us: 1,
                hosts: Vec::new(),
            })
            .unwrap();
        }
        (idb, version, session.id)
    }

    /// Records segment `nth`, with bytes from 100 times `from` on, as number `number` on a medium.
    fn commit(idb: &Idb, session: SessionId, (nth, from): (u8, u8), medium: u8, number: u32) {
        let segment = Segment {
            id: SegmentId(id(nth)),
            medium: MediumId(id(medium)),
            number: SegmentNumber(number),
            object: None,
            session,
            blocks: 1,
            bytes: 1 << 16,
            committed_us: i64::from(from),
        };
        let part = StreamPart {
            segment: segment.id,
            stream: StreamId(id(7)),
            version: VersionId(id(1)),
            logical_start: 100 * u64::from(from),
            logical_end: 100 * u64::from(from + 1),
            rows: 1,
        };
        idb.commit_segments(&[(segment, vec![part])]).unwrap();
    }

    /// The mirror was full in the third segment, and was taken again as the next tape: the third lies on one of the two media, the
    /// fourth on the other, each behind the first two.
    #[test]
    fn segments_behind_a_common_one_come_in_the_order_of_their_streams() {
        for swapped in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (idb, version, session) = with_version(dir.path());
            let [first, mirror] = if swapped { [2, 1] } else { [1, 2] };
            for (nth, medium, number) in
                [(1, mirror, 1), (1, first, 1), (2, first, 2), (3, mirror, 2)]
            {
                commit(&idb, session, (nth, nth), medium, number);
            }
            let places = places_of(&idb, &[version], false).unwrap();
            let order: Vec<u8> = places.iter().map(|place| place.segment.0[0]).collect();
            assert_eq!(order, [1, 2, 3], "{swapped}");
        }
    }

    /// The original 9 was given up when a repair wrote it anew, so copies of it are all there is; some of them lack frames.
    #[test]
    fn of_copies_whose_original_is_gone_the_whole_one_stands_for_it() {
        for lacks in [[2, 0, 1], [0, 2, 1], [2, 1, 0], [3, 2, 1]] {
            let dir = tempfile::tempdir().unwrap();
            let (idb, version, session) = with_version(dir.path());
            for medium in [1, 2, 3] {
                let segment = SegmentId(id(10 + medium));
                idb.put_copy(segment, SegmentId(id(9)), lacks[usize::from(medium) - 1]).unwrap();
                commit(&idb, session, (10 + medium, 1), medium, 4);
            }
            let places = places_of(&idb, &[version], false).unwrap();
            let [place] = &places[..] else { panic!("{places:#?}") };
            let least = (1..=3).min_by_key(|medium| lacks[usize::from(*medium) - 1]).unwrap();
            assert_eq!(place.segment.0[0], 10 + least, "{lacks:?}");
            assert_eq!(place.media, [(MediumId(id(least)), SegmentNumber(4))], "{lacks:?}");
            let all = place.places();
            let mut known: Vec<u8> = all.iter().map(|at| at.1.0[0]).collect();
            assert_eq!(known[0], least, "{lacks:?}");
            known.sort_unstable();
            assert_eq!(known, [1, 2, 3], "{lacks:?}");
            assert!(all.iter().all(|at| place.lacks_at(*at) == lacks[usize::from(at.1.0[0]) - 1]));
            assert_eq!(place.whole_places().len(), lacks.iter().filter(|n| **n == 0).count());
        }
    }
}
