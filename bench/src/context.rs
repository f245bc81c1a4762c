//! What all benchmarks share: where things are, the data, the machine's memory and caches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::{BenchError, io_error};
use crate::options::Options;
use crate::process::{self, Ran};
use crate::warm::Warm;

/// Where a benchmark mounts a tmpfs, below `--dir`.
pub const MOUNT: &str = "many";

/// A set of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// 4.29 GB in 352 files of 64 KiB to 64 MiB.
    Typical,
    /// 1.07 GB, a quarter of it: for many runs.
    Quarter,
    /// 3.07 GB in 300,000 files of 4 to 16 KiB.
    Small,
    /// 324 MB in 31,640 files of 4 to 16 KiB.
    Home,
    /// 4.29 GB in 4 files.
    Large,
}

impl Set {
    /// Its name in paths and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Typical => "typical",
            Self::Quarter => "quarter",
            Self::Small => "small",
            Self::Home => "home",
            Self::Large => "large",
        }
    }

    fn generator_arguments(self, quick: bool) -> &'static [&'static str] {
        match (self, quick) {
            (Self::Typical, false) => &["--preset", "typical"],
            (Self::Typical, true) => &["--preset", "typical", "--files", "33"],
            (Self::Quarter, false) => &["--preset", "typical", "--files", "88"],
            (Self::Quarter, true) => &["--preset", "typical", "--files", "33"],
            (Self::Small, false) => &["--preset", "small"],
            (Self::Small, true) => &["--preset", "small", "--files", "30000"],
            (Self::Home, false) => &["--preset", "small", "--files", "31640"],
            (Self::Home, true) => &["--preset", "small", "--files", "3164"],
            (Self::Large, false) => &["--files", "4", "--sizes", "1G..1G"],
            (Self::Large, true) => &["--files", "4", "--sizes", "100M..100M"],
        }
    }
}

/// Where files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Below `--dir`, which should be a tmpfs.
    Memory,
    /// Below `--disk`.
    Disk,
}

/// Files to back up.
#[derive(Debug, Clone)]
pub struct Data {
    /// Their directory.
    pub path: PathBuf,
    /// Their number.
    pub files: u64,
    /// Their size in all.
    pub bytes: u64,
}

/// Where and how to measure.
#[derive(Debug)]
pub struct Context {
    /// The binary to measure.
    pub capstan: PathBuf,
    /// This program, for the raw loops.
    pub bench: PathBuf,
    /// Runs that count.
    pub runs: usize,
    /// A tenth of the data.
    pub quick: bool,
    dir: PathBuf,
    disk: PathBuf,
    /// Locked while this lives.
    _lock: fs::File,
}

impl Context {
    /// Looks for the binaries and makes the directories.
    pub fn new(options: &Options) -> Result<Self, BenchError> {
        let exe = PathBuf::from("/proc/self/exe");
        let bench = fs::read_link(&exe).map_err(io_error("read", &exe))?;
        let capstan = options.capstan.clone().unwrap_or_else(|| bench.with_file_name("capstan"));
        if !capstan.is_file() {
            let problem = format!(
                "{} does not exist: run `cargo build --release` first or give --capstan",
                capstan.display()
            );
            return Err(BenchError::Usage(problem));
        }
        let dir = &options.dir;
        fs::create_dir_all(dir).map_err(io_error("create", dir))?;
        let path = dir.join("lock");
        let lock = fs::File::create(&path).map_err(io_error("create", &path))?;
        lock.try_lock().map_err(|_| {
            BenchError::Usage(format!("another run is at work in {}: wait for it", dir.display()))
        })?;
        let this = Self {
            capstan,
            bench,
            runs: options.runs,
            quick: options.quick,
            dir: options.dir.clone(),
            disk: options.disk.clone(),
            _lock: lock,
        };
        fs::create_dir_all(this.logs()).map_err(io_error("create", &this.logs()))?;
        Ok(this)
    }

    /// Where this place is.
    pub fn root(&self, place: Place) -> &Path {
        match place {
            Place::Memory => &self.dir,
            Place::Disk => &self.disk,
        }
    }

    /// Where children's output goes.
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// Has so much memory at hand for what is written below [`Place::Memory`], as long as what is returned lives.
    pub fn memory_at_hand(&self, bytes: u64) -> Result<Warm, BenchError> {
        self.need_memory(bytes)?;
        fs::create_dir_all(&self.dir).map_err(io_error("create", &self.dir))?;
        Warm::up(&self.bench, &self.dir, bytes)
    }

    /// Runs a program.
    pub fn run(&self, command: &mut Command) -> Result<Ran, BenchError> {
        process::run(command, &self.logs())
    }

    /// Runs one of this program's raw loops and returns the JSON that it prints, with what it cost.
    pub fn raw(
        &self,
        arguments: &[&dyn AsRef<std::ffi::OsStr>],
    ) -> Result<(Ran, Value), BenchError> {
        let mut command = Command::new(&self.bench);
        for argument in arguments {
            command.arg(argument);
        }
        let ran = self.run(&mut command)?;
        let value = parse(&ran.stdout, "a raw loop")?;
        Ok((ran, value))
    }

    /// A directory that does not exist: what was there is removed.
    pub fn fresh(&self, place: Place, name: &str) -> Result<PathBuf, BenchError> {
        let path = self.root(place).join(name);
        remove(&path)?;
        fs::create_dir_all(self.root(place)).map_err(io_error("create", self.root(place)))?;
        Ok(path)
    }

    /// A data set on the disk, made if need be. A file beside it says that it is whole. Reads of a tmpfs copy page by
    /// page and take 1.6 times as long as those of ext4's page cache, so that it would be no limit to compare with.
    pub fn data(&self, set: Set) -> Result<Data, BenchError> {
        let name = format!("{}{}", if self.quick { "quick-" } else { "" }, set.name());
        let root = self.root(Place::Disk);
        let path = root.join(&name);
        let summary = root.join(format!("{name}.json"));
        let read = |text: &str| -> Result<Data, BenchError> {
            let value = parse(text, "capstan assess create-data --json")?;
            let number = |key: &str| value["summary"][key].as_u64().unwrap_or(0);
            Ok(Data { path: path.clone(), files: number("files"), bytes: number("bytes") })
        };
        if let (Ok(text), true) = (fs::read_to_string(&summary), path.is_dir()) {
            return read(&text);
        }
        remove(&path)?;
        fs::create_dir_all(root).map_err(io_error("create", root))?;
        eprintln!("  making {name} in {}", root.display());
        let mut command = Command::new(&self.capstan);
        command.args(["assess", "create-data"]).arg(&path).arg("--json");
        let ran = self.run(command.args(set.generator_arguments(self.quick)))?;
        let data = read(&ran.stdout)?;
        fs::write(&summary, &ran.stdout).map_err(io_error("write", &summary))?;
        Ok(data)
    }

    /// Removes everything that benchmarks made.
    pub fn clean(dir: &Path, disk: &Path) -> Result<(), BenchError> {
        let mount = dir.join(MOUNT);
        if is_mounted(&mount) {
            rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::empty())
                .map_err(|e| io_error("unmount", &mount)(e.into()))?;
        }
        remove(dir)?;
        remove(disk)
    }

    /// Skips a benchmark that needs more memory than there is; a reserve stays for the programs themselves.
    pub fn need_memory(&self, bytes: u64) -> Result<(), BenchError> {
        const RESERVE: u64 = 1 << 30;
        let available = memory_available();
        if available < bytes + RESERVE {
            return Err(BenchError::Skip(format!(
                "it needs {:.1} GB of memory and {:.1} GB are available",
                (bytes + RESERVE) as f64 / 1e9,
                available as f64 / 1e9
            )));
        }
        Ok(())
    }

    /// Touches that much memory just before a run that will fill it, so that the run does not pay for the host's pages.
    pub fn warm_memory(&self, bytes: u64) -> Result<(), BenchError> {
        let most = memory_available().saturating_sub(2 << 30);
        self.raw(&[&"touch-memory", &bytes.min(most).to_string()]).map(drop)
    }

    /// Reads a source again just before a run, unless it cannot leave the memory.
    pub fn warm_source(&self, data: &Data) -> Result<(), BenchError> {
        if is_tmpfs(&data.path) {
            return Ok(());
        }
        self.raw(&[&"raw-read", &data.path, &"--threads", &"2"]).map(drop)
    }

    /// Empties the page cache and the caches of inodes and names, and fetches the programs back: only the source is to
    /// be cold.
    pub fn drop_caches(&self) -> Result<(), BenchError> {
        rustix::fs::sync();
        let path = Path::new("/proc/sys/vm/drop_caches");
        fs::write(path, "3\n").map_err(|e| {
            BenchError::Skip(format!("cannot write {} ({e}): cold rows need root", path.display()))
        })?;
        self.run(Command::new(&self.capstan).arg("--version"))?;
        self.run(Command::new(&self.bench).arg("list"))?;
        let tools = "for tool in tar dd cat find; do $tool --version >/dev/null; done";
        self.run(Command::new("sh").args(["-c", tools])).map(drop)
    }
}

/// Whether a path is on a tmpfs, whose data have no other place than memory.
pub fn is_tmpfs(path: &Path) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::statfs(path).is_ok_and(|s| s.f_type as u64 == TMPFS_MAGIC)
}

/// Whether something is mounted here: it is on another device than its parent.
fn is_mounted(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::symlink_metadata(path).map(|m| m.dev()).ok();
    let (here, parent) = (device(path), path.parent().and_then(device));
    here.is_some() && here != parent
}

/// Memory that programs can get, in bytes.
fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Removes a file or a tree, if it is there.
pub fn remove(path: &Path) -> Result<(), BenchError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io_error("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Sizes of all files in a tree.
pub fn tree_bytes(path: &Path) -> Result<u64, BenchError> {
    let mut sum = 0;
    for entry in fs::read_dir(path).map_err(io_error("list", path))? {
        let entry = entry.map_err(io_error("list", path))?;
        let meta = entry.metadata().map_err(io_error("examine", &entry.path()))?;
        sum += if meta.is_dir() { tree_bytes(&entry.path())? } else { meta.len() };
    }
    Ok(sum)
}

/// Whether a program is on the PATH.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// The JSON object that a program printed.
pub fn parse(text: &str, program: &str) -> Result<Value, BenchError> {
    serde_json::from_str(text.trim()).map_err(|e| BenchError::Unexpected {
        program: program.into(),
        problem: format!("its output is not one JSON value ({e})"),
    })
}
