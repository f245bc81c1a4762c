//! The wrapped keys that lie on a medium.

use std::collections::BTreeSet;

use capstan_format::id::SegmentNumber;
use capstan_format::keys::KeyRecord;
use capstan_medium::OpenMedium;
use capstan_port::media::MediaAgent;

/// The wrapped keys of those segments' sessions, each once. What cannot be read is left out: it is named when its contents
/// are read.
pub(crate) fn key_records(
    agent: &dyn MediaAgent,
    medium: &OpenMedium,
    segments: &[SegmentNumber],
) -> Vec<KeyRecord> {
    let mut records: Vec<KeyRecord> = Vec::new();
    let mut known: BTreeSet<[u8; 16]> = BTreeSet::new();
    for number in segments {
        if matches!(medium.attachment(*number), Ok(Some(_))) {
            continue;
        }
        let Ok(reader) = agent.open(medium, *number) else { continue };
        let header = reader.header().ok();
        let header = header.or_else(|| reader.catalog().ok().and_then(|c| c.header));
        for key in header.iter().flat_map(|h| &h.keys) {
            if let Ok(record) = KeyRecord::from_json(key.to_string().as_bytes())
                && known.insert(record.id().0)
            {
                records.push(record);
            }
        }
    }
    records
}
