//! Why something of a segment cannot be read.

use capstan_engine::problem::{Explain, then};
use capstan_format::FormatError;
use capstan_format::id::SegmentId;
use capstan_medium::DeviceError;
use capstan_medium::os_errors::{is_far, is_refused};
use capstan_medium::tape::TapeError;

/// Why something of a segment cannot be read.
#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum ReadError {
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The operating system.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Of what.
        path: String,
        /// Why not.
        #[source]
        #[serde(with = "capstan_medium::os_form")]
        source: std::io::Error,
    },
    /// The bytes.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Another segment than the one that is recorded.
    #[error("another segment lies in the place of segment {}: {path}{then}", .recorded.short(), then = then(self.hint()))]
    Another {
        /// Where.
        path: String,
        /// The one that is recorded there.
        recorded: SegmentId,
    },
    /// The process is to end.
    #[error("it was stopped before all of it was read{then}", then = then(self.hint()))]
    Stopped,
}

impl Explain for ReadError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Another { .. } => "the medium was changed from outside, `capstan idb check` says what is recorded and not there".to_owned(),
            Self::Stopped => "do it again".to_owned(),
            Self::Device(e) => return e.hint(),
            Self::Format(e) => return e.hint(),
            Self::Io { .. } => return None,
        })
    }
}

impl ReadError {
    /// Whether it says nothing of what is to be read: that is elsewhere, others have it, a drive or the way to it failed, or a key is
    /// wanted.
    pub fn spares_segment(&self) -> bool {
        match self {
            Self::Device(e) => e.spares_medium(),
            Self::Io { source, .. } => {
                match source.get_ref().and_then(|e| e.downcast_ref::<TapeError>()) {
                    Some(tape) => tape.spares_tape() || tape.is_busy() || tape.is_away(),
                    None => is_far(source) || is_refused(source),
                }
            }
            Self::Format(_) | Self::Another { .. } => false,
            Self::Stopped => true,
        }
    }

    /// Whether it is a medium that is at hand and cannot be read there.
    pub fn blames_medium(&self) -> bool {
        match self {
            Self::Device(e) => e.blames_medium(),
            Self::Io { source, .. } => {
                let tape = source.get_ref().and_then(|e| e.downcast_ref::<TapeError>());
                tape.is_some_and(|e| e.blames_tape() && !e.is_no_tape())
            }
            _ => false,
        }
    }
}
