//! Input that is no file: standard input, or a command's output.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};

/// Something that is read from begin to end and may fail at the end.
pub(crate) enum Input {
    Stdin(io::Stdin),
    Command(Child, String),
}

impl Input {
    pub fn command(line: &str) -> io::Result<Self> {
        let child = Command::new("/bin/sh")
            .arg("-c")
            .arg(line)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self::Command(child, line.to_owned()))
    }

    /// What went wrong, once all was read: a command that failed.
    pub fn end(self) -> Result<(), String> {
        match self {
            Self::Stdin(_) => Ok(()),
            Self::Command(mut child, line) => {
                drop(child.stdout.take());
                match child.wait() {
                    Ok(status) if status.success() => Ok(()),
                    Ok(status) => Err(format!("'{line}' failed: {status}")),
                    Err(e) => Err(format!("'{line}' cannot be waited for: {e}")),
                }
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stdin(stdin) => stdin.read(out),
            Self::Command(child, _) => match &mut child.stdout {
                Some(stdout) => stdout.read(out),
                None => Ok(0),
            },
        }
    }
}
