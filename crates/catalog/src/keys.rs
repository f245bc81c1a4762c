//! Keys that open the frames of a version.

use std::collections::HashMap;

use capstan_format::id::{KeyId, StreamId};
use capstan_format::keys::{Cipher, FrameSealer, Key32, KeyError, KeyRecord, Purpose, Unlocked};
use capstan_format::record::SessionLabel;

/// Keys of the sessions whose frames a version has.
#[derive(Default)]
pub struct VersionKeys {
    names: HashMap<[u8; 16], (Key32, Cipher)>,
    contents: HashMap<[u8; 16], (Key32, Cipher)>,
}

impl VersionKeys {
    /// Those of a session that is being written: its names.
    pub fn of_names(id: KeyId, names: &Key32, cipher: Cipher) -> Self {
        let mut keys = Self::default();
        keys.names.insert(id.0, (names.clone(), cipher));
        keys
    }

    /// Opens a key record with what was unlocked.
    pub fn add(
        &mut self,
        record: &KeyRecord,
        unlocked: &Unlocked,
        contents: bool,
    ) -> Result<(), KeyError> {
        let id = *record.id().as_bytes();
        self.names.insert(id, (record.unwrap_names(unlocked)?, record.cipher()));
        if contents {
            self.contents.insert(id, (record.unwrap_contents(unlocked)?, record.cipher()));
        }
        Ok(())
    }

    /// Adds those of another version.
    pub fn extend(&mut self, other: &Self) {
        let all = |keys: &HashMap<[u8; 16], (Key32, Cipher)>| {
            keys.iter().map(|(id, (key, cipher))| (*id, (key.clone(), *cipher))).collect::<Vec<_>>()
        };
        self.names.extend(all(&other.names));
        self.contents.extend(all(&other.contents));
    }

    /// The keys of contents that are open.
    pub fn contents(&self) -> impl Iterator<Item = (KeyId, &Key32, Cipher)> {
        self.contents.iter().map(|(id, (key, cipher))| (KeyId(*id), key, *cipher))
    }

    /// The keys of names that are open.
    pub fn names(&self) -> impl Iterator<Item = (KeyId, &Key32, Cipher)> {
        self.names.iter().map(|(id, (key, cipher))| (KeyId(*id), key, *cipher))
    }

    /// A session's key of that purpose, if it is open.
    pub fn key(&self, purpose: Purpose, id: KeyId) -> Option<&Key32> {
        let keys = if purpose == Purpose::Names { &self.names } else { &self.contents };
        keys.get(id.as_bytes()).map(|(key, _)| key)
    }

    /// What opens and seals frames of a stream under a session's key of that purpose; `None` where that session has none, or it is not
    /// open.
    pub fn sealer(
        &self,
        purpose: Purpose,
        label: Option<&SessionLabel>,
        stream: StreamId,
    ) -> Result<Option<FrameSealer>, KeyError> {
        let Some(id) = label.and_then(|l| l.key) else { return Ok(None) };
        let keys = if purpose == Purpose::Names { &self.names } else { &self.contents };
        let Some((key, cipher)) = keys.get(id.as_bytes()) else { return Ok(None) };
        Ok(Some(FrameSealer::new(key, purpose, stream, *cipher)?))
    }
}
