//! Puts the files on the disk: several writers, each taking the next file until none is left.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::content::Content;
use super::error::{CreateDataError, io_error};
use super::options::Options;
use super::plan::{FilePlan, Plan};
use super::tree::{Tree, fixed_times};

/// Bytes per write: stays in the core's cache.
const BUFFER_SIZE: usize = 128 * 1024;
/// Largest piece of a fragmented file; smaller files get a quarter of their size, in whole blocks.
const PIECE_MAX: u64 = 64 * 1024;
/// Unit of pieces: the block size of common file systems.
const BLOCK: u64 = 4096;

/// Writes all files; returns how many were laid out in pieces.
pub(super) fn write_files(
    dir: &Path,
    options: &Options,
    plan: &Plan,
    tree: &Tree,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<u64, CreateDataError> {
    let shared = Shared {
        dir,
        options,
        plan,
        tree,
        progress,
        next_file: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        files: AtomicU64::new(0),
        fragmented_files: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let mut started = Vec::new();
        let mut result = Ok(());
        for _ in 1..options.streams {
            match thread::Builder::new().spawn_scoped(scope, || shared.run()) {
                Ok(handle) => started.push(handle),
                Err(e) => {
                    shared.stop.store(true, Relaxed);
                    result = Err(io_error("start a writer thread for", dir)(e));
                    break;
                }
            }
        }
        result = result.and(shared.run());
        for handle in started {
            result = result.and(handle.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        result
    })?;
    Ok(shared.fragmented_files.into_inner())
}

/// What the writers have in common.
struct Shared<'a> {
    dir: &'a Path,
    options: &'a Options,
    plan: &'a Plan,
    tree: &'a Tree,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    next_file: AtomicU64,
    bytes: AtomicU64,
    files: AtomicU64,
    fragmented_files: AtomicU64,
    stop: AtomicBool,
}

impl Shared<'_> {
    /// One writer: writes files until all are taken or any writer has failed.
    fn run(&self) -> Result<(), CreateDataError> {
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut dir = None;
        let mut dir_path = self.dir.to_path_buf();
        while !self.stop.load(Relaxed) {
            let index = self.next_file.fetch_add(1, Relaxed);
            if index >= self.plan.files() {
                break;
            }
            let dir_now = self.tree.dir_of(index);
            if dir_now != dir {
                dir = dir_now;
                dir_path = self.tree.dir_path(self.dir, dir);
            }
            let path = dir_path.join(self.tree.file_name(index));
            if let Err(error) = self.write_file(index, &path, &mut buffer) {
                self.stop.store(true, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_file(
        &self,
        index: u64,
        path: &PathBuf,
        buffer: &mut [u8],
    ) -> Result<(), CreateDataError> {
        let planned = self.plan.file(index);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(io_error("create", path))?;
        if planned.fragmented && planned.size >= 2 * BLOCK {
            self.write_pieces(index, planned, &file, path, buffer)?;
            self.fragmented_files.fetch_add(1, Relaxed);
        } else {
            let mut content = self.content(index, planned);
            let mut rest = planned.size;
            while rest > 0 {
                let part = &mut buffer[..rest.min(BUFFER_SIZE as u64) as usize];
                content.fill(part);
                (&file).write_all(part).map_err(io_error("write", path))?;
                rest -= part.len() as u64;
                self.report(part.len() as u64, 0);
            }
        }
        rustix::fs::futimens(&file, &fixed_times())
            .map_err(|e| io_error("set the times of", path)(e.into()))?;
        self.report(0, 1);
        Ok(())
    }

    fn content(&self, index: u64, planned: FilePlan) -> Content {
        let Options { pattern, seed, .. } = *self.options;
        Content::new(pattern, seed, index, planned.size, planned.ratio)
    }

    /// Writes a file so that its pieces lie apart on the disk.
    ///
    /// Delayed and preallocating allocators (ext4, XFS) defeat interleaved appends. So the file is
    /// allocated at twice its length, pieces and gaps in turn, and then the gaps are collapsed
    /// out of it, which leaves the pieces where they are.
    fn write_pieces(
        &self,
        index: u64,
        planned: FilePlan,
        file: &File,
        path: &Path,
        buffer: &mut [u8],
    ) -> Result<(), CreateDataError> {
        let piece = (planned.size / 4 / BLOCK * BLOCK).clamp(BLOCK, PIECE_MAX);
        let gaps = (planned.size - 1) / piece;
        let unsupported = |e: Errno| [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL].contains(&e);

        let stretched = planned.size + gaps * piece;
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, stretched) {
            Err(e) if unsupported(e) => {
                return self.write_out_of_order(index, planned, piece, file, path, buffer);
            }
            result => result.map_err(|e| io_error("allocate", path)(e.into()))?,
        }
        let mut content = self.content(index, planned);
        for number in 0..=gaps {
            let part = &mut buffer[..piece.min(planned.size - number * piece) as usize];
            content.fill(part);
            file.write_all_at(part, 2 * number * piece).map_err(io_error("write", path))?;
            self.report(part.len() as u64, 0);
        }
        // Collapsing writes out what follows the gap: once for all is faster than once for each.
        file.sync_data().map_err(io_error("sync", path))?;
        for number in (0..gaps).rev() {
            let gap = (2 * number + 1) * piece;
            match rustix::fs::fallocate(file, FallocateFlags::COLLAPSE_RANGE, gap, piece) {
                // The file system has larger blocks or no such operation: nothing was collapsed.
                Err(e) if unsupported(e) && number == gaps - 1 => {
                    file.set_len(0).map_err(io_error("truncate", path))?;
                    self.bytes.fetch_sub(planned.size, Relaxed);
                    return self.write_out_of_order(index, planned, piece, file, path, buffer);
                }
                result => result.map_err(|e| io_error("fragment", path)(e.into()))?,
            }
        }
        Ok(())
    }

    /// The way for file systems that cannot collapse: every second piece first, then the others,
    /// each synced, which fragments where new data goes to new places (btrfs, ZFS).
    fn write_out_of_order(
        &self,
        index: u64,
        planned: FilePlan,
        piece: u64,
        file: &File,
        path: &Path,
        buffer: &mut [u8],
    ) -> Result<(), CreateDataError> {
        for turn in [1, 0] {
            // Making the content twice is cheaper than keeping the pieces.
            let mut content = self.content(index, planned);
            for number in 0..planned.size.div_ceil(piece) {
                let start = number * piece;
                let part = &mut buffer[..piece.min(planned.size - start) as usize];
                content.fill(part);
                if number % 2 == turn {
                    file.write_all_at(part, start).map_err(io_error("write", path))?;
                    file.sync_data().map_err(io_error("sync", path))?;
                    self.report(part.len() as u64, 0);
                }
            }
        }
        Ok(())
    }

    /// Adds to the totals and passes them on.
    fn report(&self, bytes: u64, files: u64) {
        let bytes = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let files = self.files.fetch_add(files, Relaxed) + files;
        (self.progress)(bytes, files);
    }
}
