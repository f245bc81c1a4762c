//! What a verification says: of frames as they pass by, of a segment that was read, of a version as a whole.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use capstan_catalog::batch::rows_of_stream;
use capstan_catalog::keys::VersionKeys;
use capstan_catalog::row::Row;
use capstan_catalog::version::Overview;
use capstan_engine::message::{Code, path_text};
use capstan_format::catalog::Contents;
use capstan_format::entry::{Entry, Kind};
use capstan_format::id::{MediumId, SegmentId, StreamId};
use capstan_port::disk::further_names::{of_link, of_link_away, of_link_found};
use capstan_port::media::read::findings::Scan;

use crate::error::{Result, chain};
use crate::kinds::restore::{NOT_THERE, PART_ALONE, is_in_parts};
use crate::reading::away::files::AwayFiles;
use crate::reading::losses::{Lost, Range};
use crate::reading::version::VersionView;
use crate::report::outcome::of_outcome;
use crate::session::SessionLog;

/// Says what a scan found. Returns the number of files that streams that are `asked` after have in the segment.
pub(crate) fn segment(
    scan: &Scan,
    keys: &VersionKeys,
    asked: &dyn Fn(StreamId) -> bool,
    log: &SessionLog<'_>,
) -> u64 {
    for damage in &scan.damage {
        log.say(Code::Damaged, "media agent", "", damage.what.clone());
    }
    if scan.unknown_frames > 0 {
        let text = format!(
            "{} frames of types that this version does not know were passed over",
            scan.unknown_frames
        );
        log.say(Code::Adapted, "media agent", "", text);
    }
    // The rows of either copy will do to count the files.
    let rows_of = scan.catalog.as_ref().unwrap_or(&scan.contents);
    let mut files = 0;
    let ranges: Vec<Range> = scan.damage.iter().filter_map(|d| d.range).collect();
    for stream in rows_of.streams.iter().filter(|s| asked(s.stream)) {
        let read = scan.contents.streams.iter().find(|s| s.stream == stream.stream);
        let stream_end = read.map_or(u64::MAX, |s| s.logical_end);
        let counted = rows_of_stream(keys, stream, &mut |entry, start| {
            files += u64::from(is_counted(entry, start, stream_end));
        });
        if counted.is_err() && ranges.iter().any(|r| r.0 == stream.stream) {
            let text = format!(
                "the names of the files that damage to stream {} costs are encrypted",
                stream.stream.short()
            );
            log.say(Code::Damaged, "media agent", "", text);
        }
    }
    files
}

/// Names of files that are lost, or of which something is, each once and with what is wrong.
#[derive(Default)]
pub(crate) struct Named {
    paths: BTreeMap<Vec<u8>, (Code, String)>,
    /// Further names, with the first.
    links: Vec<(Vec<u8>, Vec<u8>)>,
    /// Those that lie on media which are away.
    away: AwayFiles,
    /// Those of which a part was found first that is away: where, and the bytes of such parts.
    away_parts: BTreeMap<Vec<u8>, (MediumId, String, u64)>,
}

impl Named {
    /// Takes a row of which data may be among those that are `lost`; what lies in nothing that is at hand is missing.
    pub fn take(&mut self, entry: &Entry, stream: StreamId, start: u64, lost: &Losses) {
        if entry.link {
            self.links.push((entry.path(), entry.target.clone()));
        } else if lost.missing.iter().any(|(lost, _)| lost.costs(entry, stream, start)) {
            let why = lost.missing.iter().find(|(lost, _)| lost.costs(entry, stream, start));
            let why = why.map(|(_, why)| why.clone()).unwrap_or_default();
            self.paths.entry(entry.path()).or_insert((Code::Missing, why));
        } else if let Some((_, medium, why)) =
            lost.away.iter().find(|(lost, ..)| lost.costs(entry, stream, start))
        {
            let path = entry.path();
            if let Some((.., bytes)) = self.away_parts.get_mut(&path) {
                *bytes = bytes.saturating_add(entry.size);
            } else if !self.paths.contains_key(&path) && entry.kind == Kind::Part {
                self.away_parts.insert(path.clone(), (*medium, why.clone(), entry.size));
            } else if !self.paths.contains_key(&path) {
                self.away.add(*medium, why, entry.size);
            }
            self.paths.entry(path).or_insert((Code::FileAway, why.clone()));
        } else if lost.damaged.costs(entry, stream, start) {
            let text = "some of its data are damaged".to_owned();
            self.paths.entry(entry.path()).or_insert((Code::Damaged, text));
        }
    }

    /// Takes the rows of a segment outside of any version.
    pub fn take_rows(
        &mut self,
        contents: &Contents,
        keys: &VersionKeys,
        lost: &Losses,
    ) -> Result<()> {
        for stream in &contents.streams {
            rows_of_stream(keys, stream, &mut |entry, start| {
                self.take(entry, stream.stream, start, lost);
            })?;
        }
        Ok(())
    }

    /// Those on media that are away, each with its whole size. `whole` has the sizes of files in parts.
    pub fn take_away(&mut self, whole: &BTreeMap<Vec<u8>, u64>) -> AwayFiles {
        for (path, (medium, why, bytes)) in std::mem::take(&mut self.away_parts) {
            self.away.add(medium, &why, whole.get(&path).copied().unwrap_or(bytes));
        }
        std::mem::take(&mut self.away)
    }

    /// Names them; returns how many files they are, each counted once however many names it has.
    pub fn say(mut self, log: &SessionLog<'_>) -> u64 {
        let lost = |code: &Code| matches!(code, Code::Missing | Code::Damaged);
        let count = self.paths.values().filter(|(code, _)| lost(code)).count();
        let links: Vec<_> = self.links.drain(..).collect();
        for (path, first) in links {
            if let Some((code, text)) = self.paths.get(&first) {
                let text = match code {
                    Code::FileAway => of_link_away(&first),
                    Code::Missing | Code::Damaged => of_link(&first),
                    // What reading found is no damage: it is said of each name as it is.
                    _ => of_link_found(&first, text),
                };
                let code = if *code == Code::Missing { Code::Damaged } else { *code };
                self.paths.entry(path).or_insert((code, text));
            }
        }
        for (path, (code, text)) in self.paths {
            log.say(code, "media agent", &format!("/{}", path_text(&path)), text);
        }
        count as u64
    }
}

/// What cannot be read of media that were verified.
#[derive(Default)]
pub(crate) struct Losses {
    /// Ranges that are damaged.
    pub damaged: Lost,
    /// Those of segments that cannot be had, each with why.
    pub missing: Vec<(Lost, String)>,
    /// Those of segments on media that are away, each with where.
    pub away: Vec<(Lost, MediumId, String)>,
}

impl Losses {
    pub fn is_empty(&self) -> bool {
        self.damaged.is_empty() && self.missing.is_empty() && self.away.is_empty()
    }
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
    /// Files that a restore could not give back whole.
    pub lost: u64,
    /// Files that it could when media that are away are in.
    pub away: AwayFiles,
}

/// Names what a restore of the version would name. Segments that were `opened` already, where they lie first, are not opened again:
/// the tapes of an array would have to be loaded for that.
pub(crate) fn version(
    view: &VersionView<'_>,
    lost: &mut Losses,
    opened: &HashSet<SegmentId>,
    log: &SessionLog<'_>,
) -> Result<Passed> {
    // Segments that the IDB knows and no medium has any more.
    for place in view.segments.iter().filter(|place| !opened.contains(&place.segment)) {
        let Err(e) = view.open_data(place) else { continue };
        if let Some((medium, why)) = e.away() {
            lost.away.push((Lost::all(&place.spans), medium, why.to_owned()));
        } else {
            let what = format!("segment {}", place.segment.short());
            log.say(Code::Missing, "media agent", &what, chain(&e));
            lost.missing.push((Lost::all(&place.spans), chain(&e)));
        }
    }
    let overview = Overview::with_replaced(view)?;
    let mut passed = Passed::default();
    let mut named = Named::default();
    // Parts, until what they are a part of is found.
    let (mut parts, mut files) = (BTreeSet::new(), BTreeMap::new());
    view.all_rows(&mut |stream, row| -> Result<()> {
        let path = row.entry.path();
        let counts = row.entry.kind.is_inode() || row.entry.kind == Kind::Part;
        if !counts || overview.is_replaced(&path, row.ordinal) {
            return Ok(());
        }
        let first = overview.is_first(stream, &row);
        let file = row.entry.kind.is_inode() && row.entry.kind != Kind::Dir;
        passed.files += u64::from(first && file && !overview.is_carrier(row.ordinal));
        if first {
            named.take(&row.entry, stream.stream, row.start, lost);
        }
        if row.entry.kind == Kind::Part && row.entry.size > 0 {
            if first && !files.contains_key(&path) {
                parts.insert(path);
            }
            return Ok(());
        }
        if is_in_parts(&row, stream) {
            files.insert(path.clone(), row.entry.size);
        }
        if row.entry.kind.is_inode()
            && let Some((code, text)) = problem(&overview, stream.stream, &row, first)
        {
            named.paths.entry(path).or_insert((code, text));
        }
        Ok(())
    })?;
    for path in parts.iter().filter(|path| !files.contains_key(*path)) {
        let text = PART_ALONE.to_owned();
        named.paths.entry(path.clone()).or_insert((Code::Damaged, text));
    }
    passed.away = named.take_away(&files);
    passed.lost = named.say(log);
    if let Some(e) = view.names_lost() {
        log.say(Code::Damaged, "media agent", "", chain(&e));
    }
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
