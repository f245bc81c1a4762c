//! What is backed up: objects and their versions.

use capstan_address::HostName;
use capstan_format::id::{ObjectId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault, Row};
use crate::error::IdbError;
use crate::rows::{Object, Status, Version};
use crate::versions::order::{self, Comes, OrderOf};
use crate::{Result, sql};

impl Idb {
    /// Records an object, or what became known of it: an empty name or host and a missing sealed
    /// name leave what is recorded.
    pub fn put_object(&self, object: &Object) -> Result<()> {
        self.write(format_args!("record object {}", object.id.short()), async |conn| {
            sql::query(
                "INSERT INTO objects (id, name, host, sealed) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (id) DO UPDATE SET \
                 name = CASE WHEN excluded.name = '' THEN objects.name ELSE excluded.name END, \
                 host = CASE WHEN excluded.host = '' THEN objects.host ELSE excluded.host END, \
                 sealed = COALESCE(excluded.sealed, objects.sealed)",
            )
            .bind(object.id.to_string())
            .bind(&object.name)
            .bind(object.host.as_str())
            .bind(object.sealed.as_deref().map(decode::bytes_in))
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// All objects, by name.
    pub fn objects(&self) -> Result<Vec<Object>> {
        self.read(format_args!("list the objects"), async |conn| {
            let query = sql::query("SELECT * FROM objects ORDER BY name, host, id");
            query.fetch_all(conn).await?.iter().map(object).collect()
        })
    }

    /// The objects with exactly this name: several hosts can have one each.
    pub fn objects_by_name(&self, name: &str) -> Result<Vec<Object>> {
        self.read(format_args!("look up object {name}"), async |conn| {
            let sql = "SELECT * FROM objects WHERE name = $1 ORDER BY host, id";
            sql::query(sql).bind(name).fetch_all(conn).await?.iter().map(object).collect()
        })
    }

    /// An object by its identity.
    pub fn object(&self, id: ObjectId) -> Result<Option<Object>> {
        self.read(format_args!("look up object {}", id.short()), async |conn| {
            let query = sql::query("SELECT * FROM objects WHERE id = $1").bind(id.to_string());
            query.fetch_optional(conn).await?.as_ref().map(object).transpose()
        })
    }

    /// Makes one object of two: what is recorded of `from` is of `into` from now on.
    pub fn join_objects(&self, from: ObjectId, into: ObjectId) -> Result<()> {
        self.write(format_args!("join object {} to {}", from.short(), into.short()), async |conn| {
            for sql in [
                "UPDATE versions SET object_id = $2 WHERE object_id = $1",
                "UPDATE sessions SET object_id = $2 WHERE object_id = $1",
                "DELETE FROM objects WHERE id = $1 AND id <> $2",
            ] {
                let query = sql::query(sql).bind(from.to_string()).bind(into.to_string());
                query.execute(&mut *conn).await?;
            }
            Ok(())
        })
    }

    /// Records that these objects were given up: of what is not backed up again nobody expects anything.
    pub fn give_up_objects(&self, objects: &[ObjectId], now_us: i64) -> Result<()> {
        self.write(format_args!("record that objects were given up"), async |conn| {
            for id in objects {
                let query = sql::query("UPDATE objects SET given_up_us = $2 WHERE id = $1");
                query.bind(id.to_string()).bind(now_us).execute(&mut *conn).await?;
            }
            Ok(())
        })
    }

    /// When an object was given up, in microseconds since 1970, if it was.
    pub fn object_given_up(&self, id: ObjectId) -> Result<Option<i64>> {
        self.read(format_args!("look up object {}", id.short()), async |conn| {
            let sql = "SELECT given_up_us FROM objects WHERE id = $1";
            let row = sql::query(sql).bind(id.to_string()).fetch_optional(conn).await?;
            Ok(row.map(|row| row.try_get("given_up_us")).transpose()?.flatten())
        })
    }

    /// The versions of an object that did not expire, newest first: in the order in which they were committed, whatever clocks
    /// said. A full comes before the version that it stands for, which has the same place.
    pub fn versions_of(&self, object: ObjectId) -> Result<Vec<Version>> {
        self.read(format_args!("look up object {}", object.short()), async |conn| {
            let sql = "SELECT * FROM versions WHERE object_id = $1 AND expired_us IS NULL \
                       ORDER BY commit_order DESC, created_us DESC, stands_for_id IS NULL, id DESC";
            let rows = sql::query(sql).bind(object.to_string()).fetch_all(conn).await?;
            rows.iter().map(version).collect()
        })
    }

    /// A version by its identity.
    pub fn version(&self, id: VersionId) -> Result<Option<Version>> {
        self.read(format_args!("look up version {}", id.short()), async |conn| {
            find_version(conn, id).await
        })
    }

    /// Records a version found on a medium. A recorded one keeps what it says: a status gives way
    /// only to one that says more, a base or key only fills a gap.
    pub fn upsert_version(&self, found: &Version) -> Result<()> {
        self.write(format_args!("record version {}", found.id.short()), async |conn| {
            let merged = match find_version(conn, found.id).await? {
                None => found.clone(),
                Some(recorded) => merge(recorded, found),
            };
            put_version(conn, &merged, Comes::Before).await
        })
    }
}

fn merge(recorded: Version, found: &Version) -> Version {
    let more = found.status.says_more_than(recorded.status);
    Version {
        status: if more { found.status } else { recorded.status },
        base: recorded.base.or(found.base),
        key: recorded.key.or(found.key),
        stands_for: recorded.stands_for.or(found.stands_for),
        ..recorded
    }
}

/// Records the version that a session begins to write, or goes on to write.
pub(crate) async fn begin_version(
    conn: &mut Conn<'_>,
    version: &Version,
) -> std::result::Result<(), Fault> {
    if let Some(base) = version.base {
        refuse_expired(conn, base).await?;
    }
    let recorded = find_version(conn, version.id).await?;
    match recorded.map(|recorded| recorded.status) {
        Some(Status::Completed | Status::CompletedWithErrors) => {
            Err(IdbError::VersionComplete { id: version.id.to_string() }.into())
        }
        Some(Status::Running | Status::Incomplete | Status::Failed) | None => {
            put_version(conn, version, Comes::Now).await
        }
    }
}

/// A version that expired since it was looked up is neither written, nor read, nor built on.
pub(crate) async fn refuse_expired(
    conn: &mut Conn<'_>,
    id: VersionId,
) -> std::result::Result<(), Fault> {
    let sql = "SELECT 1 FROM versions WHERE id = $1 AND expired_us IS NOT NULL";
    let expired = sql::query(sql).bind(id.to_string()).fetch_optional(conn).await?;
    expired.map_or(Ok(()), |_| Err(IdbError::Expired { id: id.to_string() }.into()))
}

async fn find_version(
    conn: &mut Conn<'_>,
    id: VersionId,
) -> std::result::Result<Option<Version>, Fault> {
    let query = sql::query("SELECT * FROM versions WHERE id = $1").bind(id.to_string());
    query.fetch_optional(conn).await?.as_ref().map(version).transpose()
}

/// One that is recorded already keeps its place in the order.
async fn put_version(
    conn: &mut Conn<'_>,
    version: &Version,
    comes: Comes,
) -> std::result::Result<(), Fault> {
    let place = match (comes, version.stands_for) {
        (Comes::Before, _) => 0,
        (Comes::Now, Some(of)) => order::place_of(conn, of).await?,
        (Comes::Now, None) => order::next(conn, OrderOf::Versions).await?,
    };
    sql::query(
        "INSERT INTO versions \
         (id, object_id, status, method, base_id, key_id, null_device, created_us, stands_for_id, \
         commit_order, order_known) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
         ON CONFLICT (id) DO UPDATE SET object_id = excluded.object_id, \
         status = excluded.status, method = excluded.method, base_id = excluded.base_id, \
         key_id = excluded.key_id, null_device = excluded.null_device, \
         created_us = excluded.created_us, stands_for_id = excluded.stands_for_id",
    )
    .bind(version.id.to_string())
    .bind(version.object.to_string())
    .bind(version.status.as_str())
    .bind(&version.method)
    .bind(version.base.map(|id| id.to_string()))
    .bind(version.key.map(|id| id.to_string()))
    .bind(version.null_device)
    .bind(version.created_us)
    .bind(version.stands_for.map(|id| id.to_string()))
    .bind(place)
    .bind(comes.is_known())
    .execute(conn)
    .await?;
    Ok(())
}

fn object(row: &Row) -> std::result::Result<Object, Fault> {
    Ok(Object {
        id: decode::parsed(row, "id")?,
        name: row.try_get("name")?,
        host: HostName::recorded(row.try_get::<String>("host")?),
        sealed: decode::bytes_opt(row, "sealed")?,
    })
}

pub(crate) fn version(row: &Row) -> std::result::Result<Version, Fault> {
    Ok(Version {
        id: decode::parsed(row, "id")?,
        object: decode::parsed(row, "object_id")?,
        status: decode::parsed(row, "status")?,
        method: row.try_get("method")?,
        base: decode::parsed_opt(row, "base_id")?,
        key: decode::parsed_opt(row, "key_id")?,
        null_device: row.try_get("null_device")?,
        created_us: row.try_get("created_us")?,
        stands_for: decode::parsed_opt(row, "stands_for_id")?,
    })
}
