//! The tables of a home on their way from its file to the server that its settings name.

use std::fs;
use std::path::Path;

use capstan_engine::durable;
use capstan_engine::problem::Problem;

use crate::db::{Conn, Idb, Store, connect};
use crate::decode::Fault;
use crate::error::IdbError;
use crate::home::config::{Config, FILE_NAME};
use crate::home::files::DATABASE;
use crate::rows::Status;
use crate::upkeep::owner::CELL;
use crate::upkeep::transfer;
use crate::{Result, sql};

/// How the file is called when its tables are elsewhere.
const MOVED: &str = "capstan.db.moved";

/// What was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Where the tables are now.
    pub place: String,
    /// Their rows.
    pub rows: u64,
    /// The file in which they were, which is not used any more.
    pub left: std::path::PathBuf,
}

/// Whether the settings of a home name a server.
pub fn names_server(home: &Path) -> Result<bool> {
    Ok(Config::of(home)?.database.is_some())
}

/// Refuses a home that has an internal database: a file, or tables on the server that its settings name. A file in which nothing was
/// recorded yet is none, if `blank_is_none`.
pub fn refuse_database(home: &Path, blank_is_none: bool) -> Result<()> {
    let config = Config::of(home)?;
    let there = |place: &str| {
        IdbError::Mismatch(
            Problem::new(format!(
                "the home {} has an internal database already ({place})",
                home.display()
            ))
            .hint("recover into an empty one, or `capstan import` the medium into this"),
        )
    };
    if home.join(DATABASE).exists() && !(blank_is_none && Idb::open_local(home)?.is_blank()?) {
        return Err(there(DATABASE));
    }
    let Some(address) = config.database else { return Ok(()) };
    let idb = Idb::open_server(home, address, config.patience)?;
    match idb.setting(CELL)? {
        Some(_) => Err(there(idb.place())),
        None => Ok(()),
    }
}

/// Removes the file of a home in which nothing was recorded yet: any command that looks makes one.
pub fn remove_blank_database(home: &Path) -> Result<()> {
    let path = home.join(DATABASE);
    if !path.exists() {
        return Ok(());
    }
    let idb = Idb::open_local(home)?;
    if !idb.is_blank()? {
        return refuse_database(home, false);
    }
    // It fails where somebody else has the file open. What waits in its log would be taken for the new one's.
    idb.with_store(format_args!("close the tables that are empty"), async |store| match store {
        Store::Sqlite(store) => store.keep_no_log().await,
        Store::Postgres(_) => Ok(()),
    })?;
    drop(idb);
    fs::remove_file(&path).map_err(|e| IdbError::io("remove", &path, e))
}

impl Idb {
    /// Whether nothing was recorded yet.
    fn is_blank(&self) -> Result<bool> {
        self.read(format_args!("look whether anything is recorded"), async |conn| {
            let sql = "SELECT (SELECT COUNT(*) FROM objects) + (SELECT COUNT(*) FROM sessions) + \
                       (SELECT COUNT(*) FROM media) + (SELECT COUNT(*) FROM pools) AS rows_there";
            let row = sql::query(sql).fetch_one(conn).await?;
            Ok(row.try_get::<i64>("rows_there")? == 0)
        })
    }

    /// Opens the tables that are in the file of a home, which are to be moved: its settings name a server already.
    pub fn open_to_move(home: &Path) -> Result<Self> {
        let file = home.join(DATABASE);
        let has_file = fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0);
        if !names_server(home)? {
            return Err(IdbError::Mismatch(
                Problem::new(format!("the settings of the home {} name no server", home.display()))
                    .hint(format!(
                        "write `database = \"postgres://USER@HOST/NAME\"` into its {FILE_NAME}"
                    )),
            ));
        }
        if !has_file {
            return Err(IdbError::Mismatch(
                Problem::new(format!(
                    "there is nothing to move: the home {} has no {DATABASE}",
                    home.display()
                ))
                .hint("use it as it is"),
            ));
        }
        Self::open_local(home)
    }

    /// Whether a session is recorded as running.
    pub fn has_running_session(&self) -> Result<bool> {
        self.read(format_args!("look for sessions that run"), async |conn| {
            let sql = "SELECT id FROM sessions WHERE status = $1 LIMIT 1";
            let query = sql::query(sql).bind(Status::Running.as_str());
            Ok(query.fetch_optional(conn).await?.is_some())
        })
    }

    /// Copies the tables of this file to the server that the settings of its home name, in one transaction, and puts the
    /// file aside. Cut short, it is done again.
    pub fn move_to_server(self) -> Result<Moved> {
        let home = self.home().to_owned();
        let config = Config::of(&home)?;
        let Some(address) = config.database else {
            return Err(IdbError::Mismatch(
                Problem::new(format!("{FILE_NAME} names no server"))
                    .hint("write its address there"),
            ));
        };
        let cell = self.setting(CELL)?;
        // Closed, so that all of it is in the one file.
        drop(self);
        let path = home.join(DATABASE);
        let server = Self::open_server(&home, address, config.patience)?;
        let done = cell.is_some() && server.setting(CELL)? == cell && server.check_cell().is_ok();
        // All but the last step may have been done before.
        let rows = if done { 0 } else { server.take_rows_of(&path, cell.as_deref())? };
        let left = home.join(MOVED);
        durable::rename(&path, &left).map_err(|e| IdbError::io("put the file aside", &path, e))?;
        Ok(Moved { place: server.place().to_owned(), rows, left })
    }

    /// Takes the rows of a file, which are those of a cell.
    fn take_rows_of(&self, path: &Path, cell: Option<&str>) -> Result<u64> {
        let Some(cell) = cell else { return self.take_rows(path) };
        self.begin_cell_file(cell)?;
        match self.take_rows(path) {
            Ok(rows) => self.end_cell_file().map(|()| rows),
            Err(refused) if refused.is_bad_input() => {
                self.abandon_cell_file()?;
                Err(refused)
            }
            // Whether they are there is seen when it is opened.
            Err(e) => Err(e),
        }
    }

    fn take_rows(&self, path: &Path) -> Result<u64> {
        let what = format_args!("copy the tables");
        self.write_many(what, async |conn| {
            let Conn::Postgres(server) = conn else { return Ok(0) };
            let mut file = connect(path).await?;
            let copied = transfer::to_server(&mut file, server, self.place()).await;
            let closed = sqlx::Connection::close(file).await;
            let copied = copied?;
            closed?;
            Ok(copied)
        })
    }

    /// The tables of a server as the bytes of a file; `path` is an empty database of this program.
    pub(crate) fn copy_from_server(&self, path: &Path) -> Result<()> {
        self.with_store(format_args!("copy the tables"), async |store| match store {
            Store::Sqlite(_) => Ok(()),
            Store::Postgres(store) => {
                let copy =
                    async |server: &mut sqlx::PgConnection| -> std::result::Result<(), Fault> {
                        let mut file = connect(path).await?;
                        let copied = transfer::to_file(server, &mut file).await;
                        let closed = sqlx::Connection::close(file).await;
                        copied?;
                        Ok(closed?)
                    };
                store.snapshot(copy).await
            }
        })
    }
}
