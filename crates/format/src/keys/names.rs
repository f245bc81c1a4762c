//! A names key: a key pair of which only the half for names is kept, so that a home can list its own backups, and build
//! incrementals on them, with nobody at hand who knows a secret. It never lies on a medium.

use zeroize::{Zeroize, Zeroizing};

use super::prim::{self, Bytes};
use super::secret::OpenPair;
use super::{Grant, Key32, KeyError, PairId, Recipient, Rng, Scope, Unlocked};

/// Longest JSON of a names key in bytes.
pub const MAX_NAMES_KEY_JSON: usize = 1024;

const WHAT: &str = "the names key";

/// The private half for names of a pair whose half for contents nobody has.
pub struct NamesKey {
    names: Key32,
    public: Recipient,
    created: i64,
}

/// As it is stored.
#[derive(serde::Serialize, serde::Deserialize)]
struct Stored {
    version: u64,
    id: PairId,
    created: i64,
    /// The private key of names.
    names_private: Bytes<32>,
    /// The public key of contents.
    contents: Bytes<32>,
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.names_private.0.zeroize();
    }
}

impl NamesKey {
    /// Draws one. The private half for contents is forgotten at once.
    pub fn draw(created: i64, rng: &mut Rng) -> Result<Self, KeyError> {
        let OpenPair { public, names, contents: _ } = OpenPair::draw(rng)?;
        Ok(Self { names, public, created })
    }

    /// The pair's id.
    pub fn id(&self) -> PairId {
        self.public.id()
    }

    /// When it was made, in seconds since 1970.
    pub fn created(&self) -> i64 {
        self.created
    }

    /// What a session's key record gives it: names, no contents.
    pub fn grant(&self) -> Grant {
        Grant { to: self.public, scope: Scope::Names }
    }

    /// The pair, open for names.
    pub fn unlocked(&self) -> Unlocked {
        let mut unlocked = Unlocked::default();
        let (public, names) = (self.public, self.names.clone());
        unlocked.add(OpenPair { public, names, contents: None });
        unlocked
    }

    /// The key as JSON: a secret.
    pub fn to_json(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let stored = Stored {
            version: 1,
            id: self.id(),
            created: self.created,
            names_private: Bytes(*self.names),
            contents: Bytes(self.public.contents),
        };
        prim::to_json(WHAT, MAX_NAMES_KEY_JSON, &stored).map(Zeroizing::new)
    }

    /// Reads a key that need not be trusted.
    pub fn from_json(json: &[u8]) -> Result<Self, KeyError> {
        let stored: Stored = prim::from_json(WHAT, MAX_NAMES_KEY_JSON, json)?;
        let names = Key32::new(stored.names_private.0);
        let public = Recipient { names: prim::public_of(&names)?, contents: stored.contents.0 };
        if public.id() != stored.id {
            let reason = "its id is not that of its keys".to_owned();
            return Err(KeyError::Malformed { what: WHAT, reason });
        }
        Ok(Self { names, public, created: stored.created })
    }
}

/// Which key it is, never what it says.
impl std::fmt::Debug for NamesKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamesKey").field("id", &self.id()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Cipher, KeyRecord, KeyRing, Purpose, SessionKeys};

    fn counting() -> impl FnMut(&mut [u8]) {
        let mut state = 0_u8;
        move |out: &mut [u8]| {
            out.fill_with(|| {
                state = state.wrapping_mul(5).wrapping_add(7);
                state
            });
        }
    }

    #[test]
    fn it_opens_names_and_never_contents() {
        let mut rng = counting();
        let key = NamesKey::draw(7, &mut rng).unwrap();
        rng(&mut [0; 3]);
        // A machine that writes for a key it has no private half of.
        let others = NamesKey::draw(8, &mut rng).unwrap();
        let ring = KeyRing::of_recipient(others.public, 1);
        let session = SessionKeys::draw(&mut rng);
        let cipher = Cipher::Aes256Gcm;
        let record = KeyRecord::wrap(&session, cipher, &ring, &[key.grant()], &mut rng).unwrap();
        assert_eq!(record.recipients(Purpose::Names).count(), 2);
        assert!(record.recipients(Purpose::Contents).eq([others.id()]));
        let unlocked = key.unlocked();
        assert_eq!(unlocked.scope(&key.id()), Some(Scope::Names));
        assert_eq!(*record.unwrap_names(&unlocked).unwrap(), *session.names);
        assert!(matches!(record.unwrap_contents(&unlocked), Err(KeyError::NamesOnly { .. })));
        // The record, which lies on media, has nothing of it but its public half.
        let json = String::from_utf8(record.to_json().unwrap()).unwrap();
        let kept = String::from_utf8(key.to_json().unwrap().to_vec()).unwrap();
        let private = kept.split("\"names_private\":\"").nth(1).unwrap().split('"').next().unwrap();
        assert!(private.len() == 44 && !json.contains(private));
    }

    #[test]
    fn it_reads_back_and_what_is_altered_does_not() {
        let key = NamesKey::draw(7, &mut counting()).unwrap();
        let json = key.to_json().unwrap();
        let again = NamesKey::from_json(&json).unwrap();
        assert_eq!((again.id(), again.created()), (key.id(), 7));
        assert_eq!(*again.names, *key.names);
        assert!(format!("{again:?}").len() < 60);
        let text = String::from_utf8(json.to_vec()).unwrap();
        let id = key.id().to_string();
        for bad in [
            text.replace(&id, "0000000000000000"),
            text.replace("\"version\":1", "\"version\":2"),
            text.replace("names_private", "names"),
            text[..text.len() - 1].to_owned(),
            format!("{text}{}", " ".repeat(MAX_NAMES_KEY_JSON)),
        ] {
            assert!(NamesKey::from_json(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
