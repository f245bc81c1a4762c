//! Opening the database, its schema, and the ways to use it: one read, one write transaction.
//!
//! What is particular to a store is below `db`.

mod address;
mod postgres;
mod schema;
mod sqlite;

use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use capstan_engine::durable;
use sqlx::SqlSafeStr;
use sqlx::error::DatabaseError;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, MigrationType, Migrator};
use tokio::runtime::{Builder, Handle, Runtime};

pub(crate) use self::address::Address;
use self::postgres::PostgresStore;
pub(crate) use self::schema::quoted;
use self::sqlite::SqliteStore;
pub(crate) use self::sqlite::connect;
use crate::Result;
use crate::config::Config;
use crate::decode::Fault;
use crate::error::IdbError;
use crate::owner;
use crate::reserve;
pub(crate) use crate::sql::Conn;
use crate::store::CatalogStore;

/// The database's file below a home.
pub(crate) const DATABASE: &str = "capstan.db";

/// Where sqlx records which migrations were applied.
pub(crate) const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// What to do where a row refers to one that is not there.
const UNKNOWN_REFERENCE: &str = "what it refers to is not recorded: import the media of the objects concerned, and if \
                                 that does not help, report it as a bug";

/// The schema, step by step. A step that was released is never changed.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "sessions and media", include_str!("../migrations/0001_sessions_and_media.sql")),
    (2, "protection", include_str!("../migrations/0002_protection.sql")),
    (3, "media and pools", include_str!("../migrations/0003_media_and_pools.sql")),
    (4, "copies", include_str!("../migrations/0004_copies.sql")),
    (5, "sessions by object", include_str!("../migrations/0005_sessions_by_object.sql")),
    (6, "stand-ins", include_str!("../migrations/0006_stand_ins.sql")),
    (7, "objects on tape", include_str!("../migrations/0007_objects_on_tape.sql")),
    (8, "packed catalogs", include_str!("../migrations/0008_packed_catalogs.sql")),
    (9, "full media", include_str!("../migrations/0009_full_media.sql")),
    (10, "cleaning", include_str!("../migrations/0010_cleaning.sql")),
    (11, "tapes at work", include_str!("../migrations/0011_tapes_at_work.sql")),
    (12, "adopted media", include_str!("../migrations/0012_adopted_media.sql")),
    (13, "order of commits", include_str!("../migrations/0013_order_of_commits.sql")),
    (14, "version leases", include_str!("../migrations/0014_version_leases.sql")),
    (15, "changed media", include_str!("../migrations/0015_changed_media.sql")),
    (16, "lost segments", include_str!("../migrations/0016_lost_segments.sql")),
    (17, "given up objects", include_str!("../migrations/0017_given_up_objects.sql")),
    (18, "hosts of media", include_str!("../migrations/0018_hosts_of_media.sql")),
    (19, "damaged places", include_str!("../migrations/0019_damaged_places.sql")),
    (20, "session beats", include_str!("../migrations/0020_session_beats.sql")),
    (21, "lacking copies", include_str!("../migrations/0021_lacking_copies.sql")),
    (22, "refusals", include_str!("../migrations/0022_refusals.sql")),
    (23, "seen tapes", include_str!("../migrations/0023_seen_tapes.sql")),
    (24, "use of tapes", include_str!("../migrations/0024_use_of_tapes.sql")),
    (25, "bytes of places", include_str!("../migrations/0025_bytes_of_places.sql")),
    (26, "scratch pools", include_str!("../migrations/0026_scratch_pools.sql")),
    (27, "vaults of pools", include_str!("../migrations/0027_vaults_of_pools.sql")),
    (28, "session waits", include_str!("../migrations/0028_session_waits.sql")),
    (29, "lacking paths", include_str!("../migrations/0029_lacking_paths.sql")),
    (30, "rebuilt members", include_str!("../migrations/0030_rebuilt_members.sql")),
    (31, "lost members", include_str!("../migrations/0031_lost_members.sql")),
    (32, "exported tapes", include_str!("../migrations/0032_exported_tapes.sql")),
];

/// The internal database below one home directory. Several processes may have it open.
pub struct Idb {
    home: PathBuf,
    pub(crate) catalogs: CatalogStore,
    /// What it is called: its file, or its address without a password.
    place: String,
    /// What its settings say that this host is called.
    host: Option<String>,
    /// Under a lock since a runtime of one thread is driven by one caller.
    link: Mutex<Link>,
}

struct Link {
    runtime: Runtime,
    /// There until it is closed.
    store: Option<Store>,
}

/// Opens the store of catalog files, given the directory that has them where nothing else does.
trait OpenCatalogs: FnOnce(&Path) -> io::Result<CatalogStore> {}

impl<F: FnOnce(&Path) -> io::Result<CatalogStore>> OpenCatalogs for F {}

/// Where the tables are.
pub(crate) enum Store {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
}

impl fmt::Debug for Idb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idb").field("home", &self.home).field("place", &self.place).finish()
    }
}

impl Idb {
    /// Opens the database of `home`, where its settings say it is, and creates both if they are missing.
    ///
    /// The home is created for its owner alone (0700). A database with a newer schema, or of another cell, is refused.
    pub fn open(home: &Path) -> Result<Self> {
        Self::open_in(home, CatalogStore::directory)
    }

    /// Opens the database of `home`, whose catalog files are in a store elsewhere.
    pub fn open_with(home: &Path, catalogs: CatalogStore) -> Result<Self> {
        Self::open_in(home, |_| Ok(catalogs))
    }

    fn open_in(home: &Path, catalogs: impl OpenCatalogs) -> Result<Self> {
        let config = Config::of(home)?;
        owner::check_files(home, &config)?;
        let mut idb = match config.database {
            None => Self::open_local_with(home, catalogs)?,
            Some(address) => {
                let idb = Self::open_server_with(home, address, config.patience, catalogs)?;
                idb.check_cell()?;
                idb
            }
        };
        idb.host = config.host;
        Ok(idb)
    }

    /// Opens the file of a home, whatever its settings say.
    pub(crate) fn open_local(home: &Path) -> Result<Self> {
        Self::open_local_with(home, CatalogStore::directory)
    }

    fn open_local_with(home: &Path, catalogs: impl OpenCatalogs) -> Result<Self> {
        refuse_read_only(home)?;
        let path = home.join(DATABASE);
        let place = path.display().to_string();
        Self::open_store(home, place, catalogs, async || {
            create_private_file(&path)?;
            Ok(Store::Sqlite(Box::new(SqliteStore::open(&path).await?)))
        })
    }

    /// Opens a database on a server, whosever it is.
    pub(crate) fn open_server(home: &Path, address: Address, patience: Duration) -> Result<Self> {
        Self::open_server_with(home, address, patience, CatalogStore::directory)
    }

    fn open_server_with(
        home: &Path,
        address: Address,
        patience: Duration,
        catalogs: impl OpenCatalogs,
    ) -> Result<Self> {
        let idb = Self::open_store(home, address.to_string(), catalogs, async || {
            Ok(Store::Postgres(Box::new(PostgresStore::new(address.clone(), patience))))
        })?;
        let path = Path::new("/proc/sys/kernel/random/uuid");
        let name = fs::read_to_string(path).map_err(|e| IdbError::io("read", path, e))?;
        if let Some(Store::Postgres(store)) = &mut idb.link.lock().store {
            store.mark_writes(name.trim().to_owned());
        }
        Ok(idb)
    }

    fn open_store(
        home: &Path,
        place: String,
        catalogs: impl OpenCatalogs,
        connect: impl AsyncFnOnce() -> std::result::Result<Store, Fault>,
    ) -> Result<Self> {
        outside_of_runtimes()?;
        let dir = home.join("catalogs");
        create_private_dir(home)?;
        create_private_dir(&dir)?;
        reserve::ease(home);
        // One process at a time: SQLite does not wait its turn to make a new database a WAL one.
        let opening = lock_dir(&dir)?;
        let catalogs =
            catalogs(&dir).map_err(|e| IdbError::io("open the directory of catalogs", &dir, e))?;
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| IdbError::io("start the threads of the internal database", home, e))?;
        let store = runtime
            .block_on(connect())
            .map_err(|fault| fault.of(format_args!("open the tables"), &place))?;
        let link = Mutex::new(Link { runtime, store: Some(store) });
        let idb = Self { home: home.to_owned(), catalogs, place, host: None, link };
        idb.migrate(MIGRATIONS)?;
        drop(opening);
        Ok(idb)
    }

    /// The directory below which the database lies.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// What the database is called: its file, or its address without a password.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What the settings of its home say that this host is called, if they do.
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Whether the tables are on a server.
    pub fn is_on_server(&self) -> bool {
        matches!(self.link.lock().store, Some(Store::Postgres(_)))
    }

    /// Has a server that went away, or a process that has the file locked, waited for no longer once that says that the process is to
    /// end.
    pub fn give_up_when(&self, leaving: impl Fn() -> bool + Send + Sync + 'static) {
        match &mut self.link.lock().store {
            Some(Store::Postgres(store)) => store.leaving = Some(Box::new(leaving)),
            Some(Store::Sqlite(store)) => store.leaving = Some(Box::new(leaving)),
            None => {}
        }
    }

    /// Has somebody told, in a sentence, when the server of the database goes away and when it is back.
    pub fn on_notice(&self, notice: impl Fn(&str) + Send + Sync + 'static) {
        if let Some(Store::Postgres(store)) = &mut self.link.lock().store {
            store.notice = Some(Box::new(notice));
        }
    }

    /// Brings the schema up to date, in one transaction; without any if it is.
    fn migrate(&self, steps: &[(i64, &'static str, &'static str)]) -> Result<()> {
        let mut migrator = Migrator::with_migrations(
            steps
                .iter()
                .map(|&(version, name, sql)| {
                    let kind = MigrationType::Simple;
                    Migration::new(version, Cow::Borrowed(name), kind, sql.into_sql_str(), false)
                })
                .collect(),
        );
        // Our transaction has the lock of all who write.
        migrator.set_locking(false);
        let what = format_args!("prepare the tables");
        let current = self.read(what, async |conn| {
            let applied = applied(conn).await;
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
        self.write_many(what, async |conn| {
            let done = match conn {
                Conn::Sqlite(conn) => migrator.run_direct(None, &mut **conn, false).await,
                Conn::Postgres(_) => {
                    let before = schema::before(conn, &self.place).await?;
                    let Conn::Postgres(server) = conn else { return Ok(()) };
                    let done = migrator.run_direct(None, &mut **server, false).await;
                    done.map_err(fault_of)?;
                    return schema::after(conn, &before).await;
                }
            };
            done.map_err(fault_of)
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
            let place = self.place.clone();
            return Err(IdbError::NewerSchema { place, found, known }.into());
        }
        Ok(())
    }

    /// What the database finds wrong with itself, in its indexes too if it is to be thorough: nothing where it is sound.
    pub(crate) fn damage(&self, thorough: bool) -> Result<Vec<String>> {
        self.with_store(format_args!("check the tables"), async |store| match store {
            Store::Sqlite(store) => store.damage(thorough).await,
            Store::Postgres(store) => store.read(schema::damage).await,
        })
    }

    /// The bytes of the tables.
    pub(crate) fn size(&self) -> Result<u64> {
        self.with_store(format_args!("look at the tables"), async |store| match store {
            Store::Sqlite(store) => Ok(store.size()?),
            Store::Postgres(store) => store.read(schema::size).await,
        })
    }

    /// Runs statements that only read. They may be run again where a connection broke.
    pub(crate) fn read<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnMut(&mut Conn<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.with_store(what, async |store| match store {
            Store::Sqlite(store) => store.read(work).await,
            Store::Postgres(store) => store.read(work).await,
        })
    }

    /// Runs statements as one durable transaction: all or, after an error, nothing. They may be run again where a
    /// connection broke, but are committed once.
    pub(crate) fn write<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnMut(&mut Conn<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.with_store(what, async |store| match store {
            Store::Sqlite(store) => store.write(work).await,
            Store::Postgres(store) => store.write(work).await,
        })
    }

    /// The same for what is worth nothing after a failure of power: it may be lost then.
    pub(crate) fn write_passing<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnMut(&mut Conn<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.with_store(what, async |store| match store {
            Store::Sqlite(store) => store.write_passing(work).await,
            Store::Postgres(store) => store.write(work).await,
        })
    }

    /// The same for one that touches very many rows.
    pub(crate) fn write_many<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnMut(&mut Conn<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.with_store(what, async |store| match store {
            Store::Sqlite(store) => store.write_many(work).await,
            Store::Postgres(store) => store.write_many(work).await,
        })
    }

    /// Does something with the store itself.
    pub(crate) fn with_store<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnOnce(&mut Store) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        outside_of_runtimes()?;
        let mut link = self.link.lock();
        let Link { runtime, store } = &mut *link;
        let done = match store {
            Some(store) => runtime.block_on(work(store)),
            None => Err(sqlx::Error::PoolClosed.into()),
        };
        done.map_err(|fault| {
            let holder = match store {
                Some(Store::Sqlite(store)) if sqlite::is_busy(&fault) => store.holder(),
                _ => None,
            };
            match (fault, holder) {
                (Fault::Sql(source), Some(holder)) => IdbError::Locked {
                    what: what.to_string(),
                    place: self.place.clone(),
                    holder,
                    source: Box::new(source),
                },
                (fault, _) => fault.of(what, &self.place),
            }
        })
    }
}

impl Drop for Idb {
    /// Closes the connection: the last process leaves no write-ahead log behind.
    fn drop(&mut self) {
        if outside_of_runtimes().is_ok() {
            let Link { runtime, store } = self.link.get_mut();
            match store.take() {
                Some(Store::Sqlite(store)) => runtime.block_on(store.close()),
                Some(Store::Postgres(store)) => runtime.block_on(store.close()),
                None => {}
            }
        }
    }
}

/// The steps that were applied. A new database has no table of them: then there is everything to do.
async fn applied(conn: &mut Conn<'_>) -> Vec<AppliedMigration> {
    let applied = match conn {
        Conn::Sqlite(conn) => conn.list_applied_migrations(MIGRATIONS_TABLE).await,
        Conn::Postgres(conn) => conn.list_applied_migrations(MIGRATIONS_TABLE).await,
    };
    applied.unwrap_or_default()
}

fn fault_of(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(e) | MigrateError::ExecuteMigration(e, _) => Fault::Sql(e),
        other => Fault::Sql(sqlx::Error::Migrate(Box::new(other))),
    }
}

/// What to do about what a database said; nothing where that is not known.
pub(crate) fn hint(error: &(dyn DatabaseError + 'static)) -> Option<&'static str> {
    match error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        Some(error) => postgres::hint(error),
        None => sqlite::hint(error),
    }
}

/// Whether a database had no memory for what was asked.
pub(crate) fn is_for_want_of_memory(error: &(dyn DatabaseError + 'static)) -> bool {
    match error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        Some(error) => error.code() == "53200",
        None => sqlite::primary(error) == Some(sqlite::NOMEM),
    }
}

/// SQLite would say that it cannot open its file, which is true of much.
fn refuse_read_only(home: &Path) -> Result<()> {
    // What else is wrong with the home is said where that is opened.
    let is_read_only = rustix::fs::statvfs(home)
        .is_ok_and(|of| of.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    match is_read_only {
        true => Err(IdbError::ReadOnly { home: home.to_owned() }),
        false => Ok(()),
    }
}

/// `block_on` within a runtime would panic.
fn outside_of_runtimes() -> Result<()> {
    match Handle::try_current() {
        Ok(_) => Err(IdbError::InsideRuntime),
        Err(_) => Ok(()),
    }
}

/// Locks the directory of catalogs: one process at a time makes a database.
pub(crate) fn lock_dir(catalogs: &Path) -> Result<File> {
    File::open(catalogs)
        .and_then(|dir| dir.lock().map(|()| dir))
        .map_err(|e| IdbError::io("lock the directory of catalogs", catalogs, e))
}

/// Creates a directory, and what is missing above it, for its owner alone. One that exists stays.
fn create_private_dir(dir: &Path) -> Result<()> {
    let create = || {
        if dir.is_dir() {
            return Ok(());
        }
        // Its entry, and those of all above it, must be as durable as what will be recorded in it.
        durable::create_directories(dir, 0o700)
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
        durable::synchronise_way_to(path)
    };
    create().map_err(|e| IdbError::io("create the internal database", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{Server, write_settings};

    /// A home for each store.
    fn homes() -> [tempfile::TempDir; 2] {
        let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let url = Server::shared().new_database();
        write_settings(homes[1].path(), &format!("database = \"{url}\"\n"));
        homes
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
        for (dir, place) in homes().iter().zip(["capstan.db", "postgres://capstan@"]) {
            Idb::open(dir.path()).unwrap().migrate(&and(&[NEXT])).unwrap();
            let error = Idb::open(dir.path()).unwrap_err();
            assert!(matches!(error, IdbError::NewerSchema { found: 1002, .. }), "{error:?}");
            let message = error.to_string();
            assert!(message.contains(place) && message.contains("newer version"), "{message}");
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_schema_as_it_was() {
        let broken =
            (1003, "broken", "CREATE TABLE half (x BIGINT); CREATE TABLE objects (x BIGINT)");
        for dir in homes() {
            let idb = Idb::open(dir.path()).unwrap();
            idb.migrate(&and(&[NEXT, broken])).unwrap_err();
            drop(idb);
            // Neither step 1002 nor half of step 1003 stayed: this program still opens it, and step 1002 goes.
            let idb = Idb::open(dir.path()).unwrap();
            idb.migrate(&and(&[NEXT])).unwrap();
        }
    }

    #[test]
    fn a_released_step_that_was_changed_is_noticed() {
        for dir in homes() {
            let idb = Idb::open(dir.path()).unwrap();
            let mut changed = MIGRATIONS.to_vec();
            changed[0].2 = "SELECT 1";
            let error = idb.migrate(&changed).unwrap_err();
            assert!(error.to_string().contains("not those of this program"), "{error}");
        }
    }

    #[test]
    fn an_edited_row_is_an_error_that_names_it() {
        for dir in homes() {
            let idb = Idb::open(dir.path()).unwrap();
            let insert = "INSERT INTO media VALUES ('zz', 'l', 'd', 1, 1, NULL)";
            idb.write(format_args!("edit"), async |conn| {
                crate::sql::query(insert).execute(conn).await?;
                Ok(())
            })
            .unwrap();
            let error = idb.media().unwrap_err();
            assert!(matches!(&error, IdbError::BadRow { column: "id", value } if value == "zz"));
        }
    }
}
