//! Logging levels: how much of a session's catalogs is kept, and the listings that take their place.

use std::fmt;
use std::str::FromStr;

use capstan_engine::problem::Problem;
use capstan_format::id::{SegmentId, SessionId};

use crate::db::Idb;
use crate::{Result, decode, sql};

/// How much of a session's catalogs the database keeps. Media have all of it, whatever the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// All of it.
    #[default]
    All,
    /// Names, without attributes.
    Files,
    /// Directories.
    Directories,
    /// Nothing.
    None,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::Files => "files",
            Self::Directories => "directories",
            Self::None => "none",
        })
    }
}

impl FromStr for LogLevel {
    type Err = Problem;

    fn from_str(text: &str) -> std::result::Result<Self, Problem> {
        let all = [Self::All, Self::Files, Self::Directories, Self::None];
        let found = all.into_iter().find(|level| level.to_string() == text);
        found.ok_or_else(|| {
            Problem::new(format!("'{text}' is no logging level"))
                .hint("write all, files, directories or none")
        })
    }
}

impl Idb {
    /// Records the logging level of a session; of one without, it is all.
    pub fn set_log_level(&self, session: SessionId, level: LogLevel) -> Result<()> {
        self.write(format_args!("record session {}", session.short()), async |conn| {
            let sql = "INSERT INTO session_logging (session_id, level) VALUES ($1, $2) \
                       ON CONFLICT (session_id) DO UPDATE SET level = excluded.level";
            let query = sql::query(sql).bind(session.to_string()).bind(level.to_string());
            query.execute(conn).await?;
            Ok(())
        })
    }

    /// The logging level of a session.
    pub fn log_level(&self, session: SessionId) -> Result<LogLevel> {
        self.read(format_args!("look up session {}", session.short()), async |conn| {
            let query = sql::query("SELECT level FROM session_logging WHERE session_id = $1");
            let row = query.bind(session.to_string()).fetch_optional(conn).await?;
            row.map_or(Ok(LogLevel::All), |row| decode::parsed(&row, "level"))
        })
    }

    /// Records the logging level of a copied segment: it has its own, whatever that of its original.
    pub fn set_log_level_of_copy(&self, segment: SegmentId, level: LogLevel) -> Result<()> {
        self.write(format_args!("record segment {}", segment.short()), async |conn| {
            let sql = "UPDATE segment_copies SET level = $2 WHERE segment_id = $1";
            let query = sql::query(sql).bind(segment.to_string());
            query.bind(level.to_string()).execute(conn).await?;
            Ok(())
        })
    }

    /// The logging level of a segment that this session wrote, or that is a copy of one which it wrote.
    pub fn log_level_of(&self, segment: SegmentId, session: SessionId) -> Result<LogLevel> {
        let own = self.read(format_args!("look up segment {}", segment.short()), async |conn| {
            let sql = "SELECT level FROM segment_copies WHERE segment_id = $1";
            let query = sql::query(sql).bind(segment.to_string());
            let row = query.fetch_optional(conn).await?;
            row.map_or(Ok(None), |row| decode::parsed_opt(&row, "level"))
        })?;
        own.map_or_else(|| self.log_level(session), Ok)
    }
}
