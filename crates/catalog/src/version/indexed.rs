//! What a version's view reads by sparse indexes and tables of outlines: batches one by one, and what each segment has.

use capstan_format::id::StreamId;
use capstan_format::keys::Purpose;
use capstan_format::record::SessionLabel;
use capstan_format::sums::Sums;

use super::{ContentsFrom, VersionRows};
use crate::batch::{BatchOpener, rows_of_batch};
use crate::error::{CatalogError, Result};
use crate::places::SegmentPlace;
use crate::row::{PathKey, Row};
use crate::sparse::{
    self, Batches, CatalogBatches, Outline, Saved, SavedBatches, Source, StreamIndex, Table,
    TableMaker, state_of,
};

/// What a segment has, as its sparse index says.
struct Indexed {
    /// The labels of all its streams.
    labels: Vec<SessionLabel>,
    /// Of the version's streams that have rows.
    outlines: Vec<Outline>,
    /// Whether that is of the catalog file: else it may be of a damaged medium, or of a listing.
    is_of_catalog: bool,
}

impl VersionRows<'_> {
    /// The labels of all streams of its segments, some of them more than once.
    pub fn labels(&self) -> Result<Vec<SessionLabel>> {
        let mut all = Vec::new();
        for places in self.sessions() {
            let table =
                state_of(self.idb, places).and_then(|state| Table::open(self.idb, places, state));
            match table {
                Some(table) => all.extend_from_slice(table.labels()),
                None => {
                    for place in places {
                        all.extend(self.labels_of(place)?);
                    }
                }
            }
        }
        Ok(all)
    }

    fn labels_of(&self, place: &SegmentPlace) -> Result<Vec<SessionLabel>> {
        if let Some(saved) = Saved::open(self.idb, place.segment) {
            return Ok(saved.labels().cloned().collect());
        }
        let contents = self.contents(place)?;
        Ok(contents
            .streams
            .iter()
            .filter_map(|s| Some(s.label.as_ref()?.session.clone()))
            .collect())
    }

    /// Calls with what each segment has of the version's streams, in order.
    pub fn each_outline(
        &self,
        each: &mut dyn FnMut(u32, &SegmentPlace, Vec<Outline>) -> Result<()>,
    ) -> Result<()> {
        let mut index = 0;
        for places in self.sessions() {
            self.outlines_of_session(places, &mut |place, outlines| {
                index += 1;
                each(index - 1, place, outlines)
            })?;
        }
        Ok(())
    }

    /// Its segments, those of each session together.
    fn sessions(&self) -> impl Iterator<Item = &[SegmentPlace]> {
        self.segments.chunk_by(|a, b| a.session == b.session)
    }

    /// From the session's table; if there is none that fits, from the sparse indexes, and then a table is made.
    fn outlines_of_session(
        &self,
        places: &[SegmentPlace],
        each: &mut dyn FnMut(&SegmentPlace, Vec<Outline>) -> Result<()>,
    ) -> Result<()> {
        let state = state_of(self.idb, places);
        let table = state.and_then(|state| Table::open(self.idb, places, state));
        let mut table = table.and_then(|table| table.outlines(&self.keys).ok());
        let mut maker = state.filter(|_| table.is_none()).map(TableMaker::new);
        for place in places {
            match table.as_mut().map(|table| table.next()) {
                Some(Ok(outlines)) => {
                    each(place, outlines)?;
                    continue;
                }
                Some(Err(_)) => {
                    // Its checksums hold and it cannot be read all the same: it is made again next time.
                    table = None;
                    if let Some(first) = places.first() {
                        let _ = self.idb.remove_table(first.segment);
                    }
                }
                None => {}
            }
            let indexed = self.indexed(place)?;
            maker = maker.filter(|_| indexed.is_of_catalog);
            if let Some(maker) = &mut maker {
                maker.add(&indexed.labels, &indexed.outlines);
            }
            each(place, indexed.outlines)?;
        }
        if let Some(maker) = maker {
            // Who may not write here, or has no room, reads the sparse indexes each time.
            let _ = maker.save(self.idb, places, &self.keys);
        }
        Ok(())
    }

    /// What a segment has, by its sparse index, which is made if there is none that fits.
    fn indexed(&self, place: &SegmentPlace) -> Result<Indexed> {
        let saved = Saved::open(self.idb, place.segment).and_then(|s| s.outlines(&self.keys).ok());
        let (all, is_of_catalog) = match saved {
            Some(outlines) => (outlines, true),
            None => {
                let (index, from) = self.make_index(place)?;
                let outlines = index.into_iter().map(|s| s.outline).collect();
                (outlines, matches!(from, ContentsFrom::Catalog(_)))
            }
        };
        let labels = all.iter().filter_map(|o: &Outline| o.label.clone()).collect();
        let outlines = all.into_iter().filter(|o| place.streams.contains(&o.stream)).collect();
        Ok(Indexed { labels, outlines, is_of_catalog })
    }

    /// Makes a segment's sparse index and, where it is of a catalog file, keeps it.
    fn make_index(&self, place: &SegmentPlace) -> Result<(Vec<StreamIndex>, ContentsFrom)> {
        let (contents, from) = self.contents_from(place)?;
        let index = sparse::of(&contents, &self.keys)?;
        if let ContentsFrom::Catalog(len) = from {
            // Who may not write here, or has no room, makes it anew each time.
            let _ = sparse::save(self.idb, place.segment, len, &index, &self.keys);
        }
        Ok((index, from))
    }

    /// Whether a stream has no row of that name in a segment, as far as its sparse index says. It may say no where it could
    /// say yes.
    pub fn lacks_name(&self, index: u32, stream: StreamId, name: &[u8]) -> bool {
        let place = self.segments.get(index as usize);
        let saved = place.and_then(|place| Saved::open(self.idb, place.segment));
        saved.is_some_and(|s| s.may_have(stream, name, &self.keys).is_ok_and(|may| !may))
    }

    /// The batches of a stream in a segment, to be read one by one, with the checksums of contents or without.
    pub fn batches(&self, index: u32, stream: StreamId, with_sums: bool) -> Result<Batches> {
        let place = &self.segments[index as usize];
        let (label, end, source) = match self.saved_batches(place, stream) {
            Some(s) => (s.label, s.end, Source::Catalog(CatalogBatches::new(s.catalog, s.places))),
            None => {
                let contents = self.contents(place)?;
                let s = contents.streams.iter().find(|s| s.stream == stream);
                let label = s.and_then(|s| s.label.as_ref()).map(|l| l.session.clone());
                (label, s.map_or(0, |s| s.logical_end), Source::Medium(contents))
            }
        };
        let sealer = self.keys.sealer(Purpose::Names, label.as_ref(), stream)?;
        let of = (place.session, index, stream);
        Ok(Batches { of, segment: place.segment, end, sealer, with_sums, source })
    }

    /// The first path of each batch of a stream's part of a segment; nothing where there is no sparse index.
    pub fn firsts(&self, index: u32, stream: StreamId) -> Result<Option<Vec<Option<PathKey>>>> {
        let saved = self.saved_batches(&self.segments[index as usize], stream);
        Ok(saved.map(|s| s.places.into_iter().map(|place| place.first).collect()))
    }

    /// As the sparse index says where they are. One that does not fit is made again, if there is a catalog file.
    fn saved_batches(&self, place: &SegmentPlace, stream: StreamId) -> Option<SavedBatches> {
        let saved = || Saved::open(self.idb, place.segment)?.into_batches(stream, &self.keys).ok();
        saved().or_else(|| {
            let (_, from) = self.contents_from(place).ok()?;
            if !matches!(from, ContentsFrom::Catalog(_)) {
                return None;
            }
            self.make_index(place).ok()?;
            saved()
        })
    }

    /// The rows of one batch; `false` if there is none of that number.
    pub fn batch<E: From<CatalogError>>(
        &self,
        batches: &mut Batches,
        number: usize,
        opener: &mut BatchOpener,
        each: &mut dyn FnMut(Row) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let stream = batches.of.2;
        if let Source::Catalog(catalog) = &mut batches.source {
            let Some(place) = catalog.places.get(number) else { return Ok(false) };
            let (copy, sums) = (place.copy, place.sums.filter(|_| batches.with_sums));
            let (segment, sealer) = (batches.segment, batches.sealer.as_ref());
            let sums =
                sums.and_then(|at| opener.sums(catalog.frame(segment, at, true)?, sealer).ok());
            if let Some(raw) = catalog.frame(segment, copy, false) {
                let (batch, start) = opener.open(raw, stream, sealer)?;
                let sums = sums.unwrap_or_default();
                let each = &mut self.with_kept_links(each);
                rows_of_batch(batches.of, number, batch, start, &sums, each)?;
                return Ok(true);
            }
            // The catalog file was damaged since its index was made.
            let place = &self.segments[batches.of.1 as usize];
            batches.source = Source::Medium(self.contents(place)?);
        }
        let Source::Medium(contents) = &batches.source else { return Ok(false) };
        let s = contents.streams.iter().find(|s| s.stream == stream);
        let Some(raw) = s.and_then(|s| s.batches.get(number)) else { return Ok(false) };
        let (batch, start) = opener.open(raw, stream, batches.sealer.as_ref())?;
        let each = &mut self.with_kept_links(each);
        rows_of_batch(batches.of, number, batch, start, &Sums::default(), each)?;
        Ok(true)
    }

    /// Whether any row of a batch has a name that `wanted` is for; `None` if there is no batch of that number.
    pub fn names(
        &self,
        batches: &mut Batches,
        number: usize,
        opener: &mut BatchOpener,
        wanted: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<bool>> {
        let Source::Catalog(catalog) = &mut batches.source else {
            let mut any = false;
            let is_there = self.batch(batches, number, opener, &mut |row| -> Result<()> {
                any |= wanted(&row.entry.name);
                Ok(())
            })?;
            return Ok(is_there.then_some(any));
        };
        let Some(copy) = catalog.places.get(number).map(|p| p.copy) else { return Ok(None) };
        // What cannot be read, reading the rows will say, or read from the medium.
        let Some(raw) = catalog.frame(batches.segment, copy, false) else { return Ok(Some(true)) };
        let mut any = false;
        opener.names(raw, batches.of.2, batches.sealer.as_ref(), &mut |_, name| {
            any = wanted(name);
            !any
        })?;
        Ok(Some(any))
    }

    /// Rows by their numbers in one stream's part of a segment. Each batch is read once, however many of its rows are asked for.
    pub fn rows_at(
        &self,
        index: u32,
        stream: StreamId,
        mut numbers: Vec<u32>,
        each: &mut dyn FnMut(Row),
    ) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        numbers.sort_unstable();
        let mut batches = self.batches(index, stream, true)?;
        let mut opener = BatchOpener::default();
        for wanted in numbers.chunk_by(|a, b| a >> 16 == b >> 16) {
            let batch = wanted.first().map_or(0, |number| number >> 16) as usize;
            self.batch(&mut batches, batch, &mut opener, &mut |row| -> Result<()> {
                if wanted.binary_search(&row.ordinal.row).is_ok() {
                    each(row);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
