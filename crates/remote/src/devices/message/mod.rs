//! What the side of a cell asks of a device host, and what it is asked back. Each question begins a conversation of its own; its answer
//! ends it. Fields that a reader does not know are left alone.

mod arrays;
mod bytes;
mod contents;
mod found;
mod media;
mod names;
mod segments;
mod storage;
mod stores;
mod tapes;

pub use self::arrays::{ArrayFacts, OfArray, OfArrays, OfHalfMade, OfMember};
pub use self::bytes::{hear_bytes, send_bytes};
pub use self::contents::{hear_contents, send_contents};
pub use self::found::{DeviceFound, HeldFound, LibraryFound, MediumFound, WritableFound};
pub use self::media::{OfDevice, OfMedia, OfWritable};
pub use self::names::{Dev, Dir, Lib, Store, TapeName};
pub use self::segments::{OfMediaAgent, OfSegment, ScanFound, SegmentFound};
pub use self::storage::{OfFile, OfNewFile, OfStorage};
pub use self::stores::OfStores;
pub use self::tapes::{OfLibrary, OfTapes};

use std::time::Duration;

use capstan_format::id::MediumId;
use capstan_medium::host::ledger::Event;
use serde::{Deserialize, Serialize};

/// The first message of a conversation that the side of the cell opens.
#[derive(Debug, Serialize, Deserialize)]
pub enum Question {
    /// The cell is there. What was opened for it is dropped when this conversation ends.
    Session,
    /// Who is asked for tapes is there, and so long are they waited for; who waits for what others have, and so long.
    Patience {
        /// How long the operator is waited for, where there is one; nothing inside means for ever.
        operator: Option<Option<Duration>>,
        /// How long others are waited for.
        queue: Option<Option<Duration>>,
    },
    /// Which tapes were asked for beforehand, by device: what each is called.
    Wishes(Vec<(String, String)>),
    /// Which of those who know things on the cell's side are there.
    Knows(Knows),
    /// What was opened is needed no more.
    Drop(Kind, u64),
    /// Drives are told what was not told.
    Settle,
    /// Of stores.
    Stores(OfStores),
    /// Of media.
    Media(OfMedia),
    /// Of what a medium lies on.
    Storage(u64, OfStorage),
    /// Of a file that is read.
    File(u64, OfFile),
    /// Of a file that is written.
    NewFile(u64, OfNewFile),
    /// Of a medium that is this cell's to write.
    Writable(u64, OfWritable),
    /// Of a device that segments are written to.
    Device(u64, OfDevice),
    /// Of libraries and tapes.
    Tapes(OfTapes),
    /// Of a library that was opened.
    Library(u64, OfLibrary),
    /// A medium that was tried will do.
    KeepTrial(u64),
    /// Of arrays.
    Arrays(OfArrays),
    /// Of an array that was opened.
    Array(u64, OfArray),
    /// Of the media agent.
    MediaAgent(OfMediaAgent),
    /// Of an array that is half made.
    HalfMade(Dev, OfHalfMade),
}

/// Kinds of what is opened at a device host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A medium.
    Medium,
    /// A medium that is held.
    Held,
    /// A file that is read.
    File,
    /// A file that is written.
    NewFile,
    /// A medium to write.
    Writable,
    /// A device.
    Device,
    /// An array.
    Array,
    /// What keeps others away.
    Lock,
    /// A library.
    Library,
    /// A medium that is tried.
    Trial,
    /// A segment that is read.
    Segment,
}

/// What is said to the side of the cell in a conversation that it began.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply<A> {
    /// A question, or what it is told.
    Asks(Asked),
    /// The answer, which ends the conversation.
    Is(A),
}

/// What the side of a cell is asked, or told, before it gets its answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Asked {
    /// The header of a medium that is made now.
    NewHeader,
    /// An identity for a new member.
    NewId,
    /// Members of an array that took the place of others.
    Rebuilt(MediumId),
    /// Members of an array that are not to be written to.
    Unfit(Box<ArrayFacts>),
    /// So many bytes more were written of a member.
    Followed(u64),
    /// What is worth knowing.
    Say(String),
}

/// What the side of a cell says while it finds out what of an array is unfit.
#[derive(Debug, Serialize, Deserialize)]
pub enum Judging {
    /// It asks something of a member, by its place.
    Asks(usize, OfMember),
    /// These are unfit, by their places, and why.
    Is(Vec<(usize, String)>),
}

/// Who knows things on the side of the cell.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Knows {
    /// What it shares with other hosts.
    Common,
    /// Who keeps what happens to tapes.
    Ledger,
    /// What is on record against drives.
    Drives,
    /// Which tapes are exported.
    Exported,
}

/// The first message of a conversation that the device host opens.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToCell {
    /// The operator is told to do something.
    Tell(String),
    /// What a drive waits for, or that it waits no longer.
    Board(String, Option<String>),
    /// What is known of who has something is to be put into a sentence.
    Name(String),
    /// A sentence that says why it is waited.
    Waits(String),
    /// What a wait is for and how long it has been, or that it is over.
    WaitBoard(u64, Option<(String, Duration)>),
    /// How long the host has waited for hands, robots and others; and for others alone. It is told while the conversation lasts.
    Waited,
    /// Something happened to a tape.
    Happened(Event),
    /// What is on record against drives of a library.
    OnRecord(Lib),
    /// Whether a tape of a library is exported.
    Exported(Lib, String),
    /// A robot is booked until the conversation ends.
    Book(String),
    /// A drive is claimed until the conversation ends.
    Claim(String),
    /// Somebody may have changed tapes in a library.
    Disturbed(Lib),
}
