//! Encryption by the drive: the key that it is given, and what a virtual one does with it.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use zeroize::Zeroizing;

const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
/// Bytes that an encrypted block is longer in the file of a virtual tape.
pub(crate) const OVERHEAD: usize = NONCE_LEN + TAG_LEN;

/// A key for a drive: AES-256. It is wiped when it is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DriveKey(Zeroizing<[u8; 32]>);

impl DriveKey {
    /// Takes a key.
    pub fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for DriveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DriveKey(secret)")
    }
}

/// A block as a virtual drive writes it: a nonce drawn for it, the encrypted bytes, their tag. `None` where the library of
/// ciphers refuses.
pub(crate) fn seal(key: &DriveKey, block: &[u8]) -> Option<Vec<u8>> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key.bytes()).ok()?;
    let mut sealed = Vec::with_capacity(block.len() + TAG_LEN);
    sealed.extend_from_slice(block);
    let nonce = key.seal_in_place_append_tag(Aad::empty(), &mut sealed).ok()?;
    Some([nonce.as_ref().as_slice(), &sealed].concat())
}

/// What [`seal`] was given, with the same key.
pub(crate) fn open(key: &DriveKey, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key.bytes()).ok()?;
    let nonce = Nonce::try_assume_unique_for_key(sealed.get(..NONCE_LEN)?).ok()?;
    let length = key.open_in_place(nonce, Aad::empty(), &mut sealed[NONCE_LEN..]).ok()?.len();
    sealed.truncate(NONCE_LEN + length);
    sealed.drain(..NONCE_LEN);
    Some(sealed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_opens_with_its_key_alone() {
        let (key, other) = (DriveKey::new([1; 32]), DriveKey::new([2; 32]));
        let sealed = seal(&key, b"clear text").unwrap();
        assert_eq!(sealed.len(), 10 + OVERHEAD);
        assert!(!sealed.windows(5).any(|w| w == b"clear"));
        assert_ne!(seal(&key, b"clear text").unwrap(), sealed, "no nonce is used twice");
        assert_eq!(open(&key, sealed.clone()).unwrap(), b"clear text");
        assert_eq!(open(&other, sealed.clone()), None);
        let mut damaged = sealed.clone();
        damaged[20] ^= 1;
        for bad in [damaged, sealed[..37].to_vec(), Vec::new()] {
            assert_eq!(open(&key, bad), None);
        }
        assert_eq!(format!("{key:?}"), "DriveKey(secret)");
    }
}
