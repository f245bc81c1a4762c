//! Proof that a medium is sound: what takes back the errors that counted against it, and what can be done about one that is poor.
//!
//! A disk tells nothing of its own: an error may have been a cable's, or a controller's. So a disk that is read whole without a fault, that
//! is mended, or that takes what [`WRITES`] sessions write, has no errors any more. Of a tape they stay: those that stayed after the
//! drive's own repeats are the tape's, and a poor tape is retired.

use capstan_engine::message::shell_word;
use capstan_format::id::MediumId;
use capstan_idb::Medium;

use crate::Cell;
use crate::error::Result;
use crate::media::limits_of;

/// So many sessions must have written to a disk since its last error until it has none any more. Ours: as many as errors make it poor, so
/// that a disk which fails every second or third night does become poor.
const WRITES: u64 = 3;

/// Whether proof takes back the errors of a medium: all that is not on tape.
fn is_forgiven(medium: &Medium) -> bool {
    medium.device.is_on_stores()
}

impl Cell {
    /// Records that a medium has no damage: it was read whole and is sound, or it was mended.
    pub(crate) fn note_sound(&self, id: MediumId, is_mended: bool) -> Result<()> {
        self.idb.clear_medium_damage(id, is_mended)?;
        if self.idb.medium(id)?.is_some_and(|medium| is_forgiven(&medium)) {
            self.idb.forgive_errors(id)?;
        }
        Ok(())
    }

    /// Takes back the errors of disks to which enough sessions wrote since.
    pub(crate) fn forgive_written(&self) -> Result<()> {
        for id in self.idb.media_with_errors()? {
            let Some(medium) = self.idb.medium(id)? else { continue };
            if is_forgiven(&medium) && self.idb.sessions_since_error(id)? >= WRITES {
                self.idb.forgive_errors(id)?;
            }
        }
        Ok(())
    }
}

/// The command that takes back so many errors of a medium in poor condition, if they are why it is poor, and one does.
pub(crate) fn way_to_prove(medium: &Medium, errors: u64) -> Option<String> {
    let is_by_errors = errors >= limits_of(&crate::media::kind_of(medium)).errors;
    (is_by_errors && is_forgiven(medium)).then(|| {
        let word = shell_word(&medium.label);
        format!("`capstan verify --medium {word}` takes the errors back if it reads all and finds no damage")
    })
}

/// What can be done about a medium in poor condition with so many errors.
pub(crate) fn ways_out_of_poor(medium: &Medium, errors: u64) -> String {
    let retire = format!("`capstan media retire {}`", shell_word(&medium.label));
    match way_to_prove(medium, errors) {
        Some(prove) => {
            format!("{prove}, {retire} brings what must stay elsewhere if the medium is at fault")
        }
        None => format!("{retire} brings what must stay elsewhere"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_can_be_proved_sound_and_a_tape_is_retired() {
        let medium = |device: &str| Medium {
            id: MediumId([1; 16]),
            label: "my disk".to_owned(),
            device: device.parse().unwrap(),
            block_size: 1 << 19,
            created_us: 0,
            hosts: Vec::new(),
        };
        let retire = "`capstan media retire 'my disk'` brings what must stay elsewhere";
        let prove = "`capstan verify --medium 'my disk'` takes the errors back";
        for disk in ["file:/m", "rait5:file:/a,file:/b,file:/c"] {
            let ways = ways_out_of_poor(&medium(disk), 3);
            assert!(ways.starts_with(prove) && ways.contains(retire), "{ways}");
        }
        for (device, errors) in [("vtape:/v?tape=A00001L9", 3), ("file:/m", 2)] {
            assert_eq!(ways_out_of_poor(&medium(device), errors), retire);
        }
    }
}
