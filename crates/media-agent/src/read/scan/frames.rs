//! The frames of a stream: each is checked and opened, and follows the one before it.

use capstan_format::bytes::is_zero;
use capstan_format::catalog::catalog_stream;
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType, find_frame};
use capstan_format::id::{BlockIndex, StreamId};
use capstan_format::index::FramePlace;

use crate::read::scan::Scanner;

impl Scanner<'_, '_> {
    /// Takes the frames of a block's payload, from `at` on.
    pub(super) fn parse(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        payload: &[u8],
        at: usize,
        loose: bool,
    ) {
        let mut at = at;
        let partial = self.streams.get_mut(&stream).and_then(|p| p.partial.take());
        if let Some((place, mut bytes, total)) = partial {
            let take = (total - bytes.len()).min(payload.len());
            bytes.extend_from_slice(&payload[..take]);
            if bytes.len() < total {
                if let Some(p) = self.streams.get_mut(&stream) {
                    p.partial = Some((place, bytes, total));
                }
                return;
            }
            self.frame(stream, place, &bytes);
            at = take;
        }
        while at < payload.len() {
            let header = match FrameHeader::decode(stream, &payload[at..]) {
                Ok(header) => header,
                Err(_) if loose && is_zero(&payload[at..]) => return,
                Err(e) => {
                    let next = find_frame(stream, payload, at + 1);
                    let to = next.unwrap_or(payload.len());
                    self.damage(format!("block {}: bytes {at} to {to}: {e}", block.0), None);
                    self.streams.entry(stream).or_default().hurt = true;
                    at = to;
                    continue;
                }
            };
            let place = FramePlace::of(
                header.frame_type,
                header.sequence,
                header.logical,
                block,
                at as u32,
            );
            let total = header.total_len();
            let here = &payload[at..];
            if here.len() >= total {
                self.frame(stream, place, &here[..total]);
                at += total;
            } else {
                if let Some(p) = self.streams.get_mut(&stream) {
                    p.partial = Some((place, here.to_vec(), total));
                }
                return;
            }
        }
    }

    /// Whether the stream's frames may leap: the end record says so, or a consolidation passed it on.
    fn is_sparse(&self, stream: StreamId) -> bool {
        let contents = &self.scan.contents;
        let label = contents.streams.iter().find(|s| s.stream == stream);
        let label = label.and_then(|s| s.label.as_ref()).map(|l| l.session.session);
        let writer = contents.header.as_ref().map(|h| &h.session);
        let passes_on = writer.filter(|w| w.stands_for.is_some()).map(|w| w.session);
        self.sparse.contains(&stream) || label.is_some_and(|l| passes_on.is_some_and(|w| w != l))
    }

    /// Notes damage where a frame does not follow the one before it in its stream.
    fn check_follows(&mut self, stream: StreamId, header: &FrameHeader, is_catalog: bool) {
        let passing = self.streams.entry(stream).or_default();
        let (expected_sequence, expected_logical) = (passing.sequence, passing.logical);
        passing.sequence = Some(header.sequence.wrapping_add(1));
        passing.logical = header.logical + header.logical_len();
        passing.begun = true;
        let hurt = std::mem::take(&mut passing.hurt);
        let may_leap = self.is_sparse(stream)
            && !hurt
            && expected_sequence.is_none_or(|expected| expected <= header.sequence)
            && expected_logical <= header.logical;
        if let Some(expected) = expected_sequence.filter(|_| !may_leap) {
            if expected != header.sequence {
                let what = format!(
                    "stream {}: frames {expected} to {} are missing",
                    stream.short(),
                    header.sequence
                );
                self.catalog_broken |= is_catalog;
                let range = (expected_logical < header.logical).then_some((
                    stream,
                    expected_logical,
                    header.logical,
                ));
                self.damage(what, range);
            } else if expected_logical != header.logical && !is_catalog {
                let range = (stream, expected_logical.min(header.logical), header.logical);
                self.damage(
                    format!("stream {}: logical offsets leap", stream.short()),
                    Some(range),
                );
            }
        }
    }

    /// A whole frame, header to padding.
    fn frame(&mut self, stream: StreamId, place: FramePlace, bytes: &[u8]) {
        let Ok(header) = FrameHeader::decode(stream, bytes) else {
            self.damage(format!("block {}: frame header damaged", place.block.0), None);
            return;
        };
        let payload_end = FRAME_HEADER_LEN + header.stored as usize;
        let is_catalog = self.id.is_some_and(|id| catalog_stream(id) == stream);
        self.check_follows(stream, &header, is_catalog);
        if !is_zero(&bytes[payload_end..]) {
            self.damage(format!("block {}: a frame's padding is not zero", place.block.0), None);
        }
        let stored = &bytes[FRAME_HEADER_LEN..payload_end];
        let mut checked = header.check_payload(stream, stored);
        if checked.is_ok() && !is_catalog {
            // What a consolidation passed on is of other sessions than the one that wrote the segment.
            let contents = &self.scan.contents;
            let own = contents.streams.iter().find(|s| s.stream == stream);
            let own = own.and_then(|s| s.label.as_ref()).map(|l| &l.session);
            let label = own.or(contents.header.as_ref().map(|h| &h.session));
            checked = (self.open)(label, stream, &header, stored);
        }
        if let Err(e) = checked {
            let end = header.logical + header.logical_len();
            let range = (header.logical_len() > 0).then_some((stream, header.logical, end));
            self.damage(format!("block {}: {e}", place.block.0), range);
            self.catalog_broken |= is_catalog;
            if header.frame_type.is_logical() {
                self.data_lost.insert((stream, header.sequence));
            } else if !is_catalog && let Some(last) = self.scan.damage.last_mut() {
                last.batch = Some(stream);
            }
            return;
        }
        if let FrameType::Unknown(_) = header.frame_type {
            self.scan.unknown_frames += 1;
        }
        let taken = if is_catalog {
            self.catalog_frames.take(&header, stored, &mut self.catalog)
        } else {
            let contents = self.scan.contents.stream(stream);
            if !contents.add_place(place) {
                let what = format!("block {}: frame {} comes late", place.block.0, place.sequence);
                self.damage(what, None);
                return;
            }
            contents.logical_end = header.logical + header.logical_len();
            contents.take(header, stored, &mut self.catalog_frames.decompressor)
        };
        if let Err(e) = taken {
            self.catalog_broken |= is_catalog;
            self.damage(format!("block {}: {e}", place.block.0), None);
        }
    }
}
