//! What is in stores of a device host, beside media that can be opened.

use std::path::PathBuf;

use capstan_address::StoreAddress;
use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;
use serde::{Deserialize, Serialize};

use crate::{DeviceError, OpenMedium};

/// What is in a store that a medium may be made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InStore {
    /// Nothing: it is new or empty, or has a header that was not written to its end.
    Nothing,
    /// The header of a medium and no more.
    HeaderOnly,
    /// Something else.
    More,
}

/// What is left where a store has a medium without a header file that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostHeader {
    /// What is wrong with the file, in words.
    pub problem: String,
    /// The medium's header as its segments repeat it, each different one once, the newest last.
    pub headers: Vec<MediumHeader>,
    /// The segment that has the last of them.
    pub newest: Option<SegmentNumber>,
    /// How many segments there are, also such as cannot be read.
    pub segments: usize,
}

/// A file system and its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Tells it from others of its host.
    pub file_system: u64,
    /// Bytes that are free to this user.
    pub free: u64,
    /// Bytes that are used.
    pub used: u64,
}

/// A backup of an internal database in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdbBackup {
    /// The name of its file.
    pub name: String,
    /// When it was made, in microseconds since 1970, as its name says it.
    pub created_us: Option<i64>,
}

/// What a device host does with stores. What only directories of a file system have (links, mount points, room) has an answer for any
/// kind.
pub trait Stores {
    /// The same store by its one name, as far as it is there: a directory without links.
    fn whole(&self, store: &StoreAddress) -> StoreAddress;
    /// The same of a store that has to be there.
    fn resolve(&self, store: &StoreAddress) -> std::io::Result<StoreAddress>;
    /// Whether it is there, with a medium or without.
    fn is_there(&self, store: &StoreAddress) -> bool;
    /// Whether two names are those of one store, which is there.
    fn is_same(&self, one: &StoreAddress, other: &StoreAddress) -> bool;
    /// The mount point on record at which nothing is mounted now, if a directory is it or lies below it, and nothing else is in it. The
    /// directory need not be there yet. Other stores are mounted nowhere.
    fn empty_mount_point(&self, store: &StoreAddress) -> Option<PathBuf>;
    /// Looks into a store that a medium may be made in. One that is not there has nothing.
    fn look_in(&self, store: &StoreAddress) -> Result<InStore, DeviceError>;
    /// Refuses a store in which a medium cannot be opened or made to write, and makes nothing. Gives the size of the blocks of the
    /// medium, where one is there.
    fn foresee(&self, store: &StoreAddress) -> Result<Option<u32>, DeviceError>;
    /// What the medium in a store says of itself; it may be a member of an array.
    fn header_in(&self, store: &StoreAddress) -> Result<MediumHeader, DeviceError>;
    /// Looks whether the header file of the medium in a store is damaged or missing. A store with neither a header file nor a
    /// segment has no medium, and one whose format is too new has a header.
    fn lost_header(&self, store: &StoreAddress) -> Result<Option<LostHeader>, DeviceError>;
    /// The medium in a store as one of this header, whatever its header file says.
    fn medium_of(
        &self,
        store: &StoreAddress,
        header: MediumHeader,
    ) -> Result<OpenMedium, DeviceError>;
    /// Writes the header file of the medium in a store anew, durably, while nobody writes to the medium.
    fn rewrite_header(
        &self,
        store: &StoreAddress,
        header: &MediumHeader,
    ) -> Result<(), DeviceError>;
    /// Whether a store has a file that is named as the header of a medium.
    fn has_header(&self, store: &StoreAddress) -> bool;
    /// The file system on which a directory lies, or would lie if it was made; nothing where it counts no blocks, as file systems do
    /// that store nothing (proc, sysfs), and nothing of a store that has no end.
    fn space(&self, store: &StoreAddress) -> Option<Space>;
    /// Lays a backup of the internal database into a medium's store, under a name made from the time, and removes all but the
    /// newest ones. It has its name only when it is durable.
    fn write_idb_backup(
        &self,
        store: &StoreAddress,
        time_us: i64,
        bytes: &[u8],
    ) -> Result<(), DeviceError>;
    /// The backups of internal databases in a store, newest first.
    fn idb_backups(&self, store: &StoreAddress) -> Result<Vec<IdbBackup>, DeviceError>;
    /// Reads a backup of an internal database in a store. One that is larger than `most` bytes is refused.
    fn read_idb_backup(
        &self,
        store: &StoreAddress,
        name: &str,
        most: u64,
    ) -> std::io::Result<Vec<u8>>;
}
