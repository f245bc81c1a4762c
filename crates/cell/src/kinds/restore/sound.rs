//! What a restore read soundly though an earlier session found damage there.

use capstan_engine::message::shell_word;

use crate::Cell;
use crate::error::Result;
use crate::kinds::restore::wanted::scope::Scope;
use crate::reading::version::VersionView;

impl Cell {
    /// Of segments that were read without damage, and count as damaged: what reads all of them. A restore reads what its files need.
    pub(super) fn note_read_soundly(
        &self,
        view: &VersionView<'_>,
        scope: &Scope,
    ) -> Result<Vec<String>> {
        let damaged = self.idb.damaged_places()?;
        let mut labels: Vec<String> = Vec::new();
        for (index, place) in view.segments.iter().enumerate() {
            let places = place.places();
            let first = places.iter().find(|(_, id, _)| view.media.was_used(*id));
            if let Some((segment, medium, _)) = first
                && damaged.contains(&(*medium, *segment))
                && scope.has_any(index as u32, &place.streams)
                && let Some(row) = self.idb.medium(*medium)?
                && !labels.contains(&row.label)
            {
                labels.push(row.label);
            }
        }
        let text = |label: String| {
            format!(
                "what was read of medium '{label}' is sound, and an earlier session found damage there: `capstan verify --medium {}` \
                 reads all of it, and what is whole counts again",
                shell_word(&label)
            )
        };
        Ok(labels.into_iter().map(text).collect())
    }
}
