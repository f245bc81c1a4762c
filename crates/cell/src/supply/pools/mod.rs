//! Pools: sets of media with one policy.

pub(in crate::supply) mod allocate;
pub(crate) mod calendar;
mod held_up;
pub(crate) mod queue;
pub(in crate::supply) mod seat;
pub(crate) mod usable;

use capstan_idb::{Allocation, Pool, RotationSet};

use crate::Cell;
use crate::error::{CellError, PoolRefusal, Result};
use crate::media::{MediumInfo, check_location};
use crate::supply::labels::rule::LabelRule;
use crate::supply::pools::usable::unusable;

/// The longest name of a pool, in bytes.
const NAME_MAX: usize = 64;
/// Most media of a rotation set.
const ROTATION_MAX: u32 = 1000;

/// A pool with its media.
#[derive(Debug, Clone)]
pub struct PoolInfo {
    /// The pool.
    pub pool: Pool,
    /// Its media.
    pub media: Vec<MediumInfo>,
    /// Where its media rotate: why the next run to it finds no medium, or which set has too few, if it is so.
    pub lacks: Option<String>,
}

impl Cell {
    /// The pool of that name.
    pub(crate) fn pool(&self, name: &str) -> Result<Pool> {
        self.idb.pool(name)?.ok_or_else(|| {
            let known = self.idb.pools().unwrap_or_default();
            let known = known.into_iter().map(|p| p.name).take(10).collect();
            CellError::from(PoolRefusal::UnknownPool { name: name.to_owned(), known })
        })
    }

    /// All pools with their media.
    pub fn pool_list(&self) -> Result<Vec<PoolInfo>> {
        let mut list: Vec<PoolInfo> = Vec::new();
        let all = self.media_list(None)?;
        for pool in self.idb.pools()? {
            let of_pool = |m: &&MediumInfo| m.management.pool.as_deref() == Some(&*pool.name);
            let media = all.iter().filter(of_pool).cloned().collect();
            let lacks = self.without_next(&pool)?;
            list.push(PoolInfo { pool, media, lacks });
        }
        Ok(list)
    }

    /// A pool with its media.
    pub fn pool_show(&self, name: &str) -> Result<PoolInfo> {
        let pool = self.pool(name)?;
        let lacks = self.without_next(&pool)?;
        Ok(PoolInfo { media: self.media_list(Some(name))?, pool, lacks })
    }

    /// Makes a pool.
    pub fn pool_create(&self, pool: &Pool) -> Result<()> {
        let name = &pool.name;
        let ok = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(ok) {
            return Err(PoolRefusal::NoPoolName { name: name.clone(), most: NAME_MAX }.into());
        }
        if self.idb.pool(name)?.is_some() {
            return Err(PoolRefusal::PoolExists { name: name.clone() }.into());
        }
        self.put_pool(pool)
    }

    /// Changes a pool.
    pub fn pool_set(&self, name: &str, change: &dyn Fn(&mut Pool)) -> Result<Pool> {
        let mut pool = self.pool(name)?;
        change(&mut pool);
        name.clone_into(&mut pool.name);
        self.put_pool(&pool)?;
        Ok(pool)
    }

    fn put_pool(&self, pool: &Pool) -> Result<()> {
        if pool.rotation.iter().any(|n| *n > ROTATION_MAX) {
            return Err(PoolRefusal::SetTooLarge { most: ROTATION_MAX }.into());
        }
        if let Some(free) = &pool.free_pool {
            if *free == pool.name {
                return Err(PoolRefusal::DrawsFromItself { pool: free.clone() }.into());
            }
            self.pool(free)?;
        }
        if let Some(rule) = &pool.label_rule {
            let rule: LabelRule = rule.parse()?;
            if !rule.tells_apart() {
                return Err(PoolRefusal::OneLabelForAll { rule: rule.to_string() }.into());
            }
        }
        if let Some(vault) = &pool.vault {
            check_location(vault)?;
            if vault.trim() != vault || vault.is_empty() {
                return Err(PoolRefusal::NoVault { vault: vault.clone() }.into());
            }
        }
        Ok(self.idb.put_pool(pool)?)
    }

    /// Deletes a pool that has no media and from which no other draws.
    pub fn pool_delete(&self, name: &str) -> Result<()> {
        let info = self.pool_show(name)?;
        if !info.media.is_empty() {
            return Err(PoolRefusal::PoolHasMedia {
                name: name.to_owned(),
                media: info.media.len(),
            }
            .into());
        }
        let pools = self.idb.pools()?;
        if let Some(other) = pools.iter().find(|p| p.free_pool.as_deref() == Some(name)) {
            return Err(PoolRefusal::PoolDrawnFrom {
                name: name.to_owned(),
                other: other.name.clone(),
            }
            .into());
        }
        self.forget_had_all(name)?;
        Ok(self.idb.delete_pool(name)?)
    }
}

impl PoolInfo {
    /// How many of its media could be written to now.
    pub fn usable(&self) -> u64 {
        self.media.iter().filter(|m| unusable(m).is_none()).count() as u64
    }

    /// What its policy is, in a few words.
    pub fn policy(&self) -> String {
        let mut words = vec![self.pool.allocation.to_string()];
        words.push(if self.pool.appendable { "appendable" } else { "not appendable" }.to_owned());
        words.extend(self.pool.free_pool.iter().map(|free| format!("draws from {free}")));
        if self.pool.scratch {
            words.push(match &self.pool.libraries[..] {
                [] => "takes blank tapes".to_owned(),
                named => format!("takes blank tapes of {}", named.join(" and ")),
            });
        }
        words.extend(self.pool.label_rule.iter().map(|rule| format!("labels {rule}")));
        let sets = RotationSet::ALL.into_iter().zip(self.pool.rotation).filter(|(_, n)| *n > 0);
        words.extend(sets.map(|(set, n)| format!("{n} {set}")));
        words.extend(self.pool.vault.iter().map(|vault| format!("vault {vault}")));
        words.join(", ")
    }

    /// A pool as it is made unless somebody says otherwise.
    pub fn default_of(name: &str) -> Pool {
        Pool {
            name: name.to_owned(),
            allocation: Allocation::Strict,
            appendable: true,
            free_pool: None,
            rotation: [0; 3],
            scratch: false,
            libraries: Vec::new(),
            label_rule: None,
            vault: None,
        }
    }
}
