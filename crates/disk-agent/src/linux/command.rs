//! Input that is no file: standard input, or a command's output. Neither is waited for once the session is to end, or what it gives
//! cannot be written any more.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use capstan_disk_agent::linux::wait::readable;
use rustix::process::Signal;

use crate::observe::Stop;
use crate::process::descendants::Descendants;

/// How soon somebody who stops the session is heard.
const NAP: Duration = Duration::from_millis(100);
/// How long a command that is told to end may take for it.
const GRACE: Duration = Duration::from_secs(1);

/// Shells, the first that has pipefail is taken.
const SHELLS: [&str; 3] = ["/bin/bash", "bash", "/bin/sh"];

/// Something that is read from begin to end and may fail at the end.
pub(crate) struct Input<'a> {
    from: From,
    stop: &'a Stop,
}

enum From {
    Stdin(File),
    Command(Child, String),
}

/// The shell that runs commands: one in which a pipe fails where any of its commands does, where there is such a shell. Else the end of
/// `pg_dump shop | gzip` would be gzip's, which is well whatever it was given.
fn shell() -> Command {
    let with_pipefail = |shell: &str| {
        let mut command = Command::new(shell);
        command.args(["-o", "pipefail"]);
        command
    };
    let can = |shell: &&&str| {
        let mut command = with_pipefail(shell);
        command.args(["-c", ":"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = SHELLS.iter().find(can);
    found.map_or_else(|| Command::new("/bin/sh"), |shell| with_pipefail(shell))
}

impl<'a> Input<'a> {
    /// Standard input.
    pub fn stdin(stop: &'a Stop) -> io::Result<Self> {
        // Without a buffer, which could hold what nobody is told of who waits.
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { from: From::Stdin(file), stop })
    }

    /// A command's output.
    pub fn command(line: &str, stop: &'a Stop) -> io::Result<Self> {
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
        if self.stop.0.load(Relaxed) {
            return Err(io::Error::other("the session was stopped"));
        }
        match readable(input, NAP)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Waits for a command's end. Where the session is to end before, the command and all that it started are told to end, and a second
/// later made to.
pub fn wait_for_command(child: &mut Child, stop: &Stop) -> io::Result<ExitStatus> {
    match wait_until(child, &|| stop.0.load(Relaxed))? {
        Some(status) => Ok(status),
        None => end_command(child),
    }
}

/// Waits for a command's end, for so long at most. `None`: it takes longer; it and all that it started were told to end, and a second
/// later made to.
pub fn wait_for_command_at_most(
    child: &mut Child,
    most: Duration,
) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    let status = wait_until(child, &|| begun.elapsed() >= most)?;
    if status.is_none() {
        end_command(child)?;
    }
    Ok(status)
}

/// Waits for a command's end; `None` where the wait is over before.
fn wait_until(child: &mut Child, is_over: &dyn Fn() -> bool) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    while !is_over() {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(NAP);
    }
    Ok(None)
}

fn end_command(child: &mut Child) -> io::Result<ExitStatus> {
    // Until it was waited for its number is its own.
    let mut all = Descendants::of(child);
    let told = Instant::now();
    all.tell(Signal::TERM);
    while !all.are_gone() {
        if told.elapsed() > GRACE {
            all.tell(Signal::KILL);
            break;
        }
        thread::sleep(NAP / 10);
        all.look();
    }
    // Where the kernel knows processes by their numbers alone.
    if child.try_wait()?.is_none() && told.elapsed() < GRACE {
        child.kill()?;
    }
    child.wait()
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
