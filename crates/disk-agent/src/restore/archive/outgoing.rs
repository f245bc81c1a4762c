//! An archive on its way out through standard output. Whoever reads a pipe may stop reading it: then a stop ends the writing.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use capstan_port::disk::archive::ArchiveRefused;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, makedev};

use crate::linux::wait::writable;

/// How long a reader is waited for between two looks at whether to go on.
const LOOK: Duration = Duration::from_millis(200);
/// A pipe that takes anything takes so many bytes at once (pipe(7)), without waiting for more room.
const PIECE: usize = 4096;

/// Standard output, until a session is stopped.
pub(super) struct Outgoing<'a> {
    stop: &'a AtomicBool,
}

impl<'a> Outgoing<'a> {
    /// Standard output. An error where whoever started the program closed it.
    pub fn open(stop: &'a AtomicBool) -> Result<Self, ArchiveRefused> {
        if is_closed(rustix::stdio::stdout()) {
            return Err(ArchiveRefused::OutputClosed);
        }
        Ok(Self { stop })
    }
}

/// Whether a standard stream was closed when the program began: then the runtime opened `/dev/null` there, to read and write. Who redirects to it
/// opens it for one of them.
fn is_closed(stream: impl AsFd) -> bool {
    let both = fcntl_getfl(&stream).is_ok_and(|flags| flags.contains(OFlags::RDWR));
    let null = fstat(&stream).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
            && stat.st_rdev == makedev(1, 3)
    });
    both && null
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let out = rustix::stdio::stdout();
        loop {
            if self.stop.load(Relaxed) {
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
