//! Forgetting what is given up: a recycled medium's segments, and the versions that cannot do without them.

use std::collections::{HashMap, HashSet};

use capstan_format::id::{MediumId, SegmentId, VersionId};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault};
use crate::media::managed::ensure;
use crate::media::rebuilt::forget_rebuilt;
use crate::rows::Medium;
use crate::versions::leases;
use crate::versions::pruning::{BATCH, forget_segments, push_ids};
use crate::{Result, sql};

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
            forget_versions_now(conn, versions).await?;
            let sql = "DELETE FROM segment_places WHERE medium_id = $1";
            sql::query(sql).bind(medium.to_string()).execute(&mut *conn).await?;
            for ids in gone.chunks(BATCH) {
                forget_segments(conn, ids).await?;
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
            .bind(new.device.to_string())
            .bind(i64::from(new.block_size))
            .bind(new.created_us)
            .bind(decode::texts_in("hosts", &new.hosts)?)
            .execute(&mut *conn)
            .await?;
            // What was noted of it before it was known to be this one.
            let noted = "DELETE FROM media_management WHERE medium_id = $2 AND EXISTS \
                         (SELECT 1 FROM media_management WHERE medium_id = $1)";
            sql::query(noted).bind(&old).bind(&id).execute(&mut *conn).await?;
            let moved = "UPDATE media_management SET medium_id = $2, damaged_us = NULL, \
                         full_us = NULL, other_cell = NULL, adopted_us = NULL, changed_us = NULL, \
                         changed_why = NULL WHERE medium_id = $1";
            sql::query(moved).bind(&old).bind(&id).execute(&mut *conn).await?;
            forget_rebuilt(conn, &old).await?;
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
            forget_rebuilt(conn, &id).await?;
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
        // Most often there are none, or those of one: then it is no matter how many versions there are.
        if versions.len() > ALL_AT_ONCE {
            let bases = self.read(format_args!("look up what builds on versions"), bases)?;
            return Ok(Above::of(&bases).with_all(versions));
        }
        self.read(format_args!("look up what builds on versions"), async |conn| {
            let mut all = versions.to_vec();
            let mut known: HashSet<VersionId> = all.iter().copied().collect();
            let mut at = 0;
            while let Some(base) = all.get(at).copied() {
                let sql = "SELECT id FROM versions WHERE base_id = $1";
                for row in sql::query(sql).bind(base.to_string()).fetch_all(&mut *conn).await? {
                    let id = decode::parsed(&row, "id")?;
                    if known.insert(id) {
                        all.push(id);
                    }
                }
                at += 1;
            }
            Ok(all)
        })
    }
}

/// What builds on more versions than these is looked up with one question for all.
const ALL_AT_ONCE: usize = 20;

/// All versions that build on others, with these.
pub(crate) async fn bases(
    conn: &mut Conn<'_>,
) -> std::result::Result<Vec<(VersionId, VersionId)>, Fault> {
    let sql = "SELECT id, base_id FROM versions WHERE base_id IS NOT NULL ORDER BY id";
    let rows = sql::query(sql).fetch_all(conn).await?;
    rows.iter()
        .map(|row| Ok((decode::parsed(row, "id")?, decode::parsed(row, "base_id")?)))
        .collect()
}

/// The versions that build on each.
pub(crate) struct Above(HashMap<VersionId, Vec<VersionId>>);

impl Above {
    /// Of versions and what they build on.
    pub fn of(bases: &[(VersionId, VersionId)]) -> Self {
        let mut above: HashMap<VersionId, Vec<VersionId>> = HashMap::new();
        for (id, base) in bases {
            above.entry(*base).or_default().push(*id);
        }
        Self(above)
    }

    /// These versions, each once, then those that build on them.
    pub fn with_all(&self, versions: &[VersionId]) -> Vec<VersionId> {
        let mut known = HashSet::new();
        let mut all: Vec<VersionId> =
            versions.iter().copied().filter(|id| known.insert(*id)).collect();
        let mut at = 0;
        while let Some(base) = all.get(at).copied() {
            let above = self.0.get(&base).into_iter().flatten();
            all.extend(above.copied().filter(|id| known.insert(*id)));
            at += 1;
        }
        all
    }
}

/// Forgets versions. What of their segments lies on other media stays there, of no version.
pub(crate) async fn forget_versions_now(
    conn: &mut Conn<'_>,
    versions: &[VersionId],
) -> std::result::Result<(), Fault> {
    for ids in versions.chunks(BATCH) {
        for statement in [
            "UPDATE sessions SET version_id = NULL WHERE version_id IN (",
            "DELETE FROM stream_parts WHERE version_id IN (",
            "DELETE FROM lost_segments WHERE version_id IN (",
            "DELETE FROM versions WHERE id IN (",
        ] {
            let mut query = sql::Builder::new(statement);
            push_ids(&mut query, ids);
            query.build().execute(&mut *conn).await?;
        }
    }
    Ok(())
}
