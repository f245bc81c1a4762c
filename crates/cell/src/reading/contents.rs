//! Contents of single files, wherever their pieces lie: for front ends that want a file as a stream of bytes.

use std::collections::HashMap;

use capstan_catalog::keys::VersionKeys;
use capstan_catalog::row::Row;
use capstan_catalog::version::Overview;
use capstan_engine::frames::Lack;
use capstan_engine::meter::Lap;
use capstan_format::entry::{ExtentKind, Kind};
use capstan_format::id::StreamId;
use capstan_format::keys::Purpose;
use capstan_port::disk::archive::Planned;
use capstan_port::disk::contents::Piece;
use capstan_port::media::read::frames::VersionFrames;
use capstan_port::media::read::known::gap;
use capstan_stream::contents::{Chunk, Contents, ContentsKeys};
use capstan_wire::keys::{SecretKey, SessionKey};

use crate::error::{Damage, Result};
use crate::reading::away::data::AwayData;
use crate::reading::version::VersionView;

/// Streams of which a frame is kept.
const STREAMS: usize = 8;

/// Where contents of a version's files lie, by their rows.
pub(crate) struct FilePieces {
    /// Parts of files that are stored in parts, by path.
    parts: HashMap<Vec<u8>, Vec<Piece>>,
}

/// Reads files of a version by their rows.
pub(crate) struct FileContents<'a> {
    pieces: FilePieces,
    frames: Box<dyn VersionFrames + 'a>,
    away: AwayData<'a>,
    contents: Contents<'a>,
    lap: Lap,
}

/// What of the pieces comes before an offset.
pub(crate) fn up_to(mut pieces: Vec<Piece>, end: u64) -> Vec<Piece> {
    pieces.retain_mut(|piece| {
        piece.len = piece.len.min(end.saturating_sub(piece.offset));
        piece.len > 0
    });
    pieces
}

impl FilePieces {
    /// Finds out where everything lies.
    pub fn of(view: &VersionView<'_>, overview: &Overview) -> Result<Self> {
        let mut parts: HashMap<Vec<u8>, Vec<Piece>> = HashMap::new();
        for (index, place) in view.segments.iter().enumerate() {
            let contents = view.contents(place)?;
            for s in contents.streams.iter().filter(|s| place.streams.contains(&s.stream)) {
                // Parts that continue a file begun in an earlier segment are in that file's own range already.
                let mut promised: HashMap<StreamId, u64> = HashMap::new();
                view.rows(index as u32, s, &mut |row| -> Result<()> {
                    let e = &row.entry;
                    let first = row.start >= promised.get(&s.stream).copied().unwrap_or(0);
                    promised.insert(s.stream, row.start.saturating_add(e.logical_len()));
                    let path = e.path();
                    if e.kind == Kind::Part && first && !overview.is_replaced(&path, row.ordinal) {
                        parts.entry(path).or_default().push(Piece {
                            offset: e.part_offset,
                            len: e.size,
                            at: Some((s.stream, row.start)),
                        });
                    }
                    Ok(())
                })?;
            }
        }
        Ok(Self { parts })
    }

    /// Where the bytes of the file's [`data_ranges`](capstan_format::entry::Entry::data_ranges) are, ascending.
    pub fn pieces(&self, row: &Row) -> Result<Vec<Piece>> {
        let (e, stream) = (&row.entry, row.data.stream);
        let mut pieces = Vec::new();
        let mut add = |offset, len, at| {
            if len > 0 {
                pieces.push(Piece { offset, len, at });
            }
        };
        if e.extents.is_empty() {
            add(0, e.size, Some((stream, row.start)));
            return Ok(pieces);
        }
        let (mut offset, mut logical) = (0, row.start);
        for x in &e.extents {
            // What a row claims beyond its file's size is not of the file.
            let len = x.len.min(e.size - offset);
            match x.kind {
                ExtentKind::Data => {
                    add(offset, len, Some((stream, logical)));
                    logical = logical.saturating_add(x.len);
                }
                ExtentKind::At(stream, at) => add(offset, len, Some((stream, at))),
                ExtentKind::Hole => {}
                ExtentKind::Parts => {
                    let parts = self.parts.get(&e.path()).map(Vec::as_slice).unwrap_or_default();
                    let within = |p: &&Piece| p.offset >= offset && p.offset < offset + len;
                    let mut parts: Vec<_> = parts.iter().filter(within).copied().collect();
                    // Where a piece was sent again at a segment's begin, the longer one has it all.
                    parts.sort_by_key(|p| (p.offset, std::cmp::Reverse(p.len)));
                    let mut end = offset;
                    for part in
                        parts.into_iter().filter(|p| p.offset.saturating_add(p.len) <= offset + len)
                    {
                        if part.offset >= end {
                            add(end, part.offset - end, None);
                            add(part.offset, part.len, part.at);
                            end = part.offset + part.len;
                        }
                    }
                    add(end, offset + len - end, None);
                }
                _ => {
                    return Err(Damage::NewerContents.into());
                }
            }
            offset += len;
        }
        Ok(pieces)
    }
}

impl<'a> FileContents<'a> {
    /// Finds out where everything lies.
    pub fn new(view: &'a VersionView<'a>, overview: &Overview) -> Result<Self> {
        let pieces = FilePieces::of(view, overview)?;
        let frames = view.media.agent().frames(view, view.spans());
        let away = AwayData::of(view, view.spans());
        let contents = Contents::new(contents_keys(&view.keys), STREAMS);
        Ok(Self { pieces, frames, away, contents, lap: Lap::start() })
    }

    /// Where the bytes of a file are, ascending.
    pub fn pieces(&self, row: &Row) -> Result<Vec<Piece>> {
        self.pieces.pieces(row)
    }

    /// What frames can give of the file: nothing that is only claimed. An error where some of it lies on media that are away only.
    pub fn plan(&mut self, row: &Row, overview: &Overview) -> Result<Planned> {
        let (mut pieces, mut lost): (Vec<Piece>, Option<Lack>) = (Vec::new(), None);
        let size = overview.cut_at(row).unwrap_or(row.entry.size);
        for piece in up_to(self.pieces(row)?, size) {
            let Some((stream, logical)) = piece.at else {
                lost.get_or_insert_with(gap);
                continue;
            };
            if let Some(away) = self.away.why(stream, logical, piece.len)? {
                return Err(away);
            }
            let why = self.frames.backed(stream, logical, piece.len, &mut |behind, len| {
                let (offset, at) = (piece.offset + behind, logical + behind);
                match pieces.last_mut() {
                    Some(Piece { offset: o, len: n, at: Some((s, l)) })
                        if *o + *n == offset && *s == stream && *l + *n == at =>
                    {
                        *n += len;
                    }
                    _ => pieces.push(Piece { offset, len, at: Some((stream, at)) }),
                }
            });
            lost = lost.or(why);
        }
        let len = match &lost {
            None => size,
            Some(_) => {
                let end = pieces.last().map_or(0, |p| p.offset.saturating_add(p.len));
                end.max(overview.believed_len(row))
            }
        };
        Ok(Planned { pieces, len, lost })
    }

    /// Calls with bytes of a stream.
    pub fn bytes(
        &mut self,
        stream: StreamId,
        logical: u64,
        len: u64,
        each: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<()> {
        let Self { frames, contents, lap, .. } = self;
        contents.each(&mut **frames, (stream, logical, len), lap, each)
    }
}

/// What opens the contents of a version.
pub(crate) fn contents_keys<'k>(keys: &'k VersionKeys) -> Box<ContentsKeys<'k>> {
    Box::new(|label, stream| {
        keys.sealer(Purpose::Contents, label, stream).map_err(|e| e.to_string())
    })
}

/// The keys that are open, as a disk agent gets them.
pub(crate) fn session_keys(keys: &VersionKeys) -> Vec<SessionKey> {
    let one = |(id, key, cipher): (_, &capstan_format::keys::Key32, _)| SessionKey {
        id,
        contents: SecretKey(key.clone()),
        cipher,
    };
    keys.contents().map(one).collect()
}
