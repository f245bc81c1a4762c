//! Which segments are known to be damaged, and where.

use std::collections::HashSet;

use capstan_format::id::{MediumId, SegmentId};

use crate::db::Idb;
use crate::versions::pruning::BATCH;
use crate::{Result, decode, sql};

impl Idb {
    /// Records that a medium has damage (an error of the medium, see [`Idb::add_medium_error`]), and that these segments are not whole
    /// there.
    pub fn put_damage(&self, medium: MediumId, segments: &[SegmentId], at_us: i64) -> Result<()> {
        self.set_damage(medium, segments, Some(at_us))?;
        self.add_medium_error(medium, at_us, true)
    }

    /// Records that these segments are whole on a medium.
    pub fn clear_damage_of(&self, medium: MediumId, segments: &[SegmentId]) -> Result<()> {
        self.set_damage(medium, segments, None)
    }

    /// Records that a medium has no damage any more, if no segment there is known to be damaged. The error that the damage was stays.
    pub fn clear_damage_without_segments(&self, medium: MediumId) -> Result<()> {
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            let sql = "UPDATE media_management SET damaged_us = NULL WHERE medium_id = $1 \
                       AND damaged_us IS NOT NULL AND NOT EXISTS (SELECT 1 FROM segment_places \
                       WHERE medium_id = $1 AND damaged_us IS NOT NULL)";
            sql::query(sql).bind(medium.to_string()).execute(conn).await?;
            Ok(())
        })
    }

    /// The places at which a segment is known to be damaged.
    pub fn damaged_places(&self) -> Result<HashSet<(MediumId, SegmentId)>> {
        self.read(format_args!("look for damage"), async |conn| {
            let sql =
                "SELECT medium_id, segment_id FROM segment_places WHERE damaged_us IS NOT NULL";
            let rows = sql::query(sql).fetch_all(conn).await?;
            let place =
                |row| Ok((decode::parsed(row, "medium_id")?, decode::parsed(row, "segment_id")?));
            rows.iter().map(place).collect()
        })
    }

    pub(crate) fn set_damage(
        &self,
        medium: MediumId,
        segments: &[SegmentId],
        at_us: Option<i64>,
    ) -> Result<()> {
        if segments.is_empty() {
            return Ok(());
        }
        self.write(format_args!("record medium {}", medium.short()), async |conn| {
            for segments in segments.chunks(BATCH) {
                let mut query = sql::Builder::new("UPDATE segment_places SET damaged_us = ");
                query.push_bind(at_us);
                if at_us.is_none() {
                    query.push(", bytes = NULL");
                }
                query.push(" WHERE medium_id = ").push_bind(medium.to_string());
                query.push(" AND segment_id IN (");
                query.push_list(segments.iter().map(ToString::to_string));
                query.push(")");
                query.build().execute(&mut *conn).await?;
            }
            Ok(())
        })
    }
}
