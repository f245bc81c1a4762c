//! Whether a medium can be written to.

use crate::media::{Condition, MediumInfo, MediumState};
use crate::session::local;

/// What is said of a medium whose contents must stay.
pub(crate) const HOLDS: &str = "holds what must stay";

/// Why a medium cannot be written to, if so.
pub(crate) fn unusable(m: &MediumInfo) -> Option<String> {
    match m.state {
        MediumState::Exported => {
            let to = m.management.exported_to.as_deref().filter(|to| !to.is_empty());
            return Some(to.map_or("is exported".to_owned(), |to| format!("is exported to {to}")));
        }
        MediumState::Changed => {
            return Some(match &m.management.changed_why {
                Some(why) => format!("is not as it was last written ({why})"),
                None => "is not as it was last written".to_owned(),
            });
        }
        MediumState::Damaged => return Some("is damaged".to_owned()),
        // Where it is comes first.
        MediumState::Protected | MediumState::Full if m.absent.is_some() => {}
        MediumState::Blank => return Some("is not initialised".to_owned()),
        MediumState::Protected | MediumState::Full if m.held.is_some() => return m.held.clone(),
        MediumState::Protected | MediumState::Full if m.waits_for.is_some() => {
            return m.waits_for.clone();
        }
        MediumState::Protected => return Some(HOLDS.to_owned()),
        MediumState::Full => return Some("is full".to_owned()),
        MediumState::Retired => return Some("is retired".to_owned()),
        // Why it is poor is said below.
        MediumState::Free | MediumState::Appendable | MediumState::Expired | MediumState::Poor => {}
        // Where it is comes first.
        MediumState::Foreign => {}
    }
    if let Some(why) = &m.absent {
        return Some(format!("is not in {}: {why}", m.medium.device));
    }
    if m.foreign {
        return Some("belongs to another cell".to_owned());
    }
    if let Some(us) = m.protected_us {
        return Some(format!("is write-protected (seen {})", local(us)));
    }
    (m.condition == Condition::Poor)
        .then(|| format!("is in poor condition ({})", m.reasons.join(", ")))
}
