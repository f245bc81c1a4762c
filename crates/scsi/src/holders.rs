//! Who has a device open: found by looking through `/proc`, as an operator would with `lsof`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A process that has a device open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The device node that it has open.
    pub path: String,
}

/// The processes that have one of these device numbers open now. Other users' processes show only to root.
pub fn find(devices: &[u64]) -> Vec<Holder> {
    find_below(Path::new("/proc"), devices)
}

/// The same over some time, for a process that opens the device again and again but never for long.
pub fn watch(devices: &[u64], patience: Duration) -> Vec<Holder> {
    const PAUSE: Duration = Duration::from_millis(10);
    let end = Instant::now() + patience;
    loop {
        let found = find(devices);
        if !found.is_empty() || Instant::now() >= end {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
}

fn find_below(proc: &Path, devices: &[u64]) -> Vec<Holder> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<Holder> =
        pids.filter_map(|pid| holder(&proc.join(pid.to_string()), pid, devices)).collect();
    found.sort_by_key(|holder| holder.pid);
    found
}

/// Processes end while they are looked at; then they hold nothing.
fn holder(process: &Path, pid: u32, devices: &[u64]) -> Option<Holder> {
    let is_one =
        |meta: &fs::Metadata| meta.file_type().is_char_device() && devices.contains(&meta.rdev());
    let path = fs::read_dir(process.join("fd")).ok()?.flatten().find_map(|fd| {
        fs::metadata(fd.path()).ok().filter(is_one)?;
        let path = fs::read_link(fd.path()).ok()?;
        // Meanwhile it may have been closed, and its number be another file's. Where there is no such path here, it is
        // one of the process's own mounts.
        fs::metadata(&path).as_ref().map_or(true, is_one).then_some(path)
    })?;
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(Holder { pid, name: name.trim().to_owned(), path: path.display().to_string() })
}

/// For messages: "tar (process 71, /dev/nst0)".
pub fn list(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "another program that could not be found (only root sees other users' processes; it may also hold the \
                device from outside a container)"
            .to_owned();
    }
    let names = holders.iter().map(|h| match h.pid == std::process::id() {
        true => format!("this program itself ({})", h.path),
        false => format!("{} (process {}, {})", h.name, h.pid, h.path),
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn device(path: &str) -> u64 {
        fs::metadata(path).unwrap().rdev()
    }

    /// What is found of a process while it lives. Others may have the device open too.
    /// Looks until the child is found by its program's name: `spawn` can return a moment before the child has it.
    fn catch(command: &mut Command) -> Option<Holder> {
        let program = command.get_program().to_str().unwrap().to_owned();
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        let mut caught = None;
        while caught.is_none() && Instant::now() < end {
            let found = find(&[device("/dev/full")]);
            caught = found.into_iter().find(|h| h.pid == child.id() && h.name == program);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        caught
    }

    #[test]
    fn a_process_that_holds_a_device_is_named() {
        let full = fs::File::open("/dev/full").unwrap();
        let holder = catch(Command::new("sleep").arg("60").stdin(full)).expect("found");
        assert_eq!((holder.name.as_str(), holder.path.as_str()), ("sleep", "/dev/full"));
        let text = list(std::slice::from_ref(&holder));
        assert_eq!(text, format!("sleep (process {}, /dev/full)", holder.pid));
    }

    #[test]
    fn a_process_that_only_looks_in_now_and_then_is_caught() {
        let poll = "while :; do : </dev/full; done";
        let holder = catch(Command::new("sh").args(["-c", poll])).expect("caught");
        assert_eq!(holder.path, "/dev/full");
    }

    #[test]
    fn nobody_is_said_in_words() {
        assert!(list(&[]).contains("could not be found"));
        assert!(find_below(Path::new("/nowhere"), &[1]).is_empty());
    }
}
