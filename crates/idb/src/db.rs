//! Opening the database, its schema, and the two ways to use it: one read, one write transaction.
//!
//! What is particular to SQLite is here.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{SqlSafeStr, SqliteConnection};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::Result;
use crate::decode::Fault;
use crate::error::IdbError;
use crate::store::CatalogStore;

/// A connection, or a transaction on it.
pub(crate) type Conn = SqliteConnection;

/// How long to wait for another process's transaction. They take milliseconds; a stalled disk can
/// make that seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// The page cache of the connection, in the unit of the pragma: -KiB.
const CACHE_SIZE: &str = "-2048";

/// The same while a transaction touches very many rows: pages that do not fit are written to the log again and again.
const LARGE_CACHE_SIZE: &str = "-32768";

/// Rows that wait to be taken, while a query goes on: few would cost a change of threads each.
const ROW_BUFFER: usize = 512;

/// The write-ahead log is cut to this after a checkpoint, in bytes.
const LOG_SIZE_LIMIT: &str = "8388608";

/// A write transaction takes the lock at once: one that begins as a reader can be refused, without
/// waiting, when it turns into a writer.
const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";

/// Where sqlx records which migrations were applied.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// The schema, step by step. A step that was released is never changed.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "sessions and media", include_str!("../migrations/0001_sessions_and_media.sql")),
    (2, "protection", include_str!("../migrations/0002_protection.sql")),
    (3, "media and pools", include_str!("../migrations/0003_media_and_pools.sql")),
    (4, "copies", include_str!("../migrations/0004_copies.sql")),
    (5, "sessions by object", include_str!("../migrations/0005_sessions_by_object.sql")),
    (6, "stand-ins", include_str!("../migrations/0006_stand_ins.sql")),
    (8, "packed catalogs", include_str!("../migrations/0008_packed_catalogs.sql")),
];

/// The internal database below one home directory. Several processes may have it open.
#[derive(Debug)]
pub struct Idb {
    home: PathBuf,
    pub(crate) catalogs: CatalogStore,
    path: PathBuf,
    pool: SqlitePool,
    /// Drives the pool; under a lock since a runtime of one thread is driven by one caller.
    runtime: Mutex<Runtime>,
}

impl Idb {
    /// Opens the database below `home`, and creates both if they are missing.
    ///
    /// The home is created for its owner alone (0700). A database with a newer schema is refused.
    pub fn open(home: &Path) -> Result<Self> {
        Self::open_in(home, CatalogStore::directory)
    }

    /// Opens the database below `home`, whose catalog files are in a store elsewhere.
    pub fn open_with(home: &Path, catalogs: CatalogStore) -> Result<Self> {
        Self::open_in(home, |_| Ok(catalogs))
    }

    fn open_in(home: &Path, store: impl FnOnce(&Path) -> io::Result<CatalogStore>) -> Result<Self> {
        outside_of_runtimes()?;
        let dir = home.join("catalogs");
        let path = home.join("capstan.db");
        create_private_dir(home)?;
        create_private_dir(&dir)?;
        // One process at a time: SQLite does not wait its turn to make a new database a WAL one.
        let opening = File::open(&dir)
            .and_then(|dir| dir.lock().map(|()| dir))
            .map_err(|e| IdbError::io("lock the directory of catalogs", &dir, e))?;
        let catalogs =
            store(&dir).map_err(|e| IdbError::io("open the directory of catalogs", &dir, e))?;
        create_private_file(&path)?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| IdbError::io("start the threads of the internal database", &path, e))?;
        let pool = runtime
            .block_on(connect(&path))
            .map_err(|e| IdbError::sql(format_args!("open the tables"), &path, e))?;
        let idb =
            Self { home: home.to_owned(), catalogs, path, pool, runtime: Mutex::new(runtime) };
        idb.migrate(MIGRATIONS)?;
        drop(opening);
        Ok(idb)
    }

    /// The directory below which the database lies.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Brings the schema up to date, in one transaction; without any if it is.
    fn migrate(&self, steps: &[(i64, &'static str, &'static str)]) -> Result<()> {
        let migrator = Migrator::with_migrations(
            steps
                .iter()
                .map(|&(version, name, sql)| {
                    let kind = MigrationType::Simple;
                    Migration::new(version, Cow::Borrowed(name), kind, sql.into_sql_str(), false)
                })
                .collect(),
        );
        let what = format_args!("prepare the tables");
        let current = self.read(what, async |conn| {
            // A new database has no such table: then there is everything to do.
            let applied = conn.list_applied_migrations(MIGRATIONS_TABLE).await.unwrap_or_default();
            self.refuse_newer(&migrator, &applied)?;
            Ok(migrator.iter().all(|step| {
                let same = |a: &AppliedMigration| {
                    (a.version, &a.checksum) == (step.version, &step.checksum)
                };
                applied.iter().any(same)
            }))
        })?;
        if current {
            return Ok(());
        }
        self.write(what, async |conn| {
            migrator.run(conn).await.map_err(|error| match error {
                MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => Fault::Sql(e),
                other => Fault::Sql(sqlx::Error::Migrate(Box::new(other))),
            })
        })
    }

    fn refuse_newer(
        &self,
        migrator: &Migrator,
        applied: &[AppliedMigration],
    ) -> std::result::Result<(), Fault> {
        let known = migrator.iter().map(|step| step.version).max().unwrap_or(0);
        let found = applied.iter().map(|step| step.version).max().unwrap_or(0);
        if found > known {
            return Err(IdbError::NewerSchema { path: self.path.clone(), found, known }.into());
        }
        Ok(())
    }

    /// What the database finds wrong with its own pages and indexes: nothing where it is sound.
    pub(crate) fn damage(&self) -> Result<Vec<String>> {
        self.read(format_args!("check the tables"), async |conn| {
            let found =
                sqlx::query_scalar::<_, String>("PRAGMA quick_check").fetch_all(conn).await?;
            Ok(found.into_iter().filter(|said| said != "ok").collect())
        })
    }

    /// Runs statements that only read.
    pub(crate) fn read<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnOnce(&mut Conn) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.block_on(what, async {
            let mut conn = self.pool.acquire().await?;
            work(&mut conn).await
        })
    }

    /// Runs statements as one durable transaction: all or, after an error, nothing.
    pub(crate) fn write<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnOnce(&mut Conn) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.block_on(what, async {
            let mut transaction = self.pool.begin_with(BEGIN_WRITE).await?;
            match work(&mut transaction).await {
                Ok(done) => {
                    transaction.commit().await?;
                    Ok(done)
                }
                Err(fault) => {
                    // The fault says why; a failing rollback adds nothing, SQLite rolls back itself.
                    let _ = transaction.rollback().await;
                    Err(fault)
                }
            }
        })
    }

    /// The same for one that touches very many rows.
    pub(crate) fn write_many<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnOnce(&mut Conn) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.set_cache(what, LARGE_CACHE_SIZE)?;
        let done = self.write(what, work);
        self.set_cache(what, CACHE_SIZE)?;
        done
    }

    fn set_cache(&self, what: fmt::Arguments<'_>, size: &'static str) -> Result<()> {
        self.read(what, async |conn| {
            let sql = format!("PRAGMA cache_size = {size}");
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(conn).await?;
            Ok(())
        })
    }

    fn block_on<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl Future<Output = std::result::Result<T, Fault>>,
    ) -> Result<T> {
        outside_of_runtimes()?;
        let runtime = self.runtime.lock();
        runtime.block_on(work).map_err(|fault| match fault {
            Fault::Sql(error) => IdbError::sql(what, &self.path, error),
            Fault::Rule(error) => error,
        })
    }
}

impl Drop for Idb {
    /// Closes the connection, so that the last process leaves no write-ahead log behind.
    fn drop(&mut self) {
        if outside_of_runtimes().is_ok() {
            let runtime = self.runtime.get_mut();
            runtime.block_on(self.pool.close());
        }
    }
}

/// `block_on` within a runtime would panic.
fn outside_of_runtimes() -> Result<()> {
    match Handle::try_current() {
        Ok(_) => Err(IdbError::InsideRuntime),
        Err(_) => Ok(()),
    }
}

async fn connect(path: &Path) -> std::result::Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .row_buffer_size(ROW_BUFFER)
        .pragma("cache_size", CACHE_SIZE)
        .pragma("journal_size_limit", LOG_SIZE_LIMIT);
    // One: calls come one at a time, a second would only double the memory and the threads. Nothing
    // to reap: it lives as long as the process's work.
    SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_with(options)
        .await
}

/// Creates a directory, and what is missing above it, for its owner alone. One that exists stays.
fn create_private_dir(dir: &Path) -> Result<()> {
    let create = || {
        if dir.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // Its entry must be as durable as what will be recorded in it.
        match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
            _ => Ok(()),
        }
    };
    create().map_err(|e| IdbError::io("create the directory", dir, e))
}

/// Creates the empty database file: left to SQLite, it would be readable as the umask allows, in a
/// home that may have been made by another.
fn create_private_file(path: &Path) -> Result<()> {
    let create = || {
        if fs::exists(path)? {
            return Ok(());
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    };
    create().map_err(|e| IdbError::io("create the internal database", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (tempfile::TempDir, Idb) {
        let dir = tempfile::tempdir().unwrap();
        let idb = Idb::open(dir.path()).unwrap();
        (dir, idb)
    }

    const NEXT: (i64, &str, &str) = (1002, "next", "CREATE TABLE next (x BIGINT)");

    /// The steps of this program and further ones.
    fn and(
        further: &[(i64, &'static str, &'static str)],
    ) -> Vec<(i64, &'static str, &'static str)> {
        [MIGRATIONS, further].concat()
    }

    #[test]
    fn a_newer_schema_is_refused_in_clear_words() {
        let (dir, idb) = fresh();
        idb.migrate(&and(&[NEXT])).unwrap();
        drop(idb);
        let error = Idb::open(dir.path()).unwrap_err();
        assert!(matches!(error, IdbError::NewerSchema { found: 1002, .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("capstan.db") && message.contains("newer version"), "{message}");
    }

    #[test]
    fn a_step_that_fails_leaves_the_schema_as_it_was() {
        let (dir, idb) = fresh();
        let broken =
            (1003, "broken", "CREATE TABLE half (x BIGINT); CREATE TABLE objects (x BIGINT)");
        idb.migrate(&and(&[NEXT, broken])).unwrap_err();
        drop(idb);
        // Neither step 1002 nor half of step 1003 stayed: this program still opens it, and step 1002 goes.
        let idb = Idb::open(dir.path()).unwrap();
        idb.migrate(&and(&[NEXT])).unwrap();
    }

    #[test]
    fn a_released_step_that_was_changed_is_noticed() {
        let (_dir, idb) = fresh();
        let mut changed = MIGRATIONS.to_vec();
        changed[0].2 = "SELECT 1";
        let error = idb.migrate(&changed).unwrap_err();
        assert!(error.to_string().contains("not those of this program"), "{error}");
    }

    #[test]
    fn connections_are_durable_and_their_memory_is_bounded() {
        let (_dir, idb) = fresh();
        let pragma = |sql: &'static str| {
            let what = format_args!("ask");
            idb.read(what, async |conn| {
                Ok(sqlx::query_scalar::<_, i64>(sql).fetch_one(conn).await?)
            })
            .unwrap()
        };
        assert_eq!(pragma("PRAGMA synchronous"), 2, "FULL");
        assert_eq!(pragma("PRAGMA foreign_keys"), 1);
        assert_eq!(pragma("PRAGMA cache_size"), -2048);
        assert_eq!(pragma("PRAGMA busy_timeout"), 30_000);
        let mode = idb.read(format_args!("ask"), async |conn| {
            Ok(sqlx::query_scalar::<_, String>("PRAGMA journal_mode").fetch_one(conn).await?)
        });
        assert_eq!(mode.unwrap(), "wal");
    }

    #[test]
    fn an_edited_row_is_an_error_that_names_it() {
        let (_dir, idb) = fresh();
        let insert = "INSERT INTO media VALUES ('zz', 'l', 'd', 1, 1)";
        idb.write(format_args!("edit"), async |conn| {
            sqlx::query(insert).execute(conn).await?;
            Ok(())
        })
        .unwrap();
        let error = idb.media().unwrap_err();
        assert!(matches!(&error, IdbError::BadRow { column: "id", value } if value == "zz"));
    }
}
