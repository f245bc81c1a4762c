//! The disk media that are staged.

use std::collections::HashMap;

use capstan_format::id::{MediumId, SegmentNumber, VersionId};
use capstan_idb::Medium;
use capstan_medium::{FoundLock, OpenMedium};

use crate::Cell;
use crate::error::{Result, StageRefusal, chain};
use crate::media::is_elsewhere;

/// A medium that is staged.
pub(super) struct Source {
    pub row: Medium,
    /// Its locks, or why it is not at hand.
    pub locks: std::result::Result<Vec<FoundLock>, String>,
}

impl Source {
    pub fn new(row: Medium, opened: Result<OpenMedium>) -> Self {
        let locks = opened.and_then(|medium| Ok(medium.version_locks()?));
        Self { row, locks: locks.map_err(|e| chain(&e)) }
    }

    /// Why a version's segment there cannot go now, if so.
    pub fn keeps(&self, version: VersionId, number: SegmentNumber, now_us: i64) -> Option<Keeps> {
        let locks = match &self.locks {
            Ok(locks) => locks,
            Err(why) => return Some(Keeps::Other(why.clone())),
        };
        if locks.iter().any(|found| matches!(found, FoundLock::Damaged(of) if *of == version)) {
            return Some(Keeps::Other("its lock on the medium is damaged".to_owned()));
        }
        let until = locks.iter().filter_map(|found| match found {
            FoundLock::Whole(lock) if lock.until_us > now_us && lock.covers(number) => {
                Some(lock.until_us)
            }
            _ => None,
        });
        until.max().map(Keeps::Locked)
    }
}

/// What keeps a segment on a medium.
pub(super) enum Keeps {
    /// A lock, until that time.
    Locked(i64),
    /// Something else, in words.
    Other(String),
}

/// The media that are staged.
pub(super) struct Sources {
    /// What they are called together.
    pub name: String,
    /// The pool, if it is one.
    pub pool: Option<String>,
    pub media: Vec<Source>,
    places: HashMap<MediumId, usize>,
}

impl Sources {
    pub fn new(name: String, pool: Option<String>, media: Vec<Source>) -> Self {
        let places = media.iter().enumerate().map(|(at, s)| (s.row.id, at)).collect();
        Self { name, pool, media, places }
    }

    /// Whether a medium is one of them.
    pub fn has(&self, medium: MediumId) -> bool {
        self.places.contains_key(&medium)
    }

    /// All of them.
    pub fn ids(&self) -> Vec<MediumId> {
        self.media.iter().map(|source| source.row.id).collect()
    }

    pub fn get(&self, medium: MediumId) -> Option<&Source> {
        self.places.get(&medium).and_then(|at| self.media.get(*at))
    }
}

impl Cell {
    /// The disk media that somebody names: a pool's, or one.
    pub(super) fn stage_sources(&self, text: &str) -> Result<Sources> {
        let (name, explicit) = match text.strip_prefix("pool:") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let pool = self.idb.pool(name)?.is_some();
        if !explicit {
            // Several of that label are said.
            self.known_medium(text)?;
        }
        let medium = if explicit { None } else { self.find_medium(text).ok() };
        let (rows, pool) = match (pool, medium) {
            (true, Some(_)) => {
                return Err(StageRefusal::NameAmbiguous { name: name.to_owned() }.into());
            }
            (true, None) => (self.disks_of_pool(name)?, Some(name.to_owned())),
            (false, Some(medium)) => {
                if self.is_on_tape(medium.id)? {
                    return Err(StageRefusal::SourceIsTape { label: medium.label }.into());
                }
                if let Ok(there) = self.medium_at_hand(medium.id) {
                    self.refuse_other_cells(there.header(), there.path())?;
                }
                (vec![medium], None)
            }
            (false, None) => {
                return Err(StageRefusal::UnknownSource { name: name.to_owned() }.into());
            }
        };
        let name = rows.first().filter(|_| pool.is_none()).map_or(name, |m| &m.label).to_owned();
        let media = rows.into_iter().map(|row| {
            let opened = self.medium_to_change(row.id);
            Source::new(row, opened)
        });
        Ok(Sources::new(name, pool, media.collect()))
    }

    fn disks_of_pool(&self, pool: &str) -> Result<Vec<Medium>> {
        let mut disks = Vec::new();
        for medium in self.idb.media()? {
            let of_pool = self.idb.management(medium.id)?.pool.as_deref() == Some(pool);
            // Each host stages its own.
            if of_pool && !medium.device.is_sequential() && !is_elsewhere(self, &medium) {
                disks.push(medium);
            }
        }
        match disks.is_empty() {
            true => Err(StageRefusal::NoDiskInPool { pool: pool.to_owned() }.into()),
            false => Ok(disks),
        }
    }
}
