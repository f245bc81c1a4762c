//! What a stream is made with.

use std::sync::Arc;

use capstan_engine::ladder::Ladder;
use capstan_format::id::StreamId;
use capstan_format::keys::{FrameSealer, KeyError, Purpose};
use capstan_format::record::StreamLabel;
use capstan_wire::backup::Streams;
use capstan_wire::keys::SecretKey;

use crate::choice::CompressionChoice;

/// What a stream is made with.
pub struct StreamOptions {
    /// Its identity: new at every run.
    pub stream: StreamId,
    /// The label's JSON, in clear.
    pub label: Vec<u8>,
    /// The names' JSON, secret where the session is encrypted.
    pub names: Vec<u8>,
    /// Sealers of the names and contents keys, where the session is encrypted.
    pub sealers: Option<Sealers>,
    /// Whether payloads of data carry a CRC, and rows the checksums of their contents. Sealed payloads carry one all the same.
    pub crc: bool,
    /// How to compress.
    pub choice: CompressionChoice,
}

/// The two keys of an encrypted session, made ready for one stream.
pub struct Sealers {
    /// Seals batches and names.
    pub names: FrameSealer,
    /// Seals contents.
    pub contents: FrameSealer,
}

/// Why streams cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The session's keys are of no use.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What is to be said of a stream cannot be encoded.
    #[error("a label is not JSON: {0}")]
    Label(#[from] serde_json::Error),
}

impl StreamOptions {
    /// Those of the streams of a session. `ladder` is the choice of compression that they share.
    pub fn of(streams: &Streams, ladder: &Arc<Ladder>) -> Result<Vec<Self>, OptionsError> {
        let label = serde_json::to_vec(&StreamLabel { session: streams.label.clone() })?;
        let names = serde_json::to_vec(&streams.names)?;
        let one = |stream: &StreamId| {
            let sealers = streams.keys.as_ref().map(|keys| {
                let of = |key: &SecretKey, purpose| {
                    FrameSealer::new(&key.0, purpose, *stream, keys.cipher)
                };
                let names = of(&keys.names, Purpose::Names)?;
                Ok(Sealers { names, contents: of(&keys.contents, Purpose::Contents)? })
            });
            Ok(Self {
                stream: *stream,
                label: label.clone(),
                names: names.clone(),
                sealers: sealers.transpose().map_err(OptionsError::Key)?,
                crc: streams.crc,
                choice: CompressionChoice::new(streams.compression, ladder.clone()),
            })
        };
        streams.ids.iter().map(one).collect()
    }

    /// Whether payloads of data carry a CRC. What is sealed does: a tag is checked only by who has the key, and copies, repairs and
    /// consolidations pass frames on without it.
    pub(crate) fn has_payload_crc(&self) -> bool {
        self.crc || self.sealers.is_some()
    }
}
