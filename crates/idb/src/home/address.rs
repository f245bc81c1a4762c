//! Where a PostgreSQL database is: the address that `capstan.toml` gives.

use std::fmt;
use std::str::FromStr as _;

use sqlx::postgres::PgConnectOptions;

/// What an address may have behind its question mark. The driver passes over what it does not know, and so over a
/// misspelt `sslmode`.
const PARAMETERS: [&str; 13] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
    "statement-cache-capacity",
];

/// How every transaction runs, whatever the server, the database or the user has as its default. The first is as long as
/// SQLite waits for another writer; a commit is on the server's disk when it returns; a connection that is idle while a
/// segment is written is not forgotten by what is in between.
const SETTINGS: [(&str, &str); 6] = [
    ("lock_timeout", "30s"),
    ("synchronous_commit", "on"),
    ("statement_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("tcp_keepalives_idle", "60"),
    ("client_min_messages", "warning"),
];

/// The address of a database. As text it has no password.
#[derive(Clone)]
pub(crate) struct Address(PgConnectOptions);

impl Address {
    /// An address from its text, or what is wrong with it. What is said of it does not repeat it: it may have a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err("the address of a database is \"postgres://USER@HOST/NAME\"; leave it out to have the \
                        database in a file of the home"
                .to_owned());
        }
        let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
        let keys = parameters.split('&').filter_map(|part| part.split('=').next());
        for key in keys.filter(|key| !key.is_empty()) {
            let plain = key.split('[').next().unwrap_or(key);
            if !PARAMETERS.contains(&plain) {
                return Err(format!(
                    "the address of the database has an unknown parameter; write {}",
                    PARAMETERS.join(", ")
                ));
            }
        }
        let options = PgConnectOptions::from_str(url).map_err(|e| {
            let why = match e {
                sqlx::Error::Configuration(why) => why.to_string(),
                other => other.to_string(),
            };
            format!("the address of the database cannot be read: {why}; write \"postgres://USER@HOST/NAME\"")
        })?;
        if options.get_database().is_none() {
            return Err(
                "the address names no database; write \"postgres://USER@HOST/NAME\"".to_owned()
            );
        }
        let options = match options.get_application_name() {
            Some(_) => options,
            None => options.application_name("capstan"),
        };
        Ok(Self(options.options(SETTINGS)))
    }

    /// What the driver makes connections with.
    pub const fn options(&self) -> &PgConnectOptions {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(at) = self;
        write!(f, "postgres://{}@", at.get_username())?;
        match at.get_socket() {
            Some(socket) => write!(f, "{}", socket.display())?,
            None => f.write_str(at.get_host())?,
        }
        write!(f, ":{}/{}", at.get_port(), at.get_database().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_without_its_password() {
        let shown = |url: &str| Address::parse(url).unwrap().to_string();
        let url = "postgres://capstan:very%20secret@db.example:5433/idb?sslmode=require";
        assert_eq!(shown(url), "postgres://capstan@db.example:5433/idb");
        assert_eq!(format!("{:?}", Address::parse(url).unwrap()), shown(url));
        let socket = "postgresql:///idb?host=/run/postgresql&user=me&password=secret&port=5432";
        assert_eq!(shown(socket), "postgres://me@/run/postgresql:5432/idb");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, word) in [
            ("mysql://u:secret@h/db", "USER@HOST/NAME"),
            ("postgres://u:secret@h:port/db", "port"),
            ("postgres://u:secret@h", "no database"),
            ("postgres://u:secret@h/db?sslmod=require", "sslmode"),
            ("postgres://u:secret@h/db?sslmode=maybe", "maybe"),
            ("postgres://u@h/db?x&password=secret", "unknown parameter"),
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.to_lowercase().contains(word) || error.contains(word), "{url}: {error}");
        }
    }
}
