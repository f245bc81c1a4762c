//! Data that rows of other segments refer to, restored where they lie.

use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_disk_agent::target::TargetError;
use capstan_engine::meter::Stage;
use capstan_format::entry::split;
use capstan_format::id::StreamId;
use capstan_media_agent::read::frames::FrameReader;

use super::{Data, GAP, Hand};
use crate::error::Result;
use crate::kinds::restore::tree::referred::{Home, Lent, RowsAt, Stretch, stretches};
use crate::report::outcome::of_outcome;

impl Hand<'_> {
    /// Restores what other segments' rows refer to in a segment.
    pub(in crate::kinds::restore) fn lent(&mut self, lent: &Lent) -> Result<()> {
        let r = self.restore;
        let place = &r.view.segments[lent.segment];
        let segment = lent.segment as u32;
        let opened = match lent.opened.lock().take() {
            Some(opened) => Ok(opened),
            None => r.view.open_data(place),
        };
        self.mark(Stage::Device);
        let mut rows = RowsAt::default();
        let mut first = lent.first.lock().take();
        for stream in &lent.streams {
            let mut data = match &opened {
                Ok((reader, layout)) => {
                    let contents = r.view.contents(place)?;
                    let of = contents.streams.iter().find(|s| s.stream == *stream);
                    let frames = FrameReader::of(reader, layout, *stream);
                    let data = of.map(|of| self.data_of(lent.segment, of, layout, frames));
                    data.transpose()?.map(|data| Data { is_lent: true, ..data })
                }
                Err(_) => None,
            };
            let mut places = match first.take() {
                Some(first) => first,
                None => r.places_in(segment, *stream, None, &mut rows)?,
            };
            while let Some(last) = places.last().copied() {
                for at in &places {
                    if r.stop.0.load(Relaxed) {
                        return Ok(());
                    }
                    let Some(row) = r.row_of((segment, *stream), *at, &mut rows)? else { continue };
                    self.mark(Stage::Cell);
                    match (&mut data, &opened) {
                        (Some(data), _) => self.referring(&row, (segment, *stream), data)?,
                        (None, Err(e)) => r.not_had(&row.entry.path(), row.entry.size, e),
                        (None, Ok(_)) => r.lost(&row.entry.path(), GAP),
                    }
                }
                places = r.places_in(segment, *stream, Some(last), &mut rows)?;
            }
        }
        Ok(())
    }

    /// Restores what a row refers to in a stream's part of a segment.
    fn referring(&mut self, row: &Row, of: (u32, StreamId), data: &mut Data) -> Result<()> {
        let r = self.restore;
        let path = row.entry.path();
        let Some(to) = r.place_of(&path) else { return Ok(()) };
        let Some(to) = r.stripped(&to) else { return Ok(()) };
        let (dir, name) = split(to);
        let is_here = r.home(&row.entry) == Home::There(of.0, of.1);
        let result = match r.in_parts.contains_key(&path) {
            true => self.write_referred(row, &path, dir, name, of, data),
            false if is_here => {
                let entry = r.here(row);
                self.write_file(&entry, row, &path, dir, name, data)
            }
            false => return Ok(()),
        };
        if let Err(e) = result {
            r.target_error(&path, &e)?;
        }
        if is_here
            && let Some((code, text)) = r.overview.outcome(&path, row.ordinal).and_then(of_outcome)
        {
            r.error(code, &path, text);
        }
        self.mark(Stage::Source);
        Ok(())
    }

    /// Writes what a stream's part of a segment has of a file that is written in parts.
    fn write_referred(
        &mut self,
        row: &Row,
        path: &[u8],
        dir: &[u8],
        name: &[u8],
        (segment, stream): (u32, StreamId),
        data: &mut Data,
    ) -> std::result::Result<(), TargetError> {
        let r = self.restore;
        let Some(parts) = r.in_parts.get(path) else { return Ok(()) };
        if !r.make_in_parts(&mut self.worker, path, parts)? {
            return Ok(());
        }
        let mut here: Vec<Stretch> = Vec::new();
        stretches(&r.spans, &row.entry, &mut |of| {
            if (of.segment, of.stream) == (Some(segment), stream) {
                here.push(of);
            }
        });
        here.sort_by_key(|of| of.at);
        self.came = false;
        let file = self.worker.open_part(dir, name)?;
        let written = here.iter().fold(0, |sum: u64, of| sum.saturating_add(of.len));
        for Stretch { offset, at, len, .. } in here {
            self.copy(path, data, at, len, &mut |to, bytes| {
                file.write_all_at(offset.saturating_add(to), bytes)
            })?;
        }
        file.leave()?;
        parts.came.fetch_or(self.came, Relaxed);
        r.written(&mut self.worker, path, (dir, name), written)
    }
}
