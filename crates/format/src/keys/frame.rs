//! Sealing and opening frames in place, with the key of one stream prepared once.

use super::{KeyError, Purpose, prim};
use crate::id::StreamId;
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes that a sealed frame is longer than its plain text.
pub const TAG_LEN: usize = 16;

const FRAME_INFO: &[u8] = b"capstan frame v1";

/// The cipher of a session's frames. The numbers are those on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Cipher {
    /// AES-256 in Galois counter mode: the fastest where the CPU has AES instructions.
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm = 1,
    /// ChaCha20-Poly1305: fast everywhere, and constant in time without AES instructions.
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305 = 2,
}

impl Cipher {
    /// The cipher of that number, if this version of the format knows it.
    pub const fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            1 => Self::Aes256Gcm,
            2 => Self::ChaCha20Poly1305,
            _ => return None,
        })
    }

    /// The faster one on this CPU.
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        let aes =
            std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let aes = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let aes = false;
        if aes { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes256Gcm => &aead::AES_256_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// Seals and opens the frames of one stream and purpose. Threads may share it.
pub struct FrameSealer {
    key: LessSafeKey,
    stream: StreamId,
}

impl FrameSealer {
    /// Derives and prepares the key of a stream's frames.
    ///
    /// A stream id is drawn anew for every run of a stream: sealing two texts with the same id and sequence would
    /// give away both.
    pub fn new(
        session_key: &[u8; 32],
        purpose: Purpose,
        stream: StreamId,
        cipher: Cipher,
    ) -> Result<Self, KeyError> {
        let info = [FRAME_INFO, &[purpose as u8], stream.as_bytes(), &[cipher as u8]];
        let key = prim::hkdf(&[], session_key, &info)?;
        let key = UnboundKey::new(cipher.algorithm(), key.as_slice())
            .map_err(|_| KeyError::Crypto("prepare a frame key"))?;
        Ok(Self { key: LessSafeKey::new(key), stream })
    }

    /// Encrypts `buf` in place and returns the tag; `ad` (the frame's header) is authenticated with it.
    ///
    /// Each sequence is used once in a stream's life.
    pub fn seal_in_place(
        &self,
        sequence: u64,
        ad: &[u8],
        buf: &mut [u8],
    ) -> Result<[u8; TAG_LEN], KeyError> {
        self.key
            .seal_in_place_separate_tag(nonce(sequence), Aad::from(ad), buf)
            .ok()
            .and_then(|tag| tag.as_ref().try_into().ok())
            .ok_or(KeyError::Crypto("seal a frame"))
    }

    /// Decrypts ciphertext and tag in place and returns the plain part of `buf`.
    ///
    /// After an error what `buf` holds is not to be used.
    pub fn open_in_place<'b>(
        &self,
        sequence: u64,
        ad: &[u8],
        buf: &'b mut [u8],
    ) -> Result<&'b mut [u8], KeyError> {
        self.key
            .open_in_place(nonce(sequence), Aad::from(ad), buf)
            .map_err(|_| KeyError::Frame { sequence, stream: self.stream })
    }
}

impl std::fmt::Debug for FrameSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameSealer").field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn nonce(sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&sequence.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}
