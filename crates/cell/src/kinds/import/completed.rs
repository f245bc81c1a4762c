//! The records that a damaged segment lost, as far as its streams say the same.

use std::collections::BTreeMap;

use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::id::SegmentNumber;
use capstan_format::record::{MediumHeader, SegmentEnd, SegmentHeader, SessionLabel, StreamExtent};

/// Contents with the records that a damaged segment lost, as far as its streams say the same.
pub(super) fn completed(
    mut contents: Contents,
    medium: &MediumHeader,
    number: SegmentNumber,
) -> Option<Contents> {
    if contents.header.is_none() {
        let label = contents.streams.iter().find_map(|s| s.label.as_ref())?.session.clone();
        contents.header = Some(SegmentHeader {
            medium: medium.clone(),
            segment: contents.segment?,
            number,
            written_us: label.started_us,
            session: label,
            keys: Vec::new(),
            copy_of: None,
            follows: None,
        });
    }
    let header = contents.header.clone()?;
    if contents.end.is_none() {
        let label: &SessionLabel = &header.session;
        let session = label.session;
        let other = |s: &'_ StreamContents| {
            s.label.as_ref().map(|l| l.session.clone()).filter(|of| of.session != session)
        };
        // What a consolidation passed on is of other sessions, and of its version here.
        let passes_on = label.stands_for.is_some();
        let version_of = |s: &StreamContents| {
            other(s).filter(|_| !passes_on).map_or(label.version, |other| other.version)
        };
        let streams = contents.streams.iter().map(|s| StreamExtent {
            stream: s.stream,
            version: version_of(s),
            logical_start: s.index.first().map_or(0, |p| p.logical),
            logical_end: s.logical_end,
            first_sequence: s.index.first().map_or(0, |p| p.sequence),
            frames: s.index.len() as u64,
            rows: 0,
            sparse: passes_on && other(s).is_some(),
        });
        contents.end = Some(SegmentEnd {
            segment: header.segment,
            number: header.number,
            session,
            data_blocks: contents.blocks.iter().flatten().last().map_or(0, |(index, _)| *index),
            blocks: 0,
            catalog_at: 0,
            short_blocks: other_lengths(contents.blocks.as_ref(), header.medium.block_size),
            streams: streams.collect(),
            session_end: None,
            other_ends: Vec::new(),
            lacks: 0,
            lacks_names: false,
            written_us: header.written_us,
        });
    }
    Some(contents)
}

/// Index and length of the blocks that do not have the block size, from where those that were found lie.
fn other_lengths(blocks: Option<&BTreeMap<u32, (u64, u32)>>, block_size: u32) -> Vec<(u32, u32)> {
    let mut others = Vec::new();
    let (mut next, mut end) = (0u32, 0u64);
    for (index, (at, len)) in blocks.into_iter().flatten() {
        // Lost blocks are together as long as the gap they leave.
        let full = u64::from(index.saturating_sub(next)).saturating_sub(1) * u64::from(block_size);
        let gap = u32::try_from(at.saturating_sub(end).saturating_sub(full)).unwrap_or(block_size);
        if *index > next && gap != block_size {
            others.push((next, gap));
        }
        if *len != block_size {
            others.push((*index, *len));
        }
        (next, end) = (index.saturating_add(1), at.saturating_add(u64::from(*len)));
    }
    others
}
