//! Memory that is at hand: a virtual machine's free pages are its host's, and the first touch of one takes some 10 µs, so
//! that whoever fills a tmpfs writes 400 MB/s where the host gives pages and 3 GB/s where they are there. A tape that takes
//! 408 MB/s would be fed by the host's memory management.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::error::{BenchError, io_error};

/// A process that holds touched memory back and gives it free as a tmpfs grows, as long as this lives. A process of its own, as
/// children begin with the peak memory of their parent.
pub struct Warm {
    child: Child,
    said: Option<BufReader<ChildStdout>>,
}

impl Warm {
    /// Touches so many bytes, for what will be written to the file system of `dir`.
    pub fn up(bench: &Path, dir: &Path, bytes: u64) -> Result<Self, BenchError> {
        let mut command = Command::new(bench);
        command.arg("hold-memory").arg(dir).args(["--bytes", &bytes.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(io_error("run", bench))?;
        let mut said = child.stdout.take().map(BufReader::new);
        if let Some(said) = &mut said {
            said.read_line(&mut String::new()).map_err(io_error("listen to", bench))?;
        }
        Ok(Self { child, said })
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends when its input does; that it says what it did is of no use here.
        let _ = self.said.take().map(|mut said| said.read_to_end(&mut Vec::new()));
        let _ = self.child.wait();
    }
}
