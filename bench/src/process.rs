//! Runs a program and says what it cost: wall time, CPU seconds, peak memory.
//!
//! The orchestrator stays small, because the kernel counts the memory of the process that starts a program as the
//! program's own peak until it calls exec: whatever needs memory (lists of paths, buffers) runs as a child.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::error::{BenchError, io_error};

/// What a program cost, with all the children that it waited for.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Seconds from start to end.
    pub wall_s: f64,
    /// User and system CPU seconds.
    pub cpu_s: f64,
    /// Peak memory of the largest process, in bytes.
    pub peak_rss: u64,
    /// Bytes that it had read from disks.
    pub disk_read: u64,
}

/// A program that ended well.
#[derive(Debug)]
pub struct Ran {
    /// What it cost.
    pub usage: Usage,
    /// What it wrote to standard output.
    pub stdout: String,
}

/// Runs `command` to its end; anything but exit code 0 is an error with what it last said. Its output goes to files in
/// `logs`, so that no pipe slows it.
pub fn run(command: &mut Command, logs: &Path) -> Result<Ran, BenchError> {
    let (out_path, err_path) = (logs.join("stdout"), logs.join("stderr"));
    let create = |path: &Path| File::create(path).map_err(io_error("create", path));
    command.stdin(Stdio::null()).stdout(create(&out_path)?).stderr(create(&err_path)?);
    let program = command_line(command);

    let start = Instant::now();
    let child =
        command.spawn().map_err(|source| BenchError::Start { program: program.clone(), source })?;
    let (status, used) = wait(child.id()).map_err(io_error("wait for", logs))?;
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    let usage = Usage {
        wall_s: start.elapsed().as_secs_f64(),
        cpu_s: seconds(used.ru_utime) + seconds(used.ru_stime),
        peak_rss: used.ru_maxrss.max(0) as u64 * 1024,
        disk_read: used.ru_inblock.max(0) as u64 * 512,
    };

    let read = |path: &Path| fs::read(path).map_err(io_error("read", path));
    let stdout = String::from_utf8_lossy(&read(&out_path)?).into_owned();
    if status != 0 {
        let stderr = String::from_utf8_lossy(&read(&err_path)?).into_owned();
        let said = if stderr.trim().is_empty() { &stdout } else { &stderr };
        return Err(BenchError::Failed {
            program,
            status: status_text(status),
            message: tail(said),
        });
    }
    Ok(Ran { usage, stdout })
}

/// The last lines of a text, on one line.
fn tail(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    lines.drain(..lines.len().saturating_sub(3));
    lines.join(" / ").chars().take(400).collect()
}

fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let first = command.get_args().take(3).map(|a| a.to_string_lossy().into_owned());
    let mut text = program.to_string_lossy().into_owned();
    for arg in first {
        text.push(' ');
        text.push_str(&arg);
    }
    text
}

fn status_text(status: i32) -> String {
    if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else {
        format!("exit code {}", libc::WEXITSTATUS(status))
    }
}

/// Waits for a child and returns its wait status and what it used.
fn wait(pid: u32) -> std::io::Result<(i32, libc::rusage)> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to locals that live through the call; the process is our own child, which nothing
        // else waits for.
        let got = unsafe { libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage) };
        if got >= 0 {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok((status, usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn wall_and_cpu_are_those_of_the_program_and_its_children() {
        let logs = logs("usage");
        let ran = run(
            Command::new("sh")
                .args(["-c", "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done); echo done"]),
            &logs,
        )
        .unwrap();
        assert_eq!(ran.stdout, "done\n");
        assert!(ran.usage.cpu_s > 0.01, "{:?}", ran.usage);
        assert!(ran.usage.wall_s > 0.01);
        let slept = run(Command::new("sleep").arg("0.2"), &logs).unwrap();
        assert!(slept.usage.wall_s >= 0.2 && slept.usage.cpu_s < 0.1, "{:?}", slept.usage);
        fs::remove_dir_all(logs).unwrap();
    }

    #[test]
    fn a_failure_says_what_the_program_said() {
        let logs = logs("failure");
        let error =
            run(Command::new("sh").args(["-c", "echo no luck >&2; exit 7"]), &logs).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit code 7") && text.contains("no luck"), "{text}");
        assert!(run(&mut Command::new("/no/such/program"), &logs).is_err());
        fs::remove_dir_all(logs).unwrap();
    }
}
