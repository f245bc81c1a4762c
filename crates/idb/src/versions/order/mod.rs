//! What is newer: the order in which versions were committed and sessions begun. A clock alone never decides it.
//!
//! What this database sees happen gets its place then. What is found on media gets one when the import is done: after what it builds
//! on, in the order of its medium, and only then by time.

mod arrange;

use std::collections::HashMap;

use capstan_format::id::{MediumId, SessionId, VersionId};

use self::arrange::Things;
pub use self::arrange::credible;
use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::rows::Status;
use crate::{Result, sql};

/// Where something that is recorded comes in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comes {
    /// Now: behind all that there is.
    Now,
    /// It was found on a medium; its place is looked for when all is known of it.
    Before,
}

impl Comes {
    pub(crate) fn is_known(self) -> bool {
        self == Self::Now
    }
}

/// The place of what is committed or begun now: behind all.
pub(crate) async fn next(conn: &mut Conn<'_>, of: OrderOf) -> std::result::Result<i64, Fault> {
    let row = sql::query(of.next()).fetch_one(conn).await?;
    Ok(row.try_get("next")?)
}

/// The place of a synthetic full: that of the version whose state it has, or behind all where that is not recorded.
pub(crate) async fn place_of(
    conn: &mut Conn<'_>,
    state: VersionId,
) -> std::result::Result<i64, Fault> {
    let query = sql::query("SELECT commit_order FROM versions WHERE id = $1");
    match query.bind(state.to_string()).fetch_optional(&mut *conn).await? {
        Some(row) => Ok(row.try_get("commit_order")?),
        None => next(conn, OrderOf::Versions).await,
    }
}

/// What has an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderOf {
    Versions,
    Sessions,
}

impl OrderOf {
    const fn next(self) -> &'static str {
        match self {
            Self::Versions => "SELECT COALESCE(MAX(commit_order), 0) + 1 AS next FROM versions",
            Self::Sessions => "SELECT COALESCE(MAX(begin_order), 0) + 1 AS next FROM sessions",
        }
    }

    const fn put(self) -> &'static str {
        match self {
            Self::Versions => "UPDATE versions SET commit_order = $2 WHERE id = $1",
            Self::Sessions => "UPDATE sessions SET begin_order = $2 WHERE id = $1",
        }
    }
}

/// A version that is complete now is the newest, whenever it was begun. A synthetic full stays where the state is that it has.
pub(crate) async fn committed(
    conn: &mut Conn<'_>,
    session: SessionId,
    status: Status,
) -> std::result::Result<(), Fault> {
    if !matches!(status, Status::Completed | Status::CompletedWithErrors) {
        return Ok(());
    }
    let last = next(conn, OrderOf::Versions).await?;
    let sql = "UPDATE versions SET commit_order = $2, order_known = TRUE \
               WHERE id = (SELECT version_id FROM sessions WHERE id = $1) \
               AND commit_order < $3 AND stands_for_id IS NULL";
    let query = sql::query(sql).bind(session.to_string()).bind(last);
    query.bind(last.saturating_sub(1)).execute(conn).await?;
    Ok(())
}

/// A row that has an order.
struct Ordered {
    id: String,
    place: i64,
    is_known: bool,
}

impl Idb {
    /// The places of all versions in the order of their commits: the greater, the newer.
    pub fn commit_orders(&self) -> Result<HashMap<VersionId, i64>> {
        self.read(format_args!("list the versions"), async |conn| {
            let rows = sql::query("SELECT id, commit_order FROM versions").fetch_all(conn).await?;
            let of = |row| Ok((decode::parsed(row, "id")?, row.try_get("commit_order")?));
            rows.iter().map(of).collect()
        })
    }

    /// Gives what was found on media its place, by all that is known now. `now_us`: no clock said truly that it was later.
    pub fn order_found(&self, now_us: i64) -> Result<()> {
        let found = self.read(format_args!("look for what was imported"), async |conn| {
            let sql = "SELECT 1 FROM versions WHERE NOT order_known UNION ALL \
                       SELECT 1 FROM sessions WHERE NOT order_known LIMIT 1";
            Ok(sql::query(sql).fetch_optional(conn).await?.is_some())
        })?;
        if !found {
            return Ok(());
        }
        self.write_many(format_args!("put what was imported in order"), async |conn| {
            order_versions(conn, now_us).await?;
            order_sessions(conn, now_us).await
        })
    }

    /// The same where anything has no place at all: so it is after the schema got an order, and after an import that was killed.
    pub fn order_what_has_none(&self, now_us: i64) -> Result<()> {
        let found =
            self.read(format_args!("look for what has no place in the order"), async |conn| {
                let sql = "SELECT 1 FROM versions WHERE commit_order = 0 UNION ALL \
                       SELECT 1 FROM sessions WHERE begin_order = 0 LIMIT 1";
                Ok(sql::query(sql).fetch_optional(conn).await?.is_some())
            })?;
        if found { self.order_found(now_us) } else { Ok(()) }
    }
}

async fn order_versions(conn: &mut Conn<'_>, now_us: i64) -> std::result::Result<(), Fault> {
    let sql = "SELECT id, base_id, stands_for_id, created_us, commit_order, order_known FROM versions \
               ORDER BY created_us, id";
    let rows = sql::query(sql).fetch_all(&mut *conn).await?;
    let mut known: Vec<Ordered> = Vec::with_capacity(rows.len());
    let mut index: HashMap<VersionId, usize> = HashMap::new();
    for row in &rows {
        index.insert(decode::parsed(row, "id")?, known.len());
        known.push(Ordered {
            id: row.try_get("id")?,
            place: row.try_get("commit_order")?,
            is_known: row.try_get("order_known")?,
        });
    }
    let mut things = Things { now_us, ..Things::default() };
    let mut stands_for: Vec<Option<usize>> = Vec::with_capacity(rows.len());
    let mut in_place_of: HashMap<VersionId, usize> = HashMap::new();
    let mut is_synthetic = vec![false; rows.len()];
    for (i, row) in rows.iter().enumerate() {
        things.times.push(row.try_get("created_us")?);
        let of: Option<VersionId> = decode::parsed_opt(row, "stands_for_id")?;
        is_synthetic[i] = of.is_some();
        if let Some(of) = of {
            in_place_of.entry(of).or_insert(i);
        }
        stands_for.push(of.and_then(|of| index.get(&of).copied()).filter(|at| *at != i));
    }
    for (i, row) in rows.iter().enumerate() {
        let base: Option<VersionId> = decode::parsed_opt(row, "base_id")?;
        let of = base.and_then(|base| index.get(&base).or_else(|| in_place_of.get(&base)).copied());
        things.built_on.extend(of.map(|base| (state_of(base, &stands_for), i)));
    }
    // A synthetic full is written long after the state that it has.
    for (_, versions) in versions_on_media(conn).await? {
        let chain = versions.iter().filter_map(|id| index.get(id).copied());
        things.chains.push(chain.filter(|i| !is_synthetic[*i]).collect());
    }
    let seen = |i: &usize| known[*i].is_known && stands_for[*i].is_none();
    let mut seen: Vec<usize> = (0..known.len()).filter(seen).collect();
    seen.sort_by_key(|i| known[*i].place);
    things.chains.push(seen);
    let mut places = vec![0i64; known.len()];
    let own = things.arrange();
    let own = own.into_iter().filter(|i| stands_for[*i].is_none());
    for (place, i) in (1i64..).zip(own) {
        places[i] = place;
    }
    for i in 0..known.len() {
        places[i] = places[state_of(i, &stands_for)];
    }
    put(conn, OrderOf::Versions, &known, &places).await
}

/// The version whose state a synthetic full has, where that is recorded: its own index where not.
fn state_of(version: usize, stands_for: &[Option<usize>]) -> usize {
    let states = std::iter::successors(Some(version), |i| stands_for[*i]);
    // A circle has no begin: any of it will do.
    states.take(stands_for.len() + 1).last().unwrap_or(version)
}

/// The versions that have something on each medium but copies, in the order in which they ended there.
async fn versions_on_media(
    conn: &mut Conn<'_>,
) -> std::result::Result<HashMap<MediumId, Vec<VersionId>>, Fault> {
    let rows = sql::query(
        "SELECT u.version_id, l.medium_id, MAX(l.number) AS last_number \
         FROM (SELECT segment_id, version_id FROM stream_parts \
         UNION SELECT g.id, s.version_id FROM segments g \
         JOIN sessions s ON s.id = g.session_id WHERE s.version_id IS NOT NULL) u \
         JOIN segment_places l ON l.segment_id = u.segment_id \
         LEFT JOIN segment_copies c ON c.segment_id = u.segment_id \
         WHERE c.segment_id IS NULL GROUP BY u.version_id, l.medium_id \
         ORDER BY l.medium_id, last_number, u.version_id",
    )
    .fetch_all(conn)
    .await?;
    let mut found: HashMap<MediumId, Vec<VersionId>> = HashMap::new();
    for row in &rows {
        let of = found.entry(decode::parsed(row, "medium_id")?).or_default();
        of.push(decode::parsed(row, "version_id")?);
    }
    Ok(found)
}

/// Sessions that wrote versions come as those do.
async fn order_sessions(conn: &mut Conn<'_>, now_us: i64) -> std::result::Result<(), Fault> {
    let sql = "SELECT s.id, s.kind, s.parent_id, s.started_us, s.begin_order, s.order_known, \
               COALESCE(v.commit_order, 0) AS of_version FROM sessions s \
               LEFT JOIN versions v ON v.id = s.version_id ORDER BY s.started_us, s.id";
    let rows = sql::query(sql).fetch_all(&mut *conn).await?;
    let mut known: Vec<Ordered> = Vec::with_capacity(rows.len());
    let mut index: HashMap<SessionId, usize> = HashMap::new();
    let mut things = Things { now_us, ..Things::default() };
    let mut writers: Vec<(i64, usize)> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        index.insert(decode::parsed(row, "id")?, i);
        known.push(Ordered {
            id: row.try_get("id")?,
            place: row.try_get("begin_order")?,
            is_known: row.try_get("order_known")?,
        });
        things.times.push(row.try_get("started_us")?);
        let (kind, of): (String, i64) = (row.try_get("kind")?, row.try_get("of_version")?);
        // When a consolidation was, the version does not say.
        if kind == "backup" && of > 0 {
            writers.push((of, i));
        }
    }
    for (i, row) in rows.iter().enumerate() {
        let parent: Option<SessionId> = decode::parsed_opt(row, "parent_id")?;
        let parent = parent.and_then(|id| index.get(&id).copied());
        things.built_on.extend(parent.map(|parent| (parent, i)));
    }
    let mut seen: Vec<usize> = (0..known.len()).filter(|i| known[*i].is_known).collect();
    seen.sort_by_key(|i| known[*i].place);
    things.chains.push(seen);
    // Of what was seen to happen, versions say no more.
    if !writers.iter().all(|(_, i)| known[*i].is_known) {
        writers.sort_unstable();
        things.chains.push(writers.into_iter().map(|(_, i)| i).collect());
    }
    let mut places = vec![0i64; known.len()];
    for (place, i) in (1i64..).zip(things.arrange()) {
        places[i] = place;
    }
    put(conn, OrderOf::Sessions, &known, &places).await
}

async fn put(
    conn: &mut Conn<'_>,
    of: OrderOf,
    known: &[Ordered],
    places: &[i64],
) -> std::result::Result<(), Fault> {
    for (row, place) in known.iter().zip(places).filter(|(row, place)| row.place != **place) {
        sql::query(of.put()).bind(&row.id).bind(*place).execute(&mut *conn).await?;
    }
    Ok(())
}
