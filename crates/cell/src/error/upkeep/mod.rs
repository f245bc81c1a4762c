//! What is not done in the upkeep of media and of the internal database.

mod idb;
mod locks;
mod media;

pub use idb::IdbRefusal;
pub use locks::LockRefusal;
pub use media::{TapeKnown, UpkeepRefusal};
