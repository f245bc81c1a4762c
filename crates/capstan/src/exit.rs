//! How a command ends: its exit code, and its error as one or two lines.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use capstan_address::AddressError;
use capstan_cell::CellError;
use capstan_cell::request::BadCompression;
use capstan_engine::leaving;
use capstan_engine::message::safe_text;
use capstan_engine::problem::{Explain, Problem};
use capstan_medium::host::queue::Queue;
use clap::error::ErrorKind as UsageKind;
use serde_json::{Map, Value};

/// Completed.
pub const COMPLETED: u8 = 0;
/// Failed or incomplete.
pub const FAILED: u8 = 1;
/// Bad input: nothing was done.
pub const BAD_INPUT: u8 = 2;
/// Completed with errors.
pub const COMPLETED_WITH_ERRORS: u8 = 3;
/// A comparison found differences.
pub const DIFFERENT: u8 = 4;
/// `status`: somebody should look.
pub const WARNING: u8 = 5;
/// `status`: somebody must look.
pub const CRITICAL: u8 = 6;
/// A fault of the program itself, as Rust programs end with it.
pub const PANICKED: u8 = 101;
/// Ended by a signal at once.
pub const INTERRUPTED: u8 = 130;

/// Why a command ends without a report, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What failed, on what, why: one line; empty where nothing is to be said.
    pub error: String,
    /// What to do.
    pub hint: Option<String>,
    /// Whether the JSON that was asked for says it already.
    pub is_in_json: bool,
    /// Whether others have what it takes, and these are not named yet.
    pub is_busy: bool,
}

impl Failure {
    /// Something was asked for that cannot be done.
    pub fn bad_input(error: impl Display, hint: &str) -> Self {
        Self::of(BAD_INPUT, error, Some(hint))
    }

    /// One of that code.
    pub fn of(code: u8, error: impl Display, hint: Option<&str>) -> Self {
        let (error, hint) = (error.to_string(), hint.map(str::to_owned));
        Self { code, error, hint, is_in_json: false, is_busy: false }
    }

    /// What programs get that asked for JSON: one object. `None` where the JSON says it already, or nothing is to be said.
    pub fn json(&self) -> Option<Map<String, Value>> {
        (!self.is_in_json && !self.error.is_empty()).then(|| {
            let mut object = Map::new();
            self.put(&mut object);
            object
        })
    }

    /// Puts it into a JSON object.
    pub fn put(&self, object: &mut Map<String, Value>) {
        object.insert("error".to_owned(), one_line(&self.error).into());
        object.insert("hint".to_owned(), self.hint.as_deref().map(one_line).into());
        object.insert("exit_code".to_owned(), self.code.into());
    }

    /// The same, which the JSON says already.
    pub fn in_json(self) -> Self {
        Self { is_in_json: true, ..self }
    }

    /// The same, which names those who have what it takes.
    pub fn named(self, queue: &Queue) -> Self {
        match self.is_busy {
            true => Self { error: queue.name(&self.error), is_busy: false, ..self },
            false => self,
        }
    }

    /// An error with its causes, and with what it says to do.
    pub fn explained(code: u8, error: &dyn Explain) -> Self {
        let Problem { sentence, hint, .. } = error.problem();
        let what = with_causes(sentence, error.to_string(), error.source());
        Self::of(code, what, hint.as_deref())
    }

    /// An error of others with its causes.
    pub fn new(code: u8, error: &dyn Error) -> Self {
        let text = error.to_string();
        Self::of(code, with_causes(text.clone(), text, error.source()), None)
    }

    /// All of it, apart.
    pub fn problem(&self) -> Problem {
        let (sentence, hint) = (self.error.clone(), self.hint.clone());
        Problem { sentence, hint }
    }

    /// Output that could not be written. Where the reader went away, there is nothing to say.
    pub fn output(error: &io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            return Self::of(COMPLETED, "", None);
        }
        let error = format!("cannot write the output: {error}");
        Self::of(FAILED, error, Some("check where standard output goes"))
    }

    /// What clap says of a command line, in our form.
    pub fn usage(error: &clap::Error) -> Self {
        let rendered = without_secrets(&error.render().to_string());
        let (text, usage) = rendered.split_once("\n\nUsage:").unwrap_or((&rendered, ""));
        let text = text.strip_prefix("error: ").unwrap_or(text);
        let mut what = String::new();
        let mut hint: Option<String> = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix("tip: ") {
                Some(tip) => hint = hint.or_else(|| Some(tip.to_owned())),
                None if line.starts_with("For more information") => {}
                None if what.is_empty() => line.clone_into(&mut what),
                None => what = format!("{what} {line}"),
            }
        }
        // Our own parsers say what to write instead: that stands at the end.
        if hint.is_none()
            && let Some(own) = error.source().and_then(hint_of)
            && let Some(before) = what.strip_suffix(&format!("; {}", one_line(&own)))
        {
            what = before.to_owned();
            hint = Some(own);
        }
        let hint = hint.unwrap_or_else(|| {
            let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
            let command: Vec<_> = usage.split_whitespace().take_while(is_name).collect();
            let command = if command.is_empty() { "capstan".to_owned() } else { command.join(" ") };
            format!("`{command} --help` shows how to call it")
        });
        Self::of(BAD_INPUT, what, Some(&hint))
    }

    /// Says it on standard error.
    pub fn say(&self) {
        if self.error.is_empty() {
            return;
        }
        let mut stderr = io::stderr().lock();
        // Where nobody reads errors, the exit code remains.
        let _ = writeln!(stderr, "capstan: error: {}", one_line(&self.error));
        if let Some(hint) = &self.hint {
            let _ = writeln!(stderr, "capstan: hint: {}", one_line(hint));
        }
    }
}

impl From<CellError> for Failure {
    fn from(error: CellError) -> Self {
        let failure = Self::explained(error.exit_code(), &error);
        match error.is_busy() {
            true if leaving::has_left() => Self {
                code: FAILED,
                error: format!("told to end while it waited: {}", failure.error),
                hint: Some("run it again".to_owned()),
                is_busy: true,
                ..failure
            },
            true => Self { is_busy: true, ..failure },
            false => failure,
        }
    }
}

/// A sentence with what caused it, where its text does not say that itself.
fn with_causes(mut what: String, mut said: String, mut cause: Option<&dyn Error>) -> String {
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            what = format!("{what}: {text}");
            said = text;
        }
        cause = error.source();
    }
    what
}

/// What one of our parsers says to write instead.
fn hint_of(error: &(dyn Error + 'static)) -> Option<String> {
    let problem = error.downcast_ref::<Problem>().and_then(|problem| problem.hint.clone());
    let address = || error.downcast_ref::<AddressError>().and_then(Explain::hint);
    let compression = || error.downcast_ref::<BadCompression>().and_then(Explain::hint);
    problem.or_else(address).or_else(compression)
}

/// The text without the secrets that iSCSI names in it have: clap repeats what it was given.
fn without_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("iscsi://") {
        let end = rest[at..].find(|c: char| c.is_whitespace() || c == '\'');
        let end = end.map_or(rest.len(), |end| at + end);
        let name = &rest[at..end];
        shown.push_str(&rest[..at]);
        match (name.find('%'), name.rfind('@')) {
            (Some(percent), Some(sign)) if percent < sign => {
                shown.push_str(&name[..percent]);
                shown.push_str(&name[sign..]);
            }
            _ => shown.push_str(name),
        }
        rest = &rest[end..];
    }
    shown + rest
}

/// The text without line ends and other controls, which become blanks, and with escapes for what else moves a terminal.
pub fn one_line(text: &str) -> String {
    let blank = |c: char| if c.is_control() { ' ' } else { c };
    safe_text(&text.chars().map(blank).collect::<String>())
}

/// Whether clap wants its text on standard output: help and version.
pub fn is_help(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        UsageKind::DisplayHelp
            | UsageKind::DisplayVersion
            | UsageKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io_error() -> io::Error {
        io::Error::new(ErrorKind::PermissionDenied, "not for you")
    }

    #[test]
    fn hints_have_a_line_of_their_own() {
        let problem = Problem::new("no object 'x'").hint("see `capstan sessions`; or not");
        let f = Failure::from(CellError::Changed(problem));
        assert_eq!((f.code, f.error.as_str()), (BAD_INPUT, "no object 'x'"));
        assert_eq!(f.hint.as_deref(), Some("see `capstan sessions`; or not"));
        let f = Failure::from(CellError::Changed("no such path: /a; b".into()));
        assert_eq!((f.error.as_str(), f.hint), ("no such path: /a; b", None));
    }

    #[test]
    fn causes_are_said_once() {
        let f = Failure::from(CellError::io("open", "/x")(io_error()));
        assert_eq!((f.code, f.error.as_str()), (FAILED, "cannot open /x: not for you"));

        #[derive(Debug, thiserror::Error)]
        #[error("cannot read the ring; do it again")]
        struct Outer(#[source] io::Error);
        impl Explain for Outer {
            fn hint(&self) -> Option<String> {
                Some("do it again".to_owned())
            }
        }
        let f = Failure::explained(FAILED, &Outer(io_error()));
        assert_eq!(f.error, "cannot read the ring: not for you");
        assert_eq!(f.hint.as_deref(), Some("do it again"));
    }

    #[test]
    fn secrets_of_devices_are_not_repeated() {
        let text = "invalid value 'iscsi://me%hu@sh@h/t/1' and iscsi://h/t%20/1 for '<X>'";
        let shown = without_secrets(text);
        assert_eq!(shown, "invalid value 'iscsi://me@h/t/1' and iscsi://h/t%20/1 for '<X>'");
        assert_eq!(without_secrets("iscsi://u%s@"), "iscsi://u@");
        assert_eq!(without_secrets("no device"), "no device");
    }

    #[test]
    fn a_closed_pipe_is_quiet() {
        let f = Failure::output(&io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!((f.code, f.error.is_empty()), (COMPLETED, true));
        assert_eq!(Failure::output(&io_error()).code, FAILED);
        assert_eq!(one_line("a\nb\x1b[1m\u{202e}"), "a b [1m\\u{202e}");
    }
}
