//! A restore session: the rows of a version, their data from the media, the files of a target.
//!
//! Every worker takes a stream's part of a segment at a time: it reads that part's blocks once, in order, and writes
//! files as their data come by. Files whose data lie in several places are made first and get their metadata last;
//! links, directories and inode flags follow when all data are there.

mod check;
mod dry_run;
mod list;
mod meeting;
mod pace;
mod pick;
mod session;
mod sound;
mod tar;
mod to_tar;
mod to_tree;
mod together;
mod tree;
pub(crate) mod wanted;

use std::collections::HashSet;

use capstan_catalog::places::SegmentPlace;
use capstan_catalog::version::Overview;
use capstan_engine::message::Code;
use capstan_engine::problem::Explain;
use capstan_idb::Version;

use self::check::Check;
pub(crate) use self::dry_run::files_known;
pub use self::list::RestoreTotals;
use self::pace::Turn;
pub(crate) use self::tree::feed::PART_ALONE;
pub(crate) use self::tree::{NOT_THERE, is_in_parts};
pub(crate) use self::wanted::chosen::Chosen;
use self::wanted::scope::Scope;
use crate::Cell;
use crate::error::{RestoreRefusal, Result};
use crate::kinds::restore::list::Tally;
use crate::kinds::restore::session::RunOf;
use crate::kinds::restore::to_tree::TreeOf;
use crate::kinds::restore::wanted::sample_arc::SampleArc;
use crate::kinds::skeleton::SessionRun;
use crate::observe::{Observer, Stop};
use crate::queries::leads::clean;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo, VersionName};
use crate::session::SessionLog;

/// What a restore did, with what a drill has to know of it.
pub(crate) struct Sampled {
    pub report: Report,
    /// Whether some of the data that were read carry no checksums.
    pub unchecked: bool,
    /// Files that were not restored, as they lie on media that are away.
    pub away: HashSet<Vec<u8>>,
}

impl From<Report> for Sampled {
    fn from(report: Report) -> Self {
        Self { report, unchecked: false, away: HashSet::new() }
    }
}

impl Cell {
    /// What a request chooses of a version.
    fn chosen_of(&self, request: &RestoreRequest, version: &Version) -> Result<Chosen> {
        let paths: Vec<_> = request.paths.iter().map(|p| clean(p)).collect();
        let chosen = Chosen::new(&paths, &request.exclude, &request.include)?;
        if !chosen.has_patterns() {
            return Ok(chosen);
        }
        let selected = self.selected_by(version)?.map(|selected| selected.paths);
        let roots = selected.unwrap_or_default();
        Ok(chosen.of_roots(&roots.iter().map(|p| clean(p.as_bytes())).collect::<Vec<_>>()))
    }

    /// Says what clocks say that cannot be: of the object, or of the one version that is named.
    fn say_clock(&self, name: &VersionName, version: &Version, log: &SessionLog<'_>) -> Result<()> {
        let Some(fault) = self.clock_fault(version.object)? else { return Ok(()) };
        if name.session.is_none() || fault.versions.contains(&version.id) {
            // Only where a time was given did it choose the version.
            let code = match name.as_of_us {
                Some(_) => Code::ClockWrong,
                None => Code::ClockDoubtful,
            };
            log.say(code, "cell", &name.name, fault.text);
        }
        Ok(())
    }

    /// Records damage of the segments in which a restore found some: at the first place that can be opened, which is what was read.
    fn note_damage(view: &VersionView<'_>) {
        let first = |segment: &u32| {
            let place = view.segments.get(*segment as usize)?;
            place.places().into_iter().find(|(_, id, _)| view.media.medium(*id).is_ok())
        };
        let hurt = view.media.hurt_segments.lock();
        hurt.iter().filter_map(first).for_each(|at| view.media.note_damage(at));
    }

    /// Restores.
    pub fn restore(
        &self,
        request: &RestoreRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let log = SessionLog::new(observer);
        self.restore_arc(request, None, None, &log, stop).map(|done| done.report)
    }

    /// What came from standard input or a command never was in the file system.
    fn refuse_no_place(&self, request: &RestoreRequest, version: &Version) -> Result<()> {
        let selected = match request.to {
            RestoreTo::InPlace => self.selected_by(version)?,
            _ => None,
        };
        if selected.is_none_or(|s| !s.paths.is_empty()) {
            return Ok(());
        }
        Err(RestoreRefusal::NoPlaceOfItsOwn { name: request.version.name.clone() }.into())
    }

    /// A version with what it builds on. Of one that is named by its session, what there is of that: its base may be lost for good.
    fn view_to_restore(
        &self,
        name: &VersionName,
        version: &Version,
        log: &SessionLog<'_>,
    ) -> Result<VersionView<'_>> {
        if name.session.is_none() {
            return VersionView::open(self, version.id).map_err(|e| match e {
                e if e.refusal().is_some() => RestoreRefusal::OnlyInParts(e.problem()).into(),
                e => e,
            });
        }
        let (view, lacks) = VersionView::open_known(self, version.id)?;
        if let Some(base) = lacks {
            let text = format!(
                "version {}, which it builds on, is not known: what is of this version itself is restored; import the medium that \
                 has it to get the rest",
                base.short()
            );
            log.say(Code::Missing, "cell", &name.name, text);
        }
        Ok(view)
    }

    /// The segments that are read, where several tapes may have to be put in by hand: nobody is asked for one that has nothing of what is
    /// chosen.
    fn read_by_hand(
        &self,
        check: &Check<'_>,
        is_needed: &dyn Fn(usize, &SegmentPlace) -> bool,
    ) -> Result<Option<HashSet<usize>>> {
        let Check { view, overview, request, chosen, scope } = check;
        if !chosen.is_narrow() || !self.has_operator() || view.by_hand(is_needed).len() < 2 {
            return Ok(None);
        }
        let read = pick::segments(view, overview, scope, &Tally::new(request, chosen))?;
        Ok(Some(read).filter(|read| !read.is_empty()))
    }

    /// Restores the files of a drill's sample into a directory, without a record of it.
    pub(crate) fn restore_sample(
        &self,
        request: &RestoreRequest,
        arc: SampleArc,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Sampled> {
        self.restore_arc(request, Some(arc), None, log, stop)
    }

    /// Restores; the files of a drill's sample, where one is given; together with others, where it takes turns.
    fn restore_arc(
        &self,
        request: &RestoreRequest,
        arc: Option<SampleArc>,
        turn: Option<&Turn<'_>>,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Sampled> {
        let session = SessionRun::begin(self, "restore", stop)?;
        self.devices.read_through(request.spool.clone())?;
        self.check_pages(log);
        let version = self.version(&request.version)?;
        self.say_clock(&request.version, &version, log)?;
        self.say_incomplete(&version, log)?;
        let mut view = self.view_to_restore(&request.version, &version, log)?;
        // A wrong or missing key is said before anything is written.
        self.add_keys(&mut view, true)?;
        self.open_drive_keys(&view)?;
        let overview = Overview::with_replaced(&view)?;
        let known = || files_known(&view, &overview).ok();
        self.say_lost(version.id, &request.version.name, known, log)?;
        check::destination(request)?;
        let mut chosen = self.chosen_of(request, &version)?;
        let scope = Scope::of(&view, &chosen, &[])?;
        let name = &request.version.name;
        check::choose(&view, &overview, &mut chosen, &scope, log, name)?;
        let is_needed =
            |index: usize, place: &SegmentPlace| scope.has_any(index as u32, &place.streams);
        let to_bring = view.bring(&is_needed)?;
        let check =
            Check { view: &view, overview: &overview, request, chosen: &chosen, scope: &scope };
        match request.dry_run {
            // Media that are away stand on the pick list.
            true => check.strip(log)?,
            false => {
                let read = self.read_by_hand(&check, &is_needed)?;
                let is_read = |index: usize, place: &SegmentPlace| match &read {
                    Some(read) => read.contains(&index),
                    None => is_needed(index, place),
                };
                check.request(&is_read, log)?;
            }
        }
        self.refuse_no_place(request, &version)?;
        let client = &self.client(request.client.as_ref())?;
        if client.is_here {
            check::kept::refuse_target(self, request)?;
        }
        let from = self.writer_of(version.id)?.map(|s| s.id);
        let run = RunOf { session, request, client, version: &version, from };
        if request.dry_run {
            let report = dry_run::dry_run(&view, &overview, &chosen, &scope, &run, log)?;
            return Ok(report.into());
        }
        let _asked = self.ask_for(&to_bring);
        // Those that are restored together have theirs together.
        let _booked = match turn {
            None => self.book_drives_of_versions(std::slice::from_ref(&view))?,
            Some(_) => Vec::new(),
        };
        if let RestoreTo::Tar(_) = &request.to {
            return Ok(self.restore_to_tar(view, &run, &chosen, log, stop)?.into());
        }
        let of = TreeOf { view: &view, overview: &overview, chosen, scope, arc, turn };
        self.restore_to_tree(of, &run, log, stop)
    }
}

/// A path without its first components; `None` if nothing is left.
fn stripped(path: &[u8], strip: usize) -> Option<&[u8]> {
    let mut rest = path;
    for _ in 0..strip {
        let at = rest.iter().position(|b| *b == b'/')?;
        rest = &rest[at + 1..];
    }
    (!rest.is_empty()).then_some(rest)
}
