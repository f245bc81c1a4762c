//! What is particular to SQLite: a file, one process that writes at a time.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};

use super::Leaving;
use crate::decode::Fault;
use crate::error::{IdbError, hints};
use crate::home::reserve;
use crate::sql::Conn;

/// How long to wait for another process's transaction. They take milliseconds; a stalled disk can
/// make that seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long SQLite itself waits for it: then it is asked whether the process is to end.
const BUSY_TURN: Duration = Duration::from_secs(1);

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

/// The primary result code of a database that is not well-formed.
const CORRUPT: u32 = 11;

/// A database in a file.
pub(crate) struct SqliteStore {
    path: PathBuf,
    /// None where it has to be opened anew.
    conn: Option<SqliteConnection>,
    /// Nothing is waited for any more once this says so.
    pub leaving: Option<Leaving>,
}

impl SqliteStore {
    /// Opens the file; makes the database in it if it is empty.
    pub async fn open(path: &Path) -> Result<Self, sqlx::Error> {
        Ok(Self { path: path.to_owned(), conn: Some(connect_in_turns(path).await?), leaving: None })
    }

    async fn conn(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        match &mut self.conn {
            Some(conn) => Ok(conn),
            none => Ok(none.insert(connect_in_turns(&self.path).await?)),
        }
    }

    /// Whether an error says that another process has the file locked, which is waited for since `begun`.
    fn waits(&self, fault: &Fault, begun: Instant) -> bool {
        let is_leaving = self.leaving.as_ref().is_some_and(|leaving| leaving());
        is_busy(fault) && begun.elapsed() < BUSY_TIMEOUT && !is_leaving
    }

    /// The bytes of the file and of its write-ahead log.
    pub fn size(&self) -> Result<u64, Fault> {
        let log = self.path.with_extension("db-wal");
        let mut size = 0;
        for path in [&self.path, &log] {
            match fs::metadata(path) {
                Ok(metadata) => size += metadata.len(),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(IdbError::io("look at", path, e).into()),
            }
        }
        Ok(size)
    }

    pub async fn read<T>(
        &mut self,
        mut work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let begun = Instant::now();
        loop {
            match work(&mut Conn::Sqlite(self.conn().await?)).await {
                Err(fault) if self.waits(&fault, begun) => {}
                done => return done,
            }
        }
    }

    pub async fn write<T>(
        &mut self,
        mut work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let begun = Instant::now();
        let done = loop {
            let fault = match self.conn().await?.begin_with(BEGIN_WRITE).await {
                Ok(mut transaction) => match work(&mut Conn::Sqlite(&mut transaction)).await {
                    Ok(done) => {
                        break transaction.commit().await.map(|()| done).map_err(Fault::from);
                    }
                    Err(fault) => {
                        // The fault says why; a failing rollback adds nothing, SQLite rolls back itself.
                        let _ = transaction.rollback().await;
                        break Err(fault);
                    }
                },
                Err(e) => Fault::from(e),
            };
            if !self.waits(&fault, begun) {
                return Err(fault);
            }
        };
        // SQLite has rolled back by itself, as on a full disk, and the connection still counts the transaction.
        if done.is_err()
            && let Some(conn) = self.conn.take_if(|conn| conn.is_in_transaction())
        {
            let _ = conn.close().await;
        }
        done
    }

    /// The same for what is worth nothing after a failure of power, as that a process is there. It waits for no disk while it keeps
    /// others from writing: 7 us instead of 5 ms. A process that is stopped in between keeps them from it for as long.
    pub async fn write_passing<T>(
        &mut self,
        work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.set_synchronous("NORMAL").await?;
        let done = self.write(work).await;
        if self.set_synchronous("FULL").await.is_err()
            && let Some(conn) = self.conn.take()
        {
            // What follows is to be durable: on a new connection.
            let _ = conn.close().await;
        }
        done
    }

    async fn set_synchronous(&mut self, how: &'static str) -> Result<(), sqlx::Error> {
        let sql = format!("PRAGMA synchronous = {how}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.conn().await?).await?;
        Ok(())
    }

    /// The process that keeps others from writing, in words, if it can be seen.
    pub fn holder(&self) -> Option<String> {
        let locks = fs::read_to_string("/proc/locks").ok()?;
        // Looked at only: to open and close it would free the locks that this process has.
        let shared = fs::metadata(self.path.with_extension("db-shm")).ok()?;
        let pid = writer_in(&locks, shared.dev(), shared.ino())?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, state) = (stat.split_once('(')?.1).rsplit_once(") ")?;
        let stopped = if state.starts_with(['T', 't']) { ", which is stopped," } else { "" };
        Some(format!("process {pid} ({}){stopped}", name.escape_debug()))
    }

    /// The same for one that touches very many rows.
    pub async fn write_many<T>(
        &mut self,
        work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.set_cache(LARGE_CACHE_SIZE).await?;
        let done = self.write(work).await;
        self.set_cache(CACHE_SIZE).await?;
        done
    }

    async fn set_cache(&mut self, size: &'static str) -> Result<(), sqlx::Error> {
        let sql = format!("PRAGMA cache_size = {size}");
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(self.conn().await?).await?;
        Ok(())
    }

    /// What the database finds wrong with its own pages, and if it is to be thorough, with what indexes have of their tables: nothing
    /// where it is sound.
    pub async fn damage(&mut self, thorough: bool) -> Result<Vec<String>, Fault> {
        let check = if thorough { "PRAGMA integrity_check" } else { "PRAGMA quick_check" };
        let query = sqlx::query_scalar::<_, String>(check);
        let found = match query.fetch_all(self.conn().await?).await {
            // So damaged that it cannot be looked through.
            Err(sqlx::Error::Database(e)) if hints::primary(&*e) == Some(CORRUPT) => {
                vec![e.message().to_owned()]
            }
            found => found?,
        };
        Ok(found.into_iter().filter(|said| said != "ok").collect())
    }

    /// Ends the write-ahead log. Fails where another process has the file open.
    pub async fn keep_no_log(&mut self) -> Result<(), Fault> {
        sqlx::raw_sql("PRAGMA journal_mode = DELETE").execute(self.conn().await?).await?;
        Ok(())
    }

    /// Closes it, so that the last process leaves no write-ahead log behind.
    pub async fn close(self) {
        if let Some(conn) = self.conn {
            // What was recorded is durable, whatever this says.
            let _ = conn.close().await;
        }
    }
}

/// The process that has the lock of those who write, by the kernel's table of locks: byte 120 of the file that processes share beside
/// the database (sqlite.org/walformat.html).
fn writer_in(locks: &str, dev: u64, ino: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{ino}", rustix::fs::major(dev), rustix::fs::minor(dev));
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [.., "WRITE", pid, of, "120", "120"] = words[..] else { return None };
        // One that waits has "->" behind its number.
        (of == file && words.get(1) == Some(&"POSIX")).then(|| pid.parse().ok())?
    })
}

/// Whether it says that another process has the file locked.
pub(super) fn is_busy(fault: &Fault) -> bool {
    let Fault::Sql(sqlx::Error::Database(e)) = fault else { return false };
    matches!(hints::primary(&**e), Some(5 | 6))
}

/// A connection that waits for others a turn only.
async fn connect_in_turns(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    let mut conn = connect(path).await?;
    let sql = format!("PRAGMA busy_timeout = {}", BUSY_TURN.as_millis());
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
    Ok(conn)
}

/// Opens the file. On a file system that is full nobody else can have it open meanwhile: the index of the write-ahead log is memory that
/// is mapped from a file, and whoever writes to a page of it that gets no room on the disk is killed (SIGBUS). So it is kept in memory
/// then, which takes a lock of the whole file.
pub(crate) async fn connect(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    let is_full = path.parent().is_some_and(reserve::is_used_up);
    let locking = if is_full { SqliteLockingMode::Exclusive } else { SqliteLockingMode::Normal };
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .locking_mode(locking)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .row_buffer_size(ROW_BUFFER)
        .pragma("cache_size", CACHE_SIZE)
        .pragma("journal_size_limit", LOG_SIZE_LIMIT);
    SqliteConnection::connect_with(&options).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_durable_and_their_memory_is_bounded() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(bounded());
    }

    async fn bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut conn = connect_in_turns(&dir.path().join("capstan.db")).await.unwrap();
        for (pragma, value) in [
            ("PRAGMA synchronous", 2), // FULL
            ("PRAGMA foreign_keys", 1),
            ("PRAGMA cache_size", -2048),
            ("PRAGMA busy_timeout", 1_000),
        ] {
            let query = sqlx::query_scalar::<_, i64>(pragma);
            assert_eq!(query.fetch_one(&mut conn).await.unwrap(), value, "{pragma}");
        }
        let mode = sqlx::query_scalar::<_, String>("PRAGMA journal_mode");
        assert_eq!(mode.fetch_one(&mut conn).await.unwrap(), "wal");
    }

    #[test]
    fn what_is_passing_waits_for_no_disk_and_the_rest_does() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(passing());
    }

    async fn passing() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(&dir.path().join("capstan.db")).await.unwrap();
        let how = async |conn: &mut Conn<'_>| {
            let row = crate::sql::query("PRAGMA synchronous").fetch_one(conn).await?;
            let how: i64 = row.try_get("synchronous")?;
            Ok(how)
        };
        assert_eq!(store.write_passing(how).await.unwrap(), 1);
        assert_eq!(store.write(how).await.unwrap(), 2);
        let fails = async |_: &mut Conn<'_>| Err::<(), _>(Fault::Sql(sqlx::Error::PoolClosed));
        assert!(store.write_passing(fails).await.is_err());
        assert_eq!(store.write(how).await.unwrap(), 2);
    }

    #[test]
    fn it_is_known_who_keeps_others_from_writing() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(holding());
    }

    async fn holding() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capstan.db");
        let mut store = SqliteStore::open(&path).await.unwrap();
        let other = SqliteStore::open(&path).await.unwrap();
        assert_eq!(other.holder(), None);
        let transaction = store.conn().await.unwrap().begin_with(BEGIN_WRITE).await.unwrap();
        let pid = format!("process {} (", std::process::id());
        assert!(other.holder().is_some_and(|who| who.starts_with(&pid)), "{:?}", other.holder());
        transaction.rollback().await.unwrap();
        assert_eq!(other.holder(), None);
    }

    #[test]
    fn only_who_has_the_lock_is_found() {
        let (dev, ino) = (rustix::fs::makedev(0xfe, 3), 77);
        let of = |line: &str| writer_in(line, dev, ino);
        assert_eq!(of("1: POSIX  ADVISORY  WRITE 4539 fe:03:77 120 120"), Some(4539));
        for not in [
            "1: -> POSIX  ADVISORY  WRITE 4539 fe:03:77 120 120",
            "1: POSIX  ADVISORY  READ 4539 fe:03:77 120 120",
            "1: POSIX  ADVISORY  WRITE 4539 fe:03:77 124 124",
            "1: POSIX  ADVISORY  WRITE 4539 fe:03:78 120 120",
            "",
        ] {
            assert_eq!(of(not), None, "{not}");
        }
    }

    #[test]
    fn a_transaction_that_sqlite_ended_by_itself_is_not_in_the_way_of_the_next() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(full());
    }

    /// As on a disk that is full: SQLite rolls back, and a rollback after that is an error.
    async fn full() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(&dir.path().join("capstan.db")).await.unwrap();
        let run = async |store: &mut SqliteStore, sql: &'static [&'static str]| {
            let work = async |conn: &mut Conn<'_>| {
                for sql in sql {
                    crate::sql::query(*sql).execute(conn).await?;
                }
                Ok(())
            };
            store.write(work).await
        };
        run(&mut store, &["CREATE TABLE t (x TEXT)"]).await.unwrap();
        let ended = run(&mut store, &["INSERT INTO t VALUES ('lost')", "ROLLBACK", "no statement"]);
        assert!(ended.await.is_err());
        run(&mut store, &["INSERT INTO t VALUES ('kept')"]).await.unwrap();
        let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM t");
        assert_eq!(count.fetch_one(store.conn().await.unwrap()).await.unwrap(), 1);
    }
}
