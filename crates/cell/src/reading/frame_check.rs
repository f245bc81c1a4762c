//! Whether frames that are read open.

use std::collections::HashMap;

use capstan_catalog::keys::VersionKeys;
use capstan_format::FormatError;
use capstan_format::codec::Decompressor;
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::StreamId;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_format::record::SessionLabel;

/// Opens the encrypted frames of a segment where their keys are at hand.
pub(crate) struct Frames<'a> {
    keys: &'a VersionKeys,
    sealers: HashMap<(StreamId, Purpose), Option<FrameSealer>>,
    decompressor: Decompressor,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    /// Frames whose keys are not at hand.
    pub closed: u64,
}

impl<'a> Frames<'a> {
    pub fn new(keys: &'a VersionKeys) -> Self {
        Self {
            keys,
            sealers: HashMap::new(),
            decompressor: Decompressor::default(),
            scratch: Vec::new(),
            plain: Vec::new(),
            closed: 0,
        }
    }

    /// Whether a frame opens; one without a key is counted and passes.
    pub fn check(
        &mut self,
        label: Option<&SessionLabel>,
        stream: StreamId,
        header: &FrameHeader,
        stored: &[u8],
    ) -> std::result::Result<(), FormatError> {
        let purpose = match header.frame_type {
            FrameType::Batch | FrameType::Names | FrameType::Sums => Purpose::Names,
            FrameType::Data => Purpose::Contents,
            _ => return Ok(()),
        };
        let sealer = match self.sealers.entry((stream, purpose)) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let sealer = self.keys.sealer(purpose, label, stream);
                place.insert(sealer.map_err(|_| FormatError::Sealed("frame"))?)
            }
        };
        if sealer.is_none() {
            self.closed += u64::from(header.sealed);
            return Ok(());
        }
        header.open(
            stored,
            sealer.as_ref(),
            &mut self.decompressor,
            &mut self.scratch,
            &mut self.plain,
        )
    }
}
