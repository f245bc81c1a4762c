//! Versions that are not whole, and what a session says of that.

use std::collections::HashSet;

use capstan_engine::message::Code;
use capstan_format::id::VersionId;
use capstan_idb::Version;

use crate::Cell;
use crate::error::Result;
use crate::session::SessionLog;
use crate::versions::damaged::lost_text;

impl Cell {
    /// Why a version is not whole, if it is not.
    pub(crate) fn lost_of(&self, version: VersionId) -> Result<Option<String>> {
        let lost = self.idb.lost_versions()?;
        Ok(lost.iter().find(|of| of.version == version).map(lost_text))
    }

    /// Those of these versions of which nothing is lost for good, or was never imported.
    pub(crate) fn whole_of(&self, versions: &[Version]) -> Result<Vec<Version>> {
        let lost = self.idb.lost_versions()?;
        let lost: HashSet<VersionId> = lost.iter().map(|of| of.version).collect();
        let is_whole = |v: &&Version| !lost.contains(&v.id);
        Ok(versions.iter().filter(is_whole).cloned().collect())
    }

    /// Says of a version that is read that it is not whole, if it is not. `rows` gives the files that are known of it.
    pub(crate) fn say_lost(
        &self,
        version: VersionId,
        name: &str,
        rows: impl FnOnce() -> Option<u64>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if let Some(why) = self.lost_of(version)? {
            let all = self.writer_of(version)?.map_or(0, |s| s.files);
            let how_many = match rows().map(|known| all.saturating_sub(known)) {
                None | Some(0) => "files of it may lack".to_owned(),
                Some(n) => format!("{n} of its {all} files lack"),
            };
            let text = format!("it is not whole, and {how_many} that nobody can name: {why}");
            log.say(Code::Missing, "cell", name, text);
        }
        if let Some(lacks) = self.lacks(version)? {
            log.say(Code::LostData, "cell", name, lacks);
        }
        Ok(())
    }
}
