//! The media agent of this host, behind its port and in this process.

use std::io;
use std::sync::Arc;

use capstan_engine::entropy::Entropy;
use capstan_engine::link::BlockPort;
use capstan_engine::meter::Meters;
use capstan_format::catalog::Contents;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{SegmentEnd, SegmentHeader, SessionEnds};
use capstan_medium::OpenMedium;
use capstan_medium::storage::ReadFile;
use capstan_port::media::MediaAgent;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::findings::Scan;
use capstan_port::media::read::frames::{SegmentFrames, VersionFrames};
use capstan_port::media::read::known::KnownMedia;
use capstan_port::media::read::segment::ReadSegment;
use capstan_port::media::read::spans::Spans;
use capstan_port::media::transfer::{
    Copied, CopyFrom, CopyTo, PassJob, Passing, SegmentTransfer, TransferOptions,
};
use capstan_port::media::write::committed::{OnCommit, Written};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::{Drives, LostMirrors, Member};
use capstan_port::media::write::options::WriterOptions;
use capstan_port::media::write::session::SessionWriter;
use capstan_wire::keys::FrameKey;

use crate::read::frames::open_frames;
use crate::read::scan::{scan, scan_of, scan_with};
use crate::read::segment::SegmentReader;
use crate::serve::anywhere::AnyFrames;
use crate::serve::in_order::InOrder;
use crate::transfer::Transfer;
use crate::transfer::pass::Pass;
use crate::write::writer::Writer;

/// The media agent of this host.
pub struct LocalMediaAgent {
    /// What segments get their ids from.
    entropy: Arc<Entropy>,
}

impl LocalMediaAgent {
    /// One that draws ids from the operating system.
    pub fn system() -> io::Result<Self> {
        Ok(Self { entropy: Arc::new(Entropy::system()?) })
    }
}

impl MediaAgent for LocalMediaAgent {
    fn write(
        &self,
        media: Vec<Member>,
        options: WriterOptions,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Box<dyn SessionWriter> {
        Box::new(Writer::start_on(media, options, self.entropy.clone(), meters, on_commit))
    }

    fn transfer(&self, media: Vec<Member>, options: TransferOptions) -> Box<dyn SegmentTransfer> {
        Box::new(Transfer::start(media, self.entropy.clone(), options))
    }

    fn frames<'a>(&self, media: &'a dyn KnownMedia, spans: Spans) -> Box<dyn VersionFrames + 'a> {
        Box::new(AnyFrames::new(media, spans))
    }

    fn frames_in_order<'a>(&self, media: &'a dyn KnownMedia) -> Box<dyn SegmentFrames + 'a> {
        Box::new(InOrder::new(media))
    }

    fn open(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
    ) -> Result<Arc<dyn ReadSegment>, ReadError> {
        Ok(Arc::new(SegmentReader::open(medium, number)?))
    }
}

impl ReadSegment for SegmentReader {
    fn medium(&self) -> MediumId {
        self.medium
    }

    fn path(&self) -> &str {
        Self::path(self)
    }

    fn block_size(&self) -> usize {
        self.block_size
    }

    fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    fn bytes(&self) -> Result<u64, ReadError> {
        self.len()
    }

    fn object(&self) -> Option<u64> {
        Self::object(self)
    }

    fn expect(&self, block: u32) {
        Self::expect(self, block);
    }

    fn header(&self) -> Result<SegmentHeader, ReadError> {
        Self::header(self)
    }

    fn end(&self) -> Result<SegmentEnd, ReadError> {
        Self::end(self)
    }

    fn catalog_frames(
        &self,
        recorded: Option<SegmentId>,
    ) -> Result<(SegmentEnd, Vec<u8>), ReadError> {
        self.frames_of_catalog(recorded)
    }

    fn scan(&self) -> Result<Scan, ReadError> {
        scan(self)
    }

    fn scan_of(&self, recorded: SegmentId) -> Result<Scan, ReadError> {
        scan_of(self, recorded)
    }

    fn scan_with(&self, keys: &[FrameKey]) -> Result<Scan, ReadError> {
        scan_with(self, keys)
    }

    fn open_frames(
        &self,
        layout: &Contents,
        stream: StreamId,
        places: &[FramePlace],
        keys: &[FrameKey],
    ) -> Vec<Result<u64, ReadError>> {
        open_frames(self, layout, (stream, places), keys)
    }
}

impl SegmentTransfer for Transfer {
    fn lost_mirrors(&self) -> LostMirrors {
        Self::lost_mirrors(self)
    }

    fn drives(&self) -> Drives {
        Self::drives(self)
    }

    fn copy(&self, from: &CopyFrom<'_>, to: Option<CopyTo>) -> Copied {
        Self::copy(self, from, to)
    }

    fn pass<'t>(&'t self, job: PassJob<'t>) -> Box<dyn Passing + 't> {
        Box::new(Pass::new(self, job))
    }

    fn finish(self: Box<Self>) -> Result<(Vec<Member>, Written), WriteError> {
        Self::finish(*self)
    }
}

impl SessionWriter for Writer {
    fn port(&self) -> Arc<dyn BlockPort + '_> {
        Arc::new(Self::port(self))
    }

    fn lost_mirrors(&self) -> LostMirrors {
        Self::lost_mirrors(self)
    }

    fn drives(&self) -> Drives {
        Self::drives(self)
    }

    fn finish(self: Box<Self>, ends: SessionEnds) -> Result<Written, WriteError> {
        Self::finish(*self, ends)
    }
}
