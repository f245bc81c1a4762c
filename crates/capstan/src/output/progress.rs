//! What is seen of a session while it runs: messages and progress, on standard error.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use capstan_cell::observe::{Observer, Progress};
use capstan_engine::message::{Code, Listener, Message, Severity, path_text};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::args::Global;
use crate::exit::{Failure, one_line};
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped, seconds_text};

/// Messages shown of each code.
const SHOWN_OF_CODE: u64 = 100;
/// Steps of the bar: finer than its characters.
const STEPS: u64 = 1000;
/// How often a terminal is drawn, per second.
const DRAWS_PER_S: u8 = 8;
/// Seconds between lines of progress where there is no terminal.
const LINE_EVERY_S: u64 = 60;

/// Shows messages and progress.
pub struct Console {
    least: Severity,
    bar: Option<ProgressBar>,
    /// Between lines of progress; `None` for no lines.
    every: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Messages of each code, those not shown included.
    counts: HashMap<Code, u64>,
    /// Elapsed time when the last line of progress was written.
    last_line: Duration,
    /// Whether the bar has a known end.
    bounded: Option<bool>,
}

impl Console {
    /// A console as the options and the terminal allow.
    pub fn new(global: &Global) -> Result<Self, Failure> {
        let least = match (global.quiet, global.verbose) {
            (true, _) => Severity::Error,
            (_, true) => Severity::Note,
            _ => Severity::Warning,
        };
        let terminal = io::stderr().is_terminal();
        let bar = (terminal && !global.quiet).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S);
            ProgressBar::with_draw_target(Some(STEPS), target)
        });
        let every = if terminal || global.quiet { None } else { line_every()? };
        Ok(Self { least, bar, every, state: Mutex::default() })
    }

    /// Removes the bar and says how many messages were not shown.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let state = self.state();
        for code in Code::ALL {
            let more = state.counts.get(code).copied().unwrap_or(0).saturating_sub(SHOWN_OF_CODE);
            if more > 0 {
                let (number, name, ..) = code.row();
                self.line(&format!("… and {} more messages {number} {name}", grouped(more)));
            }
        }
    }

    /// Writes a line above the bar.
    pub fn line(&self, line: &str) {
        // A log that cannot be written must not end a backup.
        let write = || drop(writeln!(io::stderr().lock(), "{line}"));
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Listener for Console {
    fn message(&self, message: Message) {
        if message.code.row().2 < self.least {
            return;
        }
        let count = {
            let mut state = self.state();
            let count = state.counts.entry(message.code).or_default();
            *count += 1;
            *count
        };
        if count <= SHOWN_OF_CODE {
            self.line(&message_line(&message));
        }
    }
}

impl Observer for Console {
    fn progress(&self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            let share = share_done(progress);
            let mut state = self.state();
            if state.bounded != Some(share.is_some()) {
                state.bounded = Some(share.is_some());
                bar.set_style(style(share.is_some()));
            }
            drop(state);
            bar.set_position((share.unwrap_or(0.0) * STEPS as f64) as u64);
            bar.set_message(progress_text(progress));
        }
        let Some(every) = self.every else { return };
        let elapsed = Duration::try_from_secs_f64(progress.elapsed_s).unwrap_or_default();
        let due = {
            let mut state = self.state();
            let due = elapsed >= state.last_line + every;
            if due {
                state.last_line = elapsed;
            }
            due
        };
        if due {
            let now = local_time(Timestamp::now().as_microsecond());
            self.line(&format!("{now} [progress] {}", progress_text(progress)));
        }
    }
}

/// Says that the internal database went away, or is back.
pub fn say_of_database(text: &str) {
    say(Code::IdbAway, "cell", text);
}

/// Says that a robot is waited for.
pub fn say_of_robot(text: &str) {
    say(Code::RobotBusy, "cell", text);
}

/// Says what is no session's, but of all that the program does.
pub fn say(code: Code, agent: &'static str, text: &str) {
    let message = Message {
        code,
        agent,
        path: String::new(),
        text: text.to_owned(),
        time_us: Timestamp::now().as_microsecond(),
    };
    // A log that cannot be written must not end a backup.
    let _ = writeln!(io::stderr().lock(), "{}", message_line(&message));
}

fn style(bounded: bool) -> ProgressStyle {
    let template = if bounded { "[{bar:20}] {wide_msg}" } else { "{elapsed_precise} {wide_msg}" };
    // The templates are constants; a plain bar is what remains if one were wrong.
    ProgressStyle::with_template(template)
        .map(|style| style.progress_chars("=> "))
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Between two lines of progress: `CAPSTAN_PROGRESS_EVERY`, 0 for none.
fn line_every() -> Result<Option<Duration>, Failure> {
    let seconds = match std::env::var_os("CAPSTAN_PROGRESS_EVERY").filter(|v| !v.is_empty()) {
        None => LINE_EVERY_S as f64,
        Some(text) => text
            .to_str()
            .and_then(|text| text.parse::<f64>().ok())
            .filter(|s| (0.0..=86_400.0).contains(s))
            .ok_or_else(|| {
                Failure::bad_input(
                    format!("CAPSTAN_PROGRESS_EVERY is {}", text.display()),
                    "set it to seconds between two lines of progress, 0 for none",
                )
            })?,
    };
    Ok((seconds > 0.0).then(|| Duration::from_secs_f64(seconds)))
}

/// `2026-11-20 22:54:39 [warning] disk agent 102 changed: /etc/hosts: it changed while it was read`
fn message_line(message: &Message) -> String {
    let (number, name, severity, _) = message.code.row();
    let severity = match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let mut line =
        format!("{} [{severity}] {} {number} {name}", local_time(message.time_us), message.agent);
    for part in [path_text(message.path.as_bytes()), one_line(&message.text)] {
        if !part.is_empty() {
            line.push_str(": ");
            line.push_str(&part);
        }
    }
    line
}

/// The share of a session that is done, if its end is known. Who is beyond what was about to be expected does not know it.
fn share_done(p: &Progress) -> Option<f64> {
    let share = |done: u64, of: u64| (of > 0).then(|| done as f64 / of as f64);
    let share = share(p.bytes, p.bytes_expected).or_else(|| share(p.files, p.files_expected));
    share.filter(|share| !p.is_about || *share < 1.0).map(|share| share.min(1.0))
}

/// `45 %, 0:12 left, 1,234 files, 4.50 GB, source 120 MB/s, device 61.0 MB/s, limited by source`
fn progress_text(p: &Progress) -> String {
    let mut parts = Vec::with_capacity(8);
    let share = share_done(p);
    let about = if p.is_about { "about " } else { "" };
    if let Some(share) = share {
        parts.push(format!("{about}{:.0} %", (share * 100.0).floor()));
        // Below a thousandth, the rest is a guess of a guess.
        if share > 0.001 && share < 1.0 {
            let left = seconds_text(p.elapsed_s * (1.0 - share) / share);
            parts.push(format!("{about}{left} left"));
        }
    }
    let files = if p.files_expected > 0 && !p.is_about {
        format!("{} of {} files", grouped(p.files), grouped(p.files_expected.max(p.files)))
    } else {
        format!("{} files", grouped(p.files))
    };
    parts.push(files);
    parts.push(bytes_text(p.bytes));
    parts.push(format!("in {}/s", bytes_text(p.rate_in.max(0.0) as u64)));
    parts.push(format!("out {}/s", bytes_text(p.rate_out.max(0.0) as u64)));
    if !p.limit.is_empty() {
        parts.push(format!("limited by {}", p.limit));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(least: Severity) -> Console {
        Console { least, bar: None, every: None, state: Mutex::default() }
    }

    fn message(code: Code, path: &str, text: &str) -> Message {
        let (path, text) = (path.to_owned(), text.to_owned());
        Message { code, agent: "disk agent", path, text, time_us: 0 }
    }

    #[test]
    fn messages_are_one_safe_line() {
        let line = message_line(&message(Code::Changed, "/a\nb", "it\x1b[2J changed"));
        let end = "[warning] disk agent 102 changed: /a\\nb: it [2J changed";
        assert!(line.ends_with(end), "{line}");
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn only_what_is_wanted_is_counted() {
        let quiet = console(Severity::Error);
        quiet.message(message(Code::Changed, "/a", "x"));
        assert!(quiet.state().counts.is_empty());
        let normal = console(Severity::Warning);
        normal.message(message(Code::Vanished, "/a", "x"));
        normal.message(message(Code::Changed, "/a", "x"));
        assert_eq!(normal.state().counts.get(&Code::Changed), Some(&1));
        assert_eq!(normal.state().counts.len(), 1);
    }

    #[test]
    fn progress_names_what_is_known() {
        let mut p = Progress {
            elapsed_s: 10.0,
            files: 1234,
            bytes: 450,
            rate_in: 120e6,
            rate_out: 61e6,
            limit: "source",
            ..Progress::default()
        };
        let text = "1,234 files, 450 B, in 120 MB/s, out 61.0 MB/s, limited by source";
        assert_eq!(progress_text(&p), text);
        p.bytes_expected = 1000;
        assert_eq!(progress_text(&p), format!("45 %, 12 s left, {text}"));
        p.bytes = 2000;
        assert_eq!(share_done(&p), Some(1.0));
        p.bytes_expected = 0;
        p.files_expected = 2468;
        assert_eq!(share_done(&p), Some(0.5));
        // What file systems say is said to be about that, and beyond it nothing is known.
        (p.is_about, p.bytes, p.bytes_expected) = (true, 450, 1000);
        assert_eq!(progress_text(&p), format!("about 45 %, about 12 s left, {text}"));
        p.bytes = 1001;
        assert_eq!(share_done(&p), None);
    }
}
