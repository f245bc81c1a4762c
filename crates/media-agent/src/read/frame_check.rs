//! Whether frames that are read open.

use std::collections::HashMap;

use capstan_format::FormatError;
use capstan_format::codec::Decompressor;
use capstan_format::frame::{FrameHeader, FrameType};
use capstan_format::id::{KeyId, StreamId};
use capstan_format::keys::{FrameSealer, KeyError, Purpose};
use capstan_format::record::SessionLabel;
use capstan_wire::keys::FrameKey;

/// Opens the encrypted frames of a segment where their keys are at hand.
pub(crate) struct Frames<'a> {
    keys: HashMap<(KeyId, Purpose), &'a FrameKey>,
    sealers: HashMap<(StreamId, Purpose), Option<FrameSealer>>,
    decompressor: Decompressor,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    /// Frames whose keys are not at hand.
    pub closed: u64,
}

impl<'a> Frames<'a> {
    /// Opens with these.
    pub fn new(keys: &'a [FrameKey]) -> Self {
        let purpose =
            |key: &FrameKey| if key.is_of_names { Purpose::Names } else { Purpose::Contents };
        Self {
            keys: keys.iter().map(|key| ((key.id, purpose(key)), key)).collect(),
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
                let sealer = sealer(&self.keys, purpose, label, stream);
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

/// What opens frames of a stream; nothing where its session has no key, or that was not given.
fn sealer(
    keys: &HashMap<(KeyId, Purpose), &FrameKey>,
    purpose: Purpose,
    label: Option<&SessionLabel>,
    stream: StreamId,
) -> Result<Option<FrameSealer>, KeyError> {
    let id = label.and_then(|label| label.key);
    let key = id.and_then(|id| keys.get(&(id, purpose)));
    key.map(|key| FrameSealer::new(&key.key.0, purpose, stream, key.cipher)).transpose()
}
