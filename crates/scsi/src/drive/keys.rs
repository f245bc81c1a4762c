//! The drive's own encryption with our key.
//!
//! A drive forgets its key when it is reset, and would then write in clear without a word. So once a key was set, nothing is
//! written or read after a reset or unload until the caller sets one again or says that none is wanted.

use super::Drive;
use crate::answers::encryption::{self, Algorithm, DriveKey, EncryptionStatus, NextBlock};
use crate::transport::Data;
use crate::{Error, cdb};

/// What became of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// None was set, or it was taken back.
    None,
    /// The drive has it.
    Set,
    /// The drive has forgotten it.
    Lost,
}

impl KeyState {
    /// The drive was reset.
    pub fn reset(&mut self) {
        if *self == Self::Set {
            *self = Self::Lost;
        }
    }

    /// The medium went, and the key with it: that is how the key was set.
    pub fn medium_gone(&mut self) {
        self.reset();
    }

    /// Whether blocks may pass.
    pub fn check(self, device: &str, doing: &'static str) -> Result<(), Error> {
        match self {
            Self::Lost => Err(Error::KeyLost { device: device.to_owned(), doing }),
            _ => Ok(()),
        }
    }
}

impl Drive {
    /// The algorithm that the drive would encrypt with. `None` where it cannot, or not by our key.
    pub fn encryption(&mut self) -> Result<Option<Algorithm>, Error> {
        let page = self.security_page(encryption::PAGE_CAPABILITIES)?;
        Ok(page.and_then(|page| encryption::choose(&encryption::algorithms(&page))))
    }

    /// What the drive is set to.
    pub fn encryption_status(&mut self) -> Result<Option<EncryptionStatus>, Error> {
        let page = self.security_page(encryption::PAGE_STATUS)?;
        Ok(page.and_then(|page| encryption::status(&page)))
    }

    /// Whether the next block is encrypted, and can be read.
    pub fn next_block_encryption(&mut self) -> Result<NextBlock, Error> {
        let page = self.security_page(encryption::PAGE_NEXT_BLOCK)?;
        Ok(page.map_or(NextBlock::Unknown, |page| encryption::next_block(&page)))
    }

    /// Whether the drive has the key that it was given last: it was not taken back, nor lost.
    pub fn has_key(&self) -> bool {
        self.key == KeyState::Set
    }

    /// Gives the drive a key: from now on it encrypts what is written, and decrypts what was encrypted with this key. The
    /// drive forgets it when the medium is taken out.
    pub fn set_encryption_key(&mut self, key: &DriveKey) -> Result<(), Error> {
        let algorithm = self
            .encryption()?
            .ok_or_else(|| self.lacks("AES-256 encryption that takes a key from us"))?;
        self.send_key(&encryption::set_key(algorithm.index, key))?;
        match self.encryption_status()? {
            Some(now) if now.encrypts && now.decrypts => {
                self.key = KeyState::Set;
                Ok(())
            }
            _ => {
                self.key = KeyState::Lost;
                Err(self
                    .device
                    .senseless(cdb::security_out(0, 0), "it took the key and does not encrypt"))
            }
        }
    }

    /// Makes the drive forget its key: from now on it writes in clear.
    pub fn clear_encryption_key(&mut self) -> Result<(), Error> {
        if let Some(algorithm) = self.encryption()? {
            self.send_key(&encryption::clear_key(algorithm.index))?;
            if self.encryption_status()?.is_none_or(|now| now.encrypts) {
                return Err(self.device.senseless(cdb::security_out(0, 0), "it still encrypts"));
            }
        }
        self.key = KeyState::None;
        Ok(())
    }

    fn send_key(&mut self, page: &[u8]) -> Result<(), Error> {
        let cdb = cdb::security_out(encryption::PAGE_SET, page.len() as u32);
        let result = self.device.run(cdb, Data::Out(page)).map(drop);
        self.settle();
        result
    }

    fn security_page(&mut self, page: u16) -> Result<Option<Vec<u8>>, Error> {
        let len = encryption::LEN;
        let answer = self.device.answer_if_any(cdb::security_in(page, len), len as usize);
        self.settle();
        answer
    }
}
