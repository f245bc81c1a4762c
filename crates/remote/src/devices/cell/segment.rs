//! What stands at a cell for a segment that is read at its host.

use std::sync::Arc;

use capstan_format::catalog::Contents;
use capstan_format::id::{MediumId, SegmentId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{SegmentEnd, SegmentHeader};
use capstan_medium::storage::{Handle, ReadFile};
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::findings::Scan;
use capstan_port::media::read::segment::ReadSegment;
use capstan_wire::keys::FrameKey;
use serde::de::DeserializeOwned;

use super::storage::remote_file;
use crate::connection::Broken;
use crate::devices::far::{Far, Stand, answered, refuse, result};
use crate::devices::message::{
    Kind, OfMediaAgent, OfSegment as Of, Question, ScanFound, SegmentFound, hear_bytes,
    hear_contents, send_contents,
};

/// The longest catalog that is read.
const LONGEST_CATALOG: u64 = 1 << 30;

/// What stands for a segment.
pub struct RemoteSegment {
    stand: Stand,
    file: Arc<dyn ReadFile>,
    found: SegmentFound,
}

impl RemoteSegment {
    /// For what was found.
    pub fn new(far: &Arc<Far>, found: SegmentFound) -> Self {
        let stand = Stand::new(far, Kind::Segment, found.number);
        Self { stand, file: Arc::from(remote_file(far, found.file)), found }
    }

    fn of(&self, question: Of) -> Question {
        Question::MediaAgent(OfMediaAgent::Segment(self.stand.number, question))
    }

    fn call<T: DeserializeOwned>(&self, question: Of) -> Result<T, ReadError> {
        self.stand.far.call(&self.of(question))
    }

    fn scanned(&self, question: Of) -> Result<Scan, ReadError> {
        let asked = || -> Result<Result<Scan, ReadError>, Broken> {
            let channel = self.stand.far.begin(&self.of(question))?;
            let found = match answered::<Result<ScanFound, ReadError>>(&channel, &mut refuse)? {
                Ok(found) => found,
                Err(e) => return Ok(Err(e)),
            };
            let contents = hear_contents(&channel)?;
            let catalog = found.has_catalog.then(|| hear_contents(&channel)).transpose()?;
            let ScanFound { damage, unknown_frames, closed, catalog_whole, poor, .. } = found;
            let poor = poor.into_iter().collect();
            let found =
                Scan { contents, damage, unknown_frames, closed, catalog_whole, catalog, poor };
            Ok(Ok(found))
        };
        result(asked())
    }
}

impl ReadSegment for RemoteSegment {
    fn medium(&self) -> MediumId {
        self.found.medium
    }

    fn path(&self) -> &str {
        &self.found.path
    }

    fn block_size(&self) -> usize {
        self.found.block_size
    }

    fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    fn handle(&self) -> Option<Handle> {
        Some(self.stand.handle())
    }

    fn bytes(&self) -> Result<u64, ReadError> {
        self.call(Of::Bytes)
    }

    fn object(&self) -> Option<u64> {
        self.stand.far.ask::<Option<u64>>(&self.of(Of::Object)).ok().flatten()
    }

    fn expect(&self, block: u32) {
        self.stand.far.tell(&self.of(Of::Expect(block)));
    }

    fn header(&self) -> Result<SegmentHeader, ReadError> {
        self.call(Of::Header)
    }

    fn end(&self) -> Result<SegmentEnd, ReadError> {
        self.call(Of::End)
    }

    fn catalog_frames(
        &self,
        recorded: Option<SegmentId>,
    ) -> Result<(SegmentEnd, Vec<u8>), ReadError> {
        let asked = || -> Result<Result<(SegmentEnd, Vec<u8>), ReadError>, Broken> {
            let channel = self.stand.far.begin(&self.of(Of::Catalog(recorded)))?;
            match answered::<Result<SegmentEnd, ReadError>>(&channel, &mut refuse)? {
                Ok(end) => Ok(Ok((end, hear_bytes(&channel, LONGEST_CATALOG)?))),
                Err(e) => Ok(Err(e)),
            }
        };
        result(asked())
    }

    fn scan(&self) -> Result<Scan, ReadError> {
        self.scanned(Of::Scan(None))
    }

    fn scan_of(&self, recorded: SegmentId) -> Result<Scan, ReadError> {
        self.scanned(Of::Scan(Some(recorded)))
    }

    fn scan_with(&self, keys: &[FrameKey]) -> Result<Scan, ReadError> {
        self.scanned(Of::ScanWith(keys.to_vec()))
    }

    fn open_frames(
        &self,
        layout: &Contents,
        stream: StreamId,
        places: &[FramePlace],
        keys: &[FrameKey],
    ) -> Vec<Result<u64, ReadError>> {
        let asked = || -> Result<Vec<Result<u64, ReadError>>, Broken> {
            let channel = self.stand.far.begin(&self.of(Of::OpenFrames(stream, keys.to_vec())))?;
            send_contents(&channel, layout)?;
            channel.tell(&places.iter().map(|place| place.sequence).collect::<Vec<u64>>())?;
            answered(&channel, &mut refuse)
        };
        asked().unwrap_or_else(|broken| vec![result::<u64, ReadError>(Err(broken))])
    }
}
