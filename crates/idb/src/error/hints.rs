//! What an administrator can do about what a database said.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

/// What to do where a row refers to one that is not there.
const UNKNOWN_REFERENCE: &str = "what it refers to is not recorded: import the media of the objects concerned, and if \
                                 that does not help, report it as a bug";

/// The extended result code of a file of shared memory that could not grow.
const IOERR_SHMSIZE: u32 = 4874;

/// The primary result code of one that has no memory left.
pub(crate) const NOMEM: u32 = 7;

const FULL: &str = "its file system is full: make room and try again";

/// What to do about what a database said; nothing where that is not known.
pub(crate) fn hint(error: &(dyn DatabaseError + 'static)) -> Option<&'static str> {
    match error.try_downcast_ref::<PgDatabaseError>() {
        Some(error) => of_server(error),
        None => of_file(error),
    }
}

/// Whether a database had no memory for what was asked.
pub(crate) fn is_for_want_of_memory(error: &(dyn DatabaseError + 'static)) -> bool {
    match error.try_downcast_ref::<PgDatabaseError>() {
        Some(error) => error.code() == "53200",
        None => primary(error) == Some(NOMEM),
    }
}

/// The primary result code.
pub(crate) fn primary(error: &dyn DatabaseError) -> Option<u32> {
    Some(error.code()?.parse::<u32>().ok()? & 0xff)
}

/// What to do about an error of the server.
fn of_server(error: &PgDatabaseError) -> Option<&'static str> {
    Some(match error.code() {
        "28000" | "28P01" => {
            "it does not let the user in: correct `database` in capstan.toml, the password in ~/.pgpass, or pg_hba.conf \
             on the server"
        }
        "3D000" => {
            "there is no such database: create it (`createdb --owner USER NAME`) or correct capstan.toml"
        }
        "42501" => {
            "the user may not do that there: make it the owner of the database (`ALTER DATABASE NAME OWNER TO USER`)"
        }
        "25006" => "it is read-only: name the primary server, not a standby",
        "53100" => "its file system is full: make room and try again",
        "53300" => "it has too many connections: raise max_connections or try again later",
        "55P03" => "another process keeps it locked: wait for that to end and try again",
        "40001" | "40P01" => "another transaction was in the way: try again",
        "57P03" => "it is starting or shutting down: try again in a moment",
        "57P01" | "57P02" | "57P05" => "it ended the connection: try again when it is back",
        "58030" => "its disk reports errors: check the disk and the system log of the server",
        "XX001" | "XX002" => {
            "it is damaged: restore it, or put the tables into a new database with `capstan idb recover`"
        }
        code if code.starts_with("23") => UNKNOWN_REFERENCE,
        _ => return None,
    })
}

/// What to do about an error, by its primary result code.
fn of_file(error: &dyn DatabaseError) -> Option<&'static str> {
    let code = error.code()?.parse::<u32>().ok()?;
    Some(match code & 0xff {
        // What is shared by processes beside the database could not be made larger.
        10 if code == IOERR_SHMSIZE => FULL,
        5 | 6 => "another process keeps it locked: wait for that to end and try again",
        NOMEM => {
            "there is no memory left: end other programs, or give this machine more, and try again"
        }
        8 => "it is read-only: check its owner and mode and how its file system is mounted",
        10 => "its disk reports errors: check the disk and the system log",
        11 | 26 => {
            "it is damaged: put the home aside and bring it back with `capstan idb recover MEDIUM`, or build a new one by \
             importing the media"
        }
        13 => FULL,
        14 => {
            "it cannot be opened: check the owner and mode of its directory, and how its file system is mounted"
        }
        19 => UNKNOWN_REFERENCE,
        _ => return None,
    })
}
