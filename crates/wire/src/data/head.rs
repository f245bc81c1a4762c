//! The head of each message of a data connection.
//!
//! | byte | what |
//! |---|---|
//! | 0 | kind |
//! | 1 to 3 | zero; a reader leaves them alone |
//! | 4 to 7 | bytes of the body |
//! | 8 to 11 | bytes of the payload, which follows the body |
//!
//! A body is what is understood. A payload is bulk: the bytes of a block or of a frame, read straight to where they belong.

use capstan_format::block::BLOCK_SIZE_MAX;
use capstan_format::frame::FRAME_STORED_MAX;

use super::DataError;

/// Bytes of an opening, or of an answer to it, at most: more is not read of whom nobody knows.
pub const LONGEST_OPENING: usize = 4 << 10;
/// Bytes of all other bodies at most, but for those of blocks.
const LONGEST_BODY: usize = 64 << 10;
/// Bytes of a block's body at most: a note of each frame, and what of the catalog is not in the block itself.
pub const LONGEST_NOTES: usize = BLOCK_SIZE_MAX as usize + (2 << 20);

/// What a message is. First those of who dials, a disk agent, then those of who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// For whom the connection is.
    Opening = 1,
    /// A block.
    Block = 2,
    /// The stream has nothing more for a segment.
    Left = 3,
    /// The stream, or all that is read of a port, has ended.
    End = 4,
    /// What will be asked for.
    Expect = 5,
    /// What is asked for by itself.
    Ask = 6,
    /// There is room for more bytes of frames.
    Room = 7,
    /// The connection is what it was opened for.
    Welcome = 16,
    /// It is not, and why.
    Refused = 17,
    /// Buffers are granted.
    Granted = 18,
    /// A segment is to end.
    Closing = 19,
    /// Nothing is taken, or served, any more, and why.
    Closed = 20,
    /// What ended has ended here too: all of it was taken.
    Ended = 21,
    /// A frame.
    Frame = 22,
    /// Bytes that cannot be had.
    Gap = 23,
    /// All that was expected was sent.
    Served = 24,
}

impl Kind {
    const ALL: [Self; 16] = [
        Self::Opening,
        Self::Block,
        Self::Left,
        Self::End,
        Self::Expect,
        Self::Ask,
        Self::Room,
        Self::Welcome,
        Self::Refused,
        Self::Granted,
        Self::Closing,
        Self::Closed,
        Self::Ended,
        Self::Frame,
        Self::Gap,
        Self::Served,
    ];

    /// Its byte. It never changes.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Bytes of its body and of its payload at most.
    const fn longest(self) -> (usize, usize) {
        match self {
            Self::Opening | Self::Welcome | Self::Refused => (LONGEST_OPENING, 0),
            Self::Block => (LONGEST_NOTES, BLOCK_SIZE_MAX as usize),
            Self::Frame => (LONGEST_BODY, FRAME_STORED_MAX),
            _ => (LONGEST_BODY, 0),
        }
    }
}

/// The head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the message is.
    pub kind: Kind,
    /// Bytes of its body.
    pub body: u32,
    /// Bytes of its payload.
    pub payload: u32,
}

impl Head {
    /// Bytes of a head.
    pub const LEN: usize = 12;

    /// Its bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.kind.byte();
        bytes[4..8].copy_from_slice(&self.body.to_le_bytes());
        bytes[8..].copy_from_slice(&self.payload.to_le_bytes());
        bytes
    }

    /// The head that these bytes are. Its lengths are checked, so that a reader may take as much memory.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, DataError> {
        let [byte, _, _, _, b0, b1, b2, b3, p0, p1, p2, p3] = *bytes;
        let body = u32::from_le_bytes([b0, b1, b2, b3]);
        let payload = u32::from_le_bytes([p0, p1, p2, p3]);
        let kind = Kind::ALL.into_iter().find(|kind| kind.byte() == byte);
        let kind = kind.ok_or(DataError::Kind(byte))?;
        let (most_body, most_payload) = kind.longest();
        if body as usize > most_body || payload as usize > most_payload {
            let bytes = u64::from(body) + u64::from(payload);
            return Err(DataError::TooLong { kind: byte, bytes });
        }
        Ok(Self { kind, body, payload })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_head_never_changes_its_bytes() {
        let head = Head { kind: Kind::Block, body: 0x0102, payload: 0x0304_0506 & 0x7f_ffff };
        assert_eq!(head.encode(), [2, 0, 0, 0, 2, 1, 0, 0, 6, 5, 4, 0]);
        let kinds: Vec<u8> = Kind::ALL.into_iter().map(Kind::byte).collect();
        assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 24]);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let decode = |kind: u8, body: u32, payload: u32| {
            let mut bytes = [0; Head::LEN];
            bytes[0] = kind;
            bytes[4..8].copy_from_slice(&body.to_le_bytes());
            bytes[8..].copy_from_slice(&payload.to_le_bytes());
            Head::decode(&bytes)
        };
        assert_eq!(decode(0, 0, 0), Err(DataError::Kind(0)));
        assert!(decode(1, 4096, 0).is_ok());
        assert!(matches!(decode(1, 4097, 0), Err(DataError::TooLong { kind: 1, bytes: 4097 })));
        assert!(matches!(decode(3, 0, 1), Err(DataError::TooLong { .. })));
        assert!(decode(2, 9, BLOCK_SIZE_MAX).is_ok());
        assert!(decode(2, 9, BLOCK_SIZE_MAX + 1).is_err());
        assert!(decode(22, u32::MAX, u32::MAX).is_err());
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
