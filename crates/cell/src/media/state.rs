//! The states of a medium's life, computed from facts; nothing is stored that could disagree with them.

use std::fmt;

/// Where a medium is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediumState {
    /// It has no header yet.
    Blank,
    /// It has a header and holds nothing.
    Free,
    /// It holds data and takes more.
    Appendable,
    /// It has no room left.
    Full,
    /// What it holds must stay, and its pool appends nothing.
    Protected,
    /// Nothing it holds must stay: it may be recycled.
    Expired,
    /// It left the house.
    Exported,
    /// It is not as it was last written: somebody else cut it or wrote over it.
    Changed,
    /// Damage was found on it.
    Damaged,
    /// A limit of its kind is reached, or it is at fault: it is written no more, and what must stay on it is to be brought elsewhere.
    Poor,
    /// It was given up: it is never written again.
    Retired,
    /// It is another cell's: it is read, and written only when it was adopted.
    Foreign,
}

/// What decides the state.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// It has a header.
    pub is_initialised: bool,
    /// It is recorded as out of the house.
    pub is_exported: bool,
    /// Damage was found and not taken back, or its header cannot be read.
    pub is_damaged: bool,
    /// It has segments.
    pub holds_data: bool,
    /// A version that must stay needs it.
    pub is_kept: bool,
    /// There is room for a session, or that is not known.
    pub has_room: bool,
    /// Its pool lets sessions be appended.
    pub appendable: bool,
    /// Its condition is poor.
    pub is_poor: bool,
    /// It is recorded as given up.
    pub is_retired: bool,
    /// Another cell writes it.
    pub is_foreign: bool,
    /// It was found not to be as it was last written.
    pub is_changed: bool,
}

impl MediumState {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Blank,
        Self::Free,
        Self::Appendable,
        Self::Full,
        Self::Protected,
        Self::Expired,
        Self::Exported,
        Self::Changed,
        Self::Damaged,
        Self::Poor,
        Self::Retired,
        Self::Foreign,
    ];

    /// The state that the facts make, the gravest first.
    pub fn of(facts: &Facts) -> Self {
        match facts {
            Facts { is_exported: true, .. } => Self::Exported,
            Facts { is_retired: true, .. } => Self::Retired,
            Facts { is_changed: true, .. } => Self::Changed,
            Facts { is_damaged: true, .. } => Self::Damaged,
            Facts { is_initialised: false, .. } => Self::Blank,
            Facts { is_foreign: true, .. } => Self::Foreign,
            Facts { is_poor: true, .. } => Self::Poor,
            Facts { holds_data: true, is_kept: false, .. } => Self::Expired,
            Facts { has_room: false, .. } => Self::Full,
            Facts { holds_data: false, .. } => Self::Free,
            Facts { appendable: true, .. } => Self::Appendable,
            Facts { appendable: false, .. } => Self::Protected,
        }
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::Free => "free",
            Self::Appendable => "appendable",
            Self::Full => "full",
            Self::Protected => "protected",
            Self::Expired => "expired",
            Self::Exported => "exported",
            Self::Changed => "changed",
            Self::Damaged => "damaged",
            Self::Poor => "poor",
            Self::Retired => "retired",
            Self::Foreign => "foreign",
        }
    }
}

impl fmt::Display for MediumState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_from_facts() {
        // initialised, exported, damaged, holds data, kept, room, appendable
        let table = [
            ([0, 0, 0, 0, 0, 1, 1], MediumState::Blank),
            ([1, 0, 0, 0, 0, 1, 1], MediumState::Free),
            ([1, 0, 0, 0, 0, 1, 0], MediumState::Free),
            ([1, 0, 0, 0, 0, 0, 1], MediumState::Full),
            ([1, 0, 0, 1, 1, 1, 1], MediumState::Appendable),
            ([1, 0, 0, 1, 1, 1, 0], MediumState::Protected),
            ([1, 0, 0, 1, 1, 0, 1], MediumState::Full),
            ([1, 0, 0, 1, 1, 0, 0], MediumState::Full),
            // What has expired can be had again, so it is not full.
            ([1, 0, 0, 1, 0, 0, 1], MediumState::Expired),
            ([1, 0, 0, 1, 0, 1, 1], MediumState::Expired),
            ([1, 0, 1, 1, 0, 1, 1], MediumState::Damaged),
            ([0, 0, 1, 0, 0, 1, 1], MediumState::Damaged),
            ([1, 1, 1, 1, 1, 0, 0], MediumState::Exported),
            ([1, 1, 0, 0, 0, 1, 1], MediumState::Exported),
        ];
        for (bits, state) in table {
            let [init, exported, damaged, data, kept, room, append] = bits.map(|bit| bit == 1);
            let facts = Facts {
                is_initialised: init,
                is_exported: exported,
                is_damaged: damaged,
                holds_data: data,
                is_kept: kept,
                has_room: room,
                appendable: append,
                is_poor: false,
                is_retired: false,
                is_foreign: false,
                is_changed: false,
            };
            assert_eq!(MediumState::of(&facts), state, "{bits:?}");
            // What is poor is not written, whatever else it is; what is retired needs nothing done any more.
            use MediumState::{Blank, Damaged, Exported, Foreign, Poor, Retired};
            let poor = Facts { is_poor: true, ..facts };
            let grave = matches!(state, Exported | Damaged | Blank);
            assert_eq!(MediumState::of(&poor), if grave { state } else { Poor }, "{bits:?}");
            // Another cell's is not written here, however much room it has; where it is and whether it is whole comes first.
            let foreign = Facts { is_foreign: true, ..poor };
            assert_eq!(MediumState::of(&foreign), if grave { state } else { Foreign }, "{bits:?}");
            // Whether it is whole matters less than that it is not what was written.
            let changed = Facts { is_changed: true, ..foreign };
            let away = state == Exported;
            let is = if away { state } else { MediumState::Changed };
            assert_eq!(MediumState::of(&changed), is, "{bits:?}");
            let retired = Facts { is_retired: true, ..changed };
            assert_eq!(MediumState::of(&retired), if away { state } else { Retired }, "{bits:?}");
        }
    }

    #[test]
    fn every_state_has_its_word() {
        let mut words: Vec<_> = MediumState::ALL.iter().map(|s| s.as_str()).collect();
        words.dedup();
        assert_eq!(words.len(), 12);
    }
}
