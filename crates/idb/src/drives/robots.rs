//! Leases of robots: of all processes that have this database, on whatever host, one moves tapes in a library at a time.

use crate::db::Idb;
use crate::decode::{self, Fault, Row};
use crate::{Result, sql};
use capstan_address::HostName;

/// A robot that somebody has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotLease {
    /// The robot.
    pub robot: String,
    /// The lease's own identity.
    pub lease: String,
    /// The host of the process that has it.
    pub host: HostName,
    /// The process.
    pub pid: u32,
    /// The boot of that host and the space of process numbers in which `pid` means that process, and when it was begun.
    pub birth: String,
    /// Since when, in microseconds since 1970, by that host's clock.
    pub since_us: i64,
    /// Until when, by that host's clock; it is put off while the robot is used.
    pub until_us: i64,
}

impl Idb {
    /// Takes a robot, if nobody has it; else says who has.
    pub fn take_robot(&self, wanted: &RobotLease) -> Result<Option<RobotLease>> {
        self.write(format_args!("book robot {}", wanted.robot), async |conn| {
            let sql = "SELECT * FROM robot_leases WHERE robot = $1";
            let row = sql::query(sql).bind(&wanted.robot).fetch_optional(&mut *conn).await?;
            if let Some(held) = row.as_ref().map(lease).transpose()? {
                return Ok(Some(held).filter(|held| held.lease != wanted.lease));
            }
            sql::query(
                "INSERT INTO robot_leases (robot, lease, host, pid, boot_id, since_us, until_us) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(&wanted.robot)
            .bind(&wanted.lease)
            .bind(wanted.host.as_str())
            .bind(i64::from(wanted.pid))
            .bind(&wanted.birth)
            .bind(wanted.since_us)
            .bind(wanted.until_us)
            .execute(conn)
            .await?;
            Ok(None)
        })
    }

    /// Puts off the end of a lease, if it is there still.
    pub fn prolong_robot(&self, lease: &RobotLease, until_us: i64) -> Result<()> {
        self.write_passing(format_args!("book robot {}", lease.robot), async |conn| {
            let sql = "UPDATE robot_leases SET until_us = $3 WHERE robot = $1 AND lease = $2";
            let query = sql::query(sql).bind(&lease.robot).bind(&lease.lease).bind(until_us);
            query.execute(conn).await?;
            Ok(())
        })
    }

    /// Ends a lease that is as it was seen: one that was put off meanwhile stays.
    pub fn end_robot_lease(&self, seen: &RobotLease) -> Result<()> {
        self.write(format_args!("free robot {}", seen.robot), async |conn| {
            let sql = "DELETE FROM robot_leases WHERE robot = $1 AND lease = $2 AND until_us = $3";
            let query = sql::query(sql).bind(&seen.robot).bind(&seen.lease).bind(seen.until_us);
            query.execute(conn).await?;
            Ok(())
        })
    }

    /// Gives a robot back.
    pub fn free_robot(&self, lease: &RobotLease) -> Result<()> {
        self.write(format_args!("free robot {}", lease.robot), async |conn| {
            let sql = "DELETE FROM robot_leases WHERE robot = $1 AND lease = $2";
            sql::query(sql).bind(&lease.robot).bind(&lease.lease).execute(conn).await?;
            Ok(())
        })
    }
}

fn lease(row: &Row) -> std::result::Result<RobotLease, Fault> {
    Ok(RobotLease {
        robot: row.try_get("robot")?,
        lease: row.try_get("lease")?,
        host: HostName::recorded(row.try_get::<String>("host")?),
        pid: decode::count(row, "pid")?,
        birth: row.try_get("boot_id")?,
        since_us: row.try_get("since_us")?,
        until_us: row.try_get("until_us")?,
    })
}
