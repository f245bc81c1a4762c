//! What is measured on: machine, kernel, versions, day.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::context::is_installed;

/// Today in UTC, as 2025-01-31.
pub fn today() -> String {
    said("date", &["-u", "+%F"])
}

/// Lines that describe the machine and the rivals.
pub fn describe() -> Vec<String> {
    let uname = rustix::system::uname();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = field("/proc/cpuinfo", "model name");
    let memory: u64 = field("/proc/meminfo", "MemTotal")
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse().ok())
        .unwrap_or(0);
    let system = field_with("/etc/os-release", "PRETTY_NAME", '=');
    let commit = said("git", &["describe", "--always", "--dirty"]);
    let mut lines = vec![
        format!("Machine: {cores} cores of {cpu}, {} GiB of memory", (memory + (1 << 19)) >> 20),
        format!(
            "System: {}, Linux {}",
            system.trim_matches('"'),
            uname.release().to_string_lossy()
        ),
        format!("Date: {}; commit {commit}", today()),
    ];
    let rivals: Vec<String> = [
        ("tar", &["--version"][..]),
        ("zstd", &["--version"]),
        ("restic", &["version"]),
        ("borg", &["--version"]),
        ("rustic", &["--version"]),
    ]
    .into_iter()
    .map(|(program, arguments)| match is_installed(program) {
        true => said(program, arguments).chars().take(60).collect(),
        false => format!("{program}: not installed"),
    })
    .collect();
    lines.push(format!("Rivals: {}", rivals.join("; ")));
    lines
}

/// The first line that a program prints.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").trim().to_owned()
}

fn field(path: &str, name: &str) -> String {
    field_with(path, name, ':')
}

/// The value of the first line `name: value` of a file.
fn field_with(path: &str, name: &str, separator: char) -> String {
    let text = fs::read_to_string(Path::new(path)).unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_else(|| "unknown".into())
}
