//! Parts of files that go on on another tape, held from the time when their tape is loaded until the file is written: in memory, or in
//! a file without a name where the restore has a directory for a spool.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_engine::frames::Lack;
use capstan_engine::nameless::nameless;
use capstan_format::id::StreamId;
use capstan_port::disk::archive::ArchiveFailed;
use capstan_port::disk::contents::Piece;
use capstan_stream::contents::Chunk;
use capstan_wire::restore::SpoolSpec;

use super::Source;

/// Bytes that are held in memory at most.
const ROOM: u64 = 256 << 20;
/// Bytes of one part: it is read from the spool at once.
const PART_MOST: u64 = 1 << 20;

/// Where the bytes of a part are.
enum At {
    Here(Vec<u8>),
    Spooled(u64, usize),
}

struct Part {
    len: u64,
    at: At,
    /// Files that are still to come with it.
    users: u32,
}

/// What is held.
pub(super) struct Held {
    parts: BTreeMap<(StreamId, u64), Part>,
    spool: Option<(File, u64)>,
    /// How much can be held at a time.
    pub room: u64,
}

impl Held {
    /// Nothing yet.
    pub fn new(plan: Option<&SpoolSpec>) -> Result<Self, ArchiveFailed> {
        let spool = match plan {
            Some(plan) => {
                let dir = Path::new(OsStr::from_bytes(&plan.directory));
                let file = nameless(dir).map_err(|e| {
                    ArchiveFailed(format!("cannot make the spool in {}: {e}", dir.display()).into())
                })?;
                Some((file, 0))
            }
            None => None,
        };
        let room = plan.map_or(ROOM, |plan| plan.bytes.max(ROOM));
        Ok(Self { parts: BTreeMap::new(), spool, room })
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Reads pieces and holds them. What cannot be read or kept is read when the file is written, and what is wrong is said then.
    pub fn hold(&mut self, pieces: &[Piece], source: &mut Source<'_>, stop: &AtomicBool) {
        for piece in pieces {
            let Some((stream, from)) = piece.at else { continue };
            let (mut at, end) = (from, from.saturating_add(piece.len));
            while at < end && !stop.load(Relaxed) {
                let len = (end - at).min(PART_MOST);
                if let Some(part) = self.parts.get_mut(&(stream, at)).filter(|p| p.len == len) {
                    part.users += 1;
                } else if let Some(bytes) = read(source, stream, at, len)
                    && let Some(kept) = self.keep(bytes)
                {
                    self.parts.insert((stream, at), Part { len, at: kept, users: 1 });
                }
                at += len;
            }
        }
    }

    fn keep(&mut self, bytes: Vec<u8>) -> Option<At> {
        let Some((file, end)) = &mut self.spool else { return Some(At::Here(bytes)) };
        // A disk without room is no reason to end: the tape has it.
        file.write_all_at(&bytes, *end).ok()?;
        let at = *end;
        *end += bytes.len() as u64;
        Some(At::Spooled(at, bytes.len()))
    }

    /// Calls with bytes of a stream: with what is held of them, and with what the media have.
    pub fn bytes<E: From<Lack>>(
        &mut self,
        source: &mut Source<'_>,
        stream: StreamId,
        logical: u64,
        len: u64,
        each: &mut dyn FnMut(Chunk<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut at, end) = (logical, logical.saturating_add(len));
        while at < end {
            if let Some(bytes) = self.take(stream, at, end - at) {
                each(Chunk::Bytes(&bytes))?;
                at += bytes.len() as u64;
                continue;
            }
            let next = self.parts.range((stream, at.saturating_add(1))..(stream, end)).next();
            let to = next.map_or(end, |(key, _)| key.1);
            source.bytes(stream, at, to - at, each)?;
            at = to;
        }
        Ok(())
    }

    /// What is held from there on; a part that nobody else needs is held no more.
    fn take(&mut self, stream: StreamId, at: u64, most: u64) -> Option<Vec<u8>> {
        let key = (stream, at);
        let part = self.parts.get_mut(&key).filter(|part| part.len <= most)?;
        part.users -= 1;
        let is_last = part.users == 0;
        let bytes = match &mut part.at {
            At::Here(bytes) if is_last => std::mem::take(bytes),
            At::Here(bytes) => bytes.clone(),
            At::Spooled(from, len) => {
                let mut bytes = vec![0; *len];
                let (file, _) = self.spool.as_ref()?;
                match file.read_exact_at(&mut bytes, *from) {
                    Ok(()) => bytes,
                    Err(_) => {
                        self.parts.remove(&key);
                        return None;
                    }
                }
            }
        };
        if is_last {
            self.parts.remove(&key);
        }
        if self.parts.is_empty()
            && let Some((file, end)) = &mut self.spool
            && file.set_len(0).is_ok()
        {
            *end = 0;
        }
        Some(bytes)
    }
}

/// Bytes of a stream, if all can be read.
fn read(source: &mut Source<'_>, stream: StreamId, at: u64, len: u64) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let mut add = |chunk: Chunk<'_>| -> Result<(), Lack> {
        chunk.each(&mut |bytes| {
            all.extend_from_slice(bytes);
            Ok(())
        })
    };
    source.bytes(stream, at, len, &mut add).ok()?;
    (all.len() as u64 == len).then_some(all)
}
