//! The few primitives everything else is made of, and how bytes are shown in JSON.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::{agreement, constant_time, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use zeroize::Zeroizing;

use super::{Key32, KeyError, Rng};

/// Draws a secret of 32 bytes.
pub(super) fn draw32(rng: &mut Rng) -> Key32 {
    let mut key = Key32::default();
    rng(key.as_mut_slice());
    key
}

/// Draws what is random and not secret.
pub(super) fn draw<const N: usize>(rng: &mut Rng) -> [u8; N] {
    let mut out = [0; N];
    rng(&mut out);
    out
}

/// HKDF-SHA256 with 32 bytes of output.
pub(super) fn hkdf(salt: &[u8], ikm: &[u8], info: &[&[u8]]) -> Result<Key32, KeyError> {
    let mut out = Key32::default();
    Salt::new(HKDF_SHA256, salt)
        .extract(ikm)
        .expand(info, HKDF_SHA256)
        .and_then(|okm| okm.fill(out.as_mut_slice()))
        .map_err(|_| KeyError::Crypto("derive a key"))?;
    Ok(out)
}

/// The first `N` (at most 32) bytes of SHA-256 over the parts.
pub(super) fn sha256<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut ctx = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|p| ctx.update(p));
    let mut out = [0; N];
    out.iter_mut().zip(ctx.finish().as_ref()).for_each(|(o, d)| *o = *d);
    out
}

/// Whether two values are equal, in time that does not tell where they differ.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

fn once(key: &[u8; 32]) -> Result<(LessSafeKey, Nonce), KeyError> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key)
        .map_err(|_| KeyError::Crypto("prepare a wrapping key"))?;
    // The nonce may be zero: such a key seals one text in its life.
    Ok((LessSafeKey::new(key), Nonce::assume_unique_for_key([0; 12])))
}

/// Seals `plain` under a key that is used for nothing else.
pub(super) fn seal_once(key: &[u8; 32], ad: &[u8], plain: &[u8]) -> Result<Vec<u8>, KeyError> {
    let (key, nonce) = once(key)?;
    // Capacity for the tag: growing would leave a copy of the plain text behind.
    let mut buf = Zeroizing::new(Vec::with_capacity(plain.len() + 16));
    buf.extend_from_slice(plain);
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::from(ad), &mut buf)
        .map_err(|_| KeyError::Crypto("wrap a key"))?;
    buf.extend_from_slice(tag.as_ref());
    Ok(std::mem::take(&mut *buf))
}

/// Opens what [`seal_once`] made, or `None` where it does not hold.
pub(super) fn open_once(
    key: &[u8; 32],
    ad: &[u8],
    sealed: &[u8],
) -> Result<Option<Zeroizing<Vec<u8>>>, KeyError> {
    let (key, nonce) = once(key)?;
    let mut buf = Zeroizing::new(sealed.to_vec());
    let len = match key.open_in_place(nonce, Aad::from(ad), &mut buf) {
        Ok(plain) => plain.len(),
        Err(_) => return Ok(None),
    };
    buf.truncate(len);
    Ok(Some(buf))
}

fn private(key: &[u8; 32]) -> Result<agreement::PrivateKey, KeyError> {
    agreement::PrivateKey::from_private_key(&agreement::X25519, key)
        .map_err(|_| KeyError::Crypto("load a private key"))
}

/// The X25519 public key of a private one.
pub(super) fn public_of(key: &[u8; 32]) -> Result<[u8; 32], KeyError> {
    let public =
        private(key)?.compute_public_key().map_err(|_| KeyError::Crypto("compute a public key"))?;
    public.as_ref().try_into().map_err(|_| KeyError::Crypto("compute a public key"))
}

/// The X25519 shared secret, or `None` for a public key of small order.
pub(super) fn shared(key: &[u8; 32], public: &[u8; 32]) -> Result<Option<Key32>, KeyError> {
    let key = private(key)?;
    let peer = agreement::UnparsedPublicKey::new(&agreement::X25519, public);
    let secret = agreement::agree(&key, peer, (), |s| s.try_into().map(Key32::new).map_err(|_| ()));
    // The library refuses the all-zero secret; checked here too, since the format promises it.
    Ok(secret.ok().filter(|s| !same(s.as_slice(), &[0; 32])))
}

/// Bytes of a fixed length, in JSON as base64 (standard alphabet, padded).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes<const N: usize>(pub [u8; N]);

impl<const N: usize> serde::Serialize for Bytes<N> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&STANDARD.encode(self.0))
    }
}

impl<'de, const N: usize> serde::Deserialize<'de> for Bytes<N> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        let bytes = STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)?;
        let len = bytes.len();
        let fixed = bytes.try_into();
        fixed.map(Self).map_err(|_| D::Error::custom(format_args!("{len} bytes where {N} belong")))
    }
}

/// Parses JSON no longer than `limit`, of a record with `"version": 1`.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(
    what: &'static str,
    limit: usize,
    json: &[u8],
) -> Result<T, KeyError> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u64,
    }
    let malformed = |e: serde_json::Error| KeyError::Malformed { what, reason: e.to_string() };
    if json.len() > limit {
        let reason = format!("it is longer than {limit} bytes");
        return Err(KeyError::Malformed { what, reason });
    }
    // The version first: a later one may have any other fields.
    let Version { version } = serde_json::from_slice(json).map_err(malformed)?;
    if version != 1 {
        return Err(KeyError::Version { what, version });
    }
    serde_json::from_slice(json).map_err(malformed)
}

/// Writes JSON and checks that it is no longer than `limit`.
pub(super) fn to_json<T: serde::Serialize>(
    what: &'static str,
    limit: usize,
    value: &T,
) -> Result<Vec<u8>, KeyError> {
    let json = serde_json::to_vec(value)
        .map_err(|e| KeyError::Malformed { what, reason: e.to_string() })?;
    if json.len() > limit {
        let hint = "remove locks, recipients or key pairs that are no longer needed";
        return Err(KeyError::TooMuch { what, limit, hint });
    }
    Ok(json)
}
