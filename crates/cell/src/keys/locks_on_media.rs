//! Which media carry a lock of the key ring: a medium has the ring as it was when it was last written.

use capstan_format::id::MediumId;
use capstan_format::keys::{KeyError, LockId, LockKind};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::keys::keyring;
use crate::session::now_us;

/// A lock that media do not carry which were written before it was made.
#[derive(Debug, Clone)]
pub struct LockNotOnMedia {
    /// Its id.
    pub lock: String,
    /// What opens it.
    pub kind: LockKind,
    /// Labels of the media.
    pub media: Vec<String>,
}

impl LockNotOnMedia {
    /// `recovery code 1f2e…: 2 media were last written before it was made, and it opens nothing of them: 'm1', 'm2'`
    pub fn text(&self) -> String {
        const SHOWN: usize = 10;
        let n = self.media.len();
        let shown: Vec<String> =
            self.media.iter().take(SHOWN).map(|label| format!("'{label}'")).collect();
        let more = if n > SHOWN { format!(" and {} more", n - SHOWN) } else { String::new() };
        let were = if n == 1 { "1 medium was" } else { &format!("{n} media were") };
        format!(
            "{} of lock {}: {were} last written before it was made and does not open by it: {}{more}; each carries it from the next \
             encrypted backup on that is written or copied to it",
            self.kind,
            self.lock,
            shown.join(", ")
        )
    }
}

impl Cell {
    /// Notes when a lock was made.
    pub fn note_lock(&self, lock: &LockId) -> Result<()> {
        Ok(self.idb.put_setting(&made_setting(&lock.to_string()), &now_us().to_string())?)
    }

    /// The locks of the home's active key pair that media do not carry yet. What was made by versions that did not note when is not known.
    pub fn locks_not_on_media(&self) -> Result<Vec<LockNotOnMedia>> {
        let Some(ring) = keyring::load(&self.home)? else { return Ok(Vec::new()) };
        let pairs = ring.list();
        let locks = pairs.last().map(|pair| pair.locks.as_slice()).unwrap_or_default();
        let mut written: Option<Vec<(MediumId, String, i64)>> = None;
        let mut all = Vec::new();
        for lock in locks {
            let Some(id) = lock.id.map(|id| id.to_string()) else { continue };
            let made_us = self.idb.setting(&made_setting(&id))?.and_then(|us| us.parse().ok());
            let Some(made_us): Option<i64> = made_us else { continue };
            if written.is_none() {
                written = Some(self.rings_written()?);
            }
            let older = written.iter().flatten().filter(|(.., last_us)| *last_us < made_us);
            let media: Vec<String> = older.map(|(_, label, _)| label.clone()).collect();
            if !media.is_empty() {
                all.push(LockNotOnMedia { lock: id, kind: lock.kind, media });
            }
        }
        Ok(all)
    }

    /// Media with encrypted data, with their labels, and when they were last given the ring.
    fn rings_written(&self) -> Result<Vec<(MediumId, String, i64)>> {
        let mut all = Vec::new();
        for (id, last_us) in self.idb.encrypted_media()? {
            let (Some(row), of) = (self.idb.medium(id)?, self.idb.management(id)?) else {
                continue;
            };
            if of.retired_us.is_none() && of.other_cell.is_none() {
                all.push((id, row.label, last_us));
            }
        }
        all.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(all)
    }
}

/// The setting that says when a lock was made, in microseconds since 1970.
fn made_setting(lock: &str) -> String {
    format!("lock {lock} made")
}

/// What helps where a secret opens nothing of a medium, though it may be right.
pub(crate) fn newer_first(e: &CellError) -> Option<&'static str> {
    match e {
        CellError::Key(
            KeyError::NoLockOfKind(_)
            | KeyError::WrongPassphrase
            | KeyError::WrongKeyFile
            | KeyError::WrongRecoveryCode,
        ) => Some(
            "if it was added after the medium was last written, import a medium first that was written since: with that it opens this \
             one too",
        ),
        _ => None,
    }
}
