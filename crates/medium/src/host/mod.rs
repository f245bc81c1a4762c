//! A device host: where media, libraries and drives are opened.
//!
//! A cell has one as a value, and knows no kind of device. It may be in this process (`devices` has that one), or on another host.
//! What it does is in four traits: [`media`] opens media, [`tapes`] knows libraries, drives and the tapes in them, [`arrays`] arrays of
//! devices, [`stores`] what is in directories and their like beside media. All who wait for hands, robots and other sessions are told by it:
//! [`operator`], [`queue`], [`waits`]. [`ledger`] is what happens to tapes and drives; [`shared`] what hosts that share libraries
//! have in common; [`wanted`] a tape that somebody is to put in; [`placed`] and [`found_arrays`] where the members of arrays are.

pub mod arrays;
pub mod found_arrays;
pub mod ledger;
pub mod media;
pub mod operator;
pub mod placed;
pub mod queue;
pub mod shared;
pub mod stores;
pub mod tapes;
pub mod waits;
pub mod wanted;

use std::sync::Arc;

pub use arrays::{Arrays, KnownMembers, OpenArray};
pub use media::{Media, Unjudged, Writable};
pub use stores::Stores;
pub use tapes::Tapes;
pub use wanted::Wanted;

use self::operator::OperatorRequests;
use self::queue::Queue;
use self::waits::Waits;

/// A device host. Two hosts share nothing: the drives of one are to the other as those of another process.
pub trait DeviceHost: Media + Tapes + Arrays + Stores + Send + Sync {
    /// Tells all drives what was not told, at the end of the process. A drive with our key is waited for, some minutes at most. `say` gets
    /// what is worth knowing, in sentences.
    fn settle(&self, say: &dyn Fn(&str));
    /// Who is asked for tapes.
    fn operator(&self) -> &Arc<OperatorRequests>;
    /// Its waits for what others have.
    fn queue(&self) -> &Arc<Queue>;
    /// How long it waited for hands, robots and others.
    fn waits(&self) -> &Waits;
}
