//! Opening the database, its schema, and the ways to use it: one read, one write transaction.
//!
//! What is particular to a store is below `db`.

mod links;
mod migrations;
mod postgres;
mod schema;
mod sqlite;

use std::borrow::Cow;
use std::fs::{self};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use capstan_address::HostName;
use sqlx::SqlSafeStr;
use sqlx::migrate::{AppliedMigration, Migrate, MigrateError, Migration, MigrationType, Migrator};
use tokio::runtime::Handle;

use self::links::{Link, LinkError, Links, Tables};
use self::migrations::MIGRATIONS;
use self::postgres::PostgresStore;
pub(crate) use self::schema::quoted;
use self::sqlite::SqliteStore;
pub(crate) use self::sqlite::connect;
use crate::Result;
use crate::catalog_store::CatalogStore;
use crate::decode::Fault;
use crate::error::IdbError;
use crate::home::address::Address;
use crate::home::config::{Config, system_host};
use crate::home::files::{
    DATABASE, create_private_dir, create_private_file, lock_dir, refuse_read_only,
};
use crate::home::{cell_file, reserve};
pub(crate) use crate::sql::Conn;

/// Where sqlx records which migrations were applied.
pub(crate) const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// The internal database below one home directory. Several processes may have it open.
pub struct Idb {
    home: PathBuf,
    pub(crate) catalogs: CatalogStore,
    /// What it is called: its file, or its address without a password.
    place: String,
    /// What its settings say that this host is called; where they do not, nothing.
    set_host: Option<HostName>,
    /// What the system calls it.
    system_host: HostName,
    links: Links,
}

/// Told when a server goes away and when it is back.
type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// Says whether the process is to end: nothing is waited for any more then.
type Leaving = Arc<dyn Fn() -> bool + Send + Sync>;

/// Opens the store of catalog files, given the directory that has them where nothing else does.
trait OpenCatalogs: FnOnce(&Path) -> io::Result<CatalogStore> {}

impl<F: FnOnce(&Path) -> io::Result<CatalogStore>> OpenCatalogs for F {}

/// Where the tables are.
pub(crate) enum Store {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
}

impl Store {
    /// Has it give up waiting, and tell what it waits for, as that says.
    fn tell(&mut self, leaving: Option<Leaving>, notice: Option<Notice>) {
        match self {
            Self::Sqlite(store) => store.leaving = leaving.or_else(|| store.leaving.take()),
            Self::Postgres(store) => {
                store.leaving = leaving.or_else(|| store.leaving.take());
                store.notice = notice.or_else(|| store.notice.take());
            }
        }
    }
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
        cell_file::check_files(home, &config)?;
        let mut idb = match config.database {
            None => Self::open_local_with(home, catalogs)?,
            Some(address) => {
                let idb = Self::open_server_with(home, address, config.patience, catalogs)?;
                idb.check_cell()?;
                idb
            }
        };
        idb.set_host = config.host;
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
        Self::open_store(home, place, catalogs, Tables::File(path))
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
        let place = address.to_string();
        let tables = Tables::Server(Box::new(address), patience);
        let idb = Self::open_store(home, place, catalogs, tables)?;
        let path = Path::new("/proc/sys/kernel/random/uuid");
        let name = fs::read_to_string(path).map_err(|e| IdbError::io("read", path, e))?;
        if let Some(Store::Postgres(store)) = idb.links.first().store() {
            store.mark_writes(name.trim().to_owned());
        }
        Ok(idb)
    }

    fn open_store(
        home: &Path,
        place: String,
        catalogs: impl OpenCatalogs,
        tables: Tables,
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
        if let Tables::File(path) = &tables {
            create_private_file(path)?;
        }
        let links = Links::open(tables).map_err(|e| match e {
            LinkError::Io(e) => IdbError::io("start the threads of the internal database", home, e),
            LinkError::Open(fault) => fault.of(format_args!("open the tables"), &place),
        })?;
        let idb = Self {
            home: home.to_owned(),
            catalogs,
            place,
            set_host: None,
            system_host: system_host(),
            links,
        };
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

    /// What this host is called in the tables: as the settings of the home say, else as the system does.
    pub fn host(&self) -> &HostName {
        self.set_host.as_ref().unwrap_or(&self.system_host)
    }

    /// Whether the settings say it.
    pub fn is_host_set(&self) -> bool {
        self.set_host.is_some()
    }

    /// Whether the tables are on a server.
    pub fn is_on_server(&self) -> bool {
        self.links.is_on_server()
    }

    /// Has a server that went away, or a process that has the file locked, waited for no longer once that says that the process is to
    /// end.
    pub fn give_up_when(&self, leaving: impl Fn() -> bool + Send + Sync + 'static) {
        self.links.give_up_when(Arc::new(leaving));
    }

    /// Has somebody told, in a sentence, when the server of the database goes away and when it is back.
    pub fn on_notice(&self, notice: impl Fn(&str) + Send + Sync + 'static) {
        self.links.on_notice(Arc::new(notice));
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

    /// Runs statements that only read. They may be run again where a connection broke. They see what was committed when they begin, and
    /// wait for nobody who writes.
    pub(crate) fn read<T>(
        &self,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnMut(&mut Conn<'_>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        outside_of_runtimes()?;
        self.links.read(|link| {
            self.run_on(link, what, async |store| match store {
                Store::Sqlite(store) => store.read(work).await,
                Store::Postgres(store) => store.read(work).await,
            })
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
        self.run_on(&mut self.links.first(), what, work)
    }

    fn run_on<T>(
        &self,
        link: &mut Link,
        what: fmt::Arguments<'_>,
        work: impl AsyncFnOnce(&mut Store) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        link.run(work).map_err(|fault| {
            let holder = match link.store() {
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

/// `block_on` within a runtime would panic.
fn outside_of_runtimes() -> Result<()> {
    match Handle::try_current() {
        Ok(_) => Err(IdbError::InsideRuntime),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{Server, write_settings};

    /// A home for each store.
    pub(super) fn homes() -> [tempfile::TempDir; 2] {
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
