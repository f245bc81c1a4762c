//! Who holds a lock: said by name, so that an administrator need not search.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// The process that holds the flock on `file`, as text.
pub(crate) fn holder_of(file: &fs::File) -> String {
    find(file).unwrap_or_else(|| "another process".to_owned())
}

fn find(file: &fs::File) -> Option<String> {
    let meta = file.metadata().ok()?;
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let key = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next() == Some("FLOCK");
        let mut rest = words.skip(2);
        let pid = rest.next()?;
        (is_flock && rest.next() == Some(key.as_str())).then(|| pid.to_owned())
    })?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(format!("process {pid} ({})", name.trim()))
}
