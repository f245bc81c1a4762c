//! Media pools: sets of media with one policy.

use std::fmt;
use std::str::FromStr;

use crate::db::Idb;
use crate::decode::{self, Fault, Row};
use crate::{Result, sql};
use capstan_engine::problem::Problem;

/// Which media a pool's sessions may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// Where the pool has no usable medium, a free one that is in no pool.
    Loose,
    /// The pool's own, and those of its free pool.
    Strict,
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Loose => "loose",
            Self::Strict => "strict",
        })
    }
}

impl FromStr for Allocation {
    type Err = Problem;

    fn from_str(text: &str) -> std::result::Result<Self, Problem> {
        match text {
            "loose" => Ok(Self::Loose),
            "strict" => Ok(Self::Strict),
            _ => {
                Err(Problem::new(format!("'{text}' is no allocation"))
                    .hint("write loose or strict"))
            }
        }
    }
}

/// A rotation set: media that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RotationSet {
    /// On days that are of no other set.
    Daily,
    /// On Sundays.
    Weekly,
    /// On the first day of a month.
    Monthly,
}

impl RotationSet {
    /// All of them, in the order in which pools list them.
    pub const ALL: [Self; 3] = [Self::Daily, Self::Weekly, Self::Monthly];
}

impl fmt::Display for RotationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        })
    }
}

impl FromStr for RotationSet {
    type Err = Problem;

    fn from_str(text: &str) -> std::result::Result<Self, Problem> {
        let found = Self::ALL.into_iter().find(|set| set.to_string() == text);
        found.ok_or_else(|| {
            Problem::new(format!("'{text}' is no rotation set"))
                .hint("write daily, weekly or monthly")
        })
    }
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Which media its sessions may take.
    pub allocation: Allocation,
    /// Whether a session may be appended to a medium that holds others.
    pub appendable: bool,
    /// The pool to draw free media from.
    pub free_pool: Option<String>,
    /// How many media each rotation set has (as [`RotationSet::ALL`]); all 0 where media do not rotate.
    pub rotation: [u32; 3],
    /// Whether it takes blank tapes of libraries where it has no medium that can be used.
    pub scratch: bool,
    /// Of which libraries, by their device names; of those in which the cell has media, where none is named.
    pub libraries: Vec<String>,
    /// How its new media are called.
    pub label_rule: Option<String>,
    /// Where its media are brought when they take no more: the place of a vault.
    pub vault: Option<String>,
}

impl Pool {
    /// How many media a rotation set has; 0 where there is no such set.
    pub fn size_of(&self, set: RotationSet) -> u32 {
        let at = RotationSet::ALL.iter().position(|s| *s == set);
        at.and_then(|at| self.rotation.get(at)).copied().unwrap_or(0)
    }
}

impl Idb {
    /// Records a pool, or what changed of it.
    pub fn put_pool(&self, pool: &Pool) -> Result<()> {
        self.write(format_args!("record pool {}", pool.name), async |conn| {
            sql::query(
                "INSERT INTO pools (name, allocation, appendable, free_pool, rotation, scratch, libraries, \
                 label_rule, vault) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
                 ON CONFLICT (name) DO UPDATE SET allocation = excluded.allocation, \
                 appendable = excluded.appendable, free_pool = excluded.free_pool, \
                 rotation = excluded.rotation, scratch = excluded.scratch, \
                 libraries = excluded.libraries, label_rule = excluded.label_rule, \
                 vault = excluded.vault",
            )
            .bind(&pool.name)
            .bind(pool.allocation.to_string())
            .bind(pool.appendable)
            .bind(&pool.free_pool)
            .bind(serde_json::json!(pool.rotation).to_string())
            .bind(pool.scratch)
            .bind(serde_json::json!(pool.libraries).to_string())
            .bind(&pool.label_rule)
            .bind(&pool.vault)
            .execute(conn)
            .await?;
            Ok(())
        })
    }

    /// All pools, by name.
    pub fn pools(&self) -> Result<Vec<Pool>> {
        self.read(format_args!("list the pools"), async |conn| {
            let query = sql::query("SELECT * FROM pools ORDER BY name");
            query.fetch_all(conn).await?.iter().map(pool).collect()
        })
    }

    /// A pool by its name.
    pub fn pool(&self, name: &str) -> Result<Option<Pool>> {
        self.read(format_args!("look up pool {name}"), async |conn| {
            let query = sql::query("SELECT * FROM pools WHERE name = $1").bind(name);
            query.fetch_optional(conn).await?.as_ref().map(pool).transpose()
        })
    }

    /// Removes a pool that has no media and that no other draws from.
    pub fn delete_pool(&self, name: &str) -> Result<()> {
        self.write(format_args!("delete pool {name}"), async |conn| {
            sql::query("DELETE FROM pools WHERE name = $1").bind(name).execute(conn).await?;
            Ok(())
        })
    }
}

fn pool(row: &Row) -> std::result::Result<Pool, Fault> {
    let json: &str = row.try_get("rotation")?;
    Ok(Pool {
        name: row.try_get("name")?,
        allocation: decode::parsed(row, "allocation")?,
        appendable: row.try_get("appendable")?,
        free_pool: row.try_get("free_pool")?,
        rotation: serde_json::from_str(json).map_err(|_| decode::bad("rotation", json))?,
        scratch: row.try_get("scratch")?,
        libraries: decode::texts(row, "libraries")?,
        label_rule: row.try_get("label_rule")?,
        vault: row.try_get("vault")?,
    })
}
