//! What failed, and what to do about it: one value, from which lines of a terminal, JSON and letters are made. A message of a session has
//! a code and an object besides ([`crate::message`]); what to do is said by its code.

use std::error::Error;
use std::fmt;

use capstan_format::FormatError;
use capstan_format::keys::KeyError;
pub use capstan_format::then;

/// What failed. Its text is the sentence and, behind a semicolon, the hint.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Problem {
    /// What failed, on what, and why.
    pub sentence: String,
    /// What to do about it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl Error for Problem {}

/// An error that knows what to do about it. Its own text ends with that hint, or has the sentence alone.
pub trait Explain: Error {
    /// What to do about it, where that is known.
    fn hint(&self) -> Option<String>;

    /// What failed, on what, and why: its text without the hint.
    fn sentence(&self) -> String {
        let text = self.to_string();
        let before = self.hint().and_then(|hint| text.strip_suffix(&format!("; {hint}")));
        before.map_or(text.clone(), str::to_owned)
    }

    /// All of it.
    fn problem(&self) -> Problem {
        Problem { sentence: self.sentence(), hint: self.hint() }
    }
}

impl Explain for FormatError {
    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

impl Explain for KeyError {
    fn hint(&self) -> Option<String> {
        self.hint()
    }
}

impl Problem {
    /// One that says no more than what failed.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), hint: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The same with what to do about it besides.
    #[must_use]
    pub fn hint_too(self, more: &str) -> Self {
        let hint = self.hint.map_or_else(|| more.to_owned(), |hint| format!("{hint}; {more}"));
        Self { hint: Some(hint), ..self }
    }
}

impl From<String> for Problem {
    fn from(sentence: String) -> Self {
        Self::new(sentence)
    }
}

impl From<&str> for Problem {
    fn from(sentence: &str) -> Self {
        Self::new(sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has its hint in its text, or apart from it.
    #[derive(Debug, thiserror::Error)]
    enum Refusal {
        #[error("tape '{0}' is full; use another; or none")]
        WithHint(&'static str),
        #[error("tape '{0}; b' is full")]
        Sentence(&'static str),
        #[error("/a; b is no path")]
        Alone,
    }

    impl Explain for Refusal {
        fn hint(&self) -> Option<String> {
            match self {
                Self::WithHint(_) | Self::Sentence(_) => Some("use another; or none".to_owned()),
                Self::Alone => None,
            }
        }
    }

    #[test]
    fn sentence_and_hint_are_apart_whatever_is_in_them() {
        for (refusal, sentence, hint) in [
            (Refusal::WithHint("a"), "tape 'a' is full", Some("use another; or none")),
            (Refusal::Sentence("a"), "tape 'a; b' is full", Some("use another; or none")),
            (Refusal::Alone, "/a; b is no path", None),
        ] {
            let problem = refusal.problem();
            assert_eq!((problem.sentence.as_str(), problem.hint.as_deref()), (sentence, hint));
            let whole = hint.map_or(sentence.to_owned(), |hint| format!("{sentence}; {hint}"));
            assert_eq!(problem.to_string(), whole);
        }
    }
}
