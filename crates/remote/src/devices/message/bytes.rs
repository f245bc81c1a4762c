//! Bytes as they are, behind a message: their number, then as many messages as they take.

use crate::connection::{Broken, Channel};

/// Bytes of one message.
const PIECE: usize = 1 << 20;

/// Sends bytes.
pub fn send_bytes(channel: &Channel, bytes: &[u8]) -> Result<(), Broken> {
    channel.tell(&(bytes.len() as u64))?;
    bytes.chunks(PIECE).try_for_each(|piece| channel.send(piece))
}

/// Takes bytes that the other side sends, at most so many.
pub fn hear_bytes(channel: &Channel, most: u64) -> Result<Vec<u8>, Broken> {
    let length: u64 = channel.hear()?;
    if length > most {
        return Err(Broken::TooMuch);
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let piece = channel.receive()?;
        if piece.is_empty() || bytes.len() as u64 + piece.len() as u64 > length {
            return Err(Broken::TooMuch);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
