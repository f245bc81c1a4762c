//! A transport that breaks off after so many bytes.

use std::io::{Error, ErrorKind, Write};

use capstan_remote::transport::Transport;

struct Cut {
    writer: Box<dyn Write + Send>,
    left: u64,
}

impl Write for Cut {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        if most == 0 && !bytes.is_empty() {
            return Err(Error::from(ErrorKind::BrokenPipe));
        }
        let n = self.writer.write(&bytes[..most])?;
        self.left -= n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

/// The same transport, which takes so many bytes and no more.
pub fn after(of: Transport, left: u64) -> Transport {
    let Transport { reader, writer, shut } = of;
    Transport { reader, writer: Box::new(Cut { writer, left }), shut }
}
