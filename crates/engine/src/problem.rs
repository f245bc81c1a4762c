//! What failed, and what to do about it: one value, from which lines of a terminal, JSON, letters and documents are made.

use std::error::Error;
use std::fmt;

use crate::message::Code;

/// What failed. Its text is the sentence and, behind a semicolon, the hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The code of the message about it, where there is one.
    pub code: Option<Code>,
    /// What failed, on what, and why.
    pub sentence: String,
    /// What to do about it, where that is known.
    pub hint: Option<String>,
    /// The file, device or medium that it is about, where that is one.
    pub object: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

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

    /// The code of the message about it, where there is one.
    fn code(&self) -> Option<Code> {
        None
    }

    /// The file, device or medium that it is about, where that is one.
    fn object(&self) -> Option<String> {
        None
    }

    /// All of it.
    fn problem(&self) -> Problem {
        Problem {
            code: self.code(),
            sentence: self.sentence(),
            hint: self.hint(),
            object: self.object(),
        }
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
