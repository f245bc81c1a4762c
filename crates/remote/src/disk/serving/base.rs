//! What a backup builds on, as it comes from the cell.

use std::collections::VecDeque;

use capstan_format::entry::Timestamp;
use capstan_format::id::StreamId;
use capstan_port::disk::base::{
    BaseBroken, BaseFile, BaseFiles, BaseRows, NamedRow, Pieces, RowPlace,
};
use capstan_wire::disk::ask::{FilesAsk, RowsEnd};
use capstan_wire::rows;
use parking_lot::Mutex;

use crate::connection::{Broken, Channel};
use crate::disk::asking::base::{PiecesAsked, PiecesFound};
use crate::disk::errors::lost;
use crate::disk::post::{Item, Post};

/// Rows of a base.
pub(super) struct RowsHere {
    channel: Channel,
    ahead: VecDeque<NamedRow>,
    end: Option<RowsEnd>,
}

impl RowsHere {
    pub fn of(channel: Channel) -> Self {
        Self { channel, ahead: VecDeque::new(), end: None }
    }

    fn more(&mut self) -> Result<(), Broken> {
        let message = self.channel.receive()?;
        match rows::are_rows(&message) {
            true => self.ahead = rows::decode::<NamedRow>(&message)?.into(),
            false => self.end = Some(capstan_wire::decode(&message)?),
        }
        Ok(())
    }
}

impl BaseRows for RowsHere {
    fn next(&mut self) -> Result<Option<NamedRow>, BaseBroken> {
        loop {
            if let Some(row) = self.ahead.pop_front() {
                return Ok(Some(row));
            }
            match self.end {
                Some(RowsEnd::Whole) => return Ok(None),
                Some(RowsEnd::Broken) => return Err(BaseBroken),
                None => self.more().map_err(|_| BaseBroken)?,
            }
        }
    }
}

/// Files of a base.
pub(super) struct FilesHere {
    /// One question at a time.
    post: Mutex<Post>,
    saved_by: Timestamp,
}

impl FilesHere {
    pub fn of(channel: Channel, saved_by: Timestamp) -> Result<Self, Broken> {
        Ok(Self { post: Mutex::new(Post::of(channel)?), saved_by })
    }

    fn ask_each(
        &self,
        each: &mut dyn FnMut(BaseFile) -> bool,
    ) -> Result<Result<(), String>, Broken> {
        let post = self.post.lock();
        post.tell(&FilesAsk::Each)?;
        let mut is_enough = false;
        loop {
            match post.wait::<Result<(), String>>()? {
                Item::Said(whole) => return Ok(if is_enough { Ok(()) } else { whole }),
                Item::Rows(message) => {
                    let mut all = rows::decode::<BaseFile>(&message)?.into_iter();
                    if !is_enough && !all.all(&mut *each) {
                        is_enough = true;
                        post.tell(&FilesAsk::Enough)?;
                    }
                }
            }
        }
    }

    fn ask_pieces(
        &self,
        stream: StreamId,
        at: RowPlace,
    ) -> Result<Result<Option<Pieces>, String>, Broken> {
        let post = self.post.lock();
        post.tell(&FilesAsk::Pieces)?;
        post.send(&[PiecesAsked { stream, at }])?;
        let found = post.rows::<PiecesFound>()?.pop();
        let found = found.ok_or_else(|| Broken::Message("no answer came".to_owned()))?;
        Ok(found.found)
    }
}

impl BaseFiles for FilesHere {
    fn saved_by(&self) -> Timestamp {
        self.saved_by
    }

    fn each(&self, each: &mut dyn FnMut(BaseFile) -> bool) -> Result<(), String> {
        self.ask_each(each).unwrap_or_else(|why| Err(lost(&why).to_string()))
    }

    fn pieces(&self, stream: StreamId, at: RowPlace) -> Result<Option<Pieces>, String> {
        self.ask_pieces(stream, at).unwrap_or_else(|why| Err(lost(&why).to_string()))
    }
}
