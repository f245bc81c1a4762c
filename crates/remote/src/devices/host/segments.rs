//! Answers what is asked of the media agent of a host.

use std::collections::HashSet;
use std::sync::Arc;

use capstan_format::catalog::Contents;
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::findings::Scan;
use capstan_port::media::read::segment::ReadSegment;
use capstan_wire::keys::FrameKey;

use super::{Asks, gone};
use crate::connection::Broken;
use crate::devices::message::{
    OfMediaAgent, OfSegment as Of, ScanFound, SegmentFound, hear_contents, send_bytes,
    send_contents,
};

impl Asks<'_> {
    /// Answers it.
    pub(super) fn media_agent(&self, of: OfMediaAgent) -> Result<(), Broken> {
        let things = &self.side.things;
        match of {
            OfMediaAgent::Open(medium, number) => {
                let opened = things.media.get(medium).ok_or_else(gone::<ReadError>);
                let opened = opened.and_then(|medium| self.side.agent.open(&medium, number));
                self.came(opened.map(|segment| SegmentFound {
                    file: things.files.put(segment.file().clone()),
                    medium: segment.medium(),
                    path: segment.path().to_owned(),
                    block_size: segment.block_size(),
                    number: things.segments.put(segment),
                }))
            }
            OfMediaAgent::Segment(number, of) => match things.segments.get(number) {
                Some(segment) => self.segment(&segment, of),
                None => self.came(Err::<(), _>(gone::<ReadError>())),
            },
        }
    }

    fn segment(&self, segment: &Arc<dyn ReadSegment>, of: Of) -> Result<(), Broken> {
        match of {
            Of::Bytes => self.came(segment.bytes()),
            Of::Object => self.is(&segment.object()),
            Of::Expect(block) => {
                segment.expect(block);
                self.is(&())
            }
            Of::Header => self.came(segment.header()),
            Of::End => self.came(segment.end()),
            Of::Catalog(recorded) => match segment.catalog_frames(recorded) {
                Ok((end, frames)) => {
                    self.came(Ok::<_, ReadError>(end))?;
                    send_bytes(self.channel, &frames)
                }
                Err(e) => self.came(Err::<(), _>(e)),
            },
            Of::Scan(None) => self.scanned(segment.scan()),
            Of::Scan(Some(recorded)) => self.scanned(segment.scan_of(recorded)),
            Of::ScanWith(keys) => self.scanned(segment.scan_with(&keys)),
            Of::OpenFrames(stream, keys) => self.frames_opened(&**segment, stream, &keys),
        }
    }

    fn scanned(&self, scan: Result<Scan, ReadError>) -> Result<(), Broken> {
        let scan = match scan {
            Ok(scan) => scan,
            Err(e) => return self.came(Err::<(), _>(e)),
        };
        let Scan { contents, damage, unknown_frames, closed, catalog_whole, catalog, poor } = scan;
        let (has_catalog, poor) = (catalog.is_some(), poor.into_iter().collect());
        self.came(Ok::<_, ReadError>(ScanFound {
            damage,
            unknown_frames,
            closed,
            catalog_whole,
            has_catalog,
            poor,
        }))?;
        send_contents(self.channel, &contents)?;
        catalog.map_or(Ok(()), |catalog| send_contents(self.channel, &catalog))
    }

    fn frames_opened(
        &self,
        segment: &dyn ReadSegment,
        stream: StreamId,
        keys: &[FrameKey],
    ) -> Result<(), Broken> {
        let layout = hear_contents(self.channel)?;
        let wanted: HashSet<u64> = self.channel.hear::<Vec<u64>>()?.into_iter().collect();
        let places = places(&layout, stream, &wanted);
        self.is(&segment.open_frames(&layout, stream, &places, keys))
    }
}

/// Those places of a stream that are wanted, by the numbers of their frames.
fn places(layout: &Contents, stream: StreamId, wanted: &HashSet<u64>) -> Vec<FramePlace> {
    let s = layout.streams.iter().find(|s| s.stream == stream);
    let index = s.map(|s| s.index.as_slice()).unwrap_or_default();
    index.iter().filter(|place| wanted.contains(&place.sequence)).copied().collect()
}
