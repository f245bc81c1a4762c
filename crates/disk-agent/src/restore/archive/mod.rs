//! A version as a tar archive (pax): for tools and machines that have no capstan.
//!
//! Files with holes are stored as GNU tar's sparse format 1.0, which bsdtar reads too. Extended attributes, ACLs and
//! capabilities go into `SCHILY.xattr.` records, as GNU tar and star do, ACLs as text into `SCHILY.acl.` records too;
//! inode flags and sockets have no place in an archive and are left out, and said.

mod acl;
mod header;
mod held;
mod member;
mod outgoing;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use capstan_engine::frames::{FramePort, Lack};
use capstan_engine::message::plain;
use capstan_engine::meter::Lap;
use capstan_format::id::StreamId;
use capstan_port::disk::archive::{
    ArchiveCounting, ArchiveFailed, ArchiveRefused, ArchiveRun, OpenArchive,
};
use capstan_port::disk::contents::Piece;
use capstan_port::disk::restore::RestoreWith;
use capstan_stream::contents::{Chunk, Contents, opened_by};
use capstan_wire::restore::{ArchiveSpec, RestoreCounts};

use self::held::Held;
use self::member::Archive;
use self::outgoing::Outgoing;

/// Streams of which a frame is kept.
const STREAMS: usize = 8;

/// What an archive came to so far.
#[derive(Debug, Default)]
struct Counts {
    /// Files, all that are not directories.
    files: AtomicU64,
    dirs: AtomicU64,
    /// Bytes of files' contents that were written.
    bytes: AtomicU64,
    /// Stored bytes of frames that came.
    bytes_read: AtomicU64,
    /// Files that are not whole.
    corrupt: AtomicU64,
}

impl ArchiveCounting for Counts {
    fn counts(&self) -> RestoreCounts {
        let of = |n: &AtomicU64| n.load(Relaxed);
        RestoreCounts {
            files: of(&self.files),
            dirs: of(&self.dirs),
            bytes: of(&self.bytes),
            lost: of(&self.corrupt),
            bytes_read: of(&self.bytes_read),
        }
    }
}

/// Where contents come from.
struct Source<'a> {
    contents: Contents<'a>,
    frames: Box<dyn FramePort + 'a>,
    lap: Lap,
}

impl<'a> Source<'a> {
    fn new(with: &RestoreWith<'a>, frames: Box<dyn FramePort + 'a>) -> Self {
        let contents = Contents::new(opened_by(&with.keys), STREAMS).metered(with.meters);
        Self { contents, frames, lap: Lap::start() }
    }

    /// Says what will be asked for.
    fn expect(&mut self, pieces: &[Piece]) {
        self.frames.expect(&pieces.iter().filter_map(Piece::expected).collect::<Vec<_>>());
    }

    /// Calls with bytes of a stream.
    fn bytes<E: From<Lack>>(
        &mut self,
        stream: StreamId,
        logical: u64,
        len: u64,
        each: &mut dyn FnMut(Chunk<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { contents, frames, lap } = self;
        contents.each(&mut **frames, (stream, logical, len), lap, each)
    }

    /// Stored bytes of frames that came.
    fn bytes_read(&self) -> u64 {
        self.contents.bytes_read
    }
}

/// An archive of which nothing is written.
pub(crate) struct Opened<'a> {
    out: Box<dyn Write + 'a>,
    spec: ArchiveSpec,
    counts: Arc<Counts>,
}

impl<'a> Opened<'a> {
    /// Opens what it is written to.
    pub fn of(spec: &ArchiveSpec, stop: &'a AtomicBool) -> Result<Self, ArchiveRefused> {
        let out: Box<dyn Write + 'a> = match spec.file.as_slice() {
            [] => Box::new(Outgoing::open(stop)?),
            file => {
                let path = Path::new(OsStr::from_bytes(file));
                let made = File::create(path);
                Box::new(made.map_err(|e| ArchiveRefused::NotMade(plain(&e)))?)
            }
        };
        Ok(Self { out, spec: spec.clone(), counts: Arc::default() })
    }
}

impl<'a> OpenArchive<'a> for Opened<'a> {
    fn counting(&self) -> Arc<dyn ArchiveCounting> {
        self.counts.clone()
    }

    fn begin(
        self: Box<Self>,
        with: RestoreWith<'a>,
        frames: Box<dyn FramePort + 'a>,
    ) -> Result<Box<dyn ArchiveRun + 'a>, ArchiveFailed> {
        let held = Held::new(self.spec.spool.as_ref())?;
        let rest = (held, self.spec.numeric_ids, self.counts);
        Ok(Box::new(Archive::new(self.out, with, frames, rest)))
    }
}
