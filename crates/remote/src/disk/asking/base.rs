//! What a backup builds on, given to a disk agent on another host as far as there is room.

use capstan_format::id::StreamId;
use capstan_port::disk::base::{
    BaseBroken, BaseFile, BaseFiles, BaseRows, NamedRow, Pieces, RowPlace,
};
use capstan_wire::disk::ask::{FilesAsk, RowsEnd};
use capstan_wire::rows::{self, form};
use minicbor::{Decode, Encode};

use crate::connection::{Broken, Channel};
use crate::disk::post::{Item, Post};

/// Rows in one message.
const ROWS: usize = 256;

/// Where contents are asked for.
#[derive(Encode, Decode)]
pub(in crate::disk) struct PiecesAsked {
    #[cbor(n(0), with = "form")]
    pub stream: StreamId,
    #[cbor(n(1), with = "form")]
    pub at: RowPlace,
}

/// Where they are, or why that is not known.
#[derive(Encode, Decode)]
pub(in crate::disk) struct PiecesFound {
    #[cbor(n(0), with = "form")]
    pub found: Result<Option<Pieces>, String>,
}

/// Sends all rows. Ends when the other side needs no more of them.
pub(super) fn give_rows(channel: &Channel, base: &mut dyn BaseRows) -> Result<(), Broken> {
    let mut all: Vec<NamedRow> = Vec::with_capacity(ROWS);
    loop {
        let row = base.next();
        if let Ok(Some(row)) = row {
            all.push(row);
            if all.len() >= ROWS {
                channel.send(&rows::encode(&all)?)?;
                all.clear();
            }
            continue;
        }
        channel.send(&rows::encode(&all)?)?;
        return channel.tell(match row {
            Err(BaseBroken) => &RowsEnd::Broken,
            Ok(_) => &RowsEnd::Whole,
        });
    }
}

/// Answers what is asked about files, until the other side leaves.
pub(super) fn give_files(post: &Post, files: &dyn BaseFiles) -> Result<(), Broken> {
    loop {
        match post.hear::<FilesAsk>()? {
            FilesAsk::Each => each(post, files)?,
            FilesAsk::Enough => {}
            FilesAsk::Pieces => {
                let asked = post.rows::<PiecesAsked>()?.into_iter();
                let found = asked.map(|PiecesAsked { stream, at }| PiecesFound {
                    found: files.pieces(stream, at),
                });
                post.send(&found.collect::<Vec<_>>())?;
            }
        }
    }
}

/// Sends all files, and how that ended.
fn each(post: &Post, files: &dyn BaseFiles) -> Result<(), Broken> {
    let mut all: Vec<BaseFile> = Vec::with_capacity(ROWS);
    let mut sent = Ok(());
    let whole = files.each(&mut |file| {
        all.push(file);
        if all.len() >= ROWS {
            sent = post.send(&all);
            all.clear();
            // Whoever has enough says so, or is gone.
            let said = post.next::<FilesAsk>(std::time::Duration::ZERO);
            return sent.is_ok() && matches!(said, Ok(None | Some(Item::Rows(_))));
        }
        true
    });
    sent?;
    post.send(&all)?;
    post.tell(&whole)
}
