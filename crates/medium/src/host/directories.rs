//! What is in directories of a device host, beside media that can be opened.

use std::path::{Path, PathBuf};

use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;

use crate::{DeviceError, OpenMedium};

/// What is in a directory that a medium may be made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InDirectory {
    /// Nothing: it is new or empty, or has a header that was not written to its end.
    Nothing,
    /// The header of a medium and no more.
    HeaderOnly,
    /// Something else.
    More,
}

/// What is left where a directory has a medium without a header file that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Tells it from others of its host.
    pub file_system: u64,
    /// Bytes that are free to this user.
    pub free: u64,
    /// Bytes that are used.
    pub used: u64,
}

/// A backup of an internal database in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdbBackup {
    /// The name of its file.
    pub name: String,
    /// When it was made, in microseconds since 1970, as its name says it.
    pub created_us: Option<i64>,
}

/// What a device host does with directories.
pub trait Directories {
    /// A path without links, as far as it is there.
    fn whole(&self, path: &Path) -> PathBuf;
    /// The path without links of a directory that is there.
    fn resolve(&self, path: &Path) -> std::io::Result<PathBuf>;
    /// The mount point on record at which nothing is mounted now, if a directory is it or lies below it, and nothing else is in it. The
    /// directory need not be there yet.
    fn empty_mount_point(&self, directory: &Path) -> Option<PathBuf>;
    /// Looks into a directory that a medium may be made in. One that is not there has nothing.
    fn look_in(&self, path: &Path) -> Result<InDirectory, DeviceError>;
    /// Refuses a directory in which a medium cannot be opened or made to write, and makes nothing. Gives the size of the blocks of the
    /// medium, where one is there.
    fn foresee(&self, path: &Path) -> Result<Option<u32>, DeviceError>;
    /// What the medium in a directory says of itself; it may be a member of an array.
    fn header_in(&self, path: &Path) -> Result<MediumHeader, DeviceError>;
    /// Looks whether the header file of the medium in a directory is damaged or missing. A directory with neither a header file nor a
    /// segment has no medium, and one whose format is too new has a header.
    fn lost_header(&self, path: &Path) -> Result<Option<LostHeader>, DeviceError>;
    /// The medium in a directory as one of this header, whatever its header file says.
    fn medium_of(&self, path: &Path, header: MediumHeader) -> Result<OpenMedium, DeviceError>;
    /// Writes the header file of the medium in a directory anew, durably, while nobody writes to the medium.
    fn rewrite_header(&self, path: &Path, header: &MediumHeader) -> Result<(), DeviceError>;
    /// Whether a directory has a file that is named as the header of a medium.
    fn has_header(&self, path: &Path) -> bool;
    /// The file system on which a directory lies, or would lie if it was made; nothing where it counts no blocks, as file systems do
    /// that store nothing (proc, sysfs).
    fn space(&self, path: &Path) -> Option<Space>;
    /// Lays a backup of the internal database into a medium's directory, under a name made from the time, and removes all but the
    /// newest ones. It has its name only when it is durable.
    fn write_idb_backup(&self, dir: &Path, time_us: i64, bytes: &[u8]) -> Result<(), DeviceError>;
    /// The backups of internal databases in a directory, newest first.
    fn idb_backups(&self, dir: &Path) -> Result<Vec<IdbBackup>, DeviceError>;
    /// Reads a backup of an internal database in a directory. One that is larger than `most` bytes is refused.
    fn read_idb_backup(&self, dir: &Path, name: &str, most: u64) -> std::io::Result<Vec<u8>>;
}
