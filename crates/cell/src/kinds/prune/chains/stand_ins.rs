//! Which synthetic full may take the place of what it has the state of. What builds on a version is made to build on such a full, and
//! the version is given up: so a full that is not as good must not stand in, and this is the one place that says which is.

use std::collections::HashSet;

use capstan_catalog::places::SegmentPlace;
use capstan_format::id::{MediumId, VersionId};

use crate::Cell;
use crate::error::{CellError, Damage, PruneRefusal, Result, chain};
use crate::kinds::consolidate::refuse_lacking;
use crate::media::is_elsewhere;
use crate::reading::version::VersionView;

/// In whose place a full is to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A version that is there and is given up then.
    OfGivenUp,
    /// One that is gone already: a full with encrypted names will do unread where no key is given, and for versions that are all another
    /// cell's one on such media.
    OfGone {
        /// Whether they are.
        another_cells: bool,
    },
}

impl Cell {
    /// The newest full that may take the place of a version: nothing of it was lost or given up, all of it is recorded, and lies on
    /// media of this cell that are at hand, undamaged, unchanged and in use. Of others `passed` is told why they do not.
    pub(crate) fn stand_in(
        &self,
        version: VersionId,
        place: Place,
        passed: &mut dyn FnMut(VersionId, String),
    ) -> Result<Option<VersionId>> {
        for full in self.idb.stand_ins(version)? {
            match self.refuse_stand_in(version, full, place) {
                Ok(()) => return Ok(Some(full)),
                Err(e @ CellError::Idb(_)) => return Err(e),
                Err(e) => passed(full, chain(&e)),
            }
        }
        Ok(None)
    }

    /// Lets versions whose base is not known, or has nothing on any medium, build on what stands for it, where anything does: so it is
    /// after an import of media from which the base was removed.
    pub(crate) fn adopt_stand_ins(&self) -> Result<()> {
        for base in self.idb.bases_gone()? {
            let others = self.versions_of_others()?;
            let mut built_on = self.idb.with_dependants(&[base])?;
            built_on.retain(|id| *id != base);
            let another_cells = built_on.iter().all(|id| others.contains(id));
            let place = Place::OfGone { another_cells };
            if let Some(full) = self.stand_in(base, place, &mut |_, _| ())? {
                self.idb.rebase(base, full)?;
            }
        }
        Ok(())
    }

    fn refuse_stand_in(&self, version: VersionId, full: VersionId, place: Place) -> Result<()> {
        let mut view = VersionView::open(self, full)?;
        let mut places: Vec<SegmentPlace> = view.segments.clone();
        // Without its end an import would not know that it is complete.
        places.extend(view.ends()?);
        let on: HashSet<MediumId> =
            places.iter().flat_map(SegmentPlace::places).map(|place| place.1).collect();
        let may_be_others = place == Place::OfGone { another_cells: true };
        let mut refused = None;
        let mut sound: HashSet<MediumId> = HashSet::new();
        for medium in on {
            match self.refuse_unsound(&view, medium, may_be_others) {
                Ok(()) => drop(sound.insert(medium)),
                Err(e @ CellError::Idb(_)) => return Err(e),
                Err(e) => refused = Some(e),
            }
        }
        for segment in &mut places {
            segment.keep(&|medium| sound.contains(&medium));
            if segment.places().is_empty() {
                return Err(refused.unwrap_or_else(|| Damage::PartOnNoMedium.into()));
            }
            view.require(segment)?;
        }
        if view.encrypted && !self.secrets.are_given() {
            return match place {
                Place::OfGone { .. } => Ok(()),
                Place::OfGivenUp => Err(CellError::NoKey("no key is given for it".into())),
            };
        }
        self.add_keys(&mut view, false)?;
        let sessions = self.idb.sessions_of_version(full)?;
        let Some(last) = sessions.last() else {
            return Err(Damage::NoSession.into());
        };
        refuse_lacking(&view, last)?;
        match place {
            Place::OfGivenUp => self.refuse_without_referred(version, full),
            // There is nothing else that could have what is referred to.
            Place::OfGone { .. } => Ok(()),
        }
    }

    /// Refuses a medium on which nothing may be relied on in the place of something else.
    fn refuse_unsound(
        &self,
        view: &VersionView<'_>,
        id: MediumId,
        may_be_others: bool,
    ) -> Result<()> {
        let Some(row) = self.idb.medium(id)? else {
            return Err(PruneRefusal::MediumUnknown { medium: id.short() }.into());
        };
        let management = self.idb.management(id)?;
        let faults = [
            (management.exported_us.is_some(), "was exported"),
            (management.retired_us.is_some(), "is retired"),
            (management.damaged_us.is_some(), "was found damaged"),
            (management.changed_us.is_some(), "is not as it was last written"),
            (management.is_other_cells() && !may_be_others, "is another cell's"),
            (is_elsewhere(self, &row), "is at another host"),
        ];
        if let Some((_, fault)) = faults.iter().find(|(is_so, _)| *is_so) {
            return Err(PruneRefusal::MediumUnsound { label: row.label, fault }.into());
        }
        // Nobody loads a tape for it.
        if !may_be_others && !view.media.is_sequential(id)? {
            let there = view.media.medium(id)?;
            self.refuse_other_cells(there.header(), there.path())?;
        }
        Ok(())
    }
}
