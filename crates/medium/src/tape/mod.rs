//! What is said of tapes, drives and libraries: values, without a drive.
//!
//! [`error`] is why a drive or a library did not do what it was asked for. [`library`] is the narrow door to a library, with
//! its places and what lies there; [`found`] is what is found on tapes. [`reports`] has what drives say of themselves, [`speeds`] how fast they are, [`spot`] places on a tape, [`generation`] which drive takes which tape,
//! [`struck`] planned faults of virtual ones.

pub mod error;
pub mod found;
pub mod generation;
pub mod library;
pub mod reports;
pub mod speeds;
pub mod spot;
pub mod struck;

pub use error::{ANOTHER_HOST, TapeError};
pub use found::{FoundDevice, OnTape};
/// Bytes of the blocks of a tape that passed by last which a drive keeps in memory, for who reads streams that were multiplexed.
pub const WINDOW: usize = 32 << 20;

pub use generation::Media;
pub use library::{DriveInfo, Elements, Held, Place, TapeLibrary, is_spare};
pub use reports::{Alert, Counters, DriveSession, Mount, Severity, Statistics};
pub use speeds::Speeds;
pub use spot::Spot;
pub use struck::Struck;
