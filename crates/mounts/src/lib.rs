//! Mount points that this machine has on record, and whether anything is mounted there now.
//!
//! What is on record comes from `/etc/fstab` and from systemd's mount units. A disk that is not mounted leaves a directory as
//! any other, on the disk that has the system: who makes a medium asks here first, and who backs such a directory up.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Kinds of file systems that are no disks: nothing is lost from them when they are not mounted.
const NO_DISKS: [&str; 20] = [
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "proc",
    "ramfs",
    "securityfs",
    "swap",
    "sysfs",
    "tmpfs",
    "tracefs",
];
/// The longest file of these that is read.
const LONGEST: u64 = 4 << 20;

/// Where mount points are on record. The files are named, so that tests can give others.
#[derive(Debug, Clone)]
pub struct MountTables {
    /// The table of file systems, as fstab(5) has it.
    pub fstab: PathBuf,
    /// Directories with systemd's mount units; of two of one name the first counts.
    pub units: Vec<PathBuf>,
    /// What is mounted, as `/proc/self/mountinfo` has it.
    pub mounted: PathBuf,
}

impl Default for MountTables {
    fn default() -> Self {
        let units = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];
        Self {
            fstab: "/etc/fstab".into(),
            units: units.map(PathBuf::from).to_vec(),
            mounted: "/proc/self/mountinfo".into(),
        }
    }
}

/// A mount point on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is mounted without being asked for: as the machine starts, or as somebody looks.
    pub by_itself: bool,
}

impl MountTables {
    /// The mount points on record, each once, without links in their paths.
    pub fn points(&self) -> Vec<MountPoint> {
        let mounted = self.mounted_points();
        let mut points: Vec<MountPoint> = Vec::new();
        for MountPoint { path, by_itself } in self.on_record() {
            // Of what is mounted by that name nothing need be looked at: a server that is away would be waited for.
            let path = if mounted.contains(&path) { path } else { whole(&path) };
            match points.iter_mut().find(|known| known.path == path) {
                Some(known) => known.by_itself |= by_itself,
                None => points.push(MountPoint { path, by_itself }),
            }
        }
        points
    }

    /// The mount point on record at which nothing is mounted now, if a directory is it or lies below it, and nothing else is in
    /// it. The directory need not be there yet.
    pub fn empty_mount_point(&self, directory: &Path) -> Option<PathBuf> {
        let directory = whole(directory);
        let mut points: Vec<PathBuf> =
            self.on_record().iter().map(|point| whole(&point.path)).collect();
        // The innermost is the one that is not mounted.
        points.retain(|point| directory.starts_with(point));
        points.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
        let point = points.into_iter().next()?;
        let is_mounted = self.mounted_points().contains(&point);
        (!is_mounted && is_empty_but_for(&point, &directory)).then_some(point)
    }

    fn on_record(&self) -> Vec<MountPoint> {
        let mut points = of_fstab(&read(&self.fstab));
        let mut seen: Vec<OsString> = Vec::new();
        for directory in &self.units {
            let Ok(names) = std::fs::read_dir(directory) else { continue };
            for entry in names.flatten() {
                let name = entry.file_name();
                if name.as_bytes().ends_with(b".mount") && !seen.contains(&name) {
                    let of = of_unit(&read(&entry.path()));
                    points.extend(of.map(|Unit { path, is_conditional }| MountPoint {
                        path,
                        by_itself: !is_conditional && self.is_wanted(&name),
                    }));
                    seen.push(name);
                }
            }
        }
        // Of the root there is nothing to be said, and what is relative is none.
        points.retain(|point| point.path.is_absolute() && point.path.components().count() > 1);
        points
    }

    /// Whether something wants a mount unit, or the automount unit of the same name: it is enabled.
    fn is_wanted(&self, unit: &OsStr) -> bool {
        let auto = PathBuf::from(unit).with_extension("automount");
        let wants = |of: &Path| {
            let is_list = matches!(of.extension(), Some(e) if e == "wants" || e == "requires");
            // A link, which may lead nowhere from here.
            let has = |name: &Path| std::fs::symlink_metadata(of.join(name)).is_ok();
            is_list && (has(Path::new(unit)) || has(&auto))
        };
        let lists = self.units.iter().filter_map(|directory| std::fs::read_dir(directory).ok());
        lists.flatten().flatten().any(|entry| wants(&entry.path()))
    }

    fn mounted_points(&self) -> Vec<PathBuf> {
        let text = read(&self.mounted);
        let lines = text.split(|b| *b == b'\n');
        let point = |line: &[u8]| {
            let mut fields = line.split(|b| *b == b' ');
            let point = fields.nth(4).map(unescaped)?;
            // An automount point stands there whether its disk does or not.
            let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
            (kind != b"autofs").then_some(point)
        };
        lines.filter_map(point).collect()
    }
}

/// What a file has; nothing where it cannot be read.
fn read(path: &Path) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(LONGEST).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clear();
    }
    bytes
}

/// A path without links, as far as it is there.
pub fn whole(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for there in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(there) {
            let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
            // Joined with nothing it would end with a slash.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path
}

/// Whether nothing is in a mount point but the way to a directory.
fn is_empty_but_for(point: &Path, directory: &Path) -> bool {
    let mut at = point.to_owned();
    let rest = directory.strip_prefix(point).unwrap_or(Path::new(""));
    let mut way = rest.components();
    loop {
        let next = way.next();
        let others = match std::fs::read_dir(&at) {
            Ok(names) => names
                .flatten()
                .filter(|n| Some(&*n.file_name()) != next.map(|c| c.as_os_str()))
                .count(),
            // It is not there yet, so nothing is in it.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return true,
            Err(_) => return false,
        };
        match next {
            _ if others > 0 => return false,
            None => return true,
            Some(next) => at.push(next),
        }
    }
}

fn of_fstab(text: &[u8]) -> Vec<MountPoint> {
    let line = |line: &[u8]| {
        let mut fields = line.split(|b| b.is_ascii_whitespace()).filter(|field| !field.is_empty());
        let first = fields.next().filter(|field| !field.starts_with(b"#"));
        let (point, kind) = first.and_then(|_| Some((fields.next()?, fields.next()?)))?;
        let by_itself = is_mounted_by_itself(fields.next().unwrap_or_default());
        is_disk(kind).then(|| MountPoint { path: unescaped(point), by_itself })
    };
    text.split(|b| *b == b'\n').filter_map(line).collect()
}

/// Whether options of fstab let something be mounted without being asked for.
fn is_mounted_by_itself(options: &[u8]) -> bool {
    let has = |option: &[u8]| options.split(|b| *b == b',').any(|o| o == option);
    !has(b"noauto") || has(b"x-systemd.automount")
}

/// What a mount unit says.
#[derive(Debug, PartialEq, Eq)]
struct Unit {
    path: PathBuf,
    /// It is mounted only if something else is so.
    is_conditional: bool,
}

fn of_unit(text: &[u8]) -> Option<Unit> {
    let (mut section, mut point, mut kind) = (Vec::new(), None, Vec::new());
    let mut is_conditional = false;
    for line in text.split(|b| *b == b'\n') {
        let line = line.trim_ascii();
        if line.starts_with(b"[") {
            section = line.to_vec();
            continue;
        }
        let Some(at) = line.iter().position(|b| *b == b'=') else { continue };
        let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        match (&section[..], key) {
            (b"[Mount]", b"Where") => point = Some(unit_path(value)),
            (b"[Mount]", b"Type") => kind = value.to_vec(),
            (b"[Unit]", key) => is_conditional |= key.starts_with(b"Condition"),
            _ => {}
        }
    }
    point.filter(|_| is_disk(&kind)).map(|path| Unit { path, is_conditional })
}

/// A path as units have it: in quotes if it likes, and with specifiers, of which only the sign itself is understood.
fn unit_path(value: &[u8]) -> PathBuf {
    let quoted = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\""));
    let mut path = Vec::new();
    let mut bytes = quoted.unwrap_or(value).iter().peekable();
    while let Some(b) = bytes.next() {
        if *b == b'%' {
            bytes.next_if(|next| **next == b'%');
        }
        path.push(*b);
    }
    // One that does not end with a slash, but for the root.
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    OsString::from_vec(path).into()
}

fn is_disk(kind: &[u8]) -> bool {
    !NO_DISKS.iter().any(|no| no.as_bytes() == kind)
}

/// A field as fstab and mountinfo have it: `\040` is a space.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|d| d.iter().all(|b| (b'0'..=b'7').contains(b)));
        match digits {
            Some(&[a @ b'0'..=b'3', b, c]) if *first == b'\\' => {
                path.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = &after[3..];
            }
            _ => {
                path.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(path).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_units_are_read() {
        let fstab = b"# a comment\n\nUUID=1 / ext4 defaults 0 1\n/dev/sdb1\t/mnt/my\\040disk  xfs noauto 0 0\nnone none swap sw\n\
                      tmpfs /tmp tmpfs rw\n/dev/sdc1\nnas:/x /mnt/\\134\\0777 nfs rw\n";
        let point = |path: &str, by_itself| MountPoint { path: PathBuf::from(path), by_itself };
        let points = [point("/", true), point("/mnt/my disk", false), point("/mnt/\\?7", true)];
        assert_eq!(of_fstab(fstab), points);
        assert!(is_mounted_by_itself(b"rw,noauto,x-systemd.automount"));
        assert!(is_mounted_by_itself(b"") && !is_mounted_by_itself(b"user,noauto"));
        let unit =
            b"[Unit]\nWhere=/no\n[Mount]\nWhat=/dev/sdb1\n Where = /mnt/100%%/ \nType=ext4\n";
        let unit_of = |path: &str, is_conditional| Some(Unit { path: path.into(), is_conditional });
        assert_eq!(of_unit(unit), unit_of("/mnt/100%", false));
        assert_eq!(of_unit(b"[Mount]\nWhere=\"/mnt/a b\"\n"), unit_of("/mnt/a b", false));
        let conditional = b"[Unit]\nConditionPathExists=/x.raw\n[Mount]\nWhere=/x\n";
        assert_eq!(of_unit(conditional), unit_of("/x", true));
        assert_eq!(of_unit(b"[Mount]\nWhere=/tmp\nType=tmpfs\n"), None);
        assert_eq!(of_unit(b"[Mount\n=\nWhere"), None);
        assert_eq!(unescaped(b"\\9\\04"), Path::new("\\9\\04"));
    }

    #[test]
    fn an_empty_mount_point_is_one_on_record_where_nothing_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let units = at("units");
        for name in ["disk a", "unit", "full/other", "units", "mounted"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("disk a"), at("link")).unwrap();
        let here = dir.path().canonicalize().unwrap();
        let fstab = format!(
            "/dev/x {0}/disk\\040a ext4 x 0 0\n/dev/y {0}/full ext4 x 0 0\n/dev/z {0}/new ext4 x 0 0\n/dev/m {0}/mounted ext4\n",
            here.display()
        );
        std::fs::write(at("fstab"), fstab).unwrap();
        std::fs::write(units.join("u.mount"), format!("[Mount]\nWhere={}/unit\n", here.display()))
            .unwrap();
        let mounted = format!(
            "30 1 8:1 / {0}/mounted rw - ext4 /dev/m rw\n31 1 0:9 / {0}/unit rw shared:1 - autofs systemd-1 rw\n",
            here.display()
        );
        std::fs::write(at("mountinfo"), mounted).unwrap();
        let tables = MountTables {
            fstab: at("fstab"),
            units: vec![units, at("none")],
            mounted: at("mountinfo"),
        };
        let empty = |name: &str| tables.empty_mount_point(&at(name));
        assert_eq!(empty("disk a"), Some(here.join("disk a")));
        assert_eq!(
            empty("link/backup/deep"),
            Some(here.join("disk a")),
            "below it, by another name"
        );
        assert_eq!(empty("unit"), Some(here.join("unit")));
        assert_eq!(empty("new"), Some(here.join("new")), "it is not even there");
        assert_eq!(empty("full"), None);
        assert_eq!(empty("full/third"), None);
        assert_eq!(empty("mounted"), None);
        assert_eq!(empty("elsewhere"), None);
        std::fs::create_dir_all(at("disk a/backup/deep")).unwrap();
        assert_eq!(empty("disk a/backup"), None, "what it would become is not empty");
        assert_eq!(empty("disk a/backup/deep"), Some(here.join("disk a")));
        std::fs::write(at("disk a/file"), "x").unwrap();
        assert_eq!(empty("disk a/backup/deep"), None);
    }
}
