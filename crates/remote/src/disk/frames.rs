//! Stored frames on the channel of a conversation, where the port that has them is in the cell's process.
//!
//! The disk agent asks for a frame, gets it, and says whether it opened; if not, it gets it from another place, or hears why there is
//! none.

use capstan_engine::frames::{FramePort, Gap, Lack, OpenFrame, StoredFrame};
use capstan_engine::problem::Explain;
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
use capstan_format::id::StreamId;
use capstan_format::record::SessionLabel;
use capstan_wire::disk::told::FromAgent;
use capstan_wire::rows::{self, form};
use minicbor::{Decode, Encode};

use super::errors::lost;
use super::post::{FRAME, GAP, Post};
use crate::connection::Broken;

/// A gap, as a row.
#[derive(Encode, Decode)]
struct GapRow {
    #[n(0)]
    from: u64,
    #[n(1)]
    to: u64,
    #[cbor(n(2), with = "form")]
    why: Lack,
}

/// Serves one frame that was asked for.
pub(super) fn serve(
    post: &Post,
    port: &mut dyn FramePort,
    (stream, at): (StreamId, u64),
) -> Result<(), Broken> {
    let mut broken = None;
    let mut message = Vec::new();
    let mut open = |frame: &StoredFrame<'_>| -> Result<(), String> {
        let asked = encode(frame, stream, &mut message)
            .and_then(|()| post.channel().send(&message))
            .and_then(|()| verdict(&post.frame()?));
        match asked {
            Ok(verdict) => verdict,
            // No other place is of any use.
            Err(why) => {
                broken = Some(why);
                Ok(())
            }
        }
    };
    let given = port.frame_at(stream, at, &mut open);
    if let Some(why) = broken {
        return Err(why);
    }
    let Err(Gap { from, to, why }) = given else { return Ok(()) };
    let mut message = vec![GAP];
    message.extend(rows::encode(&[GapRow { from, to, why }])?);
    post.channel().send(&message)
}

/// A frame as a message: the label, the header, the stored bytes.
fn encode(frame: &StoredFrame<'_>, stream: StreamId, to: &mut Vec<u8>) -> Result<(), Broken> {
    let label = frame.label.map(capstan_wire::encode).transpose()?.unwrap_or_default();
    to.clear();
    to.push(FRAME);
    to.extend_from_slice(&(label.len() as u32).to_le_bytes());
    to.extend_from_slice(&label);
    let at = to.len();
    to.resize(at + FRAME_HEADER_LEN, 0);
    frame.header.encode(stream, &mut to[at..]);
    to.extend_from_slice(frame.stored);
    Ok(())
}

/// The frame of a message.
fn decode(
    message: &[u8],
    stream: StreamId,
) -> Result<(Option<SessionLabel>, FrameHeader, &[u8]), Broken> {
    let cut = || Broken::Message("a frame is cut".to_owned());
    let (length, rest) = message.get(1..).and_then(<[u8]>::split_first_chunk).ok_or_else(cut)?;
    let (label, rest) =
        rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
    let (header, stored) = rest.split_at_checked(FRAME_HEADER_LEN).ok_or_else(cut)?;
    let header = FrameHeader::decode(stream, header).map_err(|e| Broken::Message(e.to_string()))?;
    if header.stored as usize != stored.len() {
        return Err(cut());
    }
    let label = (!label.is_empty()).then(|| capstan_wire::decode(label)).transpose()?;
    Ok((label, header, stored))
}

/// What is said of a frame that came.
fn verdict(message: &[u8]) -> Result<Result<(), String>, Broken> {
    match message {
        [FRAME] => Ok(Ok(())),
        [FRAME, why @ ..] => Ok(Err(String::from_utf8_lossy(why).into_owned())),
        _ => Err(Broken::Message("it is not said whether a frame opened".to_owned())),
    }
}

/// The port at the disk agent's side.
pub(super) struct FramesThere<'p> {
    /// The conversation.
    pub post: &'p Post,
    /// Whether frames of any stream come, out of order.
    pub anywhere: bool,
}

impl FramesThere<'_> {
    fn ask(
        &mut self,
        (stream, at): (StreamId, u64),
        open: &mut OpenFrame<'_>,
    ) -> Result<Result<FrameHeader, Gap>, Broken> {
        self.post.tell(&FromAgent::<()>::Frame { anywhere: self.anywhere, stream, at })?;
        loop {
            let message = self.post.frame()?;
            if message.first() == Some(&GAP) {
                let mut gaps = rows::decode::<GapRow>(&message[1..])?;
                let none = || Broken::Message("a gap is none".to_owned());
                let GapRow { from, to, why } = gaps.pop().ok_or_else(none)?;
                return Ok(Err(Gap { from, to, why }));
            }
            let (label, header, stored) = decode(&message, stream)?;
            match open(&StoredFrame { label: label.as_ref(), header: &header, stored }) {
                Ok(()) => {
                    self.post.channel().send(&[FRAME])?;
                    return Ok(Ok(header));
                }
                Err(why) => {
                    let why = if why.is_empty() { "it does not open" } else { &why };
                    self.post.channel().send(&[&[FRAME], why.as_bytes()].concat())?;
                }
            }
        }
    }
}

impl FramePort for FramesThere<'_> {
    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Gap> {
        self.ask((stream, at), open).unwrap_or_else(|why| {
            Err(Gap { from: at, to: u64::MAX, why: Lack::Unread(lost(&why).problem()) })
        })
    }
}
