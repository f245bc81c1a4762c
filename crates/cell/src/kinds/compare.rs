//! What differs between a version and the file system now: the version is read in the order of the walk, beside the walk.

use std::cmp::Ordering;

use capstan_catalog::diff::{Aspect, Change, ChangeTotals, LiveRows, differences, order};
use capstan_catalog::listed::Listed;
use capstan_catalog::row::Row;
use capstan_catalog::version::Overview;
use capstan_disk_agent::linux::mount_table::HostMounts;
use capstan_disk_agent::linux::names::owner_names;
use capstan_disk_agent::linux::source::DirHandle;
use capstan_disk_agent::linux::source_file::SourceFile;
use capstan_disk_agent::look::{look, same_inode, was_born_after};
use capstan_disk_agent::select::Selection;
use capstan_disk_agent::walk::WalkEvent;
use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Entry, Kind, is_below, is_inside, selected};
use capstan_idb::Version;
use capstan_select::Pattern;
use capstan_stream::owners::OwnerNames;
use capstan_wire::backup::{MountedLast, Rules};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::observe::{Observer, Stop};
use crate::queries::leads::clean;
use crate::reading::away::files::AwayFiles;
use crate::reading::bring::nearest_first;
use crate::reading::contents::FileContents;
use crate::reading::same_bytes::{Same, same_bytes};
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
            Some(s) if s.paths.is_empty() => Err(CellError::BadInput(format!(
                "'{}' came from standard input or a command: there is nothing in the file system to compare it with",
                request.version.name
            ))),
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
        // Contents are read through a view of their own: files come in the order of the walk, data in that of the medium.
        let overview = if request.contents { Some(Overview::with_replaced(&view)?) } else { None };
        let contents = match &overview {
            Some(overview) => Some(FileContents::new(&view, overview)?),
            None => None,
        };
        let rows = self.live_rows(&request.version)?;
        let paths: Vec<_> = request.paths.iter().map(|p| clean(p)).collect();
        let backed_up = self.selected_or_guessed(&version, &request.version.name, &log)?;
        let mut roots = self.roots_compared(request, backed_up.as_ref())?;
        let mut rules = backed_up.as_ref().map_or_else(Rules::default, rules_of);
        let is_inner = |root: &Vec<u8>| roots.iter().any(|of| of != root && is_inside(root, of));
        let (inner, outer): (Vec<_>, Vec<_>) = roots.iter().cloned().partition(is_inner);
        (rules.inner_roots, roots) = (inner, outer);
        self.never_enter(std::iter::empty(), &mut rules)?;
        // What is of another size is left out where both sides are held against each other.
        let sizes = rules.sizes.take();
        let (last, here) = (MountedLast::default(), HostMounts::default());
        let selection = Selection::new(&rules, &roots, &last, here)
            .map_err(|e| CellError::BadInput(e.to_string()))?;
        let closed: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let mut comparison = Comparison {
            rows,
            head: None,
            contents,
            away: AwayFiles::default(),
            missing: paths.clone(),
            roots: &roots,
            paths: &paths,
            sizes,
            owners: owner_names(),
            closed: &closed,
            stop,
            totals: ChangeTotals::default(),
            log: &log,
            each,
        };
        comparison.advance()?;
        let mut failed = None;
        let event = |event: WalkEvent<'_>| not_walked(event, &closed, &log);
        look(&both(&roots, &paths), &selection, &stop.0, &event, &mut |dir, entry| {
            let result = comparison.meet(dir, entry);
            failed = result.err();
            failed.is_none()
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        comparison.away.say(self, &log)?;
        let stopped = stop.0.load(std::sync::atomic::Ordering::Relaxed);
        if !stopped {
            comparison.rest()?;
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

/// Refuses paths that were asked for and met on neither side.
fn refuse_met_nowhere(missing: &[Vec<u8>]) -> Result<()> {
    match missing.first() {
        None => Ok(()),
        Some(path) => Err(CellError::BadInput(format!(
            "/{} is neither in this version nor in the trees it was made of; `capstan ls` shows what is",
            path_text(path)
        ))),
    }
}

/// Both sides, as far as they were met.
struct Comparison<'a, 'b> {
    rows: LiveRows<'a>,
    /// The version's next row.
    head: Option<(Row, Listed)>,
    /// To read what the version has of a file, where contents are compared.
    contents: Option<FileContents<'b>>,
    /// Files of which the version's contents cannot be had now.
    away: AwayFiles,
    /// What the version is of. Directories above belong to others: they are not compared.
    roots: &'b [Vec<u8>],
    paths: &'b [Vec<u8>],
    /// Paths asked for that were met on neither side.
    missing: Vec<Vec<u8>>,
    /// Sizes of files that the backup took.
    sizes: Option<std::ops::RangeInclusive<u64>>,
    owners: OwnerNames,
    /// Directories that were not entered: what is in them is not compared.
    closed: &'b Mutex<Vec<Vec<u8>>>,
    stop: &'b Stop,
    totals: ChangeTotals,
    log: &'b SessionLog<'b>,
    each: &'b mut dyn FnMut(&Change),
}

impl Comparison<'_, '_> {
    fn advance(&mut self) -> Result<()> {
        self.head = self.rows.next()?;
        Ok(())
    }

    /// A name of the file system; those of the version that come before it are gone.
    fn meet(&mut self, dir: &DirHandle, entry: Entry) -> Result<()> {
        while let Some((row, _)) = &self.head {
            match order(&row.entry, &entry) {
                Ordering::Less => self.gone()?,
                Ordering::Equal => return self.both(dir, entry),
                Ordering::Greater => break,
            }
        }
        let file_of_other_size = entry.kind == Kind::File
            && self.sizes.as_ref().is_some_and(|sizes| !sizes.contains(&entry.size));
        if self.wants(&entry) && !file_of_other_size {
            let added = Change::added(self.listed(entry));
            self.say(&added);
        }
        Ok(())
    }

    /// What the version has after the last name of the file system.
    fn rest(&mut self) -> Result<()> {
        while self.head.is_some() {
            self.gone()?;
        }
        Ok(())
    }

    fn gone(&mut self) -> Result<()> {
        if let Some((row, listed)) = self.head.take()
            && self.wants(&row.entry)
        {
            let path = row.entry.path();
            let unknown = self.closed.lock().iter().any(|dir| path != *dir && is_below(&path, dir));
            if !unknown {
                self.say(&Change::removed(listed));
            }
        }
        self.advance()
    }

    fn both(&mut self, dir: &DirHandle, entry: Entry) -> Result<()> {
        let head = self.head.take();
        self.advance()?;
        let Some((row, before)) = head.filter(|_| self.wants(&entry)) else {
            return Ok(());
        };
        let mut after = self.listed(entry);
        if row.entry.link {
            // A name has its first one only in the order of a backup: whether it still is a name of that is looked up.
            after.entry.link = same_inode(dir, &row.entry.name, &row.entry.target);
            if after.entry.link {
                after.entry.target.clone_from(&row.entry.target);
            }
        }
        let mut what = differences(&before, &after);
        if what == [Aspect::Ctime] && was_born_after(dir, &row.entry.name, row.entry.ctime) {
            what.clear();
        }
        let mut compared = false;
        if row.entry.kind == Kind::File
            && !row.entry.link
            && !what.contains(&Aspect::Type)
            && !what.contains(&Aspect::Size)
            && self.contents.is_some()
        {
            match self.same_contents(dir, &row)? {
                Some(true) => {
                    compared = true;
                    what.retain(|a| *a != Aspect::Ctime);
                }
                Some(false) => what.push(Aspect::Contents),
                None => return Ok(()),
            }
        }
        match Change::of(before, after, what, compared) {
            Some(change) => self.say(&change),
            None => self.totals.unchanged += 1,
        }
        Ok(())
    }

    /// Whether the bytes are the same; `None` where they could not be compared, which is said.
    fn same_contents(&mut self, dir: &DirHandle, row: &Row) -> Result<Option<bool>> {
        let Some(contents) = &mut self.contents else { return Ok(None) };
        let path = format!("/{}", path_text(&row.entry.path()));
        let unreadable = |e: Errno| {
            let text = crate::error::plain(&std::io::Error::from(e));
            self.log.say(Code::NotOpened, "disk agent", &path, format!("cannot read it: {text}"));
            Ok(None)
        };
        let file = match SourceFile::open(dir, &row.entry.name) {
            Ok(file) => file,
            Err(e) => return unreadable(e),
        };
        match same_bytes(contents, row, &file, self.stop) {
            _ if self.stop.0.load(std::sync::atomic::Ordering::Relaxed) => Ok(None),
            Ok(Same::Yes) => Ok(Some(true)),
            Ok(Same::No) => Ok(Some(false)),
            Ok(Same::Unreadable(e)) => unreadable(e),
            Err(e) if e.is_of_keys() => Err(e),
            Err(e) => {
                match e.away() {
                    Some((medium, why)) => self.away.add(medium, why, row.entry.size),
                    None => {
                        let text = crate::error::chain(&e);
                        self.log.say(Code::Damaged, "media agent", &path, text);
                    }
                }
                Ok(None)
            }
        }
    }

    fn wants(&mut self, entry: &Entry) -> bool {
        let path = entry.path();
        let wanted = selected(self.roots, &path) && selected(self.paths, &path);
        if wanted && !self.missing.is_empty() {
            self.missing.retain(|p| !is_below(&path, p));
        }
        wanted
    }

    fn say(&mut self, change: &Change) {
        self.totals.count(change);
        (self.each)(change);
    }

    fn listed(&self, entry: Entry) -> Listed {
        let text = |name: Option<Vec<u8>>| name.map(|n| String::from_utf8_lossy(&n).into_owned());
        let (user, group) = (self.owners.user(entry.uid), self.owners.group(entry.gid));
        let acl = self.owners.of_acls(&entry);
        Listed { entry, user: text(user), group: text(group), acl, state: None }
    }
}

/// A name or directory that the walk left out: nothing in it is compared.
fn not_walked(event: WalkEvent<'_>, closed: &Mutex<Vec<Vec<u8>>>, log: &SessionLog<'_>) {
    let shown = |path: &[u8]| format!("/{}", path_text(path));
    match event {
        // What patterns leave out now was left out by the backup.
        WalkEvent::Skipped(_)
        | WalkEvent::Failed(_, Errno::NOENT | Errno::NOTDIR, _)
        | WalkEvent::NoRoot(_, Errno::NOENT | Errno::NOTDIR, _)
        | WalkEvent::Mounted(_)
        | WalkEvent::Maskable(_)
        | WalkEvent::StillMissed(_)
        | WalkEvent::StillMasked(_) => {}
        WalkEvent::NotMounted(path, ..) | WalkEvent::NotEntered(path, _) => {
            closed.lock().push(path.to_vec());
            let why = "cannot be compared: nothing is mounted there".to_owned();
            log.say(Code::NotMounted, "disk agent", &shown(path), why);
        }
        WalkEvent::OwnRoot(path) => {
            closed.lock().push(path.to_vec());
            let why = "not compared: it is capstan's own medium or home".to_owned();
            log.say(Code::LeftOut, "disk agent", &shown(path), why);
        }
        WalkEvent::LeftOut(path, why) => {
            closed.lock().push(path.to_vec());
            log.say(Code::LeftOut, "disk agent", &shown(path), format!("not compared: {why}"));
        }
        WalkEvent::NotSorted(path, e, _) => {
            closed.lock().push(path.to_vec());
            let why = format!("cannot be compared: {e}");
            log.say(Code::NotListed, "disk agent", &shown(path), why);
        }
        WalkEvent::Failed(path, e, _) | WalkEvent::NoRoot(path, e, _) => {
            closed.lock().push(path.to_vec());
            let text = crate::error::plain(&std::io::Error::from(e));
            log.say(
                Code::NotOpened,
                "disk agent",
                &shown(path),
                format!("cannot be compared: {text}"),
            );
        }
    }
}

/// The roots, as far as they are asked for.
fn both(roots: &[Vec<u8>], paths: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if paths.is_empty() {
        return roots.to_vec();
    }
    let mut both: Vec<Vec<u8>> = Vec::new();
    for root in roots {
        for path in paths {
            if is_below(path, root) {
                both.push(path.clone());
            } else if is_below(root, path) {
                both.push(root.clone());
            }
        }
    }
    both.sort();
    both.dedup();
    let all = both.clone();
    both.retain(|path| !all.iter().any(|other| path != other && is_below(path, other)));
    both
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_meet_the_paths_that_are_asked_for() {
        let own = |p: &[&str]| p.iter().map(|p| p.as_bytes().to_vec()).collect::<Vec<_>>();
        let roots = own(&["etc", "srv/a"]);
        assert_eq!(both(&roots, &[]), roots);
        assert_eq!(both(&roots, &own(&["etc/ssh", "etc"])), own(&["etc"]));
        assert_eq!(both(&roots, &own(&["srv", "home"])), own(&["srv/a"]));
        assert_eq!(both(&own(&[""]), &own(&["etc/ssh"])), own(&["etc/ssh"]));
    }
}
