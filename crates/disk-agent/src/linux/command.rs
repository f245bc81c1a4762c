//! Commands that an administrator gave: how they are run, waited for, and ended with all that they started.

use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::descendants::Descendants;

/// How soon somebody who stops the session is heard.
pub(crate) const NAP: Duration = Duration::from_millis(100);
/// How long a command that is told to end may take for it.
const GRACE: Duration = Duration::from_secs(1);

/// Shells, the first that has pipefail is taken.
const SHELLS: [&str; 3] = ["/bin/bash", "bash", "/bin/sh"];

/// The shell that runs commands: one in which a pipe fails where any of its commands does, where there is such a shell. Else the end of
/// `pg_dump shop | gzip` would be gzip's, which is well whatever it was given.
pub(crate) fn shell() -> Command {
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

/// Waits for a command's end. Where the session is to end before, the command and all that it started are told to end, and a second
/// later made to.
pub fn wait_for_command(child: &mut Child, stop: &AtomicBool) -> io::Result<ExitStatus> {
    match wait_until(child, &|| stop.load(Relaxed))? {
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

/// Tells a command and all that it started to end, and a second later makes them.
pub(crate) fn end_command(child: &mut Child) -> io::Result<ExitStatus> {
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
