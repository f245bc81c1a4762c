//! The connections that a process has to its tables: one for all it does, and further ones that read while that one is at work.
//!
//! A command that does one thing at a time has one. Where several threads read at once, or one reads while another writes, each has its
//! own. Further ones are opened when they are needed, [`MOST_READERS`] at most, and stay open.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::{Builder, Runtime};

use super::postgres::PostgresStore;
use super::sqlite::SqliteStore;
use super::{Leaving, Notice, Store};
use crate::decode::Fault;
use crate::home::address::Address;
use crate::home::reserve;

/// Connections that only read, at most: with more, processors and not connections limit. Each takes a thread and 3 MB with a file.
const MOST_READERS: usize = 3;

/// Where the tables are.
pub(super) enum Tables {
    /// In a file.
    File(PathBuf),
    /// On a server, which is waited for so long if it goes away.
    Server(Box<Address>, Duration),
}

impl Tables {
    /// Opens them.
    pub(super) async fn open(&self) -> Result<Store, Fault> {
        Ok(match self {
            Self::File(path) => Store::Sqlite(Box::new(SqliteStore::open(path).await?)),
            Self::Server(address, patience) => {
                Store::Postgres(Box::new(PostgresStore::new((**address).clone(), *patience)))
            }
        })
    }

    /// Whether others may have connections besides the first. On a file system that is full the first has the file for itself.
    fn may_have_readers(&self) -> bool {
        match self {
            Self::File(path) => !path.parent().is_some_and(reserve::is_used_up),
            Self::Server(..) => true,
        }
    }
}

/// A connection, with what drives it: a runtime of one thread, which one caller uses at a time.
pub(super) struct Link {
    runtime: Runtime,
    /// There until it is closed.
    store: Option<Store>,
}

impl Link {
    /// Opens one.
    pub(super) fn open(tables: &Tables) -> Result<Self, LinkError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(LinkError::Io)?;
        let store = runtime.block_on(tables.open()).map_err(LinkError::Open)?;
        Ok(Self { runtime, store: Some(store) })
    }

    /// Does something with it.
    pub(super) fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Store) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match &mut self.store {
            Some(store) => self.runtime.block_on(work(store)),
            None => Err(sqlx::Error::PoolClosed.into()),
        }
    }

    /// Its store, until it is closed.
    pub(super) fn store(&mut self) -> Option<&mut Store> {
        self.store.as_mut()
    }

    fn close(&mut self) {
        match self.store.take() {
            Some(Store::Sqlite(store)) => self.runtime.block_on(store.close()),
            Some(Store::Postgres(store)) => self.runtime.block_on(store.close()),
            None => {}
        }
    }
}

/// Why a connection was not opened.
pub(super) enum LinkError {
    /// There is no runtime for it.
    Io(std::io::Error),
    /// The store.
    Open(Fault),
}

/// The connections of a process.
pub(super) struct Links {
    tables: Tables,
    first: Mutex<Link>,
    readers: Mutex<Readers>,
    /// One that only reads is idle, or there is one less.
    is_idle: Condvar,
}

/// Those that only read.
#[derive(Default)]
struct Readers {
    idle: Vec<Link>,
    number: usize,
    leaving: Option<Leaving>,
    notice: Option<Notice>,
}

impl Links {
    /// The first one.
    pub(super) fn open(tables: Tables) -> Result<Self, LinkError> {
        let first = Mutex::new(Link::open(&tables)?);
        Ok(Self { tables, first, readers: Mutex::default(), is_idle: Condvar::new() })
    }

    /// Whether the tables are on a server.
    pub(super) fn is_on_server(&self) -> bool {
        matches!(self.tables, Tables::Server(..))
    }

    /// The first one, which is waited for.
    pub(super) fn first(&self) -> MutexGuard<'_, Link> {
        self.first.lock()
    }

    /// Reads with one. Where all are in use, one that only reads is waited for: whoever writes with the first may take long.
    pub(super) fn read<T>(&self, work: impl FnOnce(&mut Link) -> T) -> T {
        if let Some(mut first) = self.first.try_lock() {
            return work(&mut first);
        }
        match self.further() {
            Some(mut link) => {
                let done = catch_unwind(AssertUnwindSafe(|| work(&mut link)));
                // Also where it panicked: others wait for the connection.
                self.readers.lock().idle.push(link);
                self.is_idle.notify_one();
                done.unwrap_or_else(|panic| resume_unwind(panic))
            }
            None => work(&mut self.first.lock()),
        }
    }

    /// One that only reads; nothing where there can be none.
    fn further(&self) -> Option<Link> {
        let mut readers = self.readers.lock();
        loop {
            if let Some(link) = readers.idle.pop() {
                return Some(link);
            }
            if readers.number < MOST_READERS && self.tables.may_have_readers() {
                readers.number += 1;
                break;
            }
            if readers.number == 0 {
                return None;
            }
            self.is_idle.wait(&mut readers);
        }
        let (leaving, notice) = (readers.leaving.clone(), readers.notice.clone());
        drop(readers);
        match Link::open(&self.tables) {
            Ok(mut link) => {
                if let Some(store) = link.store() {
                    store.tell(leaving, notice);
                }
                Some(link)
            }
            // What is wrong the first one will say.
            Err(_) => {
                self.readers.lock().number -= 1;
                self.is_idle.notify_all();
                None
            }
        }
    }

    /// Has a server or a file not waited for any longer once that says that the process is to end.
    pub(super) fn give_up_when(&self, leaving: Leaving) {
        self.readers.lock().leaving = Some(leaving.clone());
        if let Some(store) = self.first().store() {
            store.tell(Some(leaving), None);
        }
    }

    /// Has somebody told when a server goes away and when it is back.
    pub(super) fn on_notice(&self, notice: Notice) {
        self.readers.lock().notice = Some(notice.clone());
        if let Some(store) = self.first().store() {
            store.tell(None, Some(notice));
        }
    }
}

impl Drop for Links {
    /// Closes them, the first one last: the last process leaves no write-ahead log behind.
    fn drop(&mut self) {
        if super::outside_of_runtimes().is_ok() {
            self.readers.get_mut().idle.iter_mut().for_each(Link::close);
            self.first.get_mut().close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use crate::Idb;
    use crate::db::tests::homes;

    /// Rows of a table that has three.
    fn count(idb: &Idb) -> i64 {
        idb.read(format_args!("count"), async |conn| {
            let row = crate::sql::query("SELECT COUNT(*) AS n FROM next").fetch_one(conn).await?;
            Ok(row.try_get("n")?)
        })
        .unwrap()
    }

    #[test]
    fn whoever_reads_waits_for_nobody_who_writes_or_reads() {
        for dir in homes() {
            let idb = Idb::open(dir.path()).unwrap();
            let run = |sql: &'static str| {
                idb.write(format_args!("run"), async |conn| {
                    crate::sql::query(sql).execute(conn).await?;
                    Ok(())
                })
                .unwrap();
            };
            run("CREATE TABLE next (x BIGINT)");
            run("INSERT INTO next VALUES (1), (2), (3)");
            let (begun, has_begun) = channel::<()>();
            let (ended, has_ended) = channel::<()>();
            thread::scope(|s| {
                let writing = s.spawn(|| {
                    let (begun, has_ended) = (begun, has_ended);
                    idb.write(format_args!("write"), async |conn| {
                        crate::sql::query("INSERT INTO next VALUES (4)").execute(conn).await?;
                        begun.send(()).unwrap();
                        // It is not committed before all have read.
                        has_ended.recv_timeout(Duration::from_secs(60)).unwrap();
                        Ok(())
                    })
                });
                has_begun.recv().unwrap();
                let readers: Vec<_> = (0..8).map(|_| s.spawn(|| count(&idb))).collect();
                readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 3));
                ended.send(()).unwrap();
                writing.join().unwrap().unwrap();
            });
            // What was written is seen by all.
            thread::scope(|s| {
                let readers: Vec<_> = (0..8).map(|_| s.spawn(|| count(&idb))).collect();
                readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 4));
            });
            drop(idb);
            // Nothing but the file is left of one.
            assert!(!dir.path().join("capstan.db-wal").exists());
        }
    }
}
