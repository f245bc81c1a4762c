//! How large the segments of a session are.

use capstan_port::media::write::members::Member;

use crate::kinds::backup::plan::SEGMENT_SIZE;
use crate::request::BackupRequest;

/// Fewer blocks than these make a segment of nothing but its catalog.
const BLOCKS_LEAST: u64 = 16;

/// Bytes of a segment: what was asked for, else what suits the device.
pub(in crate::kinds::backup) fn segment_size(request: &BackupRequest, members: &[Member]) -> u64 {
    let of_device = || device_segment_size(members);
    request.segment_size.or_else(of_device).unwrap_or(SEGMENT_SIZE)
}

/// Bytes of a segment that suit the device, where it matters there.
pub(crate) fn device_segment_size(members: &[Member]) -> Option<u64> {
    let device = members.iter().find_map(|m| Some((m.device.segment_size()?, m)));
    device.map(|(size, m)| size.max(BLOCKS_LEAST * u64::from(m.medium.block_size)))
}
