//! What a verification says: of frames as they pass by, of a segment that was read, of a version as a whole.

use std::collections::{BTreeSet, HashMap};

use capstan_engine::message::{Code, path_text};
use capstan_format::FormatError;
use capstan_format::codec::Decompressor;
use capstan_format::entry::{Entry, Kind};
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::StreamId;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_format::record::SessionLabel;
use capstan_media_agent::reader::Contents;
use capstan_media_agent::scan::Scan;

use crate::error::{Result, chain};
use crate::overview::Overview;
use crate::restore::NOT_THERE;
use crate::session::Ears;
use crate::version::{Row, VersionKeys, VersionView, of_outcome, rows_of_stream, touches};

/// Opens the encrypted frames of a segment where their keys are at hand.
pub(crate) struct Frames<'a> {
    keys: &'a VersionKeys,
    sealers: HashMap<(StreamId, Purpose), Option<FrameSealer>>,
    decompressor: Decompressor,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    /// Frames whose keys are not at hand.
    pub closed: u64,
}

impl<'a> Frames<'a> {
    pub fn new(keys: &'a VersionKeys) -> Self {
        Self {
            keys,
            sealers: HashMap::new(),
            decompressor: Decompressor::default(),
            scratch: Vec::new(),
            plain: Vec::new(),
            closed: 0,
        }
    }

    /// Whether a frame opens; one without a key is counted and passes.
    pub fn check(
        &mut self,
        label: Option<&SessionLabel>,
        stream: StreamId,
        header: &FrameHeader,
        stored: &[u8],
    ) -> std::result::Result<(), FormatError> {
        let purpose = match header.frame_type {
            FrameType::Batch | FrameType::Names | FrameType::Sums => Purpose::Names,
            FrameType::Data => Purpose::Contents,
            _ => return Ok(()),
        };
        let sealer = match self.sealers.entry((stream, purpose)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let sealer = self.keys.sealer(purpose, label, stream);
                place.insert(sealer.map_err(|_| FormatError::Sealed("frame"))?)
            }
        };
        if sealer.is_none() {
            self.closed += u64::from(header.sealed);
            return Ok(());
        }
        header.open(
            stored,
            sealer.as_ref(),
            &mut self.decompressor,
            &mut self.scratch,
            &mut self.plain,
        )
    }
}

/// Says what a scan found, and adds the paths that it costs, in streams that are `asked` after. Returns the number of files that
/// these have in the segment.
pub(crate) fn segment(
    scan: &Scan,
    keys: &VersionKeys,
    asked: &dyn Fn(StreamId) -> bool,
    ears: &Ears<'_>,
    lost: &mut BTreeSet<Vec<u8>>,
) -> u64 {
    for damage in &scan.damage {
        ears.say(Code::Damaged, "media agent", "", damage.what.clone());
    }
    if scan.unknown_frames > 0 {
        let text = format!(
            "{} frames of types that this version does not know were passed over",
            scan.unknown_frames
        );
        ears.say(Code::Adapted, "media agent", "", text);
    }
    // The rows of either copy will do to name the files.
    let rows_of = scan.catalog.as_ref().unwrap_or(&scan.contents);
    let mut files = 0;
    let ranges: Vec<Range> = scan.damage.iter().filter_map(|d| d.range).collect();
    for stream in rows_of.streams.iter().filter(|s| asked(s.stream)) {
        let read = scan.contents.streams.iter().find(|s| s.stream == stream.stream);
        let stream_end = read.map_or(u64::MAX, |s| s.logical_end);
        let counted = rows_of_stream(keys, stream, &mut |entry, start| {
            files += u64::from(is_counted(entry, start, stream_end));
            if touches(entry, stream.stream, start, &ranges) {
                lost.insert(entry.path());
            }
        });
        if counted.is_err() && ranges.iter().any(|r| r.0 == stream.stream) {
            let text = format!(
                "the names of the files that damage to stream {} costs are encrypted",
                stream.stream.short()
            );
            ears.say(Code::Damaged, "media agent", "", text);
        }
    }
    files
}

/// A stream and a range of its logical bytes.
pub(crate) type Range = (StreamId, u64, u64);

/// Damage in streams whose rows lie in other segments: what a consolidation passed on.
pub(crate) fn damage_elsewhere(scan: &Scan) -> Vec<Range> {
    let end = scan.contents.end.as_ref();
    let sparse = |stream: StreamId| {
        end.is_some_and(|e| e.streams.iter().any(|x| x.stream == stream && x.sparse))
    };
    scan.damage.iter().filter_map(|d| d.range).filter(|r| sparse(r.0)).collect()
}

/// Adds the paths of a segment that damage in other segments costs.
pub(crate) fn rows_elsewhere(
    contents: &Contents,
    keys: &VersionKeys,
    ranges: &[Range],
    lost: &mut BTreeSet<Vec<u8>>,
) -> Result<()> {
    for stream in &contents.streams {
        rows_of_stream(keys, stream, &mut |entry, start| {
            if touches(entry, stream.stream, start, ranges) {
                lost.insert(entry.path());
            }
        })?;
    }
    Ok(())
}

/// Whether a row stands for a file that no other row of its version stands for, as far as the row says.
fn is_counted(entry: &Entry, start: u64, stream_end: u64) -> bool {
    let comes_again = entry.logical_len() > 0 && start >= stream_end;
    entry.kind.is_inode() && entry.kind != Kind::Dir && !entry.replaces && !comes_again
}

/// What a pass over a version's rows found.
#[derive(Default)]
pub(crate) struct Passed {
    /// Its files.
    pub files: u64,
    /// Files that a restore could not give back whole and that `lost` did not have.
    pub missing: u64,
}

/// Names what a restore of the version would name, apart from what is in `lost` already.
pub(crate) fn version(
    view: &VersionView<'_>,
    lost: &BTreeSet<Vec<u8>>,
    ears: &Ears<'_>,
) -> Result<Passed> {
    // Segments that the IDB knows and no medium has any more.
    let mut gone: HashMap<u32, String> = HashMap::new();
    for (index, place) in view.segments.iter().enumerate() {
        if let Err(e) = view.open_data(place) {
            let what = format!("segment {}", place.segment.short());
            ears.say(Code::Missing, "media agent", &what, chain(&e));
            gone.insert(index as u32, chain(&e));
        }
    }
    let overview = Overview::with_replaced(view)?;
    let mut passed = Passed::default();
    let mut named: BTreeSet<Vec<u8>> = BTreeSet::new();
    view.all_rows(&mut |stream, row| {
        let path = row.entry.path();
        if !row.entry.kind.is_inode() || overview.is_replaced(&path, row.ordinal) {
            return Ok(());
        }
        let first = overview.is_first(stream, &row);
        let file = row.entry.kind != Kind::Dir && !overview.is_carrier(row.ordinal);
        passed.files += u64::from(first && file);
        let found = match gone.get(&row.ordinal.segment) {
            Some(why) if first && row.entry.logical_len() > 0 => Some((Code::Missing, why.clone())),
            _ => problem(&overview, stream.stream, &row, first),
        };
        if let Some((code, text)) = found
            && !lost.contains(&path)
            && named.insert(path.clone())
        {
            passed.missing += u64::from(matches!(code, Code::Missing | Code::Damaged));
            ears.say(code, "media agent", &format!("/{}", path_text(&path)), text);
        }
        Ok(())
    })?;
    Ok(passed)
}

/// Why a file would not come back as it was.
fn problem(
    overview: &Overview,
    stream: StreamId,
    row: &Row,
    first: bool,
) -> Option<(Code, String)> {
    let there = if first {
        let elsewhere = row.is_as_in() && !overview.is_orphan(&row.entry.path());
        row.entry.link || elsewhere || overview.is_whole(row)
    } else {
        !overview.is_unkept(stream, row)
    };
    if !there {
        return Some((Code::Damaged, NOT_THERE.to_owned()));
    }
    overview.outcome(&row.entry.path(), row.ordinal).filter(|_| first).and_then(of_outcome)
}
