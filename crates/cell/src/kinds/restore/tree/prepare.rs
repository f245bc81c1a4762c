//! Before the work: which files there are, which are written in parts, and what stands in for links.

use std::borrow::Cow;
use std::collections::HashSet;

use capstan_catalog::row::Row;
use capstan_format::catalog::StreamContents;
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind};
use capstan_port::disk::restore::{LinkAsked, RestoreRun, ToPrepare};
use capstan_wire::restore::Overwrite;

use crate::error::Result;
use crate::kinds::restore::tree::referred::{Home, Referred};
use crate::kinds::restore::tree::{NOT_THERE, ROWS, Restore};
use crate::kinds::restore::wanted::scope::{Scope, Wanted};

/// What is wanted of a row whose path is near what is asked for, or not.
fn wanted_of(entry: &Entry, is_near: bool) -> Wanted {
    match (is_near, entry.logical_len()) {
        (false, _) => Wanted::Nothing,
        (true, 0) => Wanted::Row,
        (true, _) => Wanted::Data,
    }
}

/// Whether a file's data lie in several places: in parts, or in the next segment too.
pub(crate) fn is_in_parts(row: &Row, stream: &StreamContents) -> bool {
    let e = &row.entry;
    let end = row.start.saturating_add(e.logical_len());
    let cut = e.logical_len() > 0 && end > stream.logical_end;
    let parts = e.extents.iter().any(|x| x.kind == ExtentKind::Parts);
    e.kind == Kind::File && !e.link && (cut || parts)
}

impl Restore<'_> {
    /// Finds the files that are written in parts, and what stands in for links. Returns files and bytes to restore.
    pub(in crate::kinds::restore) fn prepare(
        &mut self,
        agent: &mut dyn RestoreRun,
    ) -> Result<(u64, u64)> {
        let may_keep = matches!(self.request.overwrite, Overwrite::Never | Overwrite::IfNewer);
        let mut rows: Vec<ToPrepare> = Vec::new();
        let mut in_parts: Vec<Row> = Vec::new();
        let mut links: Vec<Entry> = Vec::new();
        let mut referred = Referred::default();
        let (mut files, mut bytes) = (0, 0_u64);
        let strip = self.request.strip > 0;
        let some = self.chosen.is_narrow() || self.arc.is_some() || strip;
        let mut scope = std::mem::take(&mut self.scope);
        scope.narrow(self.view, &mut |stream, row| {
            let e = &row.entry;
            let path = e.path();
            if !e.kind.is_inode() {
                let kept = wanted_of(e, self.is_near(&path, false));
                return Ok(if self.live(stream, &row, &path) { kept } else { kept.without_data() });
            }
            let is_dir = e.kind == Kind::Dir;
            let kept = wanted_of(e, self.is_near(&path, is_dir));
            let wanted = self.wants_that(&path, is_dir);
            if !self.live(stream, &row, &path) {
                let unkept = self.overview.is_unkept(stream.stream, &row)
                    && !self.overview.is_replaced(&path, row.ordinal);
                if wanted && unkept {
                    rows.push(ToPrepare::Lost(self.name_of(path), Cow::Borrowed(NOT_THERE)));
                }
                return Ok(kept.without_data());
            }
            if e.kind != Kind::Dir && wanted && !self.overview.is_carrier(row.ordinal) {
                files += 1;
                // A claim that media do not bear out needs no room.
                let len = if e.link { 0 } else { self.overview.believed_len(&row) };
                bytes = bytes.saturating_add(len);
            }
            if wanted && e.link {
                rows.push(ToPrepare::First(e.target.clone()));
                if may_keep
                    && self.wants(&e.target)
                    && let (Some(first), Some(to)) =
                        (self.stripped(&e.target), self.stripped(&path))
                {
                    let (first_to, to) = (first.to_vec(), to.to_vec());
                    rows.push(ToPrepare::Link(LinkAsked { link: e.clone(), first_to, to }));
                }
            }
            if kept != Wanted::Nothing {
                self.refer(&row, &mut referred);
            }
            let is_spread = || kept != Wanted::Nothing && self.home(e) == Home::Spread;
            let is_parted = is_in_parts(&row, stream) || is_spread();
            if !is_parted && some && wanted && e.link && !self.wants(&e.target) {
                links.push(e.clone());
            }
            if is_parted {
                in_parts.push(row);
            }
            if rows.len() >= ROWS {
                agent.prepare(&mut rows);
            }
            Ok(kept)
        })?;
        agent.prepare(&mut rows);
        self.scope = scope;
        if !links.is_empty() && (self.chosen.is_narrow() || self.arc.is_some()) {
            let targets = links.iter().map(|link| link.target.clone()).collect();
            self.find_targets(&targets, &mut in_parts, &mut referred)?;
        }
        self.referred = referred.settled();
        for link in links {
            let path = link.path();
            self.instead.entry(link.target).or_insert(path);
        }
        self.instead.extend(agent.kept_firsts());
        self.expect_parts(in_parts, agent);
        Ok((files, bytes))
    }

    /// Finds what is to be read of the first names of links that are restored without them.
    fn find_targets(
        &mut self,
        targets: &HashSet<Vec<u8>>,
        in_parts: &mut Vec<Row>,
        referred: &mut Referred,
    ) -> Result<()> {
        let further: Vec<Vec<u8>> = targets.iter().cloned().collect();
        let mut scope = Scope::of(self.view, &self.chosen, &further)?;
        scope.narrow(self.view, &mut |stream, row| {
            let path = row.entry.path();
            let is_dir = row.entry.kind == Kind::Dir;
            let is_near = targets.contains(&path) || self.is_near(&path, is_dir);
            if self.live(stream, &row, &path) {
                let is_spread = || is_near && self.home(&row.entry) == Home::Spread;
                if is_near {
                    self.refer(&row, referred);
                }
                let wanted = wanted_of(&row.entry, is_near);
                if is_in_parts(&row, stream) || is_spread() {
                    in_parts.push(row);
                }
                return Ok(wanted);
            }
            Ok(wanted_of(&row.entry, is_near))
        })?;
        self.scope = scope;
        Ok(())
    }

    /// Has files made that are written in parts, each by its row.
    fn expect_parts(&mut self, in_parts: Vec<Row>, agent: &mut dyn RestoreRun) {
        let is_stored = |x: &&Extent| x.kind != ExtentKind::Hole;
        let mut rows = Vec::new();
        for row in in_parts {
            let e = &row.entry;
            let bytes = match e.extents.as_slice() {
                [] => e.size,
                all => all.iter().filter(is_stored).fold(0, |sum, x| x.len.saturating_add(sum)),
            };
            let Some(name) = self.name(e.path()) else { continue };
            self.in_parts.insert(name.stored.clone());
            rows.push(ToPrepare::InParts(Box::new(self.file_row(row, name)), bytes));
        }
        agent.prepare(&mut rows);
    }
}
