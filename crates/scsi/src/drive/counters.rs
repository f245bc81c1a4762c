//! What a drive says of itself: tape alerts and counters.

use super::Drive;
use crate::answers::alerts::Alert;
use crate::answers::log::{self, LogPage, Statistics};
use crate::{Error, cdb};

impl Drive {
    /// The tape alerts that the drive has raised; reading them clears them in the drive. None where it has no such page.
    pub fn alerts(&mut self) -> Result<Vec<Alert>, Error> {
        Ok(self.log_page(log::PAGE_ALERTS)?.map(|page| page.alerts()).unwrap_or_default())
    }

    /// What the drive counted. What it does not count is absent.
    pub fn statistics(&mut self) -> Result<Statistics, Error> {
        const PAGES: [u8; 6] = [
            log::PAGE_WRITE_ERRORS,
            log::PAGE_READ_ERRORS,
            log::PAGE_SEQUENTIAL,
            log::PAGE_DEVICE_STATUS,
            log::PAGE_COMPRESSION,
            log::PAGE_OLD_COMPRESSION,
        ];
        let mut statistics = Statistics::default();
        let bytes = self.log_bytes(log::PAGE_SUPPORTED)?;
        let known = bytes.map(|bytes| LogPage::decode_list(&bytes)).unwrap_or_default();
        for code in PAGES.into_iter().filter(|code| known.contains(code)) {
            if let Some(page) = self.log_page(code)? {
                statistics.add(code, &page);
            }
        }
        Ok(statistics)
    }

    /// What the tape that is loaded holds, in bytes, where the drive says it.
    pub fn capacity(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.log_page(log::PAGE_CAPACITY)?.and_then(|page| page.capacity()))
    }

    /// What is left of the tape, in bytes at the medium, where the drive says it.
    pub fn room(&mut self) -> Result<Option<u64>, Error> {
        Ok(self.log_page(log::PAGE_CAPACITY)?.and_then(|page| page.room()))
    }

    fn log_page(&mut self, code: u8) -> Result<Option<LogPage>, Error> {
        Ok(self.log_bytes(code)?.and_then(|bytes| LogPage::decode(&bytes, code)))
    }

    fn log_bytes(&mut self, code: u8) -> Result<Option<Vec<u8>>, Error> {
        let answer = self.device.answer_if_any(cdb::log_sense(code, log::LEN), log::LEN);
        self.settle();
        answer
    }
}
