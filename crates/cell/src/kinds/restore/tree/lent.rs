//! Data that rows of other segments refer to, restored where they lie.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_engine::frames::FramePort;
use capstan_engine::meter::Stage;
use capstan_format::id::StreamId;
use capstan_port::disk::restore::{Fed, Placed};
use capstan_port::media::read::known::GAP;

use super::Restore;
use super::TreeKeys;
use super::feed::{Feed, NoFrames};
use crate::error::Result;
use crate::kinds::restore::tree::referred::{Home, Lent, RowsAt, Stretch, stretches};
use crate::reading::serving::lack_of;

impl Feed<'_> {
    /// Restores what other segments' rows refer to in a segment.
    pub(in crate::kinds::restore) fn lent(&mut self, lent: &Lent) -> Result<()> {
        let Self { restore: r, worker, served } = self;
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
            let mut frames =
                of.zip(opened.as_ref().ok()).map(|(of, opened)| served.of((segment, opened), of));
            let mut none = NoFrames;
            let has_frames = frames.is_some();
            let frames: &mut dyn FramePort = match &mut frames {
                Some(frames) => &mut **frames,
                None => &mut none,
            };
            worker.begin_stream();
            let mut places = match first.take() {
                Some(first) => first,
                None => r.places_in(segment, *stream, None, &mut rows)?,
            };
            while let Some(last) = places.last().copied() {
                for at in &places {
                    if r.stop.0.load(Relaxed) {
                        return worker.end_stream(frames);
                    }
                    let Some(row) = r.row_of((segment, *stream), *at, &mut rows)? else { continue };
                    match &why {
                        _ if has_frames => {
                            r.feed_referring(row, (segment, *stream), &mut worker.rows);
                        }
                        Some(why) => {
                            let (name, size) = (r.name_of(row.entry.path()), row.entry.size);
                            worker.rows.push(Fed::NotHad(name, size, why.clone()));
                        }
                        None => {
                            let name = r.name_of(row.entry.path());
                            worker.rows.push(Fed::Lost(name, Cow::Borrowed(GAP)));
                        }
                    }
                    worker.push(frames)?;
                }
                places = r.places_in(segment, *stream, Some(last), &mut rows)?;
            }
            worker.end_stream(frames)?;
        }
        Ok(())
    }
}

impl Restore<'_> {
    /// Passes on what a row refers to in a stream's part of a segment.
    fn feed_referring(&self, row: Row, of: (u32, StreamId), rows: &mut Vec<Fed>) {
        let Some(name) = self.name(row.entry.path()) else { return };
        let is_here = self.home(&row.entry) == Home::There(of.0, of.1);
        let found = if is_here { self.found_of(&row, &name) } else { None };
        match self.in_parts.contains(&name.stored) {
            true => rows.push(Fed::Parts(name, self.pieces_in(&row, of))),
            false if is_here => {
                rows.push(Fed::File { row: self.file_row(row, name), is_lent: true });
            }
            false => return,
        }
        rows.extend(found);
    }

    /// What a stream's part of a segment has of a file, in its order.
    fn pieces_in(&self, row: &Row, (segment, stream): (u32, StreamId)) -> Vec<Placed> {
        let mut here: Vec<Placed> = Vec::new();
        stretches(&self.spans, &row.entry, &mut |of| {
            if (of.segment, of.stream) == (Some(segment), stream) {
                let Stretch { offset, at, len, .. } = of;
                here.push(Placed { offset, stream, at, len, is_in_order: true });
            }
        });
        here.sort_by_key(|of| of.at);
        here
    }
}
