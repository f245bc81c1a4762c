//! How hard to compress: fixed, or decided while the session runs, by a [`Ladder`] that all streams of a session share. A stream whose data did not shrink stores the next frames as they are, more of them
//! each time, before it tries again.

use std::sync::Arc;

use capstan_engine::ladder::Ladder;
use capstan_format::codec::Method;
use capstan_wire::compression::Compression;

/// Most frames stored untried after ones that did not shrink.
const SKIP_MAX: u32 = 31;

/// One stream's choice of method, frame by frame.
#[derive(Debug, Clone)]
pub struct CompressionChoice {
    compression: Compression,
    ladder: Arc<Ladder>,
    /// Frames still to be stored untried.
    skip: u32,
    /// Frames stored untried after the last that did not shrink.
    skipped: u32,
}

impl CompressionChoice {
    /// Compresses as asked; `ladder` is the session's.
    pub fn new(compression: Compression, ladder: Arc<Ladder>) -> Self {
        Self { compression, ladder, skip: 0, skipped: 0 }
    }

    /// The method for the next frame.
    pub fn method(&mut self) -> Method {
        if self.skip > 0 {
            self.skip -= 1;
            return Method::Store;
        }
        match self.compression {
            Compression::Off => Method::Store,
            Compression::Fixed(method) => method,
            Compression::Auto => self.ladder.method(),
        }
    }

    /// Learns whether the last frame that was tried shrank.
    pub fn learn(&mut self, shrank: bool) {
        self.skipped = if shrank { 0 } else { (self.skipped * 2 + 1).min(SKIP_MAX) };
        self.skip = self.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_shrink_is_tried_less_and_less() {
        let mut choice = CompressionChoice::new(Compression::Fixed(Method::Lz4), Arc::default());
        let mut tried = 0;
        for _ in 0..200 {
            if choice.method() != Method::Store {
                tried += 1;
                choice.learn(false);
            }
        }
        assert!((8..=14).contains(&tried), "{tried}");
        choice.learn(true);
        assert_eq!(choice.method(), Method::Lz4);
    }
}
