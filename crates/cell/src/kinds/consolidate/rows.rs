//! The rows of a synthetic full: the merged tree of its chain, each row saying where its data lie now; and the contents
//! of frames of which too little is live to pass them on.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_catalog::version::{Merged, Overview};
use capstan_engine::link::LinkClosed;
use capstan_engine::message::{Code, path_text};
use capstan_engine::meter::{Meters, Stage};
use capstan_format::acl::{self, Whose};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Outcome};
use capstan_format::id::StreamId;
use capstan_stream::StreamWriter;
use capstan_stream::owners::OwnerNames;

use super::frames::Frames;
use super::live::Live;
use crate::error::{CellError, Damage, Result, chain};
use crate::observe::Stop;
use crate::reading::contents::{FileContents, up_to};
use crate::session::SessionLog;
use capstan_port::disk::contents::Piece;
use capstan_stream::contents::Chunk;

/// Rows that are sent together, and bytes of contents after which they are.
const ROWS: usize = 512;
const BYTES: u64 = 1 << 20;
/// Most extents of a row: what a batch can hold. Contents in more pieces are saved anew from there on.
const EXTENTS: usize = 25_000;

/// What of the rows pass counts.
#[derive(Default)]
pub(super) struct Counted {
    pub files: u64,
    pub dirs: u64,
}

/// Writes rows.
pub(super) struct Rows<'a> {
    pub overview: &'a Overview,
    pub live: &'a Live,
    pub frames: Frames<'a>,
    pub contents: FileContents<'a>,
    pub owners: Arc<OwnerNames>,
    pub meters: &'a Meters,
    pub log: &'a SessionLog<'a>,
    pub stop: &'a Stop,
    pub ready: Vec<Ready>,
    pub counted: Counted,
}

/// A row that waits, with what is to be saved anew of its contents: stream, logical offset, length.
pub(super) struct Ready {
    entry: Entry,
    /// The checksum of its contents, where that is known.
    sum: Option<u64>,
    again: Vec<(StreamId, u64, u64)>,
    outcomes: Vec<Outcome>,
}

type Handed = std::result::Result<(), LinkClosed>;

impl Rows<'_> {
    /// Writes all rows. The inner error means that the target takes no more.
    pub fn run(&mut self, merged: &mut Merged<'_>, out: &mut StreamWriter<'_>) -> Result<Handed> {
        while let Some(row) = merged.next()? {
            if self.stop.0.load(Relaxed) {
                return Ok(Ok(()));
            }
            if row.entry.kind.is_inode()
                && let Err(closed) = self.row(&row, out)?
            {
                return Ok(Err(closed));
            }
        }
        self.flush(out)
    }

    fn row(&mut self, row: &Row, out: &mut StreamWriter<'_>) -> Result<Handed> {
        let mut ready = Ready {
            entry: Entry { replaces: false, ..row.entry.clone() },
            sum: self.overview.is_whole(row).then(|| self.overview.content_sum(row)).flatten(),
            again: Vec::new(),
            outcomes: self.overview.outcomes(&row.entry.path(), row.data).collect(),
        };
        let cut = self.overview.cut_at(row);
        if row.entry.kind == Kind::File && !row.entry.link && row.entry.size > 0 {
            match self.contents.pieces(row) {
                Ok(pieces) => {
                    // What stands for the rest of a file that was cut is no part of it.
                    if let Some(cut) = cut {
                        (ready.entry.size, ready.sum) = (cut, None);
                    }
                    self.place(&up_to(pieces, ready.entry.size), &mut ready)?;
                }
                Err(e) => {
                    return Err(self.lost(&row.entry, &e));
                }
            }
        }
        match row.entry.kind {
            Kind::Dir => self.counted.dirs += 1,
            _ => self.counted.files += 1,
        }
        let name = |n: &Option<Arc<[u8]>>| n.as_ref().map(|n| n.to_vec());
        let (user, group) = (name(&row.user), name(&row.group));
        for of in acl::named(&row.entry.xattrs) {
            let name = row.acl.as_ref().and_then(|names| names.get(&of));
            self.owners.set(of, name.map(|name| name.to_vec()));
        }
        self.owners.set((Whose::User, row.entry.uid), user);
        self.owners.set((Whose::Group, row.entry.gid), group);
        self.ready.push(ready);
        let bytes: u64 =
            self.ready.iter().flat_map(|r| &r.again).map(|p| p.2).fold(0, u64::saturating_add);
        if self.ready.len() >= ROWS || bytes >= BYTES { self.flush(out) } else { Ok(Ok(())) }
    }

    /// Settles where the contents of a file are: in frames that were passed on, or saved anew. What no frame has is saved anew too: if
    /// it is nowhere, reading it says so.
    fn place(&mut self, pieces: &[Piece], ready: &mut Ready) -> Result<()> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut offset = 0;
        for piece in pieces {
            push(&mut extents, piece.offset - offset, ExtentKind::Hole);
            let Some((stream, from)) = piece.at else {
                // Bytes that no medium has: the file stays incomplete, and is called so.
                push(&mut extents, piece.len, ExtentKind::Parts);
                offset = piece.offset + piece.len;
                continue;
            };
            let (live, again) = (self.live, &mut ready.again);
            self.frames.each(stream, from, piece.len, &mut |frame, low, high| {
                let passed = frame.is_some_and(|frame| live.is_passed(stream, frame.sequence));
                if passed && extents.len() < EXTENTS {
                    push(&mut extents, high - low, ExtentKind::At(stream, low));
                    return;
                }
                push(&mut extents, high - low, ExtentKind::Data);
                match again.last_mut() {
                    Some(last) if last.0 == stream && last.1 + last.2 == low => {
                        last.2 += high - low
                    }
                    _ => again.push((stream, low, high - low)),
                }
            })?;
            offset = piece.offset + piece.len;
        }
        push(&mut extents, ready.entry.size - offset, ExtentKind::Hole);
        let plain = extents.len() == 1 && extents[0].kind == ExtentKind::Data;
        ready.entry.extents = if plain { Vec::new() } else { extents };
        Ok(())
    }

    /// Says what of a file cannot be read; the error with which the consolidation ends.
    fn lost(&self, entry: &Entry, why: &CellError) -> CellError {
        let path = format!("/{}", path_text(&entry.path()));
        self.log.say(Code::Damaged, "media agent", &path, chain(why));
        Damage::FullWouldLack.into()
    }

    /// Sends the rows that wait, and then their contents.
    fn flush(&mut self, out: &mut StreamWriter<'_>) -> Result<Handed> {
        let waiting = std::mem::take(&mut self.ready);
        let rows = waiting.iter().map(|r| (r.entry.clone(), r.sum));
        if let Err(closed) = out.rows_with_sums(rows) {
            return Ok(Err(closed));
        }
        for ready in &waiting {
            for (stream, from, len) in &ready.again {
                let mut closed = Ok(());
                let source = self.meters.of(Stage::Source);
                let stop = self.stop;
                let read = self.contents.bytes(*stream, *from, *len, &mut |chunk| {
                    if stop.0.load(Relaxed) {
                        return Err(CellError::Unfinished("stopped".into()));
                    }
                    closed = closed.and_then(|()| match chunk {
                        Chunk::Bytes(bytes) => {
                            source.bytes(bytes.len() as u64);
                            put(out, bytes)
                        }
                        // Filling stays filling, whatever its length.
                        Chunk::Zeros(len) => out.fill(len),
                    });
                    closed.map_err(|_| CellError::Unfinished("closed".into()))
                });
                if self.stop.0.load(Relaxed) {
                    return Ok(Ok(()));
                }
                if closed.is_err() {
                    return Ok(closed);
                }
                read.map_err(|e| self.lost(&ready.entry, &e))?;
            }
            for outcome in &ready.outcomes {
                out.outcome(Entry {
                    kind: Kind::Outcome,
                    dir: ready.entry.dir.clone(),
                    name: ready.entry.name.clone(),
                    outcome: Some(*outcome),
                    ..Entry::default()
                });
            }
        }
        Ok(Ok(()))
    }
}

/// Adds an extent, or lengthens the last one where this goes on with it.
fn push(extents: &mut Vec<Extent>, len: u64, kind: ExtentKind) {
    if len == 0 {
        return;
    }
    if let Some(last) = extents.last_mut() {
        let goes_on = match (&last.kind, &kind) {
            (ExtentKind::At(a, from), ExtentKind::At(b, at)) => a == b && from + last.len == *at,
            (a, b) => a == b,
        };
        if goes_on {
            last.len += len;
            return;
        }
    }
    extents.push(Extent { len, kind });
}

fn put(out: &mut StreamWriter<'_>, mut bytes: &[u8]) -> Handed {
    while !bytes.is_empty() {
        let space = out.space()?;
        let n = space.len().min(bytes.len());
        space[..n].copy_from_slice(&bytes[..n]);
        out.advance(n)?;
        bytes = &bytes[n..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_that_go_on_are_one() {
        let (a, b) = (StreamId([1; 16]), StreamId([2; 16]));
        let mut extents = Vec::new();
        let at = |s, from| ExtentKind::At(s, from);
        for (len, kind) in [
            (5, at(a, 0)),
            (5, at(a, 5)),
            (0, ExtentKind::Hole),
            (5, at(a, 11)),
            (1, at(b, 16)),
            (2, ExtentKind::Data),
            (2, ExtentKind::Data),
        ] {
            push(&mut extents, len, kind);
        }
        let lens: Vec<_> = extents.iter().map(|x| x.len).collect();
        assert_eq!(lens, [10, 5, 1, 4], "{extents:?}");
    }
}
