//! Forgetting what is given up: a recycled medium's segments, and the versions that cannot do without them.

use capstan_format::id::{MediumId, SegmentId, VersionId};

use crate::Result;
use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::leases;
use crate::lost::put_lost;
use crate::management::ensure;
use crate::rows::Medium;
use crate::sql;

impl Idb {
    /// Forgets what lies on a medium: its segments' places, segments that have no other place, and `versions`, which need
    /// what is forgotten. Refused while somebody reads anything of it. Sessions stay for the record. All in one transaction; catalog files go after it.
    pub fn forget_medium_contents(&self, medium: MediumId, versions: &[VersionId]) -> Result<()> {
        let what = format_args!("forget what is on medium {}", medium.short());
        let gone = self.write(what, async |conn| {
            leases::refuse_read(conn, medium).await?;
            ensure(conn, medium).await?;
            let sql = "UPDATE media_management SET passes = passes + \
                       (SELECT COUNT(DISTINCT g.session_id) FROM segment_places l \
                       JOIN segments g ON g.id = l.segment_id WHERE l.medium_id = $1) \
                       WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).execute(&mut *conn).await?;
            let sql = "SELECT segment_id FROM segment_places l WHERE medium_id = $1 AND NOT EXISTS \
                       (SELECT 1 FROM segment_places o \
                       WHERE o.segment_id = l.segment_id AND o.medium_id <> $1)";
            let rows = sql::query(sql).bind(medium.to_string()).fetch_all(&mut *conn).await?;
            let gone: std::result::Result<Vec<SegmentId>, Fault> =
                rows.iter().map(|row| decode::parsed(row, "segment_id")).collect();
            let gone = gone?;
            for version in versions {
                forget_version(conn, *version).await?;
            }
            let sql = "DELETE FROM segment_places WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).execute(&mut *conn).await?;
            for segment in &gone {
                forget_segment(conn, *segment).await?;
            }
            Ok(gone)
        })?;
        gone.into_iter().try_for_each(|segment| self.remove_catalog(segment).map(drop))
    }

    /// Forgets that these segments lie on a medium, where they are not any more, and `versions`, of which nothing else is known. Of
    /// those in `torn` it notes which segment they lack from now on. A segment that has no other place goes with its catalog.
    /// Sessions stay for the record.
    pub fn forget_segments_of_medium(
        &self,
        medium: MediumId,
        segments: &[SegmentId],
        versions: &[VersionId],
        torn: &[(SegmentId, VersionId)],
        now_us: i64,
    ) -> Result<()> {
        let what = format_args!("forget what medium {} has lost", medium.short());
        let gone = self.write(what, async |conn| {
            for version in versions {
                forget_version(conn, *version).await?;
            }
            for of in torn {
                put_lost(conn, medium, *of, now_us).await?;
            }
            let mut gone = Vec::new();
            for segment in segments {
                let id = segment.to_string();
                let sql = "DELETE FROM segment_places WHERE segment_id = $1 AND medium_id = $2";
                let query = sql::query(sql).bind(&id).bind(medium.to_string());
                query.execute(&mut *conn).await?;
                let sql = "SELECT segment_id FROM segment_places WHERE segment_id = $1 LIMIT 1";
                if sql::query(sql).bind(&id).fetch_optional(&mut *conn).await?.is_none() {
                    forget_segment(conn, *segment).await?;
                    gone.push(*segment);
                }
            }
            Ok(gone)
        })?;
        gone.into_iter().try_for_each(|segment| self.remove_catalog(segment).map(drop))
    }

    /// Records that a medium has a new identity: it was recycled. Pool and history stay with it.
    pub fn replace_medium(&self, old: MediumId, new: &Medium) -> Result<()> {
        self.write(format_args!("record medium {}", new.id.short()), async |conn| {
            let (old, id) = (old.to_string(), new.id.to_string());
            sql::query(
                "INSERT INTO media (id, label, device, block_size, created_us, hosts) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING",
            )
            .bind(&id)
            .bind(&new.label)
            .bind(&new.device)
            .bind(i64::from(new.block_size))
            .bind(new.created_us)
            .bind(decode::texts_in("hosts", &new.hosts)?)
            .execute(&mut *conn)
            .await?;
            let moved = "UPDATE media_management SET medium_id = $2, damaged_us = NULL, \
                         full_us = NULL, other_cell = NULL, adopted_us = NULL, changed_us = NULL, \
                         changed_why = NULL WHERE medium_id = $1";
            sql::query(moved).bind(&old).bind(&id).execute(&mut *conn).await?;
            let sql = "DELETE FROM media WHERE id = $1";
            sql::query(sql).bind(&old).execute(conn).await?;
            Ok(())
        })
    }

    /// Forgets a medium that holds nothing, with its pool and history: it was erased.
    pub fn remove_medium(&self, medium: MediumId) -> Result<()> {
        self.write(format_args!("forget medium {}", medium.short()), async |conn| {
            let id = medium.to_string();
            let sql = "DELETE FROM media_management WHERE medium_id = $1";
            sql::query(sql).bind(&id).execute(&mut *conn).await?;
            let sql = "DELETE FROM media WHERE id = $1";
            sql::query(sql).bind(&id).execute(conn).await?;
            Ok(())
        })
    }

    /// The versions of which something lies on this medium and nowhere else, neither itself nor as a copy.
    pub fn versions_only_on_medium(&self, medium: MediumId) -> Result<Vec<VersionId>> {
        self.read(format_args!("look up medium {}", medium.short()), async |conn| {
            let rows = sql::query(
                "SELECT DISTINCT p.version_id FROM stream_parts p \
                 JOIN segment_places l ON l.segment_id = p.segment_id \
                 LEFT JOIN segment_copies c ON c.segment_id = l.segment_id \
                 WHERE l.medium_id = $1 \
                 AND NOT EXISTS (SELECT 1 FROM segment_places o \
                 WHERE o.segment_id = l.segment_id AND o.medium_id <> $1) \
                 AND NOT EXISTS (SELECT 1 FROM segment_places o \
                 WHERE o.segment_id = c.origin_id AND o.medium_id <> $1) \
                 AND COALESCE(c.origin_id, l.segment_id) NOT IN (SELECT k.origin_id \
                 FROM segment_copies k JOIN segment_places o ON o.segment_id = k.segment_id \
                 WHERE o.medium_id <> $1) \
                 ORDER BY p.version_id",
            )
            .bind(medium.to_string())
            .fetch_all(conn)
            .await?;
            rows.iter().map(|row| decode::parsed(row, "version_id")).collect()
        })
    }

    /// The versions that build on one of these, and those that build on them, with these themselves.
    pub fn with_dependants(&self, versions: &[VersionId]) -> Result<Vec<VersionId>> {
        self.read(format_args!("look up what builds on versions"), async |conn| {
            let mut all = versions.to_vec();
            let mut at = 0;
            while let Some(base) = all.get(at).copied() {
                let sql = "SELECT id FROM versions WHERE base_id = $1";
                for row in sql::query(sql).bind(base.to_string()).fetch_all(&mut *conn).await? {
                    let id = decode::parsed(&row, "id")?;
                    if !all.contains(&id) {
                        all.push(id);
                    }
                }
                at += 1;
            }
            Ok(all)
        })
    }
}

/// Forgets a segment that lies nowhere any more.
async fn forget_segment(conn: &mut Conn<'_>, segment: SegmentId) -> std::result::Result<(), Fault> {
    for sql in
        ["DELETE FROM stream_parts WHERE segment_id = $1", "DELETE FROM segments WHERE id = $1"]
    {
        sql::query(sql).bind(segment.to_string()).execute(&mut *conn).await?;
    }
    Ok(())
}

/// Forgets a version. What of its segments lies on other media stays there, of no version.
async fn forget_version(conn: &mut Conn<'_>, version: VersionId) -> std::result::Result<(), Fault> {
    for sql in [
        "UPDATE sessions SET version_id = NULL WHERE version_id = $1",
        "DELETE FROM stream_parts WHERE version_id = $1",
        "DELETE FROM lost_segments WHERE version_id = $1",
        "DELETE FROM versions WHERE id = $1",
    ] {
        sql::query(sql).bind(version.to_string()).execute(&mut *conn).await?;
    }
    Ok(())
}
