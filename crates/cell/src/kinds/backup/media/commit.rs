//! What a commit leaves in the internal database.

use capstan_catalog::keys::VersionKeys;
use capstan_catalog::listing;
use capstan_format::id::SegmentId;
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::StreamExtent;
use capstan_idb::{Idb, LogLevel, Segment, StreamPart};
use capstan_port::media::write::committed::{Committed, CommittedAt};

use crate::error::{CellError, KeyRefusal, Result};

/// The wrapped keys of a session, as its segments carry them.
pub(crate) fn key_json(keys: Option<&(SessionKeys, KeyRecord)>) -> Result<Vec<serde_json::Value>> {
    let Some((_, record)) = keys else { return Ok(Vec::new()) };
    let json = serde_json::from_slice(&record.to_json()?);
    let json = json.map_err(|_| CellError::from(KeyRefusal::RecordNotJson))?;
    Ok(vec![json])
}

/// Records a commit: the catalog file first, then one transaction.
pub(crate) fn record_commit(
    idb: &Idb,
    c: &Committed,
    level: LogLevel,
    names: &VersionKeys,
) -> Result<()> {
    listing::keep(idb, c.header.segment, &c.catalog, level, names)?;
    if let Some(origin) = c.header.copy_of {
        idb.put_copy(c.header.segment, origin, c.end.lacks)?;
        idb.set_log_level_of_copy(c.header.segment, level)?;
    }
    let on = |place: &CommittedAt| {
        let segment = Segment {
            id: c.header.segment,
            medium: place.medium,
            number: place.number,
            object: place.object,
            session: c.header.session.session,
            blocks: c.end.blocks,
            bytes: c.bytes,
            committed_us: c.end.written_us,
        };
        (segment, stream_parts(c.header.segment, &c.end.streams))
    };
    Ok(idb.commit_segments(&c.places.iter().map(on).collect::<Vec<_>>())?)
}

/// What of each stream lies in a segment, as the IDB records it.
pub(crate) fn stream_parts(segment: SegmentId, streams: &[StreamExtent]) -> Vec<StreamPart> {
    let part = |s: &StreamExtent| StreamPart {
        segment,
        stream: s.stream,
        version: s.version,
        logical_start: s.logical_start,
        logical_end: s.logical_end,
        rows: s.rows,
    };
    streams.iter().map(part).collect()
}
