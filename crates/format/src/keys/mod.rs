//! Keys: how frames are sealed, and how a session's two keys travel with the medium.
//!
//! Three layers, each opened by the one before it:
//! 1. a [`Secret`] (passphrase, key file, recovery code, another ring) opens a lock of the [`KeyRing`] and gives
//!    [`Unlocked`], the private halves of its key pairs;
//! 2. they open the [`KeyRecord`] that lies on the medium and gives the [`SessionKeys`];
//! 3. from a session key and a stream's id comes the key of a [`FrameSealer`].
//!
//! The key that a tape drive encrypts a medium with goes the same way ([`draw_drive_key`]).
//!
//! Each layer has two of everything: one for names and metadata, one for contents, so that a party may list what it
//! cannot read. Writing needs public keys only. Everything here is specified byte for byte in `docs/keys.md`.
//!
//! Randomness is the caller's: each function that draws takes an [`Rng`], which has to be that of the operating
//! system everywhere but in tests.

mod drive;
mod error;
mod frame;
pub(crate) mod ids;
mod lock;
mod names;
mod prim;
mod record;
mod recovery;
mod ring;
mod secret;
mod sheet;
#[cfg(test)]
mod tests;
mod unlock;
#[cfg(test)]
mod vectors;
mod wrap;

pub use drive::{draw_drive_key, drive_key, drive_record_id};
pub use error::KeyError;
pub use frame::{Cipher, FrameSealer, TAG_LEN};
pub use ids::{LockKind, NoShortId, PairId};
pub use lock::{ArgonParams, LockBy, LockId, LockInfo, NewLock};
pub use names::{MAX_NAMES_KEY_JSON, NamesKey};
pub use record::{Grant, KeyRecord, MAX_RECORD_JSON, MAX_WRAPS};
pub use recovery::RecoveryCode;
pub use ring::{KeyRing, MAX_LOCKS, MAX_PAIRS, MAX_RING_JSON, PairInfo};
pub use secret::{Secret, Unlocked};
pub use sheet::{SheetInfo, recovery_sheet};
pub use wrap::Recipient;
use zeroize::Zeroizing;

use crate::id::KeyId;

/// A secret of 32 bytes, overwritten when it is dropped.
pub type Key32 = Zeroizing<[u8; 32]>;

/// A source of random bytes fit for keys: it fills the whole slice.
pub type Rng<'a> = dyn FnMut(&mut [u8]) + 'a;

/// Which of a session's two keys: the number is part of what keys are derived from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Batches and catalogs: names and all metadata.
    Names = 1,
    /// The contents of files.
    Contents = 2,
}

/// How much a lock or a recipient opens: the number is part of what a lock authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Scope {
    /// Names and contents.
    All = 1,
    /// Names and metadata only.
    Names = 2,
}

/// The two keys of one encrypted session.
pub struct SessionKeys {
    /// Their common id, in clear on the medium.
    pub id: KeyId,
    /// Seals batches and catalogs.
    pub names: Key32,
    /// Seals contents.
    pub contents: Key32,
}

impl SessionKeys {
    /// Draws new keys; every encrypted session has its own.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut id = [0; 16];
        rng(&mut id);
        Self { id: KeyId(id), names: prim::draw32(rng), contents: prim::draw32(rng) }
    }

    /// The key of that purpose.
    pub fn key(&self, purpose: Purpose) -> &[u8; 32] {
        match purpose {
            Purpose::Names => &self.names,
            Purpose::Contents => &self.contents,
        }
    }
}

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKeys").field("id", &self.id).finish_non_exhaustive()
    }
}
