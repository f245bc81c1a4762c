//! A probe of a source before a backup: how fast one reader gets its files, and how well they compress.

use std::time::Duration;

use capstan_format::keys::Cipher;
use serde::{Deserialize, Serialize};

use crate::compression::Compression;

/// What the first files of a source showed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Bytes that were read.
    pub bytes: u64,
    /// In what time, opening and looking for the files included.
    pub time: Duration,
    /// Bytes that were compressed for a try.
    pub tried: u64,
    /// What these came to.
    pub shrunk: u64,
}

impl Probe {
    /// Bytes per second that one reader gets.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64().max(1e-6)
    }

    /// The same of what comes out where the session works on what it reads: what goes to the medium.
    pub fn made(&self) -> Self {
        let bytes = self.bytes as f64 / self.ratio();
        Self { bytes: bytes as u64, time: self.time, tried: 0, shrunk: 0 }
    }

    /// Bytes that compression makes one: 1 and more.
    pub fn ratio(&self) -> f64 {
        match self.shrunk {
            0 => 1.0,
            shrunk => (self.tried as f64 / shrunk as f64).max(1.0),
        }
    }
}

/// What a stream does with all that it reads: then it is part of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// How it compresses.
    pub compression: Compression,
    /// How it encrypts, if it does.
    pub cipher: Option<Cipher>,
}
