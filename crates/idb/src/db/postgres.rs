//! What is particular to PostgreSQL: a server, which may go away and come back.
//!
//! One transaction writes at a time, as on SQLite: each takes the same advisory lock first, so that what it reads stays so
//! until its end. It also leaves its number in the table of writers. Where a connection breaks while a commit is under way,
//! the next transaction sees by that number whether it took place, so that nothing is done twice.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Postgres, Transaction};

use super::{Leaving, Notice};
use crate::decode::Fault;
use crate::error::IdbError;
use crate::home::address::Address;
use crate::sql::{self, Conn};

/// How long a new connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long a server may take to start or to recover while a command begins.
const START_TIME: Duration = Duration::from_secs(30);
/// How long a short transaction may be without an answer: a server whose machine died does not say so.
const ANSWER_TIME: Duration = Duration::from_secs(300);
/// Between two attempts to reach a server that is away: at first, and at most.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The advisory lock of writers: the word "capstan".
const WRITE_LOCK: &str = "pg_advisory_xact_lock(27973158295593326)";

/// A database on a server.
pub(crate) struct PostgresStore {
    address: Address,
    /// How long to wait for a server that went away.
    patience: Duration,
    /// None before the first, and after one broke.
    conn: Option<PgConnection>,
    /// Under which name this process is in the table of writers, once that is there.
    writer: Option<String>,
    /// The number of the last transaction that wrote.
    serial: i64,
    /// Whether there was a connection: a first one is not waited for.
    was_there: bool,
    /// Whether it was waited for in vain: then it is not again, until it is back.
    gave_up: bool,
    pub notice: Option<Notice>,
    pub leaving: Option<Leaving>,
}

/// An absence of the server.
struct Away {
    since: Instant,
    pause: Duration,
    told: bool,
}

impl PostgresStore {
    /// A database that was not connected to yet.
    pub const fn new(address: Address, patience: Duration) -> Self {
        Self {
            address,
            patience,
            conn: None,
            writer: None,
            serial: 0,
            was_there: false,
            gave_up: false,
            notice: None,
            leaving: None,
        }
    }

    pub async fn read<T>(
        &mut self,
        mut work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let work = async |conn: &mut PgConnection| {
            within(Some(ANSWER_TIME), work(&mut Conn::Postgres(conn))).await
        };
        self.persist(work).await
    }

    /// Runs statements that only read, all of which see the same state.
    pub async fn snapshot<T>(
        &mut self,
        mut work: impl AsyncFnMut(&mut PgConnection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.persist(async |conn| {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            let mut transaction = conn.begin_with(begin).await?;
            let done = work(&mut *transaction).await;
            let _ = transaction.rollback().await;
            done
        })
        .await
    }

    pub async fn write<T>(
        &mut self,
        work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.write_within(Some(ANSWER_TIME), work).await
    }

    /// The same for one that touches very many rows, and may take its time.
    pub async fn write_many<T>(
        &mut self,
        work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.write_within(None, work).await
    }

    async fn write_within<T>(
        &mut self,
        limit: Option<Duration>,
        mut work: impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.serial += 1;
        let serial = self.serial;
        let mark = self.writer.clone().map(|writer| Mark { writer, serial });
        // What a transaction came to whose commit broke off.
        let mut unsure: Option<T> = None;
        // Where a transaction begins and then waits in vain for the lock, its connection is left in it.
        let mut halfway = false;
        let work = async |conn: &mut PgConnection| {
            within(limit, async {
                let first = mark.as_ref().filter(|_| unsure.is_none());
                halfway = true;
                let mut transaction = begin(conn, first).await?;
                halfway = false;
                let done = transact(&mut transaction, mark.as_ref(), &mut unsure, &mut work).await;
                match done {
                    Ok(Outcome::Before(done)) => Ok(done),
                    Ok(Outcome::Now(done)) => {
                        unsure = Some(done);
                        transaction.commit().await?;
                        unsure.take().ok_or_else(|| sqlx::Error::BeginFailed.into())
                    }
                    Err(fault) => {
                        // The fault says why; where the connection broke, the server rolls back itself.
                        let _ = transaction.rollback().await;
                        Err(fault)
                    }
                }
            })
            .await
        };
        let done = self.persist(work).await;
        if halfway {
            self.conn = None;
        }
        done
    }

    /// Begins to mark transactions, with a name that nobody else has: the table of writers is there.
    pub fn mark_writes(&mut self, name: String) {
        (self.writer, self.serial) = (Some(name), 0);
    }

    /// Takes the mark of this process away, and those that killed ones left.
    async fn remove_marks(&mut self) -> Result<(), sqlx::Error> {
        let (Some(writer), Some(conn)) = (&self.writer, &mut self.conn) else { return Ok(()) };
        if self.serial > 0 {
            let sql = "DELETE FROM capstan_writers WHERE id = $1 OR at < now() - INTERVAL '7 days'";
            sql::query(sql).bind(writer).execute(&mut Conn::Postgres(conn)).await?;
        }
        Ok(())
    }

    /// Closes the connection. What was recorded is durable, whatever comes of it.
    pub async fn close(mut self) {
        let _ =
            within(Some(CONNECT_TIME), async { self.remove_marks().await.map_err(Fault::from) })
                .await;
        if let Some(conn) = self.conn.take() {
            let _ =
                within(Some(CONNECT_TIME), async { conn.close().await.map_err(Fault::from) }).await;
        }
    }

    /// Does something until the server is there for the whole of it, or was away for too long.
    async fn persist<T>(
        &mut self,
        mut attempt: impl AsyncFnMut(&mut PgConnection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut away: Option<Away> = None;
        // One that was cut is made again at once, the first time: the server may be long back.
        let mut at_once = self.conn.is_some();
        loop {
            let tried = match self.connected().await {
                Ok(conn) => attempt(conn).await,
                Err(error) => Err(error.into()),
            };
            match tried {
                Err(Fault::Sql(error)) if is_away(&error) => {
                    self.conn = None;
                    if !std::mem::take(&mut at_once) {
                        self.wait(&mut away, error).await?;
                    }
                }
                other => {
                    if away.is_some_and(|away| away.told) && self.conn.is_some() {
                        self.tell(&format!("the internal database {} is back", self.address));
                    }
                    return other;
                }
            }
        }
    }

    /// Waits a little for a server that is away. The error where it was long enough.
    async fn wait(&mut self, away: &mut Option<Away>, error: sqlx::Error) -> Result<(), Fault> {
        let patience = match (self.was_there, self.gave_up) {
            (true, false) => self.patience,
            // A server that says that it starts is there.
            (false, _) if is_starting(&error) => START_TIME,
            (false, _) => return Err(error.into()),
            (true, true) => Duration::ZERO,
        };
        let away =
            away.get_or_insert_with(|| Away { since: Instant::now(), pause: PAUSE, told: false });
        let is_leaving = || self.leaving.as_ref().is_some_and(|leaving| leaving());
        if away.since.elapsed() >= patience || is_leaving() {
            self.gave_up = true;
            let place = self.address.to_string();
            let (waited_s, source) = (away.since.elapsed().as_secs(), Box::new(error));
            return Err(IdbError::Away { place, waited_s, source }.into());
        }
        if !away.told {
            away.told = true;
            self.tell(&format!(
                "the internal database {} went away ({error}); it is waited for, at most {} s",
                self.address,
                patience.as_secs()
            ));
        }
        let end = Instant::now() + away.pause;
        while Instant::now() < end && !is_leaving() {
            tokio::time::sleep(PAUSE).await;
        }
        away.pause = (away.pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    fn tell(&self, text: &str) {
        if let Some(notice) = &self.notice {
            notice(text);
        }
    }

    async fn connected(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => {
                let connect = PgConnection::connect_with(self.address.options());
                let conn = tokio::time::timeout(CONNECT_TIME, connect).await;
                let conn = conn.unwrap_or_else(|_| Err(no_answer(CONNECT_TIME)))?;
                (self.was_there, self.gave_up) = (true, false);
                conn
            }
        };
        Ok(self.conn.insert(conn))
    }
}

/// What a transaction came to.
enum Outcome<T> {
    /// It is to be committed now.
    Now(T),
    /// It was committed before, when the connection broke.
    Before(T),
}

/// Begins a transaction that has the lock of writers; with a mark, as its first change. In one statement: each costs the
/// way to the server and back.
async fn begin<'c>(
    conn: &'c mut PgConnection,
    mark: Option<&Mark>,
) -> Result<Transaction<'c, Postgres>, sqlx::Error> {
    let begin = match mark {
        Some(mark) => format!("BEGIN; {}", mark.statement()),
        None => format!("BEGIN; SELECT 1 FROM {WRITE_LOCK} AS locked"),
    };
    conn.begin_with(AssertSqlSafe(begin)).await
}

/// Does the work of a transaction that has the lock, unless it was done before.
async fn transact<T>(
    conn: &mut PgConnection,
    mark: Option<&Mark>,
    unsure: &mut Option<T>,
    work: &mut impl AsyncFnMut(&mut Conn<'_>) -> Result<T, Fault>,
) -> Result<Outcome<T>, Fault> {
    let conn = &mut Conn::Postgres(conn);
    if unsure.is_some()
        && let Some(mark) = mark
    {
        // Behind the lock: a commit that the server is still at has it until its end.
        let sql = "SELECT id FROM capstan_writers WHERE id = $1 AND serial = $2";
        let query = sql::query(sql).bind(&mark.writer).bind(mark.serial);
        let committed = query.fetch_optional(conn).await?.is_some();
        if committed && let Some(done) = unsure.take() {
            return Ok(Outcome::Before(done));
        }
        sql::query(AssertSqlSafe(mark.statement())).execute(conn).await?;
    }
    Ok(Outcome::Now(work(conn).await?))
}

/// What a transaction leaves in the table of writers.
struct Mark {
    writer: String,
    serial: i64,
}

impl Mark {
    /// Takes the lock, and leaves the mark. The writer's name has no quotes.
    fn statement(&self) -> String {
        format!(
            "INSERT INTO capstan_writers (id, serial) SELECT '{}', {} FROM {WRITE_LOCK} AS locked \
             ON CONFLICT (id) DO UPDATE SET serial = excluded.serial, at = now()",
            self.writer, self.serial
        )
    }
}

/// Work that is given up as lost after a time.
async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let Some(limit) = limit else { return work.await };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(no_answer(limit).into()))
}

fn no_answer(limit: Duration) -> sqlx::Error {
    let text = format!("no answer for {} s", limit.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

fn code_of(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}

/// Whether the connection broke or there is none, so that another may do better.
fn is_away(error: &sqlx::Error) -> bool {
    if matches!(error, sqlx::Error::Io(_)) {
        return true;
    }
    match code_of(error).as_deref() {
        // Ended by an administrator, by a crash, by a time limit of the server; starting; too many connections.
        Some("57P01" | "57P02" | "57P03" | "57P05" | "53300") => true,
        // The tables were brought up to date by a newer program while this one runs: statements are prepared anew.
        Some("0A000") => error.to_string().contains("cached plan"),
        Some(code) => code.starts_with("08"),
        None => false,
    }
}

fn is_starting(error: &sqlx::Error) -> bool {
    code_of(error).as_deref() == Some("57P03")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_away_is_told_from_what_is_wrong() {
        assert!(is_away(&no_answer(ANSWER_TIME)));
        assert!(!is_away(&sqlx::Error::RowNotFound));
        assert!(!is_starting(&sqlx::Error::RowNotFound));
    }
}
