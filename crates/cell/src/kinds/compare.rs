//! What differs between a version and the file system now: the version is read in the order of the walk, beside the walk.

use std::collections::VecDeque;

use capstan_catalog::diff::{Aspect, Change, ChangeTotals, LiveRows, differences};
use capstan_catalog::listed::Listed;
use capstan_catalog::version::Overview;
use capstan_engine::frames::FramePort;
use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Entry, Kind, is_below, is_inside};
use capstan_idb::Version;
use capstan_port::disk::check::{
    Both, CheckError, ComparedRow, Contents, Inquiry, Looked, Met, RowsBroken,
};
use capstan_select::Pattern;
use capstan_wire::backup::Rules;
use capstan_wire::check::CompareJob;

use crate::Cell;
use crate::error::{CellError, CompareRefusal, Result, chain};
use crate::observe::{Observer, Stop};
use crate::queries::leads::clean;
use crate::reading::away::files::AwayFiles;
use crate::reading::bring::nearest_first;
use crate::reading::contents::{FilePieces, session_keys};
use crate::reading::version::VersionView;
use crate::report::Selected;
use crate::request::CompareRequest;
use crate::session::{SessionLog, writes_versions};

/// What a comparison came to.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    /// How many paths differ, and how.
    pub totals: ChangeTotals,
    /// What could not be compared: the messages name it.
    pub errors: u64,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

impl Cell {
    /// The paths that are walked for a comparison: those that were backed up.
    fn roots_compared(
        &self,
        request: &CompareRequest,
        backed_up: Option<&Selected>,
    ) -> Result<Vec<Vec<u8>>> {
        match backed_up {
            Some(s) if s.paths.is_empty() => {
                Err(CompareRefusal::NothingToCompareWith { name: request.version.name.clone() }
                    .into())
            }
            Some(s) => Ok(s.paths.iter().map(|p| clean(p.as_bytes())).collect()),
            None => guessed_roots(self.live_rows(&request.version)?),
        }
    }

    /// Calls with each path that differs between a version and the file system, in order.
    pub fn compare(
        &self,
        request: &CompareRequest,
        observer: &dyn Observer,
        stop: &Stop,
        each: &mut dyn FnMut(&Change),
    ) -> Result<Compared> {
        let log = SessionLog::new(observer);
        let version = self.version(&request.version)?;
        self.say_incomplete(&version, &log)?;
        self.say_lost(version.id, &request.version.name, || None, &log)?;
        let mut view = VersionView::open(self, version.id)?;
        self.add_keys(&mut view, request.contents)?;
        if request.contents {
            nearest_first(self, std::slice::from_mut(&mut view))?;
        }
        let pieces = match request.contents {
            true => Some(FilePieces::of(&view, &Overview::with_replaced(&view)?)?),
            false => None,
        };
        let rows = self.live_rows(&request.version)?;
        let paths: Vec<_> = request.paths.iter().map(|p| clean(p)).collect();
        let backed_up = self.selected_or_guessed(&version, &request.version.name, &log)?;
        let roots = self.roots_compared(request, backed_up.as_ref())?;
        let mut rules = backed_up.as_ref().map_or_else(Rules::default, rules_of);
        let is_inner = |root: &Vec<u8>| roots.iter().any(|of| of != root && is_inside(root, of));
        let (inner, roots): (Vec<_>, Vec<_>) = roots.iter().cloned().partition(is_inner);
        rules.inner_roots = inner;
        let client = self.client_of(&self.host_of(version.object)?)?;
        if client.is_here {
            self.never_enter(std::iter::empty(), &mut rules)?;
        }
        let keys = session_keys(&view.keys);
        let job = CompareJob { roots, paths: paths.clone(), rules, keys };
        // Contents are read through a view of their own: files come in the order of the walk, data in that of the medium.
        let mut frames = request.contents.then(|| self.agents.media.frames(&view, view.spans()));
        let frames = frames.as_mut().map(|frames| &mut **frames as &mut dyn FramePort);
        let mut comparison = Comparison {
            rows,
            pushed: VecDeque::new(),
            failed: None,
            pieces,
            away: AwayFiles::default(),
            missing: paths,
            totals: ChangeTotals::default(),
            log: &log,
            each,
        };
        let compared = client.agent.compare(&job, frames, &log, &stop.0, &mut comparison);
        if let Some(e) = comparison.failed {
            return Err(e);
        }
        compared?;
        comparison.away.say(self, &log)?;
        let stopped = stop.0.load(std::sync::atomic::Ordering::Relaxed);
        if !stopped {
            refuse_met_nowhere(&comparison.missing)?;
        }
        Ok(Compared { totals: comparison.totals, errors: log.error_count(), stopped })
    }

    /// What the sessions of a version were told to take. Where they left no record of that, it says that it is guessed.
    fn selected_or_guessed(
        &self,
        version: &Version,
        name: &str,
        log: &SessionLog<'_>,
    ) -> Result<Option<Selected>> {
        let backed_up = self.selected_by(version)?;
        if backed_up.is_none() {
            let text = "the session that made this version left no record of its paths and patterns: they are guessed \
                        from what it has";
            log.say(Code::Adapted, "cell", name, text.to_owned());
        }
        Ok(backed_up)
    }

    /// What the sessions of a version were told to take.
    pub(crate) fn selected_by(&self, version: &Version) -> Result<Option<Selected>> {
        #[derive(serde::Deserialize)]
        struct OfReport {
            selection: Option<Selected>,
        }
        let sessions = self.idb.sessions_of_version(version.id)?;
        // A restore of it took nothing.
        let mut writers = sessions.iter().rev().filter(|s| writes_versions(&s.kind));
        let report = writers.find_map(|s| s.report.as_deref());
        let of = report.and_then(|json| serde_json::from_str::<OfReport>(json).ok());
        Ok(of.and_then(|of| of.selection))
    }
}

impl From<CheckError> for CellError {
    fn from(e: CheckError) -> Self {
        match e {
            CheckError::Pattern(e) => e.into(),
            CheckError::NoThread(e) => Self::NoThread(e),
            CheckError::Open { path, source } => Self::Io { action: "open", path, source },
            CheckError::Lost(lost) => lost.into(),
            CheckError::Rows => Self::Unfinished(e.to_string().into()),
        }
    }
}

/// Refuses paths that were asked for and met on neither side.
fn refuse_met_nowhere(missing: &[Vec<u8>]) -> Result<()> {
    match missing.first() {
        None => Ok(()),
        Some(path) => Err(CompareRefusal::PathOnNeitherSide { path: path.clone() }.into()),
    }
}

/// So many rows are pushed at a time.
const ROWS: usize = 256;

/// A row that was pushed, and why its contents cannot be compared, if that is so.
type Pushed = (Listed, Option<CellError>);

/// The version's side, and what was found of it.
struct Comparison<'a, 'b> {
    rows: LiveRows<'a>,
    /// Rows of which nothing came back yet.
    pushed: VecDeque<Pushed>,
    /// Why no more rows can be read.
    failed: Option<CellError>,
    /// Where contents lie, where these are compared.
    pieces: Option<FilePieces>,
    /// Files of which the version's contents cannot be had now.
    away: AwayFiles,
    /// Paths asked for that were met on neither side.
    missing: Vec<Vec<u8>>,
    totals: ChangeTotals,
    log: &'b SessionLog<'b>,
    each: &'b mut dyn FnMut(&Change),
}

impl Inquiry<ComparedRow, Met> for Comparison<'_, '_> {
    fn rows(&mut self) -> std::result::Result<Vec<ComparedRow>, RowsBroken> {
        self.more().map_err(|e| {
            self.failed.get_or_insert(e);
            RowsBroken
        })
    }

    fn found(&mut self, met: Met) {
        let mut pushed = || self.pushed.pop_front();
        match met {
            Met::New(now) => {
                self.is_met(&now.entry.path());
                self.say(&Change::added(listed(*now)));
            }
            Met::OtherSize(path) => self.is_met(&path),
            Met::NotAsked => drop(pushed()),
            Met::Closed => {
                if let Some((before, _)) = pushed() {
                    self.is_met(&before.entry.path());
                }
            }
            Met::Gone => {
                if let Some((before, _)) = pushed() {
                    self.is_met(&before.entry.path());
                    self.say(&Change::removed(before));
                }
            }
            Met::Both(both) => {
                if let Some(pushed) = pushed() {
                    self.is_met(&both.now.entry.path());
                    self.both(pushed, *both);
                }
            }
        }
    }
}

impl Comparison<'_, '_> {
    /// The next rows to push.
    fn more(&mut self) -> Result<Vec<ComparedRow>> {
        let mut rows = Vec::new();
        while rows.len() < ROWS
            && let Some((row, listed)) = self.rows.next()?
        {
            let has_contents = row.entry.kind == Kind::File && !row.entry.link;
            let pieces = self.pieces.as_ref().filter(|_| has_contents).map(|of| of.pieces(&row));
            let (pieces, why) = match pieces.transpose() {
                Ok(pieces) => (pieces, None),
                Err(e) => (None, Some(e)),
            };
            self.pushed.push_back((listed, why));
            rows.push(ComparedRow { entry: row.entry, pieces });
        }
        Ok(rows)
    }

    /// A path was met on one side, or on both.
    fn is_met(&mut self, path: &[u8]) {
        if !self.missing.is_empty() {
            self.missing.retain(|p| !is_below(path, p));
        }
    }

    fn both(&mut self, (before, why_not): Pushed, both: Both) {
        let after = listed(both.now);
        let mut what = differences(&before, &after);
        if what == [Aspect::Ctime] && both.is_new_inode {
            what.clear();
        }
        let may_be_same = !what.contains(&Aspect::Type) && !what.contains(&Aspect::Size);
        if let Some(e) = why_not.filter(|_| may_be_same) {
            return self.lacking(&before.entry, &e);
        }
        let mut compared = false;
        match both.contents {
            Contents::NotCompared => {}
            Contents::Same => {
                compared = true;
                what.retain(|a| *a != Aspect::Ctime);
            }
            Contents::Other => what.push(Aspect::Contents),
            Contents::Unreadable(why) => {
                let path = format!("/{}", path_text(&before.entry.path()));
                let text = format!("cannot read it: {why}");
                return self.log.say(Code::NotOpened, "disk agent", &path, text);
            }
            Contents::Lacking(why) => return self.lacking(&before.entry, &why.into()),
            Contents::Stopped => return,
        }
        match Change::of(before, after, what, compared) {
            Some(change) => self.say(&change),
            None => self.totals.unchanged += 1,
        }
    }

    /// What the version has of a file could not be read.
    fn lacking(&self, of: &Entry, e: &CellError) {
        match e.away() {
            Some((medium, why)) => self.away.add(medium, why, of.size),
            None => {
                let path = format!("/{}", path_text(&of.path()));
                self.log.say(Code::Damaged, "media agent", &path, chain(e));
            }
        }
    }

    fn say(&mut self, change: &Change) {
        self.totals.count(change);
        (self.each)(change);
    }
}

/// What a version is of, told from its rows: the first directory on the way down that has more than one name. The root
/// directory itself is only taken where it was.
fn guessed_roots(mut rows: LiveRows<'_>) -> Result<Vec<Vec<u8>>> {
    let mut dir: Vec<u8> = Vec::new();
    let mut names: Vec<(Vec<u8>, Kind)> = Vec::new();
    loop {
        let next = rows.next()?.map(|(row, _)| row.entry);
        match next {
            Some(e) if e.dir == dir => names.push((e.path(), e.kind)),
            // All names of the directory are known.
            next => {
                let way_down = match (names.as_slice(), &next) {
                    ([(only, Kind::Dir)], Some(e)) => (e.dir == *only).then(|| only.clone()),
                    _ => None,
                };
                let Some(below) = way_down else {
                    return Ok(match dir.is_empty() {
                        true => names.into_iter().map(|n| n.0).collect(),
                        false => vec![dir],
                    });
                };
                dir = below;
                names = next.into_iter().map(|e| (e.path(), e.kind)).collect();
            }
        }
    }
}

/// A name of the file system, as it is shown.
pub(crate) fn listed(of: Looked) -> Listed {
    let text = |name: Option<Vec<u8>>| name.map(|n| String::from_utf8_lossy(&n).into_owned());
    let Looked { entry, user, group, acl } = of;
    Listed { entry, user: text(user), group: text(group), acl, state: None }
}

fn rules_of(s: &Selected) -> Rules {
    Rules {
        exclude: Pattern::typed(&s.exclude),
        include: Pattern::typed(&s.include),
        exclude_caches: s.exclude_caches,
        exclude_if_present: s.exclude_if_present.iter().map(|n| n.clone().into_bytes()).collect(),
        sizes: s.sizes.map(|(low, high)| low..=high),
        one_file_system: s.one_file_system,
        ..Rules::default()
    }
}
