//! Errors of a disk agent, as values that say what they said there.

use capstan_engine::problem::Problem;
use capstan_select::Pattern;
use serde::{Deserialize, Serialize};

/// What failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemSaid {
    /// What failed.
    pub sentence: String,
    /// What to do.
    #[serde(default)]
    pub hint: Option<String>,
}

impl From<Problem> for ProblemSaid {
    fn from(Problem { sentence, hint }: Problem) -> Self {
        Self { sentence, hint }
    }
}

impl From<ProblemSaid> for Problem {
    fn from(ProblemSaid { sentence, hint }: ProblemSaid) -> Self {
        Self { sentence, hint }
    }
}

/// What an operating system said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemSaid {
    /// Its number.
    #[serde(default)]
    pub errno: Option<i32>,
    /// Its text.
    pub text: String,
}

impl From<&std::io::Error> for SystemSaid {
    fn from(e: &std::io::Error) -> Self {
        Self { errno: e.raw_os_error(), text: e.to_string() }
    }
}

impl From<SystemSaid> for std::io::Error {
    fn from(said: SystemSaid) -> Self {
        // Another system may have other numbers: then its text says it.
        let same = said.errno.map(Self::from_raw_os_error).filter(|e| e.to_string() == said.text);
        same.unwrap_or_else(|| Self::other(said.text))
    }
}

/// A pattern that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatternSaid {
    /// The pattern.
    pub pattern: Pattern,
    /// Why not.
    pub reason: String,
}

/// There are no more threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoThreadSaid {
    /// For what.
    pub what: String,
    /// What the system says.
    pub why: SystemSaid,
}

/// Why a job cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobSaid {
    /// A pattern.
    Pattern(PatternSaid),
    /// The keys.
    Key(ProblemSaid),
    /// What is said of a stream.
    Label(String),
    /// The agent is behind another one, which is lost.
    Lost(ProblemSaid),
}

/// Why nothing is foreseen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForeseeSaid {
    /// No thread.
    NoThread(NoThreadSaid),
    /// The agent is behind another one, which is lost.
    Lost(ProblemSaid),
}

/// Why a check cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSaid {
    /// A pattern.
    Pattern(PatternSaid),
    /// No thread.
    NoThread(NoThreadSaid),
    /// No more rows came.
    Rows,
    /// What could not be opened.
    Open {
        /// What.
        path: String,
        /// Why.
        why: SystemSaid,
    },
    /// The agent is behind another one, which is lost.
    Lost(ProblemSaid),
}

/// Why no scratch directory is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScratchSaid {
    /// Nothing can be made there.
    NotWritable {
        /// The directory.
        dir: String,
        /// Why not.
        why: String,
    },
    /// There is too little room.
    NoRoom {
        /// The directory.
        dir: String,
        /// What is needed.
        megabytes: u64,
    },
    /// The agent is behind another one, which is lost.
    Lost(ProblemSaid),
}

/// Why an archive is not opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveSaid {
    /// Its file cannot be made.
    NotMade(String),
    /// Standard output is closed.
    OutputClosed,
    /// The agent is behind another one, which is lost.
    Lost(ProblemSaid),
}

/// Why a restore ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedSaid {
    /// The target is full.
    Full(ProblemSaid),
    /// The agent is behind another one, which is lost.
    Lost(ProblemSaid),
}
