//! Which device nodes belong to one SCSI device: `/dev/sg3` and `/dev/nst0` are the same drive, and sysfs knows.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::Error;

/// The nodes of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The generic node, through which commands go.
    pub generic: PathBuf,
    /// The tape driver's node that does not rewind, where that driver has the device too.
    pub tape: Option<PathBuf>,
    /// Device numbers of all its nodes, to find who has any of them open.
    pub numbers: Vec<u64>,
}

/// Finds the nodes of the device that a node is of: sg, st, nst or sch, or a link to one.
pub fn resolve(path: &Path) -> Result<Nodes, Error> {
    resolve_below(Path::new("/sys"), Path::new("/dev"), path)
}

fn resolve_below(sys: &Path, dev: &Path, path: &Path) -> Result<Nodes, Error> {
    let shown = path.display().to_string();
    let meta = fs::metadata(path).map_err(|source| Error::Io {
        action: "find",
        path: shown.clone(),
        source,
    })?;
    if !meta.file_type().is_char_device() {
        return Err(Error::NotScsi(shown));
    }
    nodes_of(sys, dev, meta.rdev()).ok_or(Error::NotScsi(shown))
}

fn nodes_of(sys: &Path, dev: &Path, number: u64) -> Option<Nodes> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = sys.join(format!("dev/char/{major}:{minor}/device"));
    let generic = names(&device.join("scsi_generic")).into_iter().next()?;
    let tapes = names(&device.join("scsi_tape"));
    let mut numbers = numbers_in(&device.join("scsi_generic"));
    for class in ["scsi_tape", "scsi_changer", "bsg"] {
        numbers.extend(numbers_in(&device.join(class)));
    }
    let plain = |name: &&String| {
        name.strip_prefix("nst").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    Some(Nodes {
        generic: dev.join(generic),
        tape: tapes.iter().find(plain).map(|name| dev.join(name)),
        numbers,
    })
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn numbers_in(dir: &Path) -> Vec<u64> {
    let dev = |name: String| {
        let text = fs::read_to_string(dir.join(name).join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    names(dir).into_iter().filter_map(dev).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sysfs in which `/dev/null` (1:3) is a tape drive's node.
    fn sysfs(tape: bool) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("dev/char/1:3/device");
        let mut nodes = vec![("scsi_generic/sg7", "21:7")];
        if tape {
            nodes.extend([
                ("scsi_tape/st2", "9:2"),
                ("scsi_tape/nst2", "9:130"),
                ("scsi_tape/nst2a", "9:226"),
            ]);
        }
        for (node, number) in nodes {
            fs::create_dir_all(device.join(node)).unwrap();
            fs::write(device.join(node).join("dev"), format!("{number}\n")).unwrap();
        }
        dir
    }

    #[test]
    fn a_drive_has_many_nodes() {
        let sys = sysfs(true);
        let nodes = resolve_below(sys.path(), Path::new("/dev"), Path::new("/dev/null")).unwrap();
        assert_eq!(nodes.generic, Path::new("/dev/sg7"));
        assert_eq!(nodes.tape.as_deref(), Some(Path::new("/dev/nst2")));
        assert_eq!(nodes.numbers.len(), 4);
        assert!(nodes.numbers.contains(&rustix::fs::makedev(9, 130)));
    }

    #[test]
    fn without_the_tape_driver_there_is_the_generic_node_alone() {
        let sys = sysfs(false);
        let nodes = resolve_below(sys.path(), Path::new("/dev"), Path::new("/dev/null")).unwrap();
        assert_eq!((nodes.tape, nodes.numbers.len()), (None, 1));
    }

    #[test]
    fn what_is_no_scsi_device_is_said() {
        let text = resolve(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(text.contains("/dev/null is not a SCSI device"), "{text}");
        let text = resolve(Path::new("/etc/hostname")).unwrap_err().to_string();
        assert!(text.contains("not a SCSI device"), "{text}");
        let text = resolve(Path::new("/dev/sg999")).unwrap_err().to_string();
        assert!(text.contains("cannot find /dev/sg999"), "{text}");
    }
}
