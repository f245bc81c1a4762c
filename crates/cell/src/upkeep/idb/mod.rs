//! That the internal database can be trusted, and had again: its check, its figures, its catalogs from the media, and its
//! own backup beside the data.

mod backup;
mod check;
mod found;
mod load;
mod moving;
mod on_tape;
mod pages;
mod recover;
mod stats;

pub use self::backup::{RECOVERY_FILE, RecoveryKey};
pub use self::check::Finding;
pub use self::found::UnreadBackup;
pub use self::load::{LoadRequest, Loaded};
pub use self::moving::move_database;
pub use self::recover::{Recovered, RecoveredMedium, recover, refuse_half_recovered};
pub use self::stats::{IdbStats, StatsBackup};
