//! Walk and read with many threads, all on the clock: the limit of a cold source.

use std::collections::VecDeque;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Done, files, in_threads};
use crate::error::{BenchError, io_error};

/// Files handed out at once: few, so that all threads have some, and not so few that they meet at the lock.
const FILES_AT_ONCE: usize = 16;

/// A piece of work.
enum Job {
    Dir(PathBuf),
    Files(Vec<PathBuf>),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Jobs that are queued or in work; none left is the end.
    open: usize,
    failed: bool,
}

/// Lists and reads everything below `dir`.
pub fn walk_and_read(dir: &Path, threads: usize, buffer: usize) -> Result<Done, BenchError> {
    let queue = Mutex::new(Queue {
        jobs: VecDeque::from([Job::Dir(dir.to_owned())]),
        open: 1,
        failed: false,
    });
    let changed = Condvar::new();
    in_threads(threads, |_| {
        let mut buffer = vec![0xa5; buffer];
        let mut done = Done::default();
        loop {
            let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
            while state.jobs.is_empty() && state.open > 0 && !state.failed {
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let job = if state.failed { None } else { state.jobs.pop_front() };
            drop(state);
            let Some(job) = job else { return Ok(done) };
            let result = match job {
                Job::Dir(path) => list(&path),
                Job::Files(paths) => read(&paths, &mut buffer).map(|read| {
                    done += read;
                    Vec::new()
                }),
            };
            let mut state = queue.lock().unwrap_or_else(PoisonError::into_inner);
            state.open -= 1;
            match result {
                Ok(jobs) => {
                    state.open += jobs.len();
                    // Directories go in front: they bring work for the others.
                    for job in jobs {
                        match job {
                            Job::Dir(_) => state.jobs.push_front(job),
                            Job::Files(_) => state.jobs.push_back(job),
                        }
                    }
                    changed.notify_all();
                }
                Err(error) => {
                    state.failed = true;
                    changed.notify_all();
                    return Err(error);
                }
            }
        }
    })
}

/// The work that a directory brings. The type comes with the name, so nothing is examined.
fn list(dir: &Path) -> Result<Vec<Job>, BenchError> {
    let mut jobs = Vec::new();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error("list", dir))? {
        let entry = entry.map_err(io_error("list", dir))?;
        let kind = entry.file_type().map_err(io_error("examine", dir))?;
        if kind.is_dir() {
            jobs.push(Job::Dir(entry.path()));
        } else if kind.is_file() {
            files.push(entry.path());
            if files.len() == FILES_AT_ONCE {
                jobs.push(Job::Files(std::mem::take(&mut files)));
            }
        }
    }
    if !files.is_empty() {
        jobs.push(Job::Files(files));
    }
    Ok(jobs)
}

fn read(paths: &[PathBuf], buffer: &mut [u8]) -> Result<Done, BenchError> {
    let mut done = Done::default();
    for path in paths {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        done += Done { files: 1, bytes: files::read_file(&name, path, buffer)? };
    }
    Ok(done)
}
