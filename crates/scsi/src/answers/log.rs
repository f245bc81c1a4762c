//! Counters of a drive: log pages, errors, bytes, compression, cleaning, tape alerts.

use std::collections::BTreeMap;

use super::alerts::Alert;
use crate::bytes::{number_at, part, u8_at, u16_at};

/// The list of pages.
pub const PAGE_SUPPORTED: u8 = 0x00;
/// Errors when writing.
pub const PAGE_WRITE_ERRORS: u8 = 0x02;
/// Errors when reading.
pub const PAGE_READ_ERRORS: u8 = 0x03;
/// Bytes through the drive, and whether it wants cleaning.
pub const PAGE_SEQUENTIAL: u8 = 0x0c;
/// The drive's state.
pub const PAGE_DEVICE_STATUS: u8 = 0x11;
/// Compression ratios.
pub const PAGE_COMPRESSION: u8 = 0x1b;
/// Tape alerts.
pub const PAGE_ALERTS: u8 = 0x2e;
/// What the tape holds and what is left of it.
pub const PAGE_CAPACITY: u8 = 0x31;
/// Compression ratios of older drives, of the same form.
pub const PAGE_OLD_COMPRESSION: u8 = 0x32;
/// Length asked for.
pub const LEN: usize = 8192;

/// In the page of capacities: what is left of the main partition, and what it holds, in MiB.
const LEFT: u16 = 1;
const WHOLE: u16 = 3;

/// A log page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    parameters: BTreeMap<u16, Vec<u8>>,
}

impl LogPage {
    /// Decodes a page. `None` where it is another one.
    pub fn decode(bytes: &[u8], code: u8) -> Option<Self> {
        if bytes.len() < 4 || bytes[0] & 0x3f != code {
            return None;
        }
        let mut rest = part(bytes, 4, u16_at(bytes, 2).into());
        let mut parameters = BTreeMap::new();
        while rest.len() >= 4 {
            let len = usize::from(rest[3]);
            let value = part(rest, 4, len);
            // One that is cut off is not half a number.
            if value.len() == len {
                parameters.insert(u16_at(rest, 0), value.to_vec());
            }
            rest = part(rest, 4 + len, usize::MAX);
        }
        Some(Self { parameters })
    }

    /// The pages that the list names.
    pub fn decode_list(bytes: &[u8]) -> Vec<u8> {
        match u8_at(bytes, 0) & 0x3f {
            PAGE_SUPPORTED => {
                part(bytes, 4, u16_at(bytes, 2).into()).iter().map(|p| p & 0x3f).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A parameter's bytes.
    pub fn bytes(&self, code: u16) -> Option<&[u8]> {
        self.parameters.get(&code).map(Vec::as_slice)
    }

    /// A parameter as a number, where it is one of at most eight bytes.
    pub fn number(&self, code: u16) -> Option<u64> {
        let bytes = self.bytes(code)?;
        // All ones: the drive does not know.
        let known = !bytes.is_empty() && bytes.len() <= 8 && bytes.iter().any(|b| *b != 0xff);
        known.then(|| number_at(bytes, 0, bytes.len()))
    }

    /// What the tape's main partition holds, in bytes, from the page of capacities. Nothing where the numbers cannot be.
    pub fn capacity(&self) -> Option<u64> {
        let whole = self.number(WHOLE).filter(|mib| *mib > 0)?;
        let is_sane = self.number(LEFT).is_none_or(|left| left <= whole);
        is_sane.then(|| whole.checked_mul(1 << 20)).flatten()
    }

    /// What is left of it, in bytes, from the same page.
    pub fn room(&self) -> Option<u64> {
        self.capacity()?;
        self.number(LEFT)?.checked_mul(1 << 20)
    }

    /// The tape alerts that are raised.
    pub fn alerts(&self) -> Vec<Alert> {
        let raised = self.parameters.iter().filter(|(_, value)| u8_at(value, 0) & 1 != 0);
        raised.filter_map(|(code, _)| Alert::new(*code)).collect()
    }
}

/// Errors in one direction since the counters were last cleared, most often since the medium was loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounters {
    /// Errors that the drive corrected.
    pub corrected: Option<u64>,
    /// Blocks that were written or read again.
    pub retries: Option<u64>,
    /// Errors that stayed.
    pub uncorrected: Option<u64>,
    /// Bytes that went through.
    pub bytes: Option<u64>,
}

impl ErrorCounters {
    /// From the page of errors of one direction.
    pub fn of(page: &LogPage) -> Self {
        Self {
            corrected: page.number(3),
            retries: page.number(2),
            uncorrected: page.number(6),
            bytes: page.number(5),
        }
    }
}

/// What a drive counted. What it does not count is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Statistics {
    /// Errors when writing.
    pub write: ErrorCounters,
    /// Errors when reading.
    pub read: ErrorCounters,
    /// Bytes that hosts wrote.
    pub bytes_written: Option<u64>,
    /// Bytes that these took on tape.
    pub bytes_on_tape: Option<u64>,
    /// Bytes written per byte on tape, as the drive states it or as the two above give it.
    pub compression_ratio: Option<f64>,
    /// The drive wants to be cleaned.
    pub wants_cleaning: Option<bool>,
}

impl Statistics {
    /// Takes up what a page says.
    pub fn add(&mut self, code: u8, page: &LogPage) {
        match code {
            PAGE_WRITE_ERRORS => self.write = ErrorCounters::of(page),
            PAGE_READ_ERRORS => self.read = ErrorCounters::of(page),
            PAGE_SEQUENTIAL => self.add_sequential(page),
            PAGE_COMPRESSION | PAGE_OLD_COMPRESSION => self.add_ratio(page.number(1)),
            PAGE_DEVICE_STATUS => {
                if let Some(state) = page.bytes(0).filter(|state| !state.is_empty()) {
                    self.add_cleaning(state[0] & 0x06 != 0);
                }
            }
            _ => {}
        }
    }

    fn add_sequential(&mut self, page: &LogPage) {
        (self.bytes_written, self.bytes_on_tape) = (page.number(0), page.number(1));
        if let Some(cleaning) = page.number(0x100) {
            self.add_cleaning(cleaning != 0);
        }
        if let (None, Some(from), Some(to)) =
            (self.compression_ratio, self.bytes_written, self.bytes_on_tape)
        {
            self.compression_ratio = (to > 0).then(|| from as f64 / to as f64);
        }
    }

    fn add_ratio(&mut self, hundredths: Option<u64>) {
        if let Some(hundredths) = hundredths.filter(|n| *n > 0) {
            self.compression_ratio = Some(hundredths as f64 / 100.0);
        }
    }

    /// One page that asks for cleaning is enough.
    fn add_cleaning(&mut self, wanted: bool) {
        self.wants_cleaning = Some(wanted || self.wants_cleaning == Some(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(code: u8, parameters: &[(u16, &[u8])]) -> LogPage {
        let mut body = Vec::new();
        for (parameter, value) in parameters {
            body.extend_from_slice(&parameter.to_be_bytes());
            body.extend_from_slice(&[0, value.len() as u8]);
            body.extend_from_slice(value);
        }
        let mut bytes = vec![code, 0];
        bytes.extend_from_slice(&(body.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&[0xaa; 9]);
        LogPage::decode(&bytes, code).unwrap()
    }

    #[test]
    fn alerts_that_are_raised() {
        let page = page(PAGE_ALERTS, &[(1, &[0]), (3, &[1]), (20, &[1]), (0x41, &[1])]);
        let numbers: Vec<u8> = page.alerts().iter().map(|alert| alert.number()).collect();
        assert_eq!(numbers, [3, 20]);
    }

    #[test]
    fn counters_of_any_width() {
        let page = page(
            PAGE_WRITE_ERRORS,
            &[(3, &[7]), (5, &[1, 0, 0, 0, 0, 0]), (6, &[0, 2]), (2, &[0xff; 4])],
        );
        let errors = ErrorCounters::of(&page);
        assert_eq!(
            (errors.corrected, errors.bytes, errors.uncorrected),
            (Some(7), Some(1 << 40), Some(2))
        );
        // All ones is "not known", not four billion retries.
        assert_eq!(errors.retries, None);
    }

    #[test]
    fn capacity_is_in_mebibytes_and_more_than_what_is_left() {
        let of = |left: u8, whole: &[u8]| {
            page(PAGE_CAPACITY, &[(1, &[0, 0, 0, left]), (3, whole)]).capacity()
        };
        assert_eq!(of(9, &[0, 0x16, 0, 0]), Some(0x16_0000 << 20));
        assert_eq!(of(9, &[0, 0, 0, 8]), None);
        assert_eq!(of(9, &[0; 4]), None);
        assert_eq!(of(9, &[0x7f; 8]), None);
        let room =
            |whole| page(PAGE_CAPACITY, &[(1, &[0, 0, 0, 9]), (3, &[0, 0, 0, whole])]).room();
        assert_eq!((room(9), room(8)), (Some(9 << 20), None));
    }

    #[test]
    fn another_page_or_a_cut_one_is_not_taken_for_numbers() {
        assert_eq!(LogPage::decode(&[0x02, 0, 0, 0], PAGE_READ_ERRORS), None);
        let cut = LogPage::decode(&[0x02, 0, 0, 8, 0, 3, 0, 4, 0, 0], PAGE_WRITE_ERRORS).unwrap();
        assert_eq!(cut.number(3), None);
    }

    #[test]
    fn the_drives_own_ratio_is_preferred() {
        let mut statistics = Statistics::default();
        let bytes = page(PAGE_SEQUENTIAL, &[(0, &[3, 0]), (1, &[2, 0]), (0x100, &[0, 0, 0, 1])]);
        statistics.add(PAGE_SEQUENTIAL, &bytes);
        assert_eq!(statistics.compression_ratio, Some(1.5));
        assert_eq!(statistics.wants_cleaning, Some(true));
        statistics
            .add(PAGE_COMPRESSION, &page(PAGE_COMPRESSION, &[(0, &[0, 100]), (1, &[0, 210])]));
        assert_eq!(statistics.compression_ratio, Some(2.1));
        statistics.add(PAGE_DEVICE_STATUS, &page(PAGE_DEVICE_STATUS, &[(0, &[0, 0, 0, 0])]));
        assert_eq!(statistics.wants_cleaning, Some(true));
    }
}
