//! Holding restored files against what is recorded of them, and against the live ones.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::diff::{Aspect, LiveRows, differences};
use capstan_catalog::listed::Listed;
use capstan_catalog::row::Row;
use capstan_disk_agent::linux::names::owner_names;
use capstan_disk_agent::linux::source::{self, Buffers, DirHandle};
use capstan_disk_agent::look::row_of;
use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind};
use capstan_format::sums::ContentSum;
use capstan_port::disk::ctime::proves_contents;
use capstan_stream::owners::OwnerNames;
use rustix::fs::{Mode, OFlags};

use crate::error::{CellError, Result, plain};
use crate::kinds::restore::wanted::sample_arc::SampleArc;
use crate::observe::Stop;
use crate::report::DrillReport;
use crate::session::SessionLog;

/// Bytes compared at a time.
const CHUNK: usize = 256 << 10;

/// What proves a file.
enum By {
    Live,
    Checksum,
    /// Its data carry no checksums: length and metadata are right.
    Length,
}

/// A drill's restored files.
pub(super) struct Proof {
    scratch: DirHandle,
    root: DirHandle,
    arc: SampleArc,
    /// Owners and other metadata could not all be restored, which was said: they prove nothing either way.
    limited: bool,
    /// Some of what was read carries no checksums.
    unchecked: bool,
    /// Files that lie on media which are away, which was said.
    away: HashSet<Vec<u8>>,
    owners: OwnerNames,
}

impl Proof {
    pub fn new(
        scratch: &Path,
        arc: SampleArc,
        limited: bool,
        unchecked: bool,
        away: HashSet<Vec<u8>>,
    ) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(scratch, flags, Mode::empty())
            .map_err(|e| CellError::io("open", scratch.display())(e.into()))?;
        let root = source::open_root().map_err(CellError::io("open", "/"))?;
        let scratch = DirHandle { fd, path: Vec::new() };
        Ok(Self { scratch, root, arc, limited, unchecked, away, owners: owner_names() })
    }

    /// Proves each file of the sample, and counts how.
    pub fn run(
        &self,
        mut rows: LiveRows<'_>,
        log: &SessionLog<'_>,
        stop: &Stop,
        drill: &mut DrillReport,
    ) -> Result<()> {
        // Further names have what was found of the first when it was read, which may be another state than when they were.
        let mut links: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
        while let Some((row, listed)) = rows.next()? {
            let path = row.entry.path();
            if stop.0.load(Relaxed) || row.entry.kind != Kind::File || !self.arc.has(&path) {
                continue;
            }
            let first = if row.entry.link { &row.entry.target } else { &path };
            if self.away.contains(first) {
                continue;
            }
            if row.entry.link {
                links.entry(row.entry.target).or_default().push(path);
                continue;
            }
            let proved = self.prove(&rows, &row, listed, &path, stop);
            self.count(&path, proved, log, stop, drill);
        }
        if links.is_empty() {
            return Ok(());
        }
        rows.rewind();
        while let Some((row, listed)) = rows.next()? {
            for path in links.remove(&row.entry.path()).unwrap_or_default() {
                let proved = self.prove(&rows, &row, listed.clone(), &path, stop);
                self.count(&path, proved, log, stop, drill);
            }
        }
        for (first, names) in links {
            let why = format!("its contents are those of /{}, which has no row", path_text(&first));
            names.iter().for_each(|path| self.count(path, Err(why.clone()), log, stop, drill));
        }
        Ok(())
    }

    /// Counts how a file was proved, or says why it is not. Where the drill was ended early nothing is said of it.
    fn count(
        &self,
        path: &[u8],
        proved: std::result::Result<By, String>,
        log: &SessionLog<'_>,
        stop: &Stop,
        drill: &mut DrillReport,
    ) {
        match proved {
            Ok(By::Live) => drill.by_live_file += 1,
            Ok(By::Checksum) => drill.by_checksum += 1,
            Ok(By::Length) => drill.by_length += 1,
            Err(_) if stop.0.load(Relaxed) => {}
            Err(why) => {
                drill.failed += 1;
                let shown = format!("/{}", path_text(path));
                log.say(Code::NotProved, "cell", &shown, why);
            }
        }
    }

    /// Holds what was restored at a path against the row that has its data.
    fn prove(
        &self,
        rows: &LiveRows<'_>,
        row: &Row,
        mut recorded: Listed,
        path: &[u8],
        stop: &Stop,
    ) -> std::result::Result<By, String> {
        if stop.0.load(Relaxed) {
            return Err(String::new());
        }
        let sum = rows.content_sum(row);
        recorded.entry.size = rows.restored_len(row);
        let mut buffers = Buffers::default();
        let restored = row_of(&self.scratch, path, &mut buffers)
            .map_err(|e| format!("what was restored cannot be read: {}", text(e)))?
            .ok_or("it was not restored")?;
        let what = self.differences(recorded, restored);
        if !what.is_empty() {
            let what: Vec<_> = what.iter().map(|a| a.name()).collect();
            return Err(format!("it was restored with another {}", what.join(", ")));
        }
        if let Some(sum) = sum
            && self.sum_of_restored(row, path, stop)? != sum
        {
            return Err("its contents are others than those that were backed up".to_owned());
        }
        let live = row_of(&self.root, path, &mut buffers).ok().flatten();
        if live.is_some_and(|live| is_untouched(&row.entry, &live)) {
            let same = self.same_as_live(path, stop)?;
            // Bytes may have changed under our hands: then they prove nothing.
            let after = row_of(&self.root, path, &mut buffers).ok().flatten();
            let still = after.is_some_and(|live| is_untouched(&row.entry, &live));
            match (same, still) {
                (Some(true), true) => return Ok(By::Live),
                // Where ctime proves nothing, the live file may have changed.
                (Some(false), true) if proves_contents(row.entry.mtime, row.entry.ctime) => {
                    return Err("its contents are others than those of the live file, which is \
                                unchanged since the backup"
                        .to_owned());
                }
                _ => {}
            }
        }
        let unknown = self.unchecked && sum.is_none() && row.entry.size > 0;
        Ok(if unknown { By::Length } else { By::Checksum })
    }

    fn differences(&self, recorded: Listed, restored: Entry) -> Vec<Aspect> {
        let text = |name: Option<Vec<u8>>| name.map(|n| String::from_utf8_lossy(&n).into_owned());
        let (user, group) = (self.owners.user(restored.uid), self.owners.group(restored.gid));
        let acl = self.owners.of_acls(&restored);
        let mut entry = restored;
        // Which of its names is the first one is the backup's affair.
        (entry.link, entry.target) = (recorded.entry.link, recorded.entry.target.clone());
        let restored = Listed { entry, user: text(user), group: text(group), acl, state: None };
        let mut what = differences(&recorded, &restored);
        what.retain(|a| match a {
            // Flags are not set in scratch space: what is immutable could not be removed.
            Aspect::Flags | Aspect::Ctime => false,
            Aspect::Owner | Aspect::Group | Aspect::Xattrs | Aspect::Mode => !self.limited,
            _ => true,
        });
        what
    }

    /// The checksum of the restored file's contents, as a backup makes it.
    fn sum_of_restored(
        &self,
        row: &Row,
        path: &[u8],
        stop: &Stop,
    ) -> std::result::Result<u64, String> {
        let failed = |e: &std::io::Error| format!("what was restored cannot be read: {}", plain(e));
        let file = source::open_at(&self.scratch, path, false)
            .map_err(|e| format!("what was restored cannot be read: {}", text(e)))?;
        // One that is all data says nothing of extents.
        let all = [Extent { len: row.entry.size, kind: ExtentKind::Data }];
        let extents = &row.entry.extents;
        let extents = if extents.is_empty() { &all } else { extents.as_slice() };
        sum_of(&File::from(file), extents, stop).map_err(|e| failed(&e))
    }

    /// Whether the restored file has the live one's bytes; `None` where that one cannot be read.
    fn same_as_live(&self, path: &[u8], stop: &Stop) -> std::result::Result<Option<bool>, String> {
        let Ok(live) = source::open_at(&self.root, path, false) else { return Ok(None) };
        let restored = source::open_at(&self.scratch, path, false)
            .map_err(|e| format!("what was restored cannot be read: {}", text(e)))?;
        let (mut live, mut restored) = (File::from(live), File::from(restored));
        let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
        loop {
            if stop.0.load(Relaxed) {
                return Ok(None);
            }
            let Ok(n) = fill(&mut live, &mut a) else { return Ok(None) };
            let m = fill(&mut restored, &mut b)
                .map_err(|e| format!("what was restored cannot be read: {}", plain(&e)))?;
            if a[..n] != b[..m] {
                return Ok(Some(false));
            }
            if n == 0 {
                return Ok(Some(true));
            }
        }
    }
}

/// Whether the live file is the one that was backed up, in the state in which it was.
fn is_untouched(recorded: &Entry, live: &Entry) -> bool {
    let of = |e: &Entry| (e.kind, e.size, e.mtime, e.ctime, e.ino);
    of(recorded) == of(live)
}

/// The checksum of a file's contents where its extents say that there are any.
fn sum_of(file: &File, extents: &[Extent], stop: &Stop) -> std::io::Result<u64> {
    let (mut sum, mut chunk, mut at) = (ContentSum::default(), vec![0; CHUNK], 0_u64);
    for extent in extents {
        let end = at.saturating_add(extent.len);
        while extent.kind != ExtentKind::Hole && at < end {
            if stop.0.load(Relaxed) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let want = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            match file.read_at(&mut chunk[..want], at)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => {
                    sum.update(&chunk[..n]);
                    at += n as u64;
                }
            }
        }
        at = end;
    }
    Ok(sum.take())
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

fn text(e: rustix::io::Errno) -> String {
    plain(&std::io::Error::from(e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_of_what_is_no_hole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (a, b) = (vec![1_u8; 300_000], vec![2_u8; 7]);
        std::fs::write(&path, [&a[..], &[0; 5000], &b[..]].concat()).unwrap();
        let file = File::open(&path).unwrap();
        let extent = |kind, len| Extent { kind, len };
        let extents = [
            extent(ExtentKind::Data, 300_000),
            extent(ExtentKind::Hole, 5000),
            extent(ExtentKind::Parts, 7),
        ];
        let mut sum = ContentSum::default();
        sum.update(&a);
        sum.update(&b);
        let whole = sum.take();
        assert_eq!(sum_of(&file, &extents, &Stop::default()).unwrap(), whole);
        std::fs::write(&path, [&a[..], &[0; 5000], &[2, 2, 2, 3, 2, 2, 2]].concat()).unwrap();
        assert_ne!(sum_of(&File::open(&path).unwrap(), &extents, &Stop::default()).unwrap(), whole);
        std::fs::write(&path, &a).unwrap();
        assert!(
            sum_of(&File::open(&path).unwrap(), &extents, &Stop::default()).is_err(),
            "it is too short"
        );
    }

    #[test]
    fn a_stop_ends_the_reading_of_a_claimed_length() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create_new(dir.path().join("file")).unwrap();
        file.set_len(1 << 42).unwrap();
        let file = File::open(dir.path().join("file")).unwrap();
        let extents = [Extent { kind: ExtentKind::Data, len: 1 << 42 }];
        let stop = Stop::default();
        stop.0.store(true, Relaxed);
        let e = sum_of(&file, &extents, &stop).unwrap_err();
        assert_eq!(e.kind(), std::io::ErrorKind::Interrupted);
    }
}
