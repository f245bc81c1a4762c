//! Contents of single files, wherever their pieces lie: for front ends that want a file as a stream of bytes.

use std::collections::HashMap;
use std::sync::Arc;

use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_format::frame::FrameType;
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_media_agent::reader::{Contents, SegmentReader};

use crate::error::{CellError, Result};
use crate::overview::Overview;
use crate::version::{Row, VersionView};

/// A range of a file: where its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    offset: u64,
    len: u64,
    stream: StreamId,
    logical: u64,
}

/// Where each stream's logical bytes lie: segment, from, to.
type Extents = HashMap<StreamId, Vec<(u32, u64, u64)>>;

/// Reads files of a version by their rows.
pub(crate) struct FileContents<'a> {
    view: &'a VersionView<'a>,
    extents: Extents,
    /// Parts of files that are stored in parts, by path.
    parts: HashMap<Vec<u8>, Vec<Piece>>,
    /// The segment each stream was read in last.
    open: HashMap<StreamId, Open>,
    decompressor: Decompressor,
    scratch: Vec<u8>,
}

struct Open {
    segment: u32,
    reader: SegmentReader,
    contents: Arc<Contents>,
    index: Vec<FramePlace>,
    sealer: Option<FrameSealer>,
    /// The frame at hand: its logical begin, its bytes, or how many zeros it stands for.
    frame: Option<(u64, u64, Vec<u8>)>,
}

/// Where a file has data, as offset and length, ascending and apart; between them are holes.
pub(crate) fn data_ranges(e: &Entry) -> Vec<(u64, u64)> {
    if e.extents.is_empty() {
        return vec![(0, e.size)];
    }
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut offset: u64 = 0;
    for x in &e.extents {
        match ranges.last_mut() {
            _ if x.kind == ExtentKind::Hole => {}
            Some((from, len)) if *from + *len == offset => *len += x.len,
            _ => ranges.push((offset, x.len)),
        }
        offset = offset.saturating_add(x.len);
    }
    ranges
}

impl<'a> FileContents<'a> {
    /// Finds out where everything lies.
    pub fn new(view: &'a VersionView<'a>, overview: &Overview) -> Result<Self> {
        let mut extents = Extents::new();
        let mut parts: HashMap<Vec<u8>, Vec<Piece>> = HashMap::new();
        for (index, place) in view.segments.iter().enumerate() {
            let contents = view.contents(place)?;
            for s in contents.streams.iter().filter(|s| place.streams.contains(&s.stream)) {
                let begin =
                    s.index.iter().find(|p| p.logical_frame).map_or(s.logical_end, |p| p.logical);
                extents.entry(s.stream).or_default().push((index as u32, begin, s.logical_end));
                // Parts that continue a file begun in an earlier segment are in that file's own range already.
                let mut promised: HashMap<StreamId, u64> = HashMap::new();
                view.rows(index as u32, s, &mut |row| {
                    let e = &row.entry;
                    let first = row.start >= promised.get(&s.stream).copied().unwrap_or(0);
                    promised.insert(s.stream, row.start.saturating_add(e.logical_len()));
                    let path = e.path();
                    if e.kind == Kind::Part && first && !overview.is_replaced(&path, row.ordinal) {
                        parts.entry(path).or_default().push(Piece {
                            offset: e.part_offset,
                            len: e.size,
                            stream: s.stream,
                            logical: row.start,
                        });
                    }
                    Ok(())
                })?;
            }
        }
        Ok(Self {
            view,
            extents,
            parts,
            open: HashMap::new(),
            decompressor: Decompressor::default(),
            scratch: Vec::new(),
        })
    }

    /// Calls with the bytes of the file's [`data_ranges`], one after the other; filling comes as zeros. Ends with an error
    /// if some are lost.
    pub fn read(&mut self, row: &Row, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (e, stream) = (&row.entry, row.data.stream);
        if e.extents.is_empty() {
            return self.piece(Piece { offset: 0, len: e.size, stream, logical: row.start }, each);
        }
        let (mut offset, mut logical) = (0, row.start);
        for x in &e.extents {
            match x.kind {
                ExtentKind::Data => {
                    self.piece(Piece { offset, len: x.len, stream, logical }, each)?;
                    logical += x.len;
                }
                ExtentKind::Hole => {}
                ExtentKind::Parts => {
                    let parts = self.parts.get(&e.path()).map(Vec::as_slice).unwrap_or_default();
                    let within = |p: &&Piece| p.offset >= offset && p.offset < offset + x.len;
                    let mut parts: Vec<_> = parts.iter().filter(within).copied().collect();
                    // Where a piece was sent again at a segment's begin, the longer one has it all.
                    parts.sort_by_key(|p| (p.offset, std::cmp::Reverse(p.len)));
                    let mut end = offset;
                    for part in parts
                        .into_iter()
                        .filter(|p| p.offset.saturating_add(p.len) <= offset + x.len)
                    {
                        if part.offset >= end {
                            zeros(part.offset - end, each)?;
                            self.piece(part, each)?;
                            end = part.offset + part.len;
                        }
                    }
                    zeros(offset + x.len - end, each)?;
                }
                _ => {
                    return Err(lost(
                        "its contents are stored in a way that needs a newer capstan",
                    ));
                }
            }
            offset += x.len;
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut at, end) = (piece.logical, piece.logical + piece.len);
        while at < end {
            self.load(piece.stream, at)?;
            let open = self.open.get(&piece.stream).and_then(|o| o.frame.as_ref());
            let Some((begin, stop, bytes)) = open else {
                return Err(lost("some of its data are missing on the medium"));
            };
            let to = (*stop).min(end);
            match bytes.get((at - begin) as usize..(to - begin) as usize) {
                Some(bytes) => each(bytes)?,
                None => zeros(to - at, each)?,
            }
            at = to;
        }
        Ok(())
    }

    /// Makes the frame that has the stream's logical byte `at` the one at hand.
    fn load(&mut self, stream: StreamId, at: u64) -> Result<()> {
        let missing = || lost("some of its data are missing on the medium");
        let places = self.extents.get(&stream).ok_or_else(missing)?;
        let place = places.iter().find(|(_, from, to)| (*from..*to).contains(&at));
        let segment = place.ok_or_else(missing)?.0;
        if self.open.get(&stream).is_none_or(|o| o.segment != segment) {
            let place = &self.view.segments[segment as usize];
            let contents = self.view.contents(place)?;
            let reader = self.view.open_segment(place)?;
            let s = contents.streams.iter().find(|s| s.stream == stream).ok_or_else(missing)?;
            let label = s.label.as_ref().map(|l| &l.session);
            let sealer = self.view.keys.sealer(Purpose::Contents, label, stream)?;
            let index = s.index.iter().filter(|p| p.logical_frame).copied().collect();
            let open = Open { segment, reader, contents, index, sealer, frame: None };
            self.open.insert(stream, open);
        }
        let Some(open) = self.open.get_mut(&stream) else { return Err(missing()) };
        if open.frame.as_ref().is_some_and(|(from, to, _)| (*from..*to).contains(&at)) {
            return Ok(());
        }
        let mut bytes = open.frame.take().map(|f| f.2).unwrap_or_default();
        let found =
            open.index.partition_point(|p| p.logical <= at).checked_sub(1).ok_or_else(missing)?;
        let mut frames = open.reader.frames(&open.contents, stream);
        let (header, stored) = frames.frame(&open.index[found])?;
        header
            .open(
                stored,
                open.sealer.as_ref(),
                &mut self.decompressor,
                &mut self.scratch,
                &mut bytes,
            )
            .map_err(|source| CellError::Format { what: "a frame".to_owned(), source })?;
        if header.frame_type == FrameType::Fill {
            bytes.clear();
        }
        let end = header.logical + header.length;
        if at >= end {
            return Err(missing());
        }
        open.frame = Some((header.logical, end, bytes));
        Ok(())
    }
}

fn lost(why: &str) -> CellError {
    CellError::BadInput(why.to_owned())
}

fn zeros(len: u64, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut left = len;
    while left > 0 {
        let n = left.min(ZEROS.len() as u64);
        each(&ZEROS[..n as usize])?;
        left -= n;
    }
    Ok(())
}
