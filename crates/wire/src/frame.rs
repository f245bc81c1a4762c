//! The frames of a connection between two parts of a cell: what goes over it, byte by byte.
//!
//! A frame is a head of [`Head::LEN`] bytes and a payload. All numbers are little-endian. A connection carries many *channels*, each a
//! conversation of its own; what a frame says is said on one channel, or on none (0) where it is about the connection itself.
//!
//! | byte | what |
//! |---|---|
//! | 0 | kind |
//! | 1 to 3 | zero; a reader leaves them alone |
//! | 4 to 7 | channel |
//! | 8 to 11 | bytes of the payload |

/// The longest payload of a frame, in bytes. A longer message goes in several frames, so that others are not kept waiting.
pub const LONGEST_PAYLOAD: usize = 64 << 10;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The first frame of each side: a [`crate::hello::Hello`] in JSON.
    Hello,
    /// A channel is opened by the side whose numbers are odd or even.
    Open,
    /// A part of a message; more of it follows.
    Part,
    /// A message, or the last part of one.
    Last,
    /// The receiver has room for so many more bytes of the channel: a number of 4 bytes.
    Credit,
    /// The sender asks the other side to end what it does on the channel.
    Stop,
    /// The sender says nothing more on the channel.
    End,
    /// The sender is alive.
    Beat,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Hello,
        Self::Open,
        Self::Part,
        Self::Last,
        Self::Credit,
        Self::Stop,
        Self::End,
        Self::Beat,
    ];

    /// Its byte. It never changes.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Open => 2,
            Self::Part => 3,
            Self::Last => 4,
            Self::Credit => 5,
            Self::Stop => 6,
            Self::End => 7,
            Self::Beat => 8,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the frame is.
    pub kind: Kind,
    /// The channel, or 0.
    pub channel: u32,
    /// Bytes of the payload, at most [`LONGEST_PAYLOAD`].
    pub length: u32,
}

/// What came is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Its kind is unknown.
    #[error("a frame of the unknown kind {0} came")]
    Kind(u8),
    /// It is too long.
    #[error("a frame of {0} bytes came; at most {LONGEST_PAYLOAD} are allowed")]
    TooLong(u32),
    /// It is not on the channel that it has to be on, or is as long as none of its kind.
    #[error("a frame came that makes no sense on channel {0}")]
    Senseless(u32),
}

impl Head {
    /// Bytes of a head.
    pub const LEN: usize = 12;

    /// Its bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.kind.byte();
        bytes[4..8].copy_from_slice(&self.channel.to_le_bytes());
        bytes[8..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The head that these bytes are. Its length is checked, so that a reader may take as much memory.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, FrameError> {
        let [kind, _, _, _, c0, c1, c2, c3, l0, l1, l2, l3] = *bytes;
        let channel = u32::from_le_bytes([c0, c1, c2, c3]);
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let kind = Kind::of_byte(kind).ok_or(FrameError::Kind(kind))?;
        if length as usize > LONGEST_PAYLOAD {
            return Err(FrameError::TooLong(length));
        }
        let fits = match kind {
            Kind::Hello => channel == 0,
            Kind::Beat => channel == 0 && length == 0,
            Kind::Part | Kind::Last => channel != 0,
            Kind::Credit => channel != 0 && length == 4,
            Kind::Open | Kind::Stop | Kind::End => channel != 0 && length == 0,
        };
        match fits {
            true => Ok(Self { kind, channel, length }),
            false => Err(FrameError::Senseless(channel)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_head_never_changes_its_bytes() {
        let head = Head { kind: Kind::Credit, channel: 0x0102_0304, length: 4 };
        assert_eq!(head.encode(), [5, 0, 0, 0, 4, 3, 2, 1, 4, 0, 0, 0]);
        let kinds: Vec<u8> = Kind::ALL.into_iter().map(Kind::byte).collect();
        assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let decode = |kind: u8, channel: u32, length: u32| {
            let mut bytes = [0; Head::LEN];
            bytes[0] = kind;
            bytes[4..8].copy_from_slice(&channel.to_le_bytes());
            bytes[8..].copy_from_slice(&length.to_le_bytes());
            Head::decode(&bytes)
        };
        assert_eq!(decode(0, 1, 0), Err(FrameError::Kind(0)));
        assert_eq!(decode(9, 1, 0), Err(FrameError::Kind(9)));
        assert_eq!(decode(4, 1, 65537), Err(FrameError::TooLong(65537)));
        assert_eq!(decode(4, 0, 1), Err(FrameError::Senseless(0)));
        assert_eq!(decode(1, 3, 1), Err(FrameError::Senseless(3)));
        assert_eq!(decode(5, 3, 5), Err(FrameError::Senseless(3)));
        assert_eq!(decode(7, 3, 1), Err(FrameError::Senseless(3)));
        assert!(decode(4, 7, 65536).is_ok());
    }

    proptest! {
        #[test]
        fn bytes_that_are_a_head_are_its_bytes(bytes: [u8; Head::LEN]) {
            if let Ok(head) = Head::decode(&bytes) {
                prop_assert_eq!(Head::decode(&head.encode()), Ok(head));
            }
        }
    }
}
