//! A media agent that reads segments where they are: records, catalogs and scans are read at the host that has the media, and their
//! answers cross the connection. All else, frames and what is written, is done by a media agent of this process with what stands for the
//! host's files and devices.

use std::sync::Arc;

use capstan_engine::meter::Meters;
use capstan_format::id::SegmentNumber;
use capstan_medium::OpenMedium;
use capstan_port::media::MediaAgent;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::frames::{SegmentFrames, VersionFrames};
use capstan_port::media::read::known::KnownMedia;
use capstan_port::media::read::segment::ReadSegment;
use capstan_port::media::read::spans::Spans;
use capstan_port::media::transfer::{SegmentTransfer, TransferOptions};
use capstan_port::media::write::committed::OnCommit;
use capstan_port::media::write::members::Member;
use capstan_port::media::write::options::WriterOptions;
use capstan_port::media::write::session::SessionWriter;

use super::segment::RemoteSegment;
use crate::devices::far::Far;
use crate::devices::message::{OfMediaAgent, Question, SegmentFound};

/// A media agent of which what reads segments is at the host of a device host.
pub struct ReadingThere {
    far: Arc<Far>,
    here: Arc<dyn MediaAgent>,
}

impl ReadingThere {
    /// At that host; all else is done by `here`.
    pub(crate) fn new(far: Arc<Far>, here: Arc<dyn MediaAgent>) -> Self {
        Self { far, here }
    }
}

impl MediaAgent for ReadingThere {
    fn write(
        &self,
        media: Vec<Member>,
        options: WriterOptions,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Box<dyn SessionWriter> {
        self.here.write(media, options, meters, on_commit)
    }

    fn transfer(&self, media: Vec<Member>, options: TransferOptions) -> Box<dyn SegmentTransfer> {
        self.here.transfer(media, options)
    }

    fn frames<'a>(&self, media: &'a dyn KnownMedia, spans: Spans) -> Box<dyn VersionFrames + 'a> {
        self.here.frames(media, spans)
    }

    fn frames_in_order<'a>(&self, media: &'a dyn KnownMedia) -> Box<dyn SegmentFrames + 'a> {
        self.here.frames_in_order(media)
    }

    fn open(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
    ) -> Result<Arc<dyn ReadSegment>, ReadError> {
        let medium = self.far.number_of(medium.storage().handle())?;
        let question = Question::MediaAgent(OfMediaAgent::Open(medium, number));
        let found = self.far.call::<SegmentFound, ReadError>(&question)?;
        Ok(Arc::new(RemoteSegment::new(&self.far, found)))
    }
}
