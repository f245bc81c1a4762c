//! Whether a medium of a rotation set has a seat: it takes its turn to be written.

use capstan_idb::Management;

use crate::media::{Condition, MediumInfo, is_worm};

/// Whether a medium of a set takes turns. `failed` is one that holds nothing, and to which writing failed.
pub(in crate::supply) fn takes_turns(of: &Management, condition: Condition, failed: bool) -> bool {
    let is_sound = of.retired_us.or(of.changed_us).or(of.damaged_us).is_none();
    is_sound && !of.is_other_cells() && condition != Condition::Poor && !failed
}

/// The same of a medium that was looked at.
pub(in crate::supply) fn has_seat(m: &MediumInfo) -> bool {
    let failed = has_failed(m);
    let may_be_written = m.protected_us.is_none() && !is_worm(&m.medium);
    takes_turns(&m.management, m.condition, failed) && !m.foreign && may_be_written
}

/// Whether it holds nothing, and writing to it failed.
pub(in crate::supply) fn has_failed(m: &MediumInfo) -> bool {
    m.management.errors > 0 && m.holdings.segments == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_no_more_takes_no_turns() {
        let sound = Management::default();
        assert!(takes_turns(&sound, Condition::Good, false));
        assert!(!takes_turns(&sound, Condition::Poor, false));
        assert!(!takes_turns(&sound, Condition::Good, true));
        for of in [
            Management { retired_us: Some(1), ..Management::default() },
            Management { damaged_us: Some(1), ..Management::default() },
            Management { changed_us: Some(1), ..Management::default() },
        ] {
            assert!(!takes_turns(&of, Condition::Good, false), "{of:?}");
        }
        let away = Management { exported_us: Some(1), ..Management::default() };
        assert!(takes_turns(&away, Condition::Good, false));
    }
}
