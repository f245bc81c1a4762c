//! What is asked of stores.

use capstan_format::record::MediumHeader;
use serde::{Deserialize, Serialize};

use super::names::Store;

/// What is asked of stores: the methods of [`capstan_medium::host::Stores`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfStores {
    /// Its one name, as far as it is there.
    Whole(Store),
    /// The same of a store that has to be there.
    Resolve(Store),
    /// Whether it is there.
    IsThere(Store),
    /// Whether two names are those of one store.
    IsSame(Store, Store),
    /// The mount point at which nothing is mounted.
    EmptyMountPoint(Store),
    /// What is in a store.
    LookIn(Store),
    /// Whether a medium can be opened or made there.
    Foresee(Store),
    /// What the medium there says of itself.
    HeaderIn(Store),
    /// Whether its header file is damaged or missing.
    LostHeader(Store),
    /// The medium there as one of this header.
    MediumOf(Store, Box<MediumHeader>),
    /// Its header file is written anew.
    RewriteHeader(Store, Box<MediumHeader>),
    /// Whether there is a file that is named as a header.
    HasHeader(Store),
    /// The file system and its room.
    Space(Store),
    /// A backup of an internal database is laid there, made at that time. Its bytes follow.
    WriteIdbBackup(Store, i64),
    /// The backups of internal databases there.
    IdbBackups(Store),
    /// One of them, of at most so many bytes, which follow the answer.
    ReadIdbBackup(Store, String, u64),
}
