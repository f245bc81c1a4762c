//! Media that are at hand and cannot be opened: whatever is recorded on them counts as damaged, until somebody reads it again.

use capstan_address::Address;
use capstan_engine::message::shell_word;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::MediumId;
use capstan_idb::Medium;
use capstan_medium::names::HEADER_NAME;
use capstan_medium::{DeviceError, OpenMedium};

use super::shown;
use crate::Cell;
use crate::error::{CellError, Result};
use crate::session::now_us;

impl Cell {
    /// Records that a medium which is at hand cannot be read.
    pub(crate) fn note_unreadable(&self, row: &Medium) -> Result<()> {
        let known = self.idb.damaged_places()?;
        let segments = self.idb.segments_of_medium(row.id)?.into_iter().map(|s| s.id);
        let news: Vec<_> = segments.filter(|id| !known.contains(&(row.id, *id))).collect();
        if news.is_empty() && self.idb.management(row.id)?.damaged_us.is_some() {
            return Ok(());
        }
        Ok(self.idb.put_damage(row.id, &news, now_us())?)
    }

    /// The same of the media that are known to be on a tape.
    pub(super) fn note_unreadable_at(&self, address: &Address) -> Result<()> {
        let place = address.recorded();
        for row in self.idb.media()?.into_iter().filter(|row| row.device == place) {
            // One that is not on it any more cannot be read for other reasons.
            if self.idb.management(row.id)?.changed_us.is_none() {
                self.note_unreadable(&row)?;
            }
        }
        Ok(())
    }

    /// Records of a tape whose first block is damaged that it has damage, so that nothing is added to it. What lies on it is read.
    pub(crate) fn note_lost_header(&self, medium: &OpenMedium) -> Result<()> {
        let id = medium.header().medium;
        let is_lost = medium.is_on_tape() && medium.header_problem().is_some();
        if is_lost
            && self.idb.medium(id)?.is_some()
            && self.idb.management(id)?.damaged_us.is_none()
        {
            self.idb.put_damage(id, &[], now_us())?;
        }
        Ok(())
    }

    /// The error for a medium that was opened to write. Where what lies at its end cannot be read it is recorded that it has damage,
    /// so that nothing is added to it, night after night.
    pub(crate) fn unread_at_end(&self, id: MediumId, e: CellError) -> CellError {
        if !e.is_unreadable() {
            return e;
        }
        let note = || -> Result<()> {
            let is_known = self.idb.medium(id)?.is_some();
            if is_known && self.idb.management(id)?.damaged_us.is_none() {
                self.idb.put_damage(id, &[], now_us())?;
            }
            Ok(())
        };
        note().err().unwrap_or(e)
    }

    /// The error for a known medium that is at hand and cannot be read, which is recorded.
    pub(crate) fn unreadable(&self, row: &Medium, e: &DeviceError) -> CellError {
        if let Err(e) = self.note_unreadable(row) {
            return e;
        }
        let why = e.of_tape().map_or_else(|| e.problem(), Explain::problem);
        let (name, device) = (shown(row.id, &row.label), &row.device);
        let sentence = format!("{name} in {device} cannot be read: {}", why.sentence);
        let text = Problem { sentence, ..why }.hint_too(&format!(
            "it counts as damaged until `capstan verify --medium {}` reads it",
            shell_word(&row.label)
        ));
        CellError::Unreadable { medium: row.id, text }
    }
}

/// Of a medium whose header had to be made up for: what is damaged, and what is wrong and can be done.
pub(crate) fn lost_header(medium: &OpenMedium) -> Option<(String, String)> {
    let (problem, path) = (medium.header_problem()?, medium.path());
    Some(match medium.is_on_tape() {
        true => (
            format!("the first block of {path}"),
            format!(
                "{problem}; what it said is taken from a segment, and nothing is added to this tape: `capstan media retire {}` brings what \
                 must stay to another one",
                shell_word(&medium.header().label)
            ),
        ),
        false => (
            format!("{path}/{HEADER_NAME}"),
            format!(
                "{problem}; what it said is taken from a segment, `capstan media repair {}` writes it anew",
                shell_word(path)
            ),
        ),
    })
}
