//! An archive on its way out through standard output. Whoever reads a pipe may stop reading it: then a stop ends the writing.

use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use capstan_disk_agent::linux::wait::writable;

use crate::observe::Stop;

/// How long a reader is waited for between two looks at whether to go on.
const LOOK: Duration = Duration::from_millis(200);
/// A pipe that takes anything takes so many bytes at once (pipe(7)), without waiting for more room.
const PIECE: usize = 4096;

/// Standard output, until a session is stopped.
pub(in crate::kinds::restore) struct Outgoing<'a> {
    pub stop: &'a Stop,
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let out = rustix::stdio::stdout();
        loop {
            if self.stop.0.load(Relaxed) {
                return Err(io::Error::other("stopped before its end"));
            }
            if writable(&out, LOOK)? {
                return Ok(rustix::io::write(out, &bytes[..bytes.len().min(PIECE)])?);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
