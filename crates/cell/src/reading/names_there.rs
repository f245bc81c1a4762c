//! Whether the names of a segment are all there, in what stands for it.

use std::borrow::Borrow;

use capstan_catalog::batch::rows_of_stream;
use capstan_catalog::keys::VersionKeys;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_format::catalog::Contents;

use crate::Cell;
use crate::error::{CellError, chain};
use crate::reading::version::VersionView;
use crate::session::SessionLog;

impl VersionView<'_> {
    /// Why not all names of the version are known, as far as it was read: of some segments no place at hand has all of them.
    pub fn names_lost(&self) -> Option<CellError> {
        // Where there is nothing but copies that lack something, the database may have their catalogs.
        for place in self.segments.iter().filter(|place| place.whole_places().is_empty()) {
            if self.contents(place).is_ok_and(|contents| contents.says_names_lack()) {
                self.media.note_poor(place.segment);
            }
        }
        self.media.names_lost()
    }

    /// Says it of a version where names of it are lost.
    pub fn say_names_lost(&self, name: &str, log: &SessionLog<'_>) {
        if let Some(e) = self.names_lost() {
            log.say(Code::Damaged, "media agent", name, chain(&e));
        }
    }

    /// Whether names of a segment are whole nowhere at hand. Of a copy whose keys are not at hand only itself says so.
    pub fn lacks_names(&self, place: &SegmentPlace, keys: &VersionKeys) -> bool {
        let Ok(contents) = self.contents(place) else { return false };
        self.media.is_poor(place.segment)
            || contents.says_names_lack()
            || rows_lacking_in_copy(&contents, || keys) > 0
    }

    /// Whether names lack in what a segment's place has.
    pub fn lacks_names_at(&self, at: Place, contents: &Contents) -> bool {
        self.media.is_poor(at.0) || contents.says_names_lack()
    }
}

impl Cell {
    /// The keys of a version's names, as far as they can be opened without asking anybody.
    pub(crate) fn keys_of_names(
        &self,
        view: &VersionView<'_>,
        session: &'static str,
    ) -> VersionKeys {
        if self.secrets.are_given()
            && let Ok(records) = self.key_records(view)
            && let Ok(opened) = self.open_keys_if_given(&records, false, "it", session)
        {
            return opened.keys;
        }
        VersionKeys::default()
    }
}

/// How many rows fewer than its end record counts a segment has. Of streams whose keys are not at hand nothing is known.
fn rows_lacking(keys: &VersionKeys, contents: &Contents) -> u64 {
    let lacking = contents.end.iter().flat_map(|end| &end.streams).map(|extent| {
        let Some(s) = contents.streams.iter().find(|s| s.stream == extent.stream) else {
            return extent.rows;
        };
        let mut found = 0;
        match rows_of_stream(keys, s, &mut |_, _| found += 1) {
            Ok(()) => extent.rows.saturating_sub(found),
            Err(_) => 0,
        }
    });
    lacking.fold(0, u64::saturating_add)
}

/// The same of a copy; nothing of an original, in which only damage costs rows. Copies that were made before 2026-11-27 do not say
/// themselves that names lack in them.
pub(crate) fn rows_lacking_in_copy<K: Borrow<VersionKeys>>(
    contents: &Contents,
    keys: impl FnOnce() -> K,
) -> u64 {
    match contents.header.as_ref().is_some_and(|header| header.copy_of.is_some()) {
        true => rows_lacking(keys().borrow(), contents),
        false => 0,
    }
}
