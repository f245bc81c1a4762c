//! Runs a command and watches what it takes: time, memory, room on disk; and how it ends.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::{free_bytes, soak};

/// How long a campaign may take: that many minutes of `CAPSTAN_SOAK`, or three hours; an hour in the gate.
pub fn longest() -> Duration {
    let minutes = std::env::var("CAPSTAN_SOAK").ok().map(|text| text.parse::<u64>().unwrap_or(180));
    // `1` only asks for a long run.
    let minutes = minutes.map_or(60, |minutes| if minutes > 1 { minutes } else { 180 });
    Duration::from_secs(60 * minutes)
}

/// The longest that a command may take on a medium of 1 MB.
const MOST: Duration = Duration::from_secs(20);
/// The most memory that it may have.
const MEMORY_KIB: u64 = 256 << 10;
/// The most that it may write; nothing of what is tried needs so much.
const DISK: u64 = 3 << 30;

/// The time from a SIGTERM to the end. Beside other tests a process does not always have a core.
fn most_to_stop() -> Duration {
    Duration::from_secs(if soak() { 2 } else { 6 })
}

/// How a command ended.
pub struct Ran {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
    pub peak_kib: u64,
    /// What it must not do.
    pub fault: Option<String>,
}

/// Runs a command in a directory that is for its output; if told so, sends it SIGTERM after a while.
pub fn run(command: &mut Command, at: &Path, stop_after: Option<Duration>) -> Ran {
    run_for(command, at, stop_after, MOST)
}

/// The same with another limit of time.
#[allow(clippy::zombie_processes, reason = "`wait` reaps it, and says what it used")]
pub fn run_for(
    command: &mut Command,
    at: &Path,
    stop_after: Option<Duration>,
    most: Duration,
) -> Ran {
    let (out, err) = (at.join("stdout"), at.join("stderr"));
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let free = free_bytes(at);
    let begun = Instant::now();
    let child = command.spawn().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    let pid = child.id() as libc::pid_t;
    let (mut fault, mut stopped, mut seen, mut rounds) = (None, None, 0, 0_u64);
    let (status, usage) = loop {
        if let Some(ended) = wait(pid, false) {
            break ended;
        }
        if rounds % 8 == 0 {
            seen = seen.max(high_water(&format!("/proc/{pid}/status")));
        }
        let took = begun.elapsed();
        if fault.is_none() {
            if stop_after.is_some_and(|after| stopped.is_none() && took >= after) {
                // SAFETY: a child that was not reaped yet.
                unsafe { libc::kill(pid, libc::SIGTERM) };
                stopped = Some(Instant::now());
            }
            if stopped.is_some_and(|s| s.elapsed() > most_to_stop()) {
                fault = Some(format!("deaf to SIGTERM for {:?}", most_to_stop()));
            } else if took > most {
                fault = Some(format!("runs for more than {most:?}"));
            } else if rounds % 32 == 31 && free.saturating_sub(free_bytes(at)) > DISK {
                fault = Some(format!("writes more than {} GiB", DISK >> 30));
            }
            if fault.is_some() {
                // SAFETY: as above.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        rounds += 1;
        std::thread::sleep(Duration::from_millis(if rounds < 100 { 1 } else { 5 }));
    };
    // A process's record begins with that of whom it was made by, so this counts only where it is more.
    let own = high_water("/proc/self/status");
    let peak_kib = if usage > own { usage } else { seen };
    let status = ExitStatus::from_raw(status);
    let (stdout, stderr) = (head(&out), head(&err));
    let (code, signal) = (status.code(), status.signal());
    let killed = match signal {
        // Before it listens, it ends at once.
        Some(libc::SIGTERM) if stopped.is_some() => None,
        Some(signal) => Some(format!("ended by signal {signal}")),
        None => None,
    };
    let panic = (code == Some(101) || stderr.contains("panicked at"))
        .then(|| format!("panics: {}", first_lines(&stderr)));
    let code_known = code.is_none_or(|c| (0..=6).contains(&c) || (c == 130 && stopped.is_some()));
    let memory = (peak_kib > MEMORY_KIB).then(|| format!("takes {} MiB", peak_kib >> 10));
    let fault = panic.or(fault).or(killed).or(memory).or_else(|| {
        (!code_known).then(|| format!("ends with code {code:?}: {}", first_lines(&stderr)))
    });
    Ran { code, signal, stdout, stderr, took: begun.elapsed(), peak_kib, fault }
}

/// Starts a command and kills it after a while; whether that was before its end.
pub fn killed_after(mut command: Command, after: Duration) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let ended = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    !ended
}

/// The status of a child that ended, and the most memory it had, in KiB.
pub fn wait(pid: libc::pid_t, block: bool) -> Option<(i32, u64)> {
    let mut status = 0;
    // SAFETY: plain numbers, which may be zeros.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let flags = if block { 0 } else { libc::WNOHANG };
    // SAFETY: both places are there while it runs.
    let ended = unsafe { libc::wait4(pid, &mut status, flags, &mut usage) };
    assert!(ended >= 0, "{}", std::io::Error::last_os_error());
    (ended == pid).then_some((status, usage.ru_maxrss as u64))
}

/// Seconds that processors worked: for us, or for children that ended.
pub fn worked_s(of: libc::c_int) -> f64 {
    // SAFETY: plain numbers, which may be zeros.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place is there while it runs.
    assert_eq!(unsafe { libc::getrusage(of, &mut usage) }, 0);
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn high_water(status: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// The first mebibyte of a file.
fn head(path: &Path) -> String {
    let mut bytes = Vec::new();
    File::open(path).unwrap().take(1 << 20).read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn first_lines(text: &str) -> String {
    text.lines()
        .filter(|l| !l.is_empty())
        .take(4)
        .map(|l| l.chars().take(300).collect::<String>())
        .collect::<Vec<_>>()
        .join(" | ")
}
