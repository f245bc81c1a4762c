//! Transports that are cut, for tests.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::transport::Transport;

/// What is cut when nothing is left.
#[derive(Clone)]
struct Left {
    left: Arc<AtomicUsize>,
    shut: Arc<crate::transport::Shut>,
}

impl Left {
    fn passes(&self) -> io::Result<()> {
        let passed = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        passed.map(drop).map_err(|_| {
            (self.shut)(Shutdown::Both);
            io::ErrorKind::ConnectionReset.into()
        })
    }
}

struct Cut<T>(T, Left);

impl<T: Read> Read for Cut<T> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.1.passes()?;
        self.0.read(to)
    }
}

impl<T: Write> Write for Cut<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.passes()?;
        // A message is cut in its midst too.
        let most = bytes.len().min(30_000);
        self.0.write(&bytes[..most])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A transport that is cut after so many reads and writes.
pub(crate) fn cut_after(transport: Transport, operations: usize) -> Transport {
    let Transport { reader, writer, shut } = transport;
    let shut = Arc::new(shut);
    let left = Left { left: Arc::new(AtomicUsize::new(operations)), shut: shut.clone() };
    Transport {
        reader: Box::new(Cut(reader, left.clone())),
        writer: Box::new(Cut(writer, left)),
        shut: Box::new(move |how| shut(how)),
    }
}
