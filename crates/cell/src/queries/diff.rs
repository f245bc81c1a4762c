//! What differs between two versions that were named.

use capstan_catalog::diff::{Change, ChangeTotals, LiveRows, diff};

use crate::Cell;
use crate::error::Result;
use crate::queries::leads::clean;
use crate::request::VersionName;

impl Cell {
    /// Calls with each path that differs between two versions, in order: those of `paths` and below, or all. A path that
    /// neither has is an error, when all others were compared.
    pub fn diff(
        &self,
        before: &VersionName,
        after: &VersionName,
        paths: &[Vec<u8>],
        each: &mut dyn FnMut(&Change),
    ) -> Result<ChangeTotals> {
        let paths: Vec<_> = paths.iter().map(|p| clean(p)).collect();
        Ok(diff(self.live_rows(before)?, self.live_rows(after)?, &paths, each)?)
    }

    /// The rows of a version, with the keys that open its names.
    pub(crate) fn live_rows(&self, name: &VersionName) -> Result<LiveRows<'_>> {
        let version = self.version(name)?;
        let mut rows = self.merged(&version)?;
        rows.settle_links()?;
        Ok(LiveRows::new(rows))
    }
}
