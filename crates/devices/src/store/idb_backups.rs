//! Backups of internal databases in stores, beside the segments of a medium.

use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::storage::Storage;

use super::Site;

/// Backups of the internal database that a medium keeps: one damaged or half written leaves two.
pub const IDB_BACKUPS_KEPT: usize = 3;

const IDB_PREFIX: &str = "idb-";
const IDB_SUFFIX: &str = ".capstan";
const PART: &str = ".part";

/// Whether a file of that name is a backup of an internal database, or one being written.
pub(super) fn is_idb_backup(name: &str) -> bool {
    let name = name.strip_suffix(PART).unwrap_or(name);
    let digits = name.strip_prefix(IDB_PREFIX).and_then(|n| n.strip_suffix(IDB_SUFFIX));
    digits.is_some_and(|d| d.len() == 17 && d.bytes().all(|b| b.is_ascii_digit()))
}

/// Lays a backup of the internal database into a medium's store, under a name made from the time, and removes all but
/// the newest ones. It has its name only when it is durable.
pub fn write_idb_backup(site: &Site, time_us: i64, bytes: &[u8]) -> Result<(), DeviceError> {
    let name = format!("{IDB_PREFIX}{:017}{IDB_SUFFIX}", time_us.max(0));
    let temporary = format!("{name}{PART}");
    let place = |name: &str| format!("{}/{name}", site.shown());
    let storage = site.open().map_err(io_error("write", &place(&name)))?;
    let write = || -> std::io::Result<()> {
        remove(&*storage, &temporary)?;
        let mut file = storage.create(&temporary)?;
        file.append(bytes)?;
        file.sync()?;
        storage.replace(&temporary, &name)?;
        storage.sync()
    };
    if let Err(e) = write() {
        let _ = storage.remove(&temporary);
        return Err(io_error("write", &place(&name))(e));
    }
    let mut names = all_idb_backups(&*storage, site.shown())?;
    let left = names.iter().filter(|n| n.ends_with(PART)).cloned().collect::<Vec<_>>();
    names.retain(|n| !n.ends_with(PART));
    for old in names.iter().rev().skip(IDB_BACKUPS_KEPT).chain(&left) {
        remove(&*storage, old).map_err(io_error("remove", &place(old)))?;
    }
    Ok(())
}

/// Removes a file, if it is there.
fn remove(storage: &dyn Storage, name: &str) -> std::io::Result<()> {
    match storage.remove(name) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// The names of the backups of internal databases in a store, newest first.
pub fn idb_backups(site: &Site) -> Result<Vec<String>, DeviceError> {
    let storage = site.open().map_err(io_error("list", site.shown()))?;
    let mut names = all_idb_backups(&*storage, site.shown())?;
    names.retain(|n| !n.ends_with(PART));
    names.reverse();
    Ok(names)
}

/// When the backup of an internal database of that name was made, in microseconds since 1970.
pub fn idb_backup_time(name: &str) -> Option<i64> {
    name.strip_prefix(IDB_PREFIX)?.strip_suffix(IDB_SUFFIX)?.parse().ok()
}

/// Reads a backup of an internal database. One that is larger than `most` bytes is refused.
pub fn read_idb_backup(site: &Site, name: &str, most: u64) -> std::io::Result<Vec<u8>> {
    let invalid = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let file = site.open()?.open(name)?;
    let len = file.len()?;
    if len > most {
        return Err(invalid(format!("it is longer than {most} bytes")));
    }
    let len = usize::try_from(len).map_err(|_| invalid("it is longer than memory".to_owned()))?;
    let mut bytes = vec![0; len];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Oldest first, with those being written.
fn all_idb_backups(storage: &dyn Storage, at: &str) -> Result<Vec<String>, DeviceError> {
    let mut names = storage.list().map_err(io_error("list", at))?;
    names.retain(|n| is_idb_backup(n));
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directories;

    #[test]
    fn the_last_backups_of_a_database_stay() {
        let dir = tempfile::tempdir().unwrap();
        let site = Directories::site(dir.path());
        std::fs::write(dir.path().join("idb-00000000000000001.capstan.part"), "half").unwrap();
        for time in [5, 3, 9, 1_785_312_009_500_000] {
            write_idb_backup(&site, time, &[time as u8]).unwrap();
        }
        let names = idb_backups(&site).unwrap();
        let expected = ["idb-01785312009500000", "idb-00000000000000009", "idb-00000000000000005"];
        assert_eq!(names, expected.map(|n| format!("{n}.capstan")));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        assert!(names.iter().all(|n| crate::store::is_our_name(n)));
        assert!(!is_idb_backup("idb-1.capstan"));
        assert_eq!(idb_backup_time(&names[0]), Some(1_785_312_009_500_000));
    }
}
