//! What is known of members of arrays on tape, whose headers stay: which took the place of others, and which are lost.

use capstan_format::array::RebuiltMember;
use capstan_format::id::{MediumId, SegmentNumber};

use crate::db::{Conn, Idb};
use crate::decode::{self, Fault, Row};
use crate::media::exported;
use crate::{Result, sql};

/// A member of an array that was not there, or not as it was last written, when somebody last looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostMember {
    /// Its place, from 0.
    pub member: u32,
    /// Its device.
    pub device: String,
    /// Why.
    pub why: String,
    /// The first segment of the array that it may lack; nothing where it lacks none for all that is known, and only was not there.
    pub since: Option<SegmentNumber>,
}

impl Idb {
    /// Records which members of an array are lost; the others are not.
    pub fn put_lost_members(&self, array: MediumId, lost: &[LostMember]) -> Result<()> {
        self.write(format_args!("record the members of {}", array.short()), async |conn| {
            let id = array.to_string();
            forget_lost(conn, &id).await?;
            for of in lost {
                sql::query(
                    "INSERT INTO lost_members (medium_id, member, device, why, since) \
                     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (medium_id, member) DO NOTHING",
                )
                .bind(&id)
                .bind(i64::from(of.member))
                .bind(&of.device)
                .bind(&of.why)
                .bind(of.since.map(|number| i64::from(number.0)))
                .execute(&mut *conn)
                .await?;
            }
            Ok(())
        })
    }

    /// The members of an array that were lost when somebody last looked.
    pub fn lost_members(&self, array: MediumId) -> Result<Vec<LostMember>> {
        self.read(format_args!("look up the members of {}", array.short()), async |conn| {
            let sql = "SELECT * FROM lost_members WHERE medium_id = $1 ORDER BY member";
            let rows = sql::query(sql).bind(array.to_string()).fetch_all(conn).await?;
            let member = |row: &Row| {
                Ok(LostMember {
                    member: decode::count(row, "member")?,
                    device: row.try_get("device")?,
                    why: row.try_get("why")?,
                    since: decode::count_opt(row, "since")?
                        .map(|n| SegmentNumber(u32::try_from(n).unwrap_or(u32::MAX))),
                })
            };
            rows.iter().map(member).collect()
        })
    }

    /// Records which members of an array took the place of others. What is recorded of a place and newer stays.
    pub fn put_rebuilt_members(&self, array: MediumId, rebuilt: &[RebuiltMember]) -> Result<()> {
        if rebuilt.is_empty() {
            return Ok(());
        }
        self.write(format_args!("record the members of {}", array.short()), async |conn| {
            for of in rebuilt {
                sql::query(
                    "INSERT INTO rebuilt_members (array_id, member, medium_id, turn) \
                     VALUES ($1, $2, $3, $4) \
                     ON CONFLICT (array_id, member) DO UPDATE SET medium_id = excluded.medium_id, \
                     turn = excluded.turn WHERE excluded.turn > rebuilt_members.turn",
                )
                .bind(array.to_string())
                .bind(i64::from(of.member))
                .bind(of.medium.to_string())
                .bind(i64::from(of.turn))
                .execute(&mut *conn)
                .await?;
            }
            Ok(())
        })
    }

    /// The members of an array that are known to have taken the place of others.
    pub fn rebuilt_members(&self, array: MediumId) -> Result<Vec<RebuiltMember>> {
        self.read(format_args!("look up the members of {}", array.short()), async |conn| {
            let sql = "SELECT * FROM rebuilt_members WHERE array_id = $1 ORDER BY member";
            let rows = sql::query(sql).bind(array.to_string()).fetch_all(conn).await?;
            let member = |row| {
                Ok(RebuiltMember {
                    member: decode::count(row, "member")?,
                    medium: decode::parsed(row, "medium_id")?,
                    turn: decode::count(row, "turn")?,
                })
            };
            rows.iter().map(member).collect()
        })
    }
}

/// Forgets what is known of the members of an array that is no more.
pub(crate) async fn forget_rebuilt(
    conn: &mut Conn<'_>,
    array: &str,
) -> std::result::Result<(), Fault> {
    let sql = "DELETE FROM rebuilt_members WHERE array_id = $1";
    sql::query(sql).bind(array).execute(&mut *conn).await?;
    exported::forget(conn, array).await?;
    forget_lost(conn, array).await
}

async fn forget_lost(conn: &mut Conn<'_>, array: &str) -> std::result::Result<(), Fault> {
    let sql = "DELETE FROM lost_members WHERE medium_id = $1";
    sql::query(sql).bind(array).execute(conn).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_members_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let idb = Idb::open(&dir.path().join("home")).unwrap();
        let id = |n: u8| MediumId([n; 16]);
        let of = |member, medium, turn| RebuiltMember { member, medium: id(medium), turn };
        let array = id(9);
        idb.put_rebuilt_members(array, &[of(1, 1, 1), of(0, 2, 3)]).unwrap();
        idb.put_rebuilt_members(array, &[of(1, 3, 2), of(0, 4, 3)]).unwrap();
        idb.put_rebuilt_members(array, &[of(1, 5, 1)]).unwrap();
        assert_eq!(idb.rebuilt_members(array).unwrap(), [of(0, 2, 3), of(1, 3, 2)]);
        assert_eq!(idb.rebuilt_members(id(8)).unwrap(), []);
        let lost = |member, why: &str| LostMember {
            member,
            device: "vtape:/v?tape=A".to_owned(),
            why: why.to_owned(),
            since: (member > 0).then_some(SegmentNumber(member)),
        };
        idb.put_lost_members(array, &[lost(2, "away"), lost(0, "it's cut")]).unwrap();
        idb.put_lost_members(id(8), &[lost(1, "away")]).unwrap();
        assert_eq!(idb.lost_members(array).unwrap(), [lost(0, "it's cut"), lost(2, "away")]);
        idb.put_lost_members(array, &[lost(1, "gone")]).unwrap();
        assert_eq!(idb.lost_members(array).unwrap(), [lost(1, "gone")]);
        idb.remove_medium(array).unwrap();
        assert_eq!(idb.lost_members(array).unwrap(), []);
        assert_eq!(idb.lost_members(id(8)).unwrap().len(), 1);
        assert_eq!(idb.rebuilt_members(array).unwrap(), []);
    }
}
