//! Input that is no file: standard input, or a command's output. Neither is waited for once the session is to end, or what it gives
//! cannot be written any more.

pub(super) mod saved;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::linux::command::{NAP, end_command, shell, wait_for_command};
use crate::linux::wait::readable;

/// Something that is read from begin to end and may fail at the end.
pub(in crate::backup) struct Input<'a> {
    from: From,
    stop: &'a AtomicBool,
}

enum From {
    Stdin(File),
    Command(Child, String),
}

impl<'a> Input<'a> {
    /// Standard input.
    pub fn stdin(stop: &'a AtomicBool) -> io::Result<Self> {
        // Without a buffer, which could hold what nobody is told of who waits.
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { from: From::Stdin(file), stop })
    }

    /// A command's output.
    pub fn command(line: &str, stop: &'a AtomicBool) -> io::Result<Self> {
        let child =
            shell().arg("-c").arg(line).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        Ok(Self { from: From::Command(child, line.to_owned()), stop })
    }

    /// What went wrong, once all was read: a command that failed. One that goes on although the session is to end is told to end,
    /// and made to.
    pub fn end(self) -> Result<(), String> {
        match self.from {
            From::Stdin(_) => Ok(()),
            From::Command(mut child, line) => {
                drop(child.stdout.take());
                match wait_for_command(&mut child, self.stop) {
                    Ok(status) if status.success() => Ok(()),
                    Ok(status) => Err(format!("'{line}' failed: {status}")),
                    Err(e) => Err(format!("'{line}' cannot be waited for: {e}")),
                }
            }
        }
    }

    /// What it gives cannot be written: a command is told to end, and made to.
    pub fn give_up(self) {
        if let From::Command(mut child, _) = self.from {
            drop(child.stdout.take());
            // The session failed, which is said.
            let _ = end_command(&mut child);
        }
    }

    /// Waits for something to read; an error where the session is to end, or where nothing came for a while.
    fn wait(&self, input: &impl AsFd) -> io::Result<()> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other("the session was stopped"));
        }
        match readable(input, NAP)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match &self.from {
            From::Stdin(stdin) => {
                self.wait(stdin)?;
                (&*stdin).read(out)
            }
            From::Command(child, _) => match &child.stdout {
                Some(stdout) => {
                    self.wait(stdout)?;
                    // The descriptor's own, without a lock or buffer.
                    rustix::io::read(stdout, out).map_err(io::Error::from)
                }
                None => Ok(0),
            },
        }
    }
}
