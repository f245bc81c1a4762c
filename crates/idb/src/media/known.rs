//! Where the data lies: media, segments, what of which stream is in them; and the wrapped keys.

use std::collections::{HashMap, HashSet};

use capstan_address::Address;
use capstan_format::id::{KeyId, MediumId, SegmentId, SegmentNumber, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault, Row};
use crate::media::managed::put_pool;
use crate::media::pools::RotationSet;
use crate::rows::{KeyRecord, Medium, Segment, StreamPart};
use crate::{Result, sql};

/// How many parts of streams go into one statement.
const PARTS: usize = 64;

impl Idb {
    /// Records a medium, or what changed of it, as it is given.
    pub fn put_medium(&self, medium: &Medium) -> Result<()> {
        self.write(format_args!("record medium {}", medium.id.short()), async |conn| {
            put_medium(conn, medium).await
        })
    }

    /// Records a medium that a host has at hand, by the label that `label` chooses where all these media are known. Returns what is
    /// recorded. Hosts that share the tables take turns, so each one sees the labels that others gave.
    pub fn place_medium(
        &self,
        medium: &Medium,
        host: &str,
        label: impl Fn(&[Medium]) -> String,
    ) -> Result<Medium> {
        self.place_medium_in(medium, host, None, label)
    }

    /// The same; where a pool is named, it is in that, and in that set of it, from the begin.
    pub fn place_medium_in(
        &self,
        medium: &Medium,
        host: &str,
        pool: Option<(&str, Option<RotationSet>)>,
        label: impl Fn(&[Medium]) -> String,
    ) -> Result<Medium> {
        self.write(format_args!("record medium {}", medium.id.short()), async |conn| {
            let known = media(conn).await?;
            let before = known.iter().find(|m| m.id == medium.id && m.device == medium.device);
            let mut hosts = before.map(|m| m.hosts.clone()).unwrap_or_default();
            hosts.retain(|known| known != host);
            hosts.push(host.to_owned());
            let placed = Medium { label: label(&known), hosts, ..medium.clone() };
            put_medium(conn, &placed).await?;
            if let Some((pool, set)) = pool {
                put_pool(conn, medium.id, Some(pool), set).await?;
            }
            Ok(placed)
        })
    }

    /// All media, by label.
    pub fn media(&self) -> Result<Vec<Medium>> {
        self.read(format_args!("list the media"), async |conn| media(conn).await)
    }

    /// A medium by its identity.
    pub fn medium(&self, id: MediumId) -> Result<Option<Medium>> {
        self.read(format_args!("look up medium {}", id.short()), async |conn| {
            let query = sql::query("SELECT * FROM media WHERE id = $1").bind(id.to_string());
            query.fetch_optional(conn).await?.as_ref().map(medium).transpose()
        })
    }

    /// Records committed segments and what lies in them, in one transaction.
    ///
    /// Doing it again changes nothing, also when an import finds the same segment: a segment is
    /// never rewritten. Found on another medium (a mirror, a copy), it gets a further place.
    pub fn commit_segments(&self, segments: &[(Segment, Vec<StreamPart>)]) -> Result<()> {
        if segments.is_empty() {
            return Ok(());
        }
        self.write(format_args!("record {} segments", segments.len()), async |conn| {
            for (segment, parts) in segments {
                put_segment(conn, segment).await?;
                put_parts(conn, parts).await?;
            }
            Ok(())
        })
    }

    /// Records that a segment lies on a medium and is not whole there, where more of it is recorded already: that stays as it is.
    /// Returns whether any is.
    pub fn put_damaged_place(&self, segment: &Segment, at_us: i64) -> Result<bool> {
        let is_known = self.write(format_args!("record a segment"), async |conn| {
            let query = sql::query("SELECT bytes FROM segments WHERE id = $1");
            let row = query.bind(segment.id.to_string()).fetch_optional(&mut *conn).await?;
            let Some(row) = row else { return Ok(false) };
            put_place(conn, segment).await?;
            if decode::count::<u64>(&row, "bytes")? != segment.bytes {
                put_bytes(conn, segment.medium, segment.id, segment.bytes).await?;
            }
            Ok(true)
        })?;
        if is_known {
            self.put_damage(segment.medium, &[segment.id], at_us)?;
        }
        Ok(is_known)
    }

    /// Records that a medium was taken as it is, with so many bytes of a segment that is longer or shorter than what was written. The
    /// segment counts as damaged there, and nothing else of the medium does.
    pub fn put_bytes_of_place(
        &self,
        medium: MediumId,
        segment: SegmentId,
        bytes: u64,
        at_us: i64,
    ) -> Result<()> {
        self.write(format_args!("record segment {}", segment.short()), async |conn| {
            put_bytes(conn, medium, segment, bytes).await
        })?;
        self.set_damage(medium, &[segment], Some(at_us))
    }

    /// The segments of which a medium has more or less than what was written, and was taken so, each with its bytes there.
    pub fn bytes_of_places(&self, medium: MediumId) -> Result<HashMap<SegmentId, u64>> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let sql = "SELECT segment_id, bytes FROM segment_places \
                       WHERE medium_id = $1 AND bytes IS NOT NULL";
            let rows = sql::query(sql).bind(medium.to_string()).fetch_all(conn).await?;
            let of = |row| Ok((decode::parsed(row, "segment_id")?, decode::count(row, "bytes")?));
            rows.iter().map(of).collect()
        })
    }

    /// Whether any segment of the sessions of a version is recorded, or of one that its sessions wrote together with: each
    /// session leaves one, if only for its end.
    pub fn has_segments(&self, version: VersionId) -> Result<bool> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let row = sql::query(
                "SELECT g.id FROM segments g JOIN sessions s ON s.id = g.session_id \
                 WHERE s.version_id = $1 UNION ALL \
                 SELECT segment_id FROM stream_parts WHERE version_id = $1 LIMIT 1",
            )
            .bind(version.to_string())
            .fetch_optional(conn)
            .await?;
            Ok(row.is_some())
        })
    }

    /// The labels of the media that have something of a version, without what it builds on, in their order.
    pub fn labels_of_version(&self, version: VersionId) -> Result<Vec<String>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let sql = "SELECT DISTINCT m.label FROM stream_parts p \
                       JOIN segment_places l ON l.segment_id = p.segment_id \
                       JOIN media m ON m.id = l.medium_id \
                       WHERE p.version_id = $1 ORDER BY m.label";
            let rows = sql::query(sql).bind(version.to_string()).fetch_all(conn).await?;
            rows.iter().map(|row| Ok(row.try_get("label")?)).collect()
        })
    }

    /// Where a version's data lies: its parts by segment, in the order of the sessions that wrote them, of the media as a
    /// session came to them, and of their numbers there. A copy has the time of its original, so a medium that also has
    /// copies is not one that the session came to at their time.
    pub fn segments_of_version(
        &self,
        version: VersionId,
    ) -> Result<Vec<(Segment, Vec<StreamPart>)>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let rows = sql::query(
                "SELECT g.id, g.session_id, g.blocks, g.bytes, g.committed_us, \
                 l.medium_id, l.number, l.object, \
                 p.segment_id, p.stream_id, p.version_id, p.logical_start, p.logical_end, \
                 p.row_count \
                 FROM stream_parts p \
                 JOIN segments g ON g.id = p.segment_id \
                 JOIN segment_places l ON l.segment_id = g.id \
                 JOIN sessions s ON s.id = g.session_id \
                 LEFT JOIN segment_copies c ON c.segment_id = g.id \
                 WHERE p.version_id = $1 \
                 ORDER BY s.started_us, s.id, \
                 MIN(g.committed_us) OVER (PARTITION BY s.id, l.medium_id, c.origin_id IS NULL), \
                 l.medium_id, l.number, g.id, \
                 p.logical_start, p.stream_id",
            )
            .bind(version.to_string())
            .fetch_all(conn)
            .await?;
            let mut found: Vec<(Segment, Vec<StreamPart>)> = Vec::new();
            for row in &rows {
                let (here, part) = (segment(row)?, part(row)?);
                match found.last_mut() {
                    Some((last, parts)) if (last.id, last.medium) == (here.id, here.medium) => {
                        parts.push(part);
                    }
                    _ => found.push((here, vec![part])),
                }
            }
            Ok(found)
        })
    }

    /// The segments of those sessions of a version that wrote no data, so that all that says of them is their end: where nothing
    /// had changed since the version below. In the order of the sessions.
    pub fn ends_of_version(&self, version: VersionId) -> Result<Vec<Segment>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let rows = sql::query(
                "SELECT g.id, g.session_id, g.blocks, g.bytes, g.committed_us, \
                 l.medium_id, l.number, l.object FROM sessions s \
                 JOIN segments g ON g.session_id = s.id \
                 JOIN segment_places l ON l.segment_id = g.id \
                 WHERE s.version_id = $1 AND NOT EXISTS (SELECT 1 FROM segments o \
                 JOIN stream_parts p ON p.segment_id = o.id WHERE o.session_id = s.id) \
                 ORDER BY s.started_us, s.id, g.committed_us, l.medium_id, l.number",
            )
            .bind(version.to_string())
            .fetch_all(conn)
            .await?;
            rows.iter().map(segment).collect()
        })
    }

    /// The last segment of the sessions that were written together with one of a version and have the end of that, where none of its own
    /// says it: segments name one session of those that write them.
    pub fn end_beside(&self, version: VersionId) -> Result<Vec<Segment>> {
        self.read(format_args!("look up version {}", version.short()), async |conn| {
            let rows = sql::query(
                "SELECT g.id, g.session_id, g.blocks, g.bytes, g.committed_us, \
                 l.medium_id, l.number, l.object FROM segments g \
                 JOIN segment_places l ON l.segment_id = g.id WHERE g.id = (SELECT o.id \
                 FROM sessions s JOIN sessions b ON b.started_us = s.started_us \
                 AND b.kind = s.kind AND b.id <> s.id JOIN segments o ON o.session_id = b.id \
                 WHERE s.version_id = $1 AND s.kind IN ('backup', 'consolidate') \
                 AND NOT EXISTS (SELECT 1 FROM segments x WHERE x.session_id = s.id) \
                 AND NOT EXISTS (SELECT 1 FROM segment_copies c WHERE c.segment_id = o.id) \
                 ORDER BY o.committed_us DESC, o.id LIMIT 1) ORDER BY l.medium_id, l.number",
            )
            .bind(version.to_string())
            .fetch_all(conn)
            .await?;
            rows.iter().map(segment).collect()
        })
    }

    /// The segments on a medium, in their order.
    pub fn segments_of_medium(&self, medium: MediumId) -> Result<Vec<Segment>> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let rows = sql::query(
                "SELECT g.id, g.session_id, g.blocks, g.bytes, g.committed_us, \
                 l.medium_id, l.number, l.object \
                 FROM segment_places l JOIN segments g ON g.id = l.segment_id \
                 WHERE l.medium_id = $1 ORDER BY l.number, g.id",
            )
            .bind(medium.to_string())
            .fetch_all(conn)
            .await?;
            rows.iter().map(segment).collect()
        })
    }

    /// The last segments on a medium, the last first, at most so many.
    pub fn last_segments_of_medium(&self, medium: MediumId, most: u32) -> Result<Vec<Segment>> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let rows = sql::query(
                "SELECT g.id, g.session_id, g.blocks, g.bytes, g.committed_us, \
                 l.medium_id, l.number, l.object \
                 FROM segment_places l JOIN segments g ON g.id = l.segment_id \
                 WHERE l.medium_id = $1 ORDER BY l.number DESC, g.id LIMIT $2",
            )
            .bind(medium.to_string())
            .bind(i64::from(most))
            .fetch_all(conn)
            .await?;
            rows.iter().map(segment).collect()
        })
    }

    /// The number of the last segment recorded for a medium. From there the medium is read on:
    /// where to append is never decided by the database.
    pub fn last_segment_number(&self, medium: MediumId) -> Result<Option<SegmentNumber>> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let sql = "SELECT number FROM segment_places WHERE medium_id = $1 \
                       ORDER BY number DESC LIMIT 1";
            let row = sql::query(sql).bind(medium.to_string()).fetch_optional(conn).await?;
            row.map(|row| decode::count(&row, "number").map(SegmentNumber)).transpose()
        })
    }

    /// Records wrapped keys, replacing a former record, as after a change of the passphrase.
    pub fn put_key(&self, key: &KeyRecord) -> Result<()> {
        let sql = "INSERT INTO wrapped_keys (id, record) VALUES ($1, $2) \
                   ON CONFLICT (id) DO UPDATE SET record = excluded.record";
        self.insert_key(sql, key)
    }

    /// Records wrapped keys found on a medium, unless the key is known: what the medium has may be
    /// wrapped with an older passphrase.
    pub fn import_key(&self, key: &KeyRecord) -> Result<()> {
        let sql =
            "INSERT INTO wrapped_keys (id, record) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
        self.insert_key(sql, key)
    }

    fn insert_key(&self, sql: &'static str, key: &KeyRecord) -> Result<()> {
        self.write(format_args!("record key {}", key.id.short()), async |conn| {
            sql::query(sql).bind(key.id.to_string()).bind(&key.record).execute(conn).await?;
            Ok(())
        })
    }

    /// Media that have encrypted data, with when the last session began whose key ring is there: a copy has at least that of what it was
    /// made from. A tape that its drive encrypts has the ring of when it was made.
    pub fn encrypted_media(&self) -> Result<Vec<(MediumId, i64)>> {
        self.read(format_args!("look for encrypted media"), async |conn| {
            let rows = sql::query(
                "SELECT l.medium_id AS medium_id, MAX(s.started_us) AS last_us \
                 FROM segment_places l JOIN segments g ON g.id = l.segment_id \
                 JOIN sessions s ON s.id = g.session_id JOIN versions v ON v.id = s.version_id \
                 WHERE v.key_id IS NOT NULL GROUP BY l.medium_id \
                 UNION ALL SELECT m.id AS medium_id, m.created_us AS last_us \
                 FROM media m JOIN wrapped_keys k ON k.id = m.id",
            )
            .fetch_all(conn)
            .await?;
            let of = |row: &Row| Ok((decode::parsed(row, "medium_id")?, row.try_get("last_us")?));
            rows.iter().map(of).collect()
        })
    }

    /// Wrapped keys by their identity.
    pub fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        self.read(format_args!("look up key {}", id.short()), async |conn| {
            let sql = "SELECT id, record FROM wrapped_keys WHERE id = $1";
            let row = sql::query(sql).bind(id.to_string()).fetch_optional(conn).await?;
            let record = |row: &Row| {
                Ok(KeyRecord { id: decode::parsed(row, "id")?, record: row.try_get("record")? })
            };
            row.as_ref().map(record).transpose()
        })
    }

    /// All wrapped keys, by identity.
    pub fn keys(&self) -> Result<Vec<KeyRecord>> {
        self.read(format_args!("list the keys"), async |conn| {
            let query = sql::query("SELECT id, record FROM wrapped_keys ORDER BY id");
            let record = |row: &Row| {
                Ok(KeyRecord { id: decode::parsed(row, "id")?, record: row.try_get("record")? })
            };
            query.fetch_all(conn).await?.iter().map(record).collect()
        })
    }
}

async fn media(conn: &mut Conn<'_>) -> std::result::Result<Vec<Medium>, Fault> {
    let query = sql::query("SELECT * FROM media ORDER BY label, id");
    query.fetch_all(conn).await?.iter().map(medium).collect()
}

async fn put_medium(conn: &mut Conn<'_>, medium: &Medium) -> std::result::Result<(), Fault> {
    sql::query(
        "INSERT INTO media (id, label, device, block_size, created_us, hosts) \
         VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (id) DO UPDATE SET label = excluded.label, device = excluded.device, \
         block_size = excluded.block_size, created_us = excluded.created_us, hosts = excluded.hosts",
    )
    .bind(medium.id.to_string())
    .bind(&medium.label)
    .bind(medium.device.to_string())
    .bind(i64::from(medium.block_size))
    .bind(medium.created_us)
    .bind(decode::texts_in("hosts", &medium.hosts)?)
    .execute(conn)
    .await?;
    Ok(())
}

async fn put_segment(conn: &mut Conn<'_>, segment: &Segment) -> std::result::Result<(), Fault> {
    let id = segment.id.to_string();
    // committed_us stays: an import knows only when it found the segment.
    sql::query(
        "INSERT INTO segments (id, session_id, blocks, bytes, committed_us) \
         VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (id) DO UPDATE SET session_id = excluded.session_id, \
         blocks = excluded.blocks, bytes = excluded.bytes",
    )
    .bind(&id)
    .bind(segment.session.to_string())
    .bind(i64::from(segment.blocks))
    .bind(decode::count_in("bytes", segment.bytes)?)
    .bind(segment.committed_us)
    .execute(&mut *conn)
    .await?;
    put_place(conn, segment).await
}

async fn put_place(conn: &mut Conn<'_>, segment: &Segment) -> std::result::Result<(), Fault> {
    sql::query(
        "INSERT INTO segment_places (segment_id, medium_id, number, object) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (segment_id, medium_id) DO UPDATE SET number = excluded.number, \
         object = CASE WHEN excluded.object IS NULL AND excluded.number = segment_places.number \
         THEN segment_places.object ELSE excluded.object END, \
         damaged_us = CASE WHEN excluded.number = segment_places.number AND segment_places.bytes IS NULL \
         THEN segment_places.damaged_us END, bytes = NULL",
    )
    .bind(segment.id.to_string())
    .bind(segment.medium.to_string())
    .bind(i64::from(segment.number.0))
    .bind(segment.object.map(|n| decode::count_in("object", n)).transpose()?)
    .execute(conn)
    .await?;
    Ok(())
}

async fn put_bytes(
    conn: &mut Conn<'_>,
    medium: MediumId,
    segment: SegmentId,
    bytes: u64,
) -> std::result::Result<(), Fault> {
    let sql = "UPDATE segment_places SET bytes = $3 WHERE segment_id = $1 AND medium_id = $2";
    let query = sql::query(sql).bind(segment.to_string()).bind(medium.to_string());
    query.bind(decode::count_in("bytes", bytes)?).execute(conn).await?;
    Ok(())
}

async fn put_parts(
    conn: &mut Conn<'_>,
    mut parts: &[StreamPart],
) -> std::result::Result<(), Fault> {
    while !parts.is_empty() {
        // No statement has a row twice: PostgreSQL refuses that.
        let mut seen = HashSet::new();
        let new = |part: &&StreamPart| seen.insert((part.segment, part.stream, part.version));
        let (now, later) = parts.split_at(parts.iter().take(PARTS).take_while(new).count());
        let mut query = sql::Builder::new(
            "INSERT INTO stream_parts \
             (segment_id, stream_id, version_id, logical_start, logical_end, row_count) VALUES ",
        );
        for (n, part) in now.iter().enumerate() {
            let ids = [part.segment.to_string(), part.stream.to_string(), part.version.to_string()];
            query.push(if n == 0 { "(" } else { ", (" }).push_list(ids);
            for (column, value) in [
                ("logical_start", part.logical_start),
                ("logical_end", part.logical_end),
                ("row_count", part.rows),
            ] {
                query.push(", ").push_bind(decode::count_in(column, value)?);
            }
            query.push(")");
        }
        // An import without the key cannot count rows and says 0: a known count stays.
        query.push(
            " ON CONFLICT (segment_id, stream_id, version_id) DO UPDATE SET \
             logical_start = excluded.logical_start, logical_end = excluded.logical_end, \
             row_count = CASE WHEN excluded.row_count > stream_parts.row_count \
             THEN excluded.row_count ELSE stream_parts.row_count END",
        );
        query.build().execute(conn).await?;
        parts = later;
    }
    Ok(())
}

fn medium(row: &Row) -> std::result::Result<Medium, Fault> {
    Ok(Medium {
        id: decode::parsed(row, "id")?,
        label: row.try_get("label")?,
        device: Address::of_record(row.try_get("device")?),
        block_size: decode::count(row, "block_size")?,
        created_us: row.try_get("created_us")?,
        hosts: decode::texts_opt(row, "hosts")?,
    })
}

fn segment(row: &Row) -> std::result::Result<Segment, Fault> {
    Ok(Segment {
        id: decode::parsed(row, "id")?,
        medium: decode::parsed(row, "medium_id")?,
        number: SegmentNumber(decode::count(row, "number")?),
        object: decode::count_opt(row, "object")?,
        session: decode::parsed(row, "session_id")?,
        blocks: decode::count(row, "blocks")?,
        bytes: decode::count(row, "bytes")?,
        committed_us: row.try_get("committed_us")?,
    })
}

fn part(row: &Row) -> std::result::Result<StreamPart, Fault> {
    Ok(StreamPart {
        segment: decode::parsed(row, "segment_id")?,
        stream: decode::parsed(row, "stream_id")?,
        version: decode::parsed(row, "version_id")?,
        logical_start: decode::count(row, "logical_start")?,
        logical_end: decode::count(row, "logical_end")?,
        rows: decode::count(row, "row_count")?,
    })
}
