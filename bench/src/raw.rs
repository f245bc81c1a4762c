//! The limits to compare with, as subcommands: bare loops that open, read, write and close files.
//!
//! Each prints one JSON object with the seconds that the loop took, without the start of the process and without what
//! is prepared before its clock starts.

mod cold;
mod files;
mod hold;
mod parity;
mod tape;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::error::BenchError;
use crate::options::Arguments;

/// The subcommands' names.
pub const NAMES: [&str; 8] = [
    "raw-read",
    "raw-write",
    "cold-read",
    "make-files",
    "touch-memory",
    "hold-memory",
    "parity",
    "tape-write",
];

/// Runs one of them with the arguments that follow its name.
pub fn run(name: &str, mut arguments: Arguments) -> Result<(), BenchError> {
    let threads = arguments.number("--threads")?.unwrap_or(2).clamp(1, 1024) as usize;
    let buffer = arguments.number("--buffer")?.unwrap_or(256 << 10).clamp(512, 1 << 30) as usize;
    let count = arguments.number("--files")?.unwrap_or(30_000);
    let bytes = arguments.number("--bytes")?.unwrap_or(1 << 30);
    let mut path = || arguments.positional().map(PathBuf::from);
    let done = match name {
        "raw-read" => {
            let source = path()?;
            let list = files::list(&source)?;
            let start = Instant::now();
            let done = files::read_all(&list, threads, buffer)?;
            (start.elapsed(), done)
        }
        "raw-write" => {
            let (source, target) = (path()?, path()?);
            let list = files::list(&source)?;
            let start = Instant::now();
            let done = files::write_all(&list, &target, threads, buffer)?;
            (start.elapsed(), done)
        }
        "cold-read" => {
            let source = path()?;
            let start = Instant::now();
            let done = cold::walk_and_read(&source, threads, buffer)?;
            (start.elapsed(), done)
        }
        "make-files" => {
            let target = path()?;
            let start = Instant::now();
            let done = files::make_tiny(&target, count, threads)?;
            (start.elapsed(), done)
        }
        "touch-memory" => {
            let text = arguments.positional()?;
            let bytes = crate::options::parse_size(&text)?;
            let start = Instant::now();
            touch_memory(bytes);
            (start.elapsed(), Done { files: 0, bytes })
        }
        "hold-memory" => {
            let dir = path()?;
            let start = Instant::now();
            hold::until_closed(&dir, bytes);
            (start.elapsed(), Done { files: 0, bytes })
        }
        "tape-write" => tape::write(&arguments.positional()?, buffer, bytes)?,
        "parity" => parity::compute(&arguments.positional()?, bytes)?,
        other => return Err(BenchError::Usage(format!("no raw loop is called '{other}'"))),
    };
    arguments.end()?;
    let (elapsed, Done { files, bytes }) = done;
    println!("{}", json!({"elapsed_s": elapsed.as_secs_f64(), "files": files, "bytes": bytes}));
    Ok(())
}

/// What a loop did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

impl std::ops::AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// Runs `work` in so many threads and adds up what they did; the first error wins.
fn in_threads(
    threads: usize,
    work: impl Fn(usize) -> Result<Done, BenchError> + Sync,
) -> Result<Done, BenchError> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
        let mut sum = Done::default();
        for thread in running {
            sum += thread.join().map_err(|_| BenchError::Unexpected {
                program: "a thread of the raw loop".into(),
                problem: "it panicked".into(),
            })??;
        }
        Ok(sum)
    })
}

/// Touches that much memory and gives it back, so that what runs next finds pages that the host has already given to
/// this machine (else each first touch costs about 10 µs).
fn touch_memory(bytes: u64) {
    const PIECE: usize = 64 << 20;
    let mut held = Vec::new();
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        let mut piece = Vec::<u8>::new();
        if piece.try_reserve_exact(PIECE.min(left)).is_err() {
            break;
        }
        piece.resize(PIECE.min(left), 0xa5);
        left -= piece.len();
        held.push(piece);
    }
    std::hint::black_box(&held);
}

/// `path` as errors show it, for a system call's error number.
fn errno(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(rustix::io::Errno) -> BenchError + use<> {
    let path = path.to_owned();
    move |e| BenchError::Io { action, path, source: e.into() }
}
