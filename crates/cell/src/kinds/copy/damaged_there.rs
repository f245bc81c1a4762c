//! What a target has already of what is copied to it, and that was found damaged there: it is no copy.

use std::collections::BTreeMap;

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::MediumId;
use capstan_idb::Version;

use crate::Cell;
use crate::error::Result;
use crate::reading::version::VersionView;
use crate::session::SessionLog;

impl Cell {
    /// Says which segments of these versions targets have in damaged places alone. Copying left them as they are.
    pub(super) fn say_damaged_there(
        &self,
        versions: &[Version],
        is_target: &dyn Fn(MediumId) -> bool,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let damaged = self.idb.damaged_places()?;
        if !damaged.iter().any(|(medium, _)| is_target(*medium)) {
            return Ok(());
        }
        for version in versions {
            let view = VersionView::open_alone(self, version.clone())?;
            let mut on: BTreeMap<MediumId, usize> = BTreeMap::new();
            for segment in &view.segments {
                let there: Vec<_> =
                    segment.places().into_iter().filter(|p| is_target(p.1)).collect();
                if there.iter().all(|p| damaged.contains(&(p.1, p.0))) {
                    there.iter().take(1).for_each(|p| *on.entry(p.1).or_default() += 1);
                }
            }
            for (medium, segments) in on {
                let label = self.labels([medium].iter())?.concat();
                let text = format!(
                    "medium '{label}' has {segments} of its segments already, and they were found damaged there: this copy is not \
                     whole; `capstan media repair {}` writes them anew from where they are whole",
                    shell_word(&label)
                );
                log.say(Code::Damaged, "cell", &self.name_of_version(version.id)?, text);
            }
        }
        Ok(())
    }
}
