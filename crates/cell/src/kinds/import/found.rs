//! What the segments of a medium say of its sessions, as they are read one after the other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use capstan_catalog::keys::VersionKeys;
use capstan_engine::message::Code;
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::id::{SegmentNumber, VersionId};
use capstan_format::record::{SegmentEnd, SegmentHeader, SessionEnd, SessionLabel, StreamNames};
use capstan_idb::Protection;

use crate::error::CellError;
use crate::kinds::import::names::names;
use crate::session::SessionLog;
use crate::upkeep::media::tape_use::Before;

/// What was found on a medium so far.
#[derive(Default)]
pub(super) struct Imports {
    pub sessions: Vec<Imported>,
    /// What segments have of each stream.
    pub spans: HashMap<[u8; 16], Vec<Span>>,
    /// Keys of the names, as far as they are open.
    pub keys: VersionKeys,
    /// The media that sessions wrote before they went on on this one.
    pub follows: Vec<Before>,
    /// Locks that are attached to a tape.
    pub locks: Vec<(VersionId, i64)>,
    /// Segments that are cut short, and of which more is known than is left: that stays.
    pub kept: HashSet<SegmentNumber>,
    /// Not what sessions wrote that were gone on with since, elsewhere: what they were not told to have committed was read and
    /// written again, and is not taken for a part of their versions.
    pub but_gone_on: bool,
}

/// What a segment has of a stream.
pub struct Span {
    /// Logical begin and end.
    range: (u64, u64),
    version: VersionId,
    is_copy: bool,
    segment: Arc<str>,
}

impl Imports {
    /// Takes what a segment has of each stream.
    pub fn take_spans(&mut self, segment: &Arc<str>, header: &SegmentHeader, end: &SegmentEnd) {
        for s in end.streams.iter().filter(|s| !s.sparse) {
            self.spans.entry(s.stream.0).or_default().push(Span {
                range: (s.logical_start, s.logical_end),
                version: s.version,
                is_copy: header.copy_of.is_some(),
                segment: segment.clone(),
            });
        }
    }

    /// Says which segments are missing. A copy of one version may have others' in part, which then do not end here.
    pub fn say_gaps(&mut self, log: &SessionLog<'_>) {
        let ended = |id| self.sessions.iter().any(|s| s.label.version == id && s.end.is_some());
        for spans in self.spans.values_mut() {
            // Copies may lie in another order.
            spans.sort_by_key(|span| span.range);
            let mut end = spans.first().map_or(0, |span| span.range.0);
            for span in spans {
                let missing = span.range.0.saturating_sub(end);
                if missing > 0 && (!span.is_copy || ended(span.version)) {
                    let text = format!("a segment before it is missing: {missing} bytes");
                    log.say(Code::Missing, "media agent", &span.segment, text);
                }
                end = end.max(span.range.1);
            }
        }
    }
}

/// What the segments of a session say of it.
pub(super) struct Imported {
    pub label: SessionLabel,
    pub end: Option<SessionEnd>,
    pub names: Option<StreamNames>,
    pub sealed: Option<Vec<u8>>,
    /// As its first segment's header has it.
    pub protection: Protection,
    pub bytes: u64,
    /// The segments in which it was found.
    pub found_in: Vec<SegmentNumber>,
}

impl Imported {
    /// A session, as the first of its segments that is read begins.
    pub fn of(label: &SessionLabel, header: &SegmentHeader) -> Self {
        Self {
            label: label.clone(),
            end: None,
            names: None,
            sealed: None,
            protection: Protection::from(&header.medium.protection),
            bytes: 0,
            found_in: Vec::new(),
        }
    }

    /// Adds what a segment of so many bytes says of it.
    pub fn add(&mut self, contents: &Contents, end: &SegmentEnd, bytes: u64, keys: &VersionKeys) {
        let ended = end.end_of(self.label.session);
        self.bytes = match ended.filter(|_| end.session != self.label.session) {
            // What it wrote together with another one is that one's segments.
            Some(ended) => ended.bytes_written,
            // Its end knows what lies on other media: all that was written before.
            None if end.session == self.label.session => {
                let told = ended.map_or(0, |ended| ended.bytes_written);
                // Copies that were made before 2026-11-27 tell what their whole run had brought.
                let is_copy = contents.header.as_ref().is_some_and(|h| h.copy_of.is_some());
                let are_all_here = ended.is_some_and(|e| e.segments.len() <= self.found_in.len());
                let before =
                    if is_copy && are_all_here { self.bytes } else { told.max(self.bytes) };
                before.saturating_add(bytes)
            }
            None => self.bytes,
        };
        self.end = self.end.take().or_else(|| ended.cloned());
        if self.names.is_some() {
            return;
        }
        // What a consolidation passed on has the names of other sessions.
        let own = |s: &&StreamContents| {
            let label = s.label.as_ref().map(|l| l.session.session);
            label.unwrap_or(end.session) == self.label.session
        };
        let mut streams = contents.streams.iter().filter(own);
        let Some(stream) = streams.find(|s| s.names.is_some()) else { return };
        match names(stream, keys) {
            Ok(names) => self.names = Some(names),
            Err(_) => self.sealed = stream.names.as_ref().map(|n| n.stored.clone()),
        }
    }
}

/// Says of how many sessions the names stay encrypted, and why.
pub(super) fn say_sealed(
    sessions: &[Imported],
    why: Option<CellError>,
    label: &str,
    log: &SessionLog<'_>,
) {
    let sealed = sessions.iter().filter(|s| s.sealed.is_some() && s.names.is_none()).count();
    if sealed == 0 {
        return;
    }
    let why = why.map(|e| format!(" ({e})")).unwrap_or_default();
    let text = format!(
        "the names of {sealed} sessions are encrypted and stay so{why}; set CAPSTAN_PASSPHRASE or CAPSTAN_KEY_FILE and \
         import again to read them"
    );
    log.say(Code::Sealed, "cell", label, text);
}
