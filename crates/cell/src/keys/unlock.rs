//! Opening key records: with the ring at home and with every ring that lies on media beside them.
//!
//! A record has the ring of its time. After a rotation only newer rings have the lock that today's secret opens, and they
//! open the older pairs: so the rings of all records are tried on each, those with most pairs first.

use std::cmp::Reverse;

use capstan_catalog::keys::VersionKeys;
use capstan_engine::problem::Explain;
use capstan_format::keys::{
    KeyError, KeyRecord, KeyRing, NamesKey, PairId, Purpose, Secret, Unlocked,
};

use crate::Cell;
use crate::error::{CellError, KeyRefusal, Result};
use crate::keys::keyring;
use crate::keys::locks_on_media::newer_first;
use crate::keys::names_key;

/// What was opened so far, and the rings that may open more.
#[derive(Default)]
pub(crate) struct Opener {
    unlocked: Unlocked,
    /// Rings of the database's records and of media that were looked at.
    known: Vec<KeyRing>,
    /// The database's are among them.
    loaded: bool,
    /// The names key of the home, which needs no secret, once it was looked for.
    names: Option<Option<PairId>>,
    /// Rings that the secrets failed on: to try again takes as long and ends the same.
    failed: Vec<(KeyRing, KeyError)>,
}

/// Keys of several sessions, as far as they could be opened.
#[derive(Default)]
pub(crate) struct OpenedKeys {
    pub keys: VersionKeys,
    /// Sessions whose keys are open.
    pub opened: u64,
    /// Sessions whose keys are not.
    pub closed: u64,
    /// Why not, where a secret was given.
    pub why: Option<CellError>,
}

/// What can be done without keys, for who is asked for a secret or gave a wrong one.
pub(crate) type Without = &'static str;

impl Cell {
    /// Opens a key record into `keys`.
    pub(crate) fn open_key(
        &self,
        record: &KeyRecord,
        contents: bool,
        keys: &mut VersionKeys,
    ) -> Result<()> {
        self.opener.lock().open(self, record, contents, keys, None).map(drop)
    }

    /// Opens what the secrets open, if any is given. An error says that one is given and opens nothing at all.
    pub(crate) fn open_keys_if_given(
        &self,
        records: &[KeyRecord],
        contents: bool,
        of: &str,
        without: Without,
    ) -> Result<OpenedKeys> {
        let mut done = OpenedKeys::default();
        let mut opener = self.opener.lock();
        records.iter().for_each(|r| opener.learn(r.ring()));
        for record in records {
            let keys = &mut done.keys;
            match opener.open(self, record, contents, keys, Some(without)) {
                Ok(true) => done.opened += 1,
                Ok(false) => done.closed += 1,
                // Names alone are worth having.
                Err(CellError::Key(KeyError::NamesOnly { .. })) => done.opened += 1,
                Err(e @ CellError::Io { .. }) => return Err(e),
                Err(e) => {
                    done.closed += 1;
                    done.why = done.why.take().or(Some(e));
                }
            }
        }
        match done.why {
            Some(e) if done.opened == 0 => Err(KeyRefusal::OpensNothing {
                of: of.to_owned(),
                why: e.problem(),
                without,
                newer_first: newer_first(&e),
            }
            .into()),
            why => Ok(OpenedKeys { why, ..done }),
        }
    }
}

impl Opener {
    /// Remembers a ring.
    pub fn learn(&mut self, ring: &KeyRing) {
        if !self.known.contains(ring) {
            self.known.push(ring.clone());
        }
    }

    /// Opens a record; `false` where no secret is given and `without` says what can be done then.
    fn open(
        &mut self,
        cell: &Cell,
        record: &KeyRecord,
        contents: bool,
        keys: &mut VersionKeys,
        without: Option<Without>,
    ) -> Result<bool> {
        self.add_names_key(cell);
        let mut closed = match self.add(record, contents, keys)? {
            None => return Ok(true),
            Some(why) => why,
        };
        let mut failure: Option<CellError> = None;
        let mut unanswered = false;
        for ring in self.candidates(cell, record)? {
            // What is open may open more, without a secret.
            if let Ok(more) = ring.unlock(&Secret::Ring(&self.unlocked)) {
                self.unlocked.merge(more);
                match self.add(record, contents, keys)? {
                    None => return Ok(true),
                    Some(why) => closed = why,
                }
            }
            match self.unlock(&ring, cell, without) {
                Ok(Some(more)) => {
                    self.unlocked.merge(more);
                    match self.add(record, contents, keys)? {
                        None => return Ok(true),
                        Some(why) => closed = why,
                    }
                }
                Ok(None) => unanswered = true,
                Err(e) => failure = Some(more_helpful(failure, e)),
            }
        }
        let names_only = matches!(closed, KeyError::NamesOnly { .. });
        if names_only && let Some(other) = self.of_other_pair(record) {
            closed = other;
        }
        match failure {
            _ if names_only && self.is_open_by_secret() => Err(closed.into()),
            Some(e) => Err(e),
            None if unanswered && !names_only => Ok(false),
            None => Err(closed.into()),
        }
    }

    /// Opens a record for its names, with the home's names key and what was opened before: nobody is asked, nothing is tried.
    pub fn open_unasked(&mut self, cell: &Cell, record: &KeyRecord, keys: &mut VersionKeys) {
        self.add_names_key(cell);
        // What does not open stays closed.
        let _ = self.add(record, false, keys);
    }

    /// Takes what the home's names key opens.
    fn add_names_key(&mut self, cell: &Cell) {
        if self.names.is_some() {
            return;
        }
        // One that cannot be read opens nothing: secrets do without it, and whoever writes is told.
        let key = names_key::load(&cell.home).ok().flatten();
        self.names = Some(key.as_ref().map(NamesKey::id));
        if let Some(key) = key {
            self.unlocked.merge(key.unlocked());
        }
    }

    /// Whether a secret opened anything: more than the names key, which is always at hand.
    fn is_open_by_secret(&self) -> bool {
        self.unlocked.pairs().any(|pair| self.names.flatten() != Some(pair))
    }

    /// What a secret opened, where that is no pair for which a record's contents are wrapped: only the names key opens its names.
    fn of_other_pair(&self, record: &KeyRecord) -> Option<KeyError> {
        let wanted: Vec<PairId> = record.recipients(Purpose::Contents).collect();
        let by_secret = self.unlocked.pairs().filter(|pair| self.names.flatten() != Some(*pair));
        let opened: Vec<PairId> = by_secret.collect();
        if opened.is_empty() || opened.iter().any(|pair| wanted.contains(pair)) {
            return None;
        }
        let list =
            |pairs: &[PairId]| pairs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Some(KeyError::OtherPair { opened: list(&opened), wanted: list(&wanted) })
    }

    fn unlock(
        &mut self,
        ring: &KeyRing,
        cell: &Cell,
        without: Option<Without>,
    ) -> Result<Option<Unlocked>> {
        if let Some((_, why)) = self.failed.iter().find(|(failed, _)| failed == ring) {
            return Err(why.clone().into());
        }
        let result = match without {
            Some(without) => keyring::unlock_if_given(ring, &cell.secrets, without),
            None => keyring::unlock(ring, &cell.secrets).map(Some),
        };
        if let Err(CellError::Key(why)) = &result {
            self.failed.push((ring.clone(), why.clone()));
        }
        result
    }

    /// Opens a record with what is open; or why that is not enough.
    fn add(
        &self,
        record: &KeyRecord,
        contents: bool,
        keys: &mut VersionKeys,
    ) -> Result<Option<KeyError>> {
        match keys.add(record, &self.unlocked, contents) {
            Ok(()) => Ok(None),
            Err(e @ (KeyError::NotARecipient { .. } | KeyError::NamesOnly { .. })) => Ok(Some(e)),
            Err(e) => Err(e.into()),
        }
    }

    /// The rings that may open a record, in the order in which they are to be tried: that at home, then those with most
    /// pairs.
    fn candidates(&mut self, cell: &Cell, record: &KeyRecord) -> Result<Vec<KeyRing>> {
        if !self.loaded {
            for row in cell.idb.keys()? {
                // One that cannot be read opens nothing; it is named when it is needed.
                if let Ok(record) = KeyRecord::from_json(row.record.as_bytes()) {
                    self.learn(record.ring());
                }
            }
            self.loaded = true;
        }
        let wanted: Vec<PairId> = [Purpose::Names, Purpose::Contents]
            .iter()
            .flat_map(|p| record.recipients(*p))
            .collect();
        let has_any =
            |ring: &KeyRing, ids: &[PairId]| ring.list().iter().any(|p| ids.contains(&p.id));
        let known = self.known.iter().filter(|ring| has_any(ring, &wanted)).cloned();
        let mut rings: Vec<KeyRing> = known.collect();
        if !rings.contains(record.ring()) {
            rings.push(record.ring().clone());
        }
        rings.sort_by_key(|ring| Reverse(ring.list().len()));
        if let Some(home) = keyring::load(&cell.home)? {
            let locks = rings.iter().flat_map(KeyRing::list).flat_map(|p| p.locks);
            let by: Vec<PairId> = locks.filter_map(|l| l.recipient).chain(wanted).collect();
            if has_any(&home, &by) {
                rings.retain(|ring| *ring != home);
                rings.insert(0, home);
            }
        }
        Ok(rings)
    }
}

/// Of two failures the one that says what to do: the first, unless that ring had nothing for such a secret.
pub(crate) fn more_helpful(first: Option<CellError>, next: CellError) -> CellError {
    let unfit = |e: &CellError| {
        matches!(e, CellError::Key(KeyError::PublicOnly | KeyError::NoLockOfKind(_)))
    };
    match first {
        Some(first) if !unfit(&first) || unfit(&next) => first,
        _ => next,
    }
}
