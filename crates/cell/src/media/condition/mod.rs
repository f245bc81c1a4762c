//! A medium's condition: its age, how often it was written, its errors, held against limits of its kind. What counts as an error of it, and what
//! takes errors back.

pub(crate) mod failure;
pub(crate) mod faults;
pub(crate) mod proven;

use std::fmt;

/// How far a medium can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Below all limits.
    Good,
    /// Near a limit, or an error happened on it.
    Fair,
    /// A limit is reached: it is not written to any more.
    Poor,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
        })
    }
}

/// What media of a kind are rated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The kind: the scheme of its device.
    pub kind: &'static str,
    /// Years from its first initialisation.
    pub years: Option<u32>,
    /// Sessions that write on it.
    pub passes: Option<u64>,
    /// Errors at which it is poor.
    pub errors: u64,
}

/// Limits by kind of medium. Sources:
/// - `file`: a directory wears out no faster for being written to: no limit of age or passes. Its disk tells by errors.
///   One error can be a cable's; three of which no proof took back any ([`proven`]) are more than chance. That number is ours.
/// - `tape`: makers of LTO and DLT cartridges state 30 years on the shelf. Sessions that are appended are no passes of the whole
///   tape, so their number says nothing of its wear. Errors are those that stayed after the drive's own repeats.
/// - `dlt`: makers rate the cartridges for 500,000 passes and 30 years on the shelf (shared/facts/drives.toml). No device of
///   this kind is driven yet.
const LIMITS: [Limits; 3] = [
    Limits { kind: "file", years: None, passes: None, errors: 3 },
    Limits { kind: "tape", years: Some(30), passes: None, errors: 3 },
    Limits { kind: "dlt", years: Some(30), passes: Some(500_000), errors: 3 },
];

/// From this share of a limit on, in percent, a medium is fair. Ours: early enough to buy a new one.
const FAIR_PERCENT: u64 = 80;
/// A Julian year, in microseconds.
const YEAR_US: u64 = 31_557_600_000_000;

/// The limits of a kind of medium; those of a directory where the kind has none of its own.
pub fn limits_of(kind: &str) -> Limits {
    LIMITS.into_iter().find(|l| l.kind == kind).unwrap_or(LIMITS[0])
}

impl Limits {
    /// The condition of a medium, with a reason for each thing that is not good.
    pub fn judge(&self, age_us: i64, passes: u64, errors: u64) -> (Condition, Vec<String>) {
        let mut worst = Condition::Good;
        let mut reasons = Vec::new();
        let mut count = |value: u64, limit: u64, what: String| {
            let found = match value {
                v if v >= limit => Condition::Poor,
                v if v.saturating_mul(100) >= limit.saturating_mul(FAIR_PERCENT) => Condition::Fair,
                _ => return,
            };
            worst = worst.max(found);
            reasons.push(what);
        };
        if let Some(years) = self.years {
            let age = u64::try_from(age_us).unwrap_or(0);
            let text = format!("{} years old, rated for {years}", age / YEAR_US);
            count(age, u64::from(years) * YEAR_US, text);
        }
        if let Some(limit) = self.passes {
            count(passes, limit, format!("{passes} passes, rated for {limit}"));
        }
        if errors > 0 {
            worst =
                worst.max(if errors >= self.errors { Condition::Poor } else { Condition::Fair });
            let what = if errors == 1 { "error" } else { "errors" };
            reasons.push(format!("{errors} {what}, poor from {} on", self.errors));
        }
        (worst, reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: i64 = YEAR_US as i64;

    #[test]
    fn conditions_follow_from_limits() {
        let table = [
            ("file", 0, 0, 0, Condition::Good, ""),
            ("file", 90 * YEAR, 9_000_000, 0, Condition::Good, ""),
            ("file", 0, 5, 1, Condition::Fair, "1 error, poor from 3 on"),
            ("file", 0, 5, 3, Condition::Poor, "3 errors, poor from 3 on"),
            ("dlt", 23 * YEAR, 399_999, 0, Condition::Good, ""),
            ("dlt", 24 * YEAR, 0, 0, Condition::Fair, "24 years old, rated for 30"),
            ("dlt", 31 * YEAR, 0, 0, Condition::Poor, "31 years old, rated for 30"),
            ("dlt", 0, 400_000, 0, Condition::Fair, "400000 passes, rated for 500000"),
            (
                "dlt",
                0,
                500_000,
                1,
                Condition::Poor,
                "500000 passes, rated for 500000, 1 error, poor from 3 on",
            ),
            ("tape", 0, 9_000_000, 2, Condition::Fair, "2 errors, poor from 3 on"),
            (
                "tape",
                31 * YEAR,
                0,
                3,
                Condition::Poor,
                "31 years old, rated for 30, 3 errors, poor from 3 on",
            ),
            // A clock that was set back makes nothing old.
            ("dlt", -5, 0, 0, Condition::Good, ""),
        ];
        for (kind, age, passes, errors, condition, reasons) in table {
            let (found, why) = limits_of(kind).judge(age, passes, errors);
            assert_eq!((found, why.join(", ").as_str()), (condition, reasons));
        }
    }
}
