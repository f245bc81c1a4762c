//! Looking at files that a drill restored, and at the live ones.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_engine::message::{path_text, plain};
use capstan_format::entry::{Entry, Extent, ExtentKind};
use capstan_format::sums::ContentSum;
use capstan_port::disk::check::{CheckError, Inquiry, ProofRow, Proven};
use capstan_stream::owners::OwnerNames;
use capstan_wire::check::ProofJob;
use rustix::fs::{Mode, OFlags};

use super::look::row_of;
use crate::linux::names::{looked, owner_names};
use crate::linux::source::{self, Buffers, DirHandle};

/// Bytes compared at a time.
const CHUNK: usize = 256 << 10;

/// Looks at each file.
pub(crate) fn prove(
    job: &ProofJob,
    stop: &AtomicBool,
    inquiry: &mut dyn Inquiry<ProofRow, Proven>,
) -> Result<(), CheckError> {
    let open = |path: &[u8]| {
        let path = path.to_vec();
        move |source| CheckError::Open { path: path_text(&path), source }
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let scratch = std::ffi::OsStr::from_bytes(&job.scratch);
    let fd = rustix::fs::open(scratch, flags, Mode::empty())
        .map_err(|e| open(&job.scratch)(e.into()))?;
    let both = Both {
        scratch: DirHandle { fd, path: Vec::new() },
        root: source::open_root().map_err(open(b"/"))?,
        owners: owner_names(),
        stop,
    };
    loop {
        let rows = inquiry.rows()?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let proven = both.look_at(&row);
            if stop.load(Relaxed) {
                return Ok(());
            }
            inquiry.found(proven);
        }
    }
}

/// What was restored, and what is live.
struct Both<'a> {
    scratch: DirHandle,
    root: DirHandle,
    owners: OwnerNames,
    stop: &'a AtomicBool,
}

impl Both<'_> {
    fn look_at(&self, row: &ProofRow) -> Proven {
        let mut buffers = Buffers::default();
        let restored = row_of(&self.scratch, &row.path, &mut buffers)
            .map(|found| found.map(|entry| looked(&self.owners, entry)))
            .map_err(text);
        let is_there = matches!(restored, Ok(Some(_)));
        let sum = row.sum.filter(|_| is_there).map(|_| self.sum_of_restored(row));
        let is_right =
            is_there && sum.as_ref().is_none_or(|sum| sum.as_ref().ok() == row.sum.as_ref());
        let is_as_live = if is_right { self.is_as_live(row, &mut buffers) } else { Ok(None) };
        Proven { restored, sum, is_as_live }
    }

    /// The checksum of the restored file's contents, as a backup makes it.
    fn sum_of_restored(&self, row: &ProofRow) -> Result<u64, String> {
        let file = source::open_at(&self.scratch, &row.path, false).map_err(text)?;
        // One that is all data says nothing of extents.
        let all = [Extent { len: row.entry.size, kind: ExtentKind::Data }];
        let extents = &row.entry.extents;
        let extents = if extents.is_empty() { &all } else { extents.as_slice() };
        sum_of(&File::from(file), extents, self.stop).map_err(|e| plain(&e))
    }

    /// Whether the live file is in the state in which it was backed up, and has the restored one's bytes.
    fn is_as_live(&self, row: &ProofRow, buffers: &mut Buffers) -> Result<Option<bool>, String> {
        let mut is_live_untouched = || {
            let live = row_of(&self.root, &row.path, buffers).ok().flatten();
            live.is_some_and(|live| is_untouched(&row.entry, &live))
        };
        if !is_live_untouched() {
            return Ok(None);
        }
        let is_same = self.has_live_bytes(&row.path)?;
        // Bytes may have changed under our hands: then they prove nothing.
        Ok(is_same.filter(|_| is_live_untouched()))
    }

    /// Whether the restored file has the live one's bytes; `None` where that one cannot be read.
    fn has_live_bytes(&self, path: &[u8]) -> Result<Option<bool>, String> {
        let Ok(live) = source::open_at(&self.root, path, false) else { return Ok(None) };
        let restored = source::open_at(&self.scratch, path, false).map_err(text)?;
        let (mut live, mut restored) = (File::from(live), File::from(restored));
        let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
        loop {
            if self.stop.load(Relaxed) {
                return Ok(None);
            }
            let Ok(n) = fill(&mut live, &mut a) else { return Ok(None) };
            let m = fill(&mut restored, &mut b).map_err(|e| plain(&e))?;
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
fn sum_of(file: &File, extents: &[Extent], stop: &AtomicBool) -> std::io::Result<u64> {
    let (mut sum, mut chunk, mut at) = (ContentSum::default(), vec![0; CHUNK], 0_u64);
    for extent in extents {
        let end = at.saturating_add(extent.len);
        while extent.kind != ExtentKind::Hole && at < end {
            if stop.load(Relaxed) {
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
        assert_eq!(sum_of(&file, &extents, &AtomicBool::new(false)).unwrap(), whole);
        std::fs::write(&path, [&a[..], &[0; 5000], &[2, 2, 2, 3, 2, 2, 2]].concat()).unwrap();
        assert_ne!(
            sum_of(&File::open(&path).unwrap(), &extents, &AtomicBool::new(false)).unwrap(),
            whole
        );
        std::fs::write(&path, &a).unwrap();
        assert!(
            sum_of(&File::open(&path).unwrap(), &extents, &AtomicBool::new(false)).is_err(),
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
        let stop = AtomicBool::new(true);
        let e = sum_of(&file, &extents, &stop).unwrap_err();
        assert_eq!(e.kind(), std::io::ErrorKind::Interrupted);
    }
}
