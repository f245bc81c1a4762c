//! Files of sections, as a sparse index and a table of outlines rest: both can be made again at any time, so what does not
//! fit, is damaged, or cannot be opened counts as missing.
//!
//! Four letters, a version, the length and CRC of a JSON header, the header, then sections: each is frames of a stream whose
//! id is drawn anew for each file, sealed with the names key where the session is encrypted.

use capstan_engine::entropy::Entropy;
use capstan_format::FormatError;
use capstan_format::codec::{Codec, Compressor, Decompressor, Method};
use capstan_format::crc::{crc32c_of, payload_crc};
use capstan_format::frame::{
    FRAME_HEADER_LEN, FRAME_PLAIN_DEFAULT, FrameHeader, FrameType, TAG_LEN, padded,
};
use capstan_format::id::StreamId;
use capstan_format::keys::FrameSealer;
use capstan_idb::CatalogFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{CatalogError, Result};

const PREFIX: usize = 16;
/// Most bytes of the JSON header: it names streams and sessions, tens of them and not thousands.
const HEADER_MAX: usize = 1 << 20;
/// Most bytes of a section: the rows of a catalog are far fewer.
const SECTION_MAX: u64 = 256 << 20;

/// What kind of file it is.
pub(super) struct Form {
    pub magic: &'static [u8; 4],
    /// A file of another version counts as missing.
    pub version: u32,
    /// What errors call it.
    pub what: &'static str,
}

/// Frames of the file, one after the other.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Section {
    /// Bytes after the header.
    at: u64,
    len: u64,
    /// The first frame's sequence.
    sequence: u64,
}

/// Such a file, open.
pub(super) struct SectionFile<H> {
    file: CatalogFile,
    sections_at: u64,
    what: &'static str,
    pub header: H,
}

impl<H: DeserializeOwned> SectionFile<H> {
    /// Reads the header; `None` unless all of that is as it was written by this version.
    pub fn open(form: &Form, file: CatalogFile) -> Option<Self> {
        let mut prefix = [0; PREFIX];
        file.read_exact_at(&mut prefix, 0).ok()?;
        let word =
            |at: usize| prefix[at..at + 4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
        let len = word(8) as usize;
        if !prefix.starts_with(form.magic) || word(4) != form.version || len > HEADER_MAX {
            return None;
        }
        let mut json = vec![0; len];
        file.read_exact_at(&mut json, PREFIX as u64).ok()?;
        if crc32c_of(&[&json]) != word(12) {
            return None;
        }
        let header = serde_json::from_slice(&json).ok()?;
        Some(Self { file, sections_at: (PREFIX + len) as u64, what: form.what, header })
    }
}

impl<H> SectionFile<H> {
    /// A section's bytes; `id` is what the file's sections are sealed under.
    pub fn section(
        &self,
        id: StreamId,
        section: Section,
        sealer: Option<&FrameSealer>,
    ) -> Result<Vec<u8>> {
        let cut = || bad(self.what)(FormatError::Truncated(self.what));
        if section.len > SECTION_MAX {
            return Err(cut());
        }
        let mut bytes = vec![0; section.len as usize];
        let at = self.sections_at.saturating_add(section.at);
        self.file.read_exact_at(&mut bytes, at).map_err(|_| cut())?;
        let (mut d, mut scratch, mut plain) = (Decompressor::default(), Vec::new(), Vec::new());
        let (mut all, mut rest, mut sequence) = (Vec::new(), &bytes[..], section.sequence);
        while !rest.is_empty() {
            let header = FrameHeader::decode(id, rest).map_err(bad(self.what))?;
            let stored = rest.get(FRAME_HEADER_LEN..FRAME_HEADER_LEN + header.stored as usize);
            let stored = stored.ok_or_else(cut)?;
            header.check_payload(id, stored).map_err(bad(self.what))?;
            if header.sequence != sequence {
                return Err(cut());
            }
            header
                .open(stored, sealer, &mut d, &mut scratch, &mut plain)
                .map_err(bad(self.what))?;
            all.extend_from_slice(&plain);
            rest = rest.get(header.total_len()..).ok_or_else(cut)?;
            sequence += 1;
        }
        Ok(all)
    }
}

/// Makes such a file.
pub(super) struct SectionWriter {
    id: StreamId,
    sequence: u64,
    bytes: Vec<u8>,
    compressor: Compressor,
}

impl SectionWriter {
    pub fn new() -> Result<Self> {
        let entropy = Entropy::system().map_err(CatalogError::io("read", "/dev/urandom"))?;
        let id = StreamId(entropy.id().map_err(CatalogError::io("read", "/dev/urandom"))?);
        Ok(Self { id, sequence: 0, bytes: Vec::new(), compressor: Compressor::default() })
    }

    /// What its sections are sealed under.
    pub fn id(&self) -> StreamId {
        self.id
    }

    pub fn put(&mut self, plain: &[u8], sealer: Option<&FrameSealer>) -> Result<Section> {
        let (at, sequence) = (self.bytes.len() as u64, self.sequence);
        for some in plain.chunks(FRAME_PLAIN_DEFAULT) {
            self.frame(some, sealer)?;
        }
        Ok(Section { at, len: self.bytes.len() as u64 - at, sequence })
    }

    fn frame(&mut self, plain: &[u8], sealer: Option<&FrameSealer>) -> Result<()> {
        let mut stored = Vec::new();
        let codec = self.compressor.compress(Method::Zstd(1), plain, &mut stored);
        if codec.is_none() {
            stored = plain.to_vec();
        }
        let tag = if sealer.is_some() { TAG_LEN } else { 0 };
        let mut header = FrameHeader {
            frame_type: FrameType::Batch,
            codec: codec.unwrap_or(Codec::None),
            sealed: sealer.is_some(),
            sequence: self.sequence,
            logical: 0,
            length: plain.len() as u64,
            stored: (stored.len() + tag) as u32,
            payload_crc: None,
        };
        if let Some(sealer) = sealer {
            // The checksum is no part of what is authenticated, but that there is one is.
            header.payload_crc = Some(0);
            let tag =
                sealer.seal_in_place(self.sequence, &header.associated_data(), &mut stored)?;
            stored.extend_from_slice(&tag);
        }
        header.payload_crc = Some(payload_crc(self.id, self.sequence, &stored));
        let at = self.bytes.len();
        self.bytes.resize(at + FRAME_HEADER_LEN, 0);
        header.encode(self.id, &mut self.bytes[at..]);
        self.bytes.extend_from_slice(&stored);
        self.bytes.resize(padded(self.bytes.len()), 0);
        self.sequence += 1;
        Ok(())
    }

    /// The file's bytes.
    pub fn finish(self, form: &Form, header: &impl Serialize) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(header)
            .map_err(|source| CatalogError::NotJson { what: form.what, source })?;
        let mut out = Vec::with_capacity(PREFIX + json.len() + self.bytes.len());
        out.extend_from_slice(form.magic);
        for word in [form.version, json.len() as u32, crc32c_of(&[&json])] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&json);
        out.extend_from_slice(&self.bytes);
        Ok(out)
    }
}

/// The error of what cannot be read of such a file.
pub(super) fn bad(what: &'static str) -> impl Fn(FormatError) -> CatalogError {
    move |source| CatalogError::Format { what: what.to_owned(), source }
}
