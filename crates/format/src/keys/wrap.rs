//! Wrapping a 32-byte key for the public half of a key pair.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::ids::PairId;
use super::prim::{self, Bytes};
use super::{Key32, KeyError, Purpose, Rng};

const WRAP_INFO: &[u8] = b"capstan wrap v1";
const RECIPIENT_SUM: &[u8] = b"capstan recipient v1";
const PREFIX: &str = "capstan-pub-";

/// The public half of a key pair: whom keys are wrapped for.
///
/// Its text form is `capstan-pub-` and 91 letters and digits with a checksum, to be copied between machines.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recipient {
    pub(super) names: [u8; 32],
    pub(super) contents: [u8; 32],
}

impl Recipient {
    /// The pair's id.
    pub fn id(&self) -> PairId {
        PairId(prim::sha256(&[&self.names, &self.contents]))
    }

    pub(super) fn public(&self, purpose: Purpose) -> &[u8; 32] {
        match purpose {
            Purpose::Names => &self.names,
            Purpose::Contents => &self.contents,
        }
    }

    fn checksum(&self) -> [u8; 4] {
        prim::sha256(&[RECIPIENT_SUM, &self.names, &self.contents])
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.names.as_slice(), &self.contents, &self.checksum()].concat();
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.id())
    }
}

impl FromStr for Recipient {
    type Err = KeyError;

    fn from_str(s: &str) -> Result<Self, KeyError> {
        let s = s.trim();
        let bad = |reason| KeyError::BadRecipient { text: s.chars().take(24).collect(), reason };
        let body =
            s.strip_prefix(PREFIX).ok_or_else(|| bad("it does not begin with capstan-pub-"))?;
        if body.len() != 91 {
            return Err(bad("it has not 103 characters"));
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(body)
            .map_err(|_| bad("it has characters that are not base64url"))?;
        let part = |at: usize| bytes.get(at..at + 32).and_then(|b| b.try_into().ok());
        let (Some(names), Some(contents)) = (part(0), part(32)) else {
            return Err(bad("it is too short"));
        };
        let found = Self { names, contents };
        if bytes.get(64..) != Some(&found.checksum()) {
            return Err(bad("its checksum does not hold"));
        }
        Ok(found)
    }
}

/// One key, wrapped for one public key.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Wrap {
    /// The pair that opens it.
    pub to: PairId,
    /// The public half of a key pair drawn for this wrap alone.
    ephemeral: Bytes<32>,
    /// The key and its tag.
    sealed: Bytes<48>,
}

impl Wrap {
    /// Wraps `key`; `context` says what it is and has to be the same on opening.
    pub fn seal(
        key: &[u8; 32],
        to: &Recipient,
        purpose: Purpose,
        context: &[u8],
        rng: &mut Rng,
    ) -> Result<Self, KeyError> {
        let private = prim::draw32(rng);
        let ephemeral = prim::public_of(&private)?;
        let public = to.public(purpose);
        let shared =
            prim::shared(&private, public)?.ok_or_else(|| KeyError::BadPublicKey(to.id()))?;
        let wrapping = prim::hkdf(&[], shared.as_slice(), &[WRAP_INFO, &ephemeral, public])?;
        let sealed = prim::seal_once(&wrapping, context, key)?;
        let sealed = sealed.try_into().map_err(|_| KeyError::Crypto("wrap a key"))?;
        Ok(Self { to: to.id(), ephemeral: Bytes(ephemeral), sealed: Bytes(sealed) })
    }

    /// Unwraps with the private key of `public`; `None` where the wrap does not hold.
    pub fn open(
        &self,
        private: &[u8; 32],
        public: &[u8; 32],
        context: &[u8],
    ) -> Result<Option<Key32>, KeyError> {
        let Some(shared) = prim::shared(private, &self.ephemeral.0)? else { return Ok(None) };
        let info = [WRAP_INFO, &self.ephemeral.0, public];
        let wrapping = prim::hkdf(&[], shared.as_slice(), &info)?;
        let plain = prim::open_once(&wrapping, context, &self.sealed.0)?;
        Ok(plain.and_then(|p| p.as_slice().try_into().ok()).map(Key32::new))
    }
}

impl fmt::Debug for Wrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrap").field("to", &self.to).finish_non_exhaustive()
    }
}
