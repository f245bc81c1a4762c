//! Whether the rows agree with each other, and how large everything is.

use capstan_format::id::{KeyId, SegmentId, SessionId, VersionId};

use crate::db::Idb;
use crate::versions::leases::is_given_up;
use crate::{Result, decode, sql};

/// A row that refers to what is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dangling {
    /// The database itself is damaged; what it says of itself.
    Database(String),
    /// A version builds on one that is not recorded.
    Base(VersionId, VersionId),
    /// A version is encrypted with keys that are not recorded.
    Key(VersionId, KeyId),
    /// A complete version has nothing on any medium.
    NoSegment(VersionId),
    /// A segment lies on no medium.
    NoPlace(SegmentId),
    /// A session goes on with one that is not recorded.
    Parent(SessionId, SessionId),
}

/// How many bytes and files the database has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of the tables.
    pub tables: u64,
    /// Catalog files.
    pub catalogs: u64,
    /// Their bytes.
    pub catalog_bytes: u64,
}

impl Idb {
    /// What is wrong with the tables' pages, and if that is to be thorough, with what indexes have of their tables: nothing where they
    /// are sound. On a file the former takes 1 ms of a processor for each MB, the latter 12; a server sees to its own.
    pub fn page_damage(&self, thorough: bool) -> Result<Vec<String>> {
        if self.is_on_server() { Ok(Vec::new()) } else { self.damage(thorough) }
    }

    /// The bytes of the tables.
    pub fn table_bytes(&self) -> Result<u64> {
        self.size()
    }

    /// The rows that refer to what is not there; of what was given up that is nobody's harm.
    pub fn dangling(&self) -> Result<Vec<Dangling>> {
        let damage: Vec<Dangling> =
            self.damage(true)?.into_iter().map(Dangling::Database).collect();
        self.read(format_args!("check the references of rows"), async |conn| {
            let mut found = damage.clone();
            let sql = "SELECT v.id, v.base_id FROM versions v WHERE v.base_id IS NOT NULL \
                       AND NOT EXISTS (SELECT 1 FROM versions b WHERE b.id = v.base_id)";
            for row in sql::query(sql).fetch_all(&mut *conn).await? {
                let (id, base) = (decode::parsed(&row, "id")?, decode::parsed(&row, "base_id")?);
                if !is_given_up(conn, id).await? {
                    found.push(Dangling::Base(id, base));
                }
            }
            let sql = "SELECT v.id, v.key_id FROM versions v WHERE v.key_id IS NOT NULL \
                       AND NOT EXISTS (SELECT 1 FROM wrapped_keys k WHERE k.id = v.key_id)";
            for row in sql::query(sql).fetch_all(&mut *conn).await? {
                let key = decode::parsed(&row, "key_id")?;
                found.push(Dangling::Key(decode::parsed(&row, "id")?, key));
            }
            // An incremental of which nothing changed has nothing of its own, nor has what was made of nothing.
            let sql = "SELECT v.id FROM versions v WHERE NOT v.null_device \
                       AND v.base_id IS NULL AND v.status IN ('completed', 'completed_with_errors') AND NOT EXISTS \
                       (SELECT 1 FROM stream_parts p JOIN segment_places l \
                       ON l.segment_id = p.segment_id WHERE p.version_id = v.id) \
                       AND COALESCE((SELECT MAX(s.files + s.dirs) FROM sessions s WHERE s.version_id = v.id), 1) > 0";
            for row in sql::query(sql).fetch_all(&mut *conn).await? {
                let id = decode::parsed(&row, "id")?;
                if !is_given_up(conn, id).await? {
                    found.push(Dangling::NoSegment(id));
                }
            }
            let sql = "SELECT g.id FROM segments g WHERE NOT EXISTS \
                       (SELECT 1 FROM segment_places l WHERE l.segment_id = g.id)";
            for row in sql::query(sql).fetch_all(&mut *conn).await? {
                found.push(Dangling::NoPlace(decode::parsed(&row, "id")?));
            }
            // Only who went on with a backup needs what it went on with. Of others, and of versions that are gone, it is history,
            // which ends some day.
            let sql = "SELECT s.id, s.parent_id FROM sessions s \
                       JOIN versions v ON v.id = s.version_id WHERE s.parent_id IS NOT NULL \
                       AND s.kind = 'backup' AND v.expired_us IS NULL AND NOT EXISTS (SELECT 1 FROM sessions p WHERE p.id = s.parent_id)";
            for row in sql::query(sql).fetch_all(&mut *conn).await? {
                let parent = decode::parsed(&row, "parent_id")?;
                found.push(Dangling::Parent(decode::parsed(&row, "id")?, parent));
            }
            Ok(found)
        })
    }

    /// The bytes of the tables and of the catalog files.
    pub fn sizes(&self) -> Result<Sizes> {
        let mut sizes = Sizes { tables: self.size()?, ..Sizes::default() };
        self.each_catalog(&mut |len| {
            sizes.catalogs += 1;
            sizes.catalog_bytes += len;
        })?;
        Ok(sizes)
    }

    /// All segments, some at a time, in the order of their identity: those after `after`.
    pub fn segments_after(&self, after: Option<SegmentId>, limit: u32) -> Result<Vec<SegmentId>> {
        self.read(format_args!("list the segments"), async |conn| {
            let sql = "SELECT id FROM segments WHERE id > $1 ORDER BY id LIMIT $2";
            let after = after.map(|id| id.to_string()).unwrap_or_default();
            let rows = sql::query(sql).bind(after).bind(i64::from(limit)).fetch_all(conn).await?;
            rows.iter().map(|row| decode::parsed(row, "id")).collect()
        })
    }

    /// The session that wrote a segment, and the version that it wrote.
    pub fn version_of_segment(&self, segment: SegmentId) -> Result<Option<(VersionId, SessionId)>> {
        self.read(format_args!("look up segment {}", segment.short()), async |conn| {
            let sql = "SELECT s.version_id, g.session_id FROM segments g \
                       JOIN sessions s ON s.id = g.session_id \
                       WHERE g.id = $1 AND s.version_id IS NOT NULL";
            let row = sql::query(sql).bind(segment.to_string()).fetch_optional(conn).await?;
            row.map(|row| {
                Ok((decode::parsed(&row, "version_id")?, decode::parsed(&row, "session_id")?))
            })
            .transpose()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_what_they_refer_to_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let idb = Idb::open(dir.path()).unwrap();
        assert_eq!(idb.dangling().unwrap(), []);
        let id = |n: u8| format!("{n:032x}");
        let statements = [
            format!("INSERT INTO objects (id, name, host) VALUES ('{}', 'o', 'h')", id(1)),
            format!(
                "INSERT INTO versions (id, object_id, status, method, base_id, key_id, null_device, created_us) \
                 VALUES ('{}', '{}', 'completed', 'incr', '{}', '{}', FALSE, 1)",
                id(2),
                id(1),
                id(3),
                id(4)
            ),
            format!(
                "INSERT INTO versions (id, object_id, status, method, null_device, created_us) \
                 VALUES ('{}', '{}', 'completed', 'full', FALSE, 1)",
                id(8),
                id(1)
            ),
            format!(
                "INSERT INTO sessions (id, kind, object_id, version_id, parent_id, status, host, device, started_us, \
                 files, dirs, bytes_read, bytes_written, tags, pid, boot_id) VALUES \
                 ('{}', 'backup', '{}', '{}', '{}', 'completed', 'h', 'd', 1, 0, 0, 0, 0, '[]', 1, 'b')",
                id(5),
                id(1),
                id(2),
                id(6)
            ),
            format!(
                "INSERT INTO segments (id, session_id, blocks, bytes, committed_us) VALUES ('{}', '{}', 1, 1, 1)",
                id(7),
                id(5)
            ),
        ];
        idb.write(format_args!("edit"), async |conn| {
            for sql in &statements {
                sql::query(sqlx::AssertSqlSafe(sql.as_str())).execute(&mut *conn).await?;
            }
            Ok(())
        })
        .unwrap();
        let nth = |n: u8| u128::from(n).to_be_bytes();
        assert_eq!(
            idb.dangling().unwrap(),
            [
                Dangling::Base(VersionId(nth(2)), VersionId(nth(3))),
                Dangling::Key(VersionId(nth(2)), KeyId(nth(4))),
                Dangling::NoSegment(VersionId(nth(8))),
                Dangling::NoPlace(SegmentId(nth(7))),
                Dangling::Parent(SessionId(nth(5)), SessionId(nth(6))),
            ]
        );
        assert_eq!(idb.segments_after(None, 9).unwrap(), [SegmentId(nth(7))]);
        assert_eq!(idb.segments_after(Some(SegmentId(nth(7))), 9).unwrap(), []);
        assert!(idb.sizes().unwrap().tables > 0);
    }
}
