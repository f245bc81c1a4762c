//! Clocks that are wrong by days.

use std::process::Command;

use serde_json::Value;

use crate::dice::Dice;

/// What a command takes for now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    Right,
    /// By so many days.
    Off(i64),
}

impl Clock {
    /// Mostly a right one.
    pub fn any(dice: &mut Dice) -> Self {
        match dice.below(4) {
            0 => Self::Off(*dice.pick(&[-400, -30, -1, 1, 3, 40, 4_000])),
            _ => Self::Right,
        }
    }

    /// Has a command see it.
    pub fn set(self, command: &mut Command) {
        if let Self::Off(days) = self {
            command.env(DOOR, format!("{}", days * 86_400));
        }
    }
}

/// The door that tests have to the program's clock. A program that is delivered has none.
const DOOR: &str = "CAPSTAN_TEST_CLOCK_AHEAD_S";

/// What reports of campaigns say of it.
pub fn told() -> &'static str {
    if cfg!(debug_assertions) {
        "clocks off by days"
    } else {
        "all clocks right: built without the tests' door to them"
    }
}

/// Whether a session completed, but for what it says of clocks that were wrong, and of a base that had been found damaged.
pub fn completed(report: &Value) -> bool {
    let said = report["errors"].as_array().map_or(&[][..], |errors| errors);
    match report["status"].as_str() {
        Some("completed") => true,
        Some("completed_with_errors") => {
            // Much that changed at once is a warning, and is what a campaign does.
            let only = |e: &Value| {
                ["clock-wrong", "no-base", "anomaly"].iter().any(|code| e["code"] == *code)
            };
            !said.is_empty() && said.iter().all(only)
        }
        _ => false,
    }
}
