//! The drive's own AES: pages of SECURITY PROTOCOL IN and OUT for tape data encryption (protocol 20h).
//!
//! What the drive states is checked before a key goes to it, and after: a drive that quietly writes in clear is worse
//! than one that cannot encrypt.

use std::fmt;

use zeroize::Zeroizing;

use crate::bytes::{part, u8_at, u16_at, u32_at};

/// What the drive can do.
pub const PAGE_CAPABILITIES: u16 = 0x0010;
/// What the drive is set to.
pub const PAGE_STATUS: u16 = 0x0020;
/// Whether the next block is encrypted.
pub const PAGE_NEXT_BLOCK: u16 = 0x0021;
/// The page that sets key and modes.
pub const PAGE_SET: u16 = 0x0010;
/// Length asked for.
pub const LEN: u32 = 8192;
/// Bytes of a key: AES-256.
pub const KEY_LEN: usize = 32;

/// AES-256 in Galois counter mode with a 128-bit tag, of the standard's list of algorithms.
const AES_256_GCM: u32 = 0x0001_0014;

/// A key for the drive. It is wiped when it is dropped, and never shown.
#[derive(Clone)]
pub struct DriveKey(Zeroizing<[u8; KEY_LEN]>);

impl DriveKey {
    /// Takes a key.
    pub fn new(key: [u8; KEY_LEN]) -> Self {
        Self(Zeroizing::new(key))
    }
}

impl fmt::Debug for DriveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DriveKey(secret)")
    }
}

/// An encryption algorithm of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Algorithm {
    /// By which the drive calls it.
    pub index: u8,
    /// Bytes of its key.
    pub key_len: u16,
    /// The standard's number of it.
    pub code: u32,
    /// The drive itself encrypts with it, and it is not switched off.
    pub encrypts: bool,
    /// The drive itself decrypts with it, and it is not switched off.
    pub decrypts: bool,
}

/// The algorithms from [`PAGE_CAPABILITIES`].
pub fn algorithms(bytes: &[u8]) -> Vec<Algorithm> {
    const HEAD_LEN: usize = 20;
    if u16_at(bytes, 0) != PAGE_CAPABILITIES {
        return Vec::new();
    }
    let page = part(bytes, 0, 4 + usize::from(u16_at(bytes, 2)));
    let mut rest = part(page, HEAD_LEN, usize::MAX);
    let mut found = Vec::new();
    while rest.len() >= 24 {
        // 1: in software, 2: in hardware; 0: not at all, 3: by another's control only.
        let able = |bits: u8| matches!(bits & 3, 1 | 2);
        found.push(Algorithm {
            index: rest[0],
            key_len: u16_at(rest, 10),
            code: u32_at(rest, 20),
            encrypts: able(rest[4]),
            decrypts: able(rest[4] >> 2),
        });
        rest = part(rest, 4 + usize::from(u16_at(rest, 2)), usize::MAX);
    }
    found
}

/// The algorithm to use: AES-256-GCM that the drive does both ways.
pub fn choose(algorithms: &[Algorithm]) -> Option<Algorithm> {
    let usable = |a: &&Algorithm| {
        a.code == AES_256_GCM && usize::from(a.key_len) == KEY_LEN && a.encrypts && a.decrypts
    };
    algorithms.iter().find(usable).copied()
}

/// What the drive does with blocks now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptionStatus {
    /// Blocks are encrypted when written.
    pub encrypts: bool,
    /// Encrypted blocks are decrypted when read.
    pub decrypts: bool,
    /// The algorithm.
    pub algorithm: u8,
    /// Counts changes of the key: another number, another key.
    pub key_instance: u32,
}

/// The state from [`PAGE_STATUS`].
pub fn status(bytes: &[u8]) -> Option<EncryptionStatus> {
    (bytes.len() >= 12 && u16_at(bytes, 0) == PAGE_STATUS && u16_at(bytes, 2) >= 8).then(|| {
        EncryptionStatus {
            encrypts: bytes[5] == ENCRYPT,
            decrypts: matches!(bytes[6], DECRYPT | MIXED),
            algorithm: bytes[7],
            key_instance: u32_at(bytes, 8),
        }
    })
}

/// Whether the next block can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextBlock {
    /// It is in clear.
    Clear,
    /// It is encrypted, and the drive has the key.
    Readable,
    /// It is encrypted, and the drive does not have the key or the algorithm.
    Unreadable,
    /// It is no block, or the drive does not know.
    Unknown,
}

/// The state of the next block from [`PAGE_NEXT_BLOCK`].
pub fn next_block(bytes: &[u8]) -> NextBlock {
    if u16_at(bytes, 0) != PAGE_NEXT_BLOCK {
        return NextBlock::Unknown;
    }
    match u8_at(bytes, 12) & 0x0f {
        3 => NextBlock::Clear,
        5 => NextBlock::Readable,
        4 | 6 => NextBlock::Unreadable,
        _ => NextBlock::Unknown,
    }
}

const ENCRYPT: u8 = 2;
const DECRYPT: u8 = 2;
const MIXED: u8 = 3;
/// For all hosts: the drive is held exclusively, and some drives know no narrower scope.
const SCOPE_ALL: u8 = 2 << 5;
/// The drive forgets the key when the medium is taken out.
const CLEAR_ON_DEMOUNT: u8 = 0x04;

/// The page that gives a key to the drive: it encrypts what is written, and reads both encrypted and clear blocks.
pub fn set_key(algorithm: u8, key: &DriveKey) -> Zeroizing<Vec<u8>> {
    let mut page = set_page(ENCRYPT, MIXED, algorithm, KEY_LEN as u16);
    page.extend_from_slice(&*key.0);
    page
}

/// The page that switches encryption off and makes the drive forget its key.
pub fn clear_key(algorithm: u8) -> Zeroizing<Vec<u8>> {
    set_page(0, 0, algorithm, 0)
}

fn set_page(encrypt: u8, decrypt: u8, algorithm: u8, key_len: u16) -> Zeroizing<Vec<u8>> {
    // Room for the key from the start: a vector that grows leaves its old bytes behind.
    let mut page = Zeroizing::new(Vec::with_capacity(20 + KEY_LEN));
    page.extend_from_slice(&PAGE_SET.to_be_bytes());
    page.extend_from_slice(&(16 + key_len).to_be_bytes());
    let control = if encrypt == ENCRYPT { CLEAR_ON_DEMOUNT } else { 0 };
    page.extend_from_slice(&[SCOPE_ALL, control, encrypt, decrypt, algorithm, 0]);
    page.extend_from_slice(&[0; 8]);
    page.extend_from_slice(&key_len.to_be_bytes());
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities(ability: u8, key_len: u16, code: u32) -> Vec<u8> {
        let mut bytes = vec![0, 0x10, 0, 40];
        bytes.extend_from_slice(&[0; 16]);
        let mut descriptor = vec![1, 0, 0, 20, ability, 0, 0, 0, 0, 0];
        descriptor.extend_from_slice(&key_len.to_be_bytes());
        descriptor.extend_from_slice(&[0; 8]);
        descriptor.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&descriptor);
        bytes
    }

    #[test]
    fn only_an_algorithm_that_does_both_ways_is_chosen() {
        let of = |ability, len, code| choose(&algorithms(&capabilities(ability, len, code)));
        assert_eq!(of(0x0a, 32, AES_256_GCM).map(|a| a.index), Some(1));
        assert_eq!(of(0x02, 32, AES_256_GCM), None);
        assert_eq!(of(0x0f, 32, AES_256_GCM), None);
        assert_eq!(of(0x0a, 16, AES_256_GCM), None);
        assert_eq!(of(0x0a, 32, 0x0001_0010), None);
        assert!(algorithms(&[0, 0x20, 0xff, 0xff]).is_empty());
    }

    #[test]
    fn a_descriptor_of_no_length_ends() {
        let mut bytes = capabilities(0x0a, 32, AES_256_GCM);
        (bytes[22], bytes[23]) = (0, 0);
        assert!(algorithms(&bytes).len() <= 8);
    }

    #[test]
    fn the_key_stands_where_the_standard_puts_it() {
        let page = set_key(3, &DriveKey::new([0x5c; 32]));
        assert_eq!(page[..10], [0, 0x10, 0, 48, 0x40, 0x04, 2, 3, 3, 0]);
        assert_eq!(page[18..20], [0, 32]);
        assert_eq!(page[20..], [0x5c; 32]);
        assert_eq!(clear_key(3).len(), 20);
        assert_eq!(clear_key(3)[..10], [0, 0x10, 0, 16, 0x40, 0, 0, 0, 3, 0]);
    }

    #[test]
    fn keys_are_never_shown() {
        assert_eq!(format!("{:?}", DriveKey::new([7; 32])), "DriveKey(secret)");
    }

    #[test]
    fn states() {
        let mut bytes = vec![0, 0x20, 0, 8, 0x42, 2, 3, 1, 0, 0, 0, 9];
        let now = status(&bytes).unwrap();
        assert!(now.encrypts && now.decrypts && now.key_instance == 9);
        bytes[5] = 0;
        assert!(!status(&bytes).unwrap().encrypts);
        assert_eq!(status(&bytes[..11]), None);
        let mut next = vec![0; 16];
        next[1] = 0x21;
        for (code, want) in [
            (3, NextBlock::Clear),
            (5, NextBlock::Readable),
            (6, NextBlock::Unreadable),
            (1, NextBlock::Unknown),
        ] {
            next[12] = 0x10 | code;
            assert_eq!(next_block(&next), want);
        }
    }
}
