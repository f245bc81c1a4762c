//! What is done to a medium as a whole: its header changed, its segments given up, all of it erased.

use capstan_format::record::MediumHeader;
use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::header::header_block;
use capstan_medium::names::{HEADER_NAME, HEADER_TEMPORARY, SUFFIX, segment_name};

use super::device::write_header;
use super::{StorageDevice, is_our_name};

impl StorageDevice {
    /// Gives the medium another header. The lock goes with the old one: nothing is to be written through this device
    /// after it.
    pub fn replace_header(self, header: &MediumHeader) -> Result<(), DeviceError> {
        let (storage, path) = (&**self.medium.storage(), self.medium.path());
        let block = header_block(header, path)?;
        let write = || -> std::io::Result<()> {
            if storage.list()?.iter().any(|n| n == HEADER_TEMPORARY) {
                storage.remove(HEADER_TEMPORARY)?;
            }
            write_header(storage, &block)?;
            storage.replace(HEADER_TEMPORARY, HEADER_NAME)?;
            storage.sync()
        };
        write().map_err(io_error("change the header of the medium in", path))
    }

    /// Removes all segments, durably; returns how many there were.
    pub fn remove_segments(&mut self) -> Result<usize, DeviceError> {
        let numbers = self.medium.segments()?;
        let storage = self.medium.storage();
        // The last first: what an interruption leaves begins at the begin.
        for number in numbers.iter().rev() {
            let removed = storage.remove(&segment_name(*number, SUFFIX));
            removed.map_err(io_error("remove", &self.name_of(*number)))?;
        }
        storage.sync().map_err(io_error("synchronise", self.medium.path()))?;
        Ok(numbers.len())
    }
}

impl StorageDevice {
    /// Removes all files of the medium, the header as the last: what an interruption leaves is a medium still, and can be
    /// erased again. `secure`: each is overwritten before. Returns what was only removed, as it is no file of the medium's own, with
    /// why.
    pub fn erase(self, secure: bool) -> Result<Vec<String>, DeviceError> {
        let (storage, path) = (self.medium.storage(), self.medium.path());
        let names = storage.list().map_err(io_error("list", path))?;
        let mut ours: Vec<String> = names.into_iter().filter(|n| is_our_name(n)).collect();
        // The last segments first, and the header after all others.
        ours.sort_by(|a, b| (a == HEADER_NAME, b).cmp(&(b == HEADER_NAME, a)));
        let mut left = Vec::new();
        for name in &ours {
            if secure {
                let place = format!("{path}/{name}");
                let why = storage.overwrite(name).map_err(io_error("overwrite", &place))?;
                left.extend(why.map(|why| format!("{place} {why}")));
            }
            storage.remove(name).map_err(io_error("remove", &format!("{path}/{name}")))?;
        }
        storage.sync().map_err(io_error("synchronise", path))?;
        Ok(left)
    }
}
