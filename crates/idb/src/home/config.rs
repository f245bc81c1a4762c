//! `capstan.toml` in a home: what has to be known before its database is open.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capstan_address::{HostName, NoHostName};
use capstan_engine::problem::{Explain, Problem};
use capstan_engine::regular;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::address::Address;
use crate::Result;
use crate::error::IdbError;

/// The file below a home.
pub(crate) const FILE_NAME: &str = "capstan.toml";
/// The most that is read of it, in bytes.
const SIZE_MAX: u64 = 1 << 20;
/// How long a PostgreSQL that went away is waited for, if nothing else is said.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest that can be said.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a home's file says.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where the tables are, if not in a file of the home.
    pub database: Option<Address>,
    /// How long a server that went away is waited for.
    pub patience: Duration,
    /// What this host is called in the tables, if not as the system calls it.
    pub host: Option<HostName>,
}

impl Config {
    /// That of a home; of one without the file, that nothing is said.
    pub fn of(home: &Path) -> Result<Self> {
        let path = home.join(FILE_NAME);
        match regular::read_text(&path, SIZE_MAX) {
            Ok(text) => parse(&path, &text),
            // What is in the way of the home itself is said where that is made.
            Err(e)
                if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                parse(&path, "")
            }
            Err(e) => Err(IdbError::io("read the settings", &path, e)),
        }
    }
}

fn parse(path: &Path, text: &str) -> Result<Config> {
    let wrong = |at: usize, problem: Problem| {
        let before = text.as_bytes().iter().take(at);
        let line = 1 + before.filter(|b| **b == b'\n').count();
        IdbError::Config { path: PathBuf::from(path), line, problem }
    };
    let table = DeTable::parse(text).map_err(|e| {
        // The parser's own text quotes the line, which may have a password.
        let at = e.span().map_or(0, |span| span.start);
        wrong(at, Problem::new(e.message()).hint("write `key = \"value\"`"))
    })?;
    let mut config = Config { database: None, patience: PATIENCE, host: None };
    for (key, value) in table.get_ref().iter() {
        let set = match &**key.get_ref() {
            "database" => text_of(key, value).and_then(|url| {
                config.database = Some(Address::parse(url)?);
                Ok(())
            }),
            "database-wait" => text_of(key, value).and_then(|wait| {
                config.patience = patience(wait)?;
                Ok(())
            }),
            "host" => text_of(key, value).and_then(|name| {
                config.host = Some(name.parse().map_err(|e: NoHostName| e.problem())?);
                Ok(())
            }),
            other => Err(Problem::new(format!("'{other}' is no setting"))
                .hint("there are database, database-wait and host")),
        };
        set.map_err(|problem| wrong(key.span().start, problem))?;
    }
    Ok(config)
}

fn text_of<'t>(
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &'t Spanned<DeValue<'_>>,
) -> std::result::Result<&'t str, Problem> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.as_ref()),
        _ => Err(Problem::new(format!("'{}' is a text", key.get_ref())).hint("write it in quotes")),
    }
}

/// What the system calls this host.
pub fn system_host() -> HostName {
    HostName::recorded(rustix::system::uname().nodename().to_string_lossy())
}

/// A time as "90s", "5m" or "1h".
fn patience(text: &str) -> std::result::Result<Duration, Problem> {
    let seconds = match text.char_indices().last() {
        Some((at, 's')) => Some((at, 1)),
        Some((at, 'm')) => Some((at, 60)),
        Some((at, 'h')) => Some((at, 3600)),
        _ => None,
    };
    let seconds = seconds.and_then(|(at, unit)| {
        let number = text.get(..at)?;
        let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        number.parse::<u64>().ok().filter(|_| digits)?.checked_mul(unit)
    });
    let time = seconds.map(Duration::from_secs).filter(|time| *time <= PATIENCE_MAX);
    time.ok_or_else(|| {
        Problem::new(format!("'{text}' is no time to wait"))
            .hint("write it as 90s, 5m or 1h, at most 24h")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Config> {
        parse(Path::new("/h/capstan.toml"), text)
    }

    #[test]
    fn a_home_without_settings_has_its_database_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::of(dir.path()).unwrap();
        assert!(config.database.is_none() && config.patience == PATIENCE);
    }

    #[test]
    fn what_is_said_is_taken() {
        let config =
            of("# where\ndatabase = \"postgres://u@h/db\"\ndatabase-wait = \"2m\"\n").unwrap();
        assert_eq!(config.database.unwrap().to_string(), "postgres://u@h:5432/db");
        assert_eq!(config.patience, Duration::from_secs(120));
        assert_eq!(config.host, None);
        assert_eq!(of("host = \"vm.example\"").unwrap().host.unwrap(), "vm.example");
    }

    #[test]
    fn a_mistake_is_said_with_its_line_and_without_a_password() {
        for (text, line, word) in [
            ("\n\nfoo = 1", 3, "'foo' is no setting"),
            ("\ndatabase = 7", 2, "in quotes"),
            ("database = \"postgres://u:secret@h\"", 1, "no database"),
            ("\ndatabase = \"postgres://u:secret@h/db", 2, "write `key"),
            ("database = \"postgres://u:secret@h/db\"\ndatabase-wait = \"5\"", 2, "90s"),
            ("database-wait = \"-5m\"", 1, "90s"),
            ("database-wait = \"99h\"", 1, "24h"),
            ("database-wait = \"é\"", 1, "90s"),
            ("host = \"\"", 1, "no host's name"),
            ("\nhost = \"a b\"", 2, "no host's name"),
        ] {
            let error = of(text).unwrap_err().to_string();
            let place = format!("/h/capstan.toml:{line}: ");
            assert!(error.contains(&place) && error.contains(word), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
