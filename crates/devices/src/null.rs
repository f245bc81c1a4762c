//! The null device: takes every block and keeps none. For measuring; what is written to it can never be restored.

use std::time::{Duration, Instant};

use capstan_engine::leaving;
use capstan_format::id::SegmentNumber;
use capstan_medium::{Device, DeviceError};

/// Takes blocks and forgets them, at full speed or at a given rate.
pub struct NullDevice {
    rate: Option<u64>,
    /// When the blocks taken so far would have been written at the rate.
    due: Instant,
    last: u32,
}

impl NullDevice {
    /// A null device that takes `rate` bytes per second, or any.
    pub fn new(rate: Option<u64>) -> Self {
        Self { rate, due: Instant::now(), last: 0 }
    }
}

impl Device for NullDevice {
    fn next_number(&self) -> SegmentNumber {
        SegmentNumber(self.last.saturating_add(1))
    }

    fn advance(&mut self, to: SegmentNumber) {
        self.last = self.last.max(to.0.saturating_sub(1));
    }

    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError> {
        self.last = self.last.saturating_add(1);
        Ok(SegmentNumber(self.last))
    }

    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError> {
        if let Some(rate) = self.rate {
            let now = Instant::now();
            let time = Duration::from_secs_f64(block.len() as f64 / rate as f64);
            self.due = self.due.max(now) + time;
            // Who is to end need not be slow any more.
            leaving::nap(self.due.duration_since(now));
        }
        Ok(())
    }

    fn end_segment(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn abandon_segment(&mut self) {}

    fn short_blocks(&self) -> bool {
        true
    }

    fn is_instant(&self) -> bool {
        self.rate.is_none()
    }
}
