//! Data that rows of other segments refer to, restored where they lie.

use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_disk_agent::restore::{FileWorker, Piece};
use capstan_engine::meter::Stage;
use capstan_format::id::StreamId;
use capstan_media_agent::serve::GAP;
use capstan_media_agent::serve::in_order::SegmentFrames;

use super::Restore;
use super::TreeKeys;
use super::feed::Feed;
use crate::error::Result;
use crate::kinds::restore::tree::referred::{Home, Lent, RowsAt, Stretch, stretches};
use crate::reading::serving::lack_of;
use crate::report::outcome::of_outcome;

impl Feed<'_> {
    /// Restores what other segments' rows refer to in a segment.
    pub(in crate::kinds::restore) fn lent(&mut self, lent: &Lent) -> Result<()> {
        let Self { restore: r, worker, replicas } = self;
        let place = &r.view.segments[lent.segment];
        let segment = lent.segment as u32;
        let opened = match lent.opened.lock().take() {
            Some(opened) => Ok(opened),
            None => r.view.open_data(place),
        };
        worker.mark(Stage::Device);
        let why = opened.as_ref().err().map(lack_of);
        let mut rows = RowsAt::default();
        let mut first = lent.first.lock().take();
        for stream in &lent.streams {
            let contents = match &opened {
                Ok(_) => Some(r.view.contents(place)?),
                Err(_) => None,
            };
            let of = contents.as_ref().and_then(|c| c.streams.iter().find(|s| s.stream == *stream));
            if let Some(of) = of {
                TreeKeys(r.view).check(of)?;
            }
            let mut frames = of
                .zip(opened.as_ref().ok())
                .map(|(of, opened)| SegmentFrames::new(r.view, (segment, opened), of, replicas));
            worker.begin_stream();
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
                    worker.mark(Stage::Cell);
                    let path = row.entry.path();
                    match (&mut frames, &why) {
                        (Some(frames), _) => {
                            r.feed_referring(worker, &row, (segment, *stream), frames)?;
                        }
                        (None, Some(why)) => {
                            r.files.not_had(&r.name_of(&path), row.entry.size, why);
                        }
                        (None, None) => r.files.lost(&r.name_of(&path), GAP),
                    }
                }
                places = r.places_in(segment, *stream, Some(last), &mut rows)?;
            }
        }
        Ok(())
    }
}

impl Restore<'_> {
    /// Passes on what a row refers to in a stream's part of a segment.
    fn feed_referring(
        &self,
        worker: &mut FileWorker<'_>,
        row: &Row,
        of: (u32, StreamId),
        frames: &mut SegmentFrames<'_>,
    ) -> Result<()> {
        let path = row.entry.path();
        let Some(shown) = self.place_of(&path) else { return Ok(()) };
        let Some(to) = self.stripped(&shown) else { return Ok(()) };
        let file = self.file_row(row, (&path, &shown, to));
        let is_here = self.home(&row.entry) == Home::There(of.0, of.1);
        match self.files.is_in_parts(&path) {
            true => worker.parts(&file.name, &self.pieces_in(row, of), frames)?,
            false if is_here => worker.file(&file, frames, true)?,
            false => return Ok(()),
        }
        if is_here
            && let Some((code, text)) =
                self.overview.outcome(&path, row.ordinal).and_then(of_outcome)
        {
            self.files.found(&file.name, code, text);
        }
        Ok(())
    }

    /// What a stream's part of a segment has of a file, in its order.
    fn pieces_in(&self, row: &Row, (segment, stream): (u32, StreamId)) -> Vec<Piece> {
        let mut here: Vec<Piece> = Vec::new();
        stretches(&self.spans, &row.entry, &mut |of| {
            if (of.segment, of.stream) == (Some(segment), stream) {
                let Stretch { offset, at, len, .. } = of;
                here.push(Piece { offset, stream, at, len, is_in_order: true });
            }
        });
        here.sort_by_key(|of| of.at);
        here
    }
}
