//! The other backup programs, each at its defaults, with a new repository for each run, made off the clock.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::{Context, Data, Place, is_installed, is_tmpfs, parse, remove, tree_bytes};
use crate::error::{BenchError, io_error};
use crate::measure::{Contender, Sample};

/// Sets the three daemons of Bacula up on loopback; see there.
const BACULA_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bacula.sh");
const PASSWORD: &str = "a passphrase for benchmarks";

/// A backup program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// restic, which always encrypts and compresses with zstd.
    Restic,
    /// borg with lz4, its default, not encrypted.
    Borg,
    /// borg with lz4, encrypted.
    BorgEncrypted,
    /// rustic, which always encrypts and compresses with zstd.
    Rustic,
    /// Bacula: director, storage and file daemon.
    Bacula,
}

impl Rival {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Restic, Self::Borg, Self::BorgEncrypted, Self::Rustic, Self::Bacula];

    /// Its name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Restic => "restic",
            Self::Borg => "borg",
            Self::BorgEncrypted => "borg, encrypted",
            Self::Rustic => "rustic",
            Self::Bacula => "Bacula",
        }
    }

    /// Why it cannot run here.
    fn missing(self) -> Option<&'static str> {
        let (program, reason) = match self {
            Self::Restic => ("restic", "not installed (apt-get install restic)"),
            Self::Borg | Self::BorgEncrypted => {
                ("borg", "not installed (apt-get install borgbackup)")
            }
            Self::Rustic => ("rustic", "not installed (cargo install rustic-rs)"),
            Self::Bacula => ("apt-get", "bench/bacula.sh needs apt-get"),
        };
        (!is_installed(program)).then_some(reason)
    }

    /// As a contender that backs `data` up to memory.
    pub fn backup<'a>(self, context: &'a Context, data: &'a Data) -> Contender<'a> {
        Contender::new(self.label(), move || {
            let archive = self.make(context, data)?;
            let sample = archive.sample;
            archive.remove()?;
            Ok(sample)
        })
    }

    /// Backs up once and keeps the repository.
    pub fn make(self, context: &Context, data: &Data) -> Result<RivalArchive, BenchError> {
        if let Some(reason) = self.missing() {
            return Err(BenchError::Skip(reason.into()));
        }
        // Several of them may be kept at once.
        let root = context.fresh(Place::Memory, &format!("rival-{self:?}"))?;
        for dir in ["home", "repository"] {
            let path = root.join(dir);
            std::fs::create_dir_all(&path).map_err(io_error("create", &path))?;
        }
        let archive = RivalArchive { rival: self, root, sample: Sample::default() };
        let prepared = archive.prepare(context).and_then(|()| {
            if is_tmpfs(context.root(Place::Memory)) {
                context.warm_memory(data.bytes)?;
            }
            context.warm_source(data)
        });
        match prepared.and_then(|()| archive.backup(context, data)) {
            Ok(sample) => Ok(RivalArchive { sample, ..archive }),
            Err(error) => {
                archive.remove()?;
                Err(error)
            }
        }
    }
}

/// A rival's repository.
#[derive(Debug)]
pub struct RivalArchive {
    rival: Rival,
    root: PathBuf,
    /// What making it cost.
    pub sample: Sample,
}

impl RivalArchive {
    fn repository(&self) -> PathBuf {
        self.root.join("repository")
    }

    /// A command of the rival that has its caches and settings below `root`, not in the user's home.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let home = self.root.join("home");
        command
            .env("HOME", &home)
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("RESTIC_PASSWORD", PASSWORD)
            .env("RESTIC_REPOSITORY", self.repository())
            .env("RUSTIC_PASSWORD", PASSWORD)
            .env("RUSTIC_REPOSITORY", self.repository())
            .env("BORG_BASE_DIR", &home)
            .env("BORG_REPO", self.repository())
            .env("BORG_PASSPHRASE", PASSWORD)
            .env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes");
        command
    }

    fn prepare(&self, context: &Context) -> Result<(), BenchError> {
        let mut command = match self.rival {
            Rival::Restic => self.with("restic", &["init", "--quiet"]),
            Rival::Borg => self.with("borg", &["init", "--encryption", "none"]),
            Rival::BorgEncrypted => self.with("borg", &["init", "--encryption", "repokey-blake2"]),
            Rival::Rustic => self.with("rustic", &["init"]),
            Rival::Bacula => {
                let mut command = self.with(BACULA_SCRIPT, &["install"]);
                command.arg(context.root(Place::Disk).join("bacula"));
                command
            }
        };
        context.run(&mut command).map(drop)
    }

    /// Backs up; the second time what did not change is known.
    pub fn backup(&self, context: &Context, data: &Data) -> Result<Sample, BenchError> {
        let mut command = match self.rival {
            Rival::Restic => self.with("restic", &["backup", "--quiet"]),
            Rival::Borg | Rival::BorgEncrypted => {
                self.with("borg", &["create", "::{now:%H%M%S%f}"])
            }
            Rival::Rustic => self.with("rustic", &["backup", "--no-progress"]),
            Rival::Bacula => return self.bacula(context, data),
        };
        let usage = context.run(command.arg(&data.path))?.usage;
        Ok(Sample {
            wall_s: usage.wall_s,
            cpu_s: usage.cpu_s,
            peak_rss: usage.peak_rss,
            stored: tree_bytes(&self.repository())?,
            ..Sample::default()
        })
    }

    /// The script starts and stops the daemons off the clock and prints what the job cost.
    fn bacula(&self, context: &Context, data: &Data) -> Result<Sample, BenchError> {
        let mut command = self.with(BACULA_SCRIPT, &["backup"]);
        command.arg(context.root(Place::Disk).join("bacula"));
        let ran = context.run(command.arg(&self.root).arg(&data.path))?;
        let value = parse(&ran.stdout, "bench/bacula.sh")?;
        let files = value["files"].as_u64().unwrap_or(0);
        if files < data.files {
            return Err(BenchError::Unexpected {
                program: "Bacula".into(),
                problem: format!("it saved {files} of {} files", data.files),
            });
        }
        let number = |key: &str| value[key].as_f64().unwrap_or(0.0);
        Ok(Sample {
            wall_s: number("elapsed_s"),
            cpu_s: number("cpu_s"),
            peak_rss: number("peak_rss_bytes") as u64,
            stored: tree_bytes(&self.repository())?,
            ..Sample::default()
        })
    }

    /// Restores into memory, in a directory of its own that is removed at the end.
    pub fn restore(&self, context: &Context, data: &Data) -> Result<Sample, BenchError> {
        let target = context.fresh(Place::Memory, "restored")?;
        context.warm_memory(data.bytes)?;
        let mut command = match self.rival {
            Rival::Restic => {
                let mut command =
                    self.with("restic", &["restore", "latest", "--quiet", "--target"]);
                command.arg(&target);
                command
            }
            Rival::Rustic => {
                let mut command = self.with("rustic", &["restore", "--no-progress", "latest"]);
                command.arg(&target);
                command
            }
            Rival::Borg | Rival::BorgEncrypted | Rival::Bacula => {
                return Err(BenchError::Skip("its restore is not part of the table".into()));
            }
        };
        let usage = context.run(&mut command)?.usage;
        check_restored("a rival's restore", &target, data)?;
        remove(&target)?;
        let (wall_s, cpu_s, peak_rss) = (usage.wall_s, usage.cpu_s, usage.peak_rss);
        Ok(Sample { wall_s, cpu_s, peak_rss, ..Sample::default() })
    }

    /// Removes it.
    pub fn remove(self) -> Result<(), BenchError> {
        remove(&self.root)
    }

    fn with(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(program);
        command.args(arguments);
        command
    }
}

/// Makes sure that all bytes came back.
pub fn check_restored(program: &str, target: &Path, data: &Data) -> Result<(), BenchError> {
    let bytes = tree_bytes(target)?;
    if bytes == data.bytes {
        return Ok(());
    }
    Err(BenchError::Unexpected {
        program: program.into(),
        problem: format!("it restored {bytes} of {} bytes", data.bytes),
    })
}
