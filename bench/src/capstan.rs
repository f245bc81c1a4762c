//! Capstan as a contender: backups and restores with a home of their own, checked to be complete.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::context::{Context, Data, Place, is_tmpfs, parse, remove, tree_bytes};
use crate::error::{BenchError, io_error};
use crate::measure::{Contender, Sample};

/// Opens the key ring of encrypted homes.
const PASSPHRASE: &str = "a passphrase for benchmarks";
/// The object's name.
const NAME: &str = "bench";

/// What a backup writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `null:`
    Null,
    /// A device that keeps nothing, by its name.
    Named(&'static str),
    /// A directory.
    Directory(Place),
}

/// A backup to measure.
#[derive(Debug, Clone)]
pub struct Backup {
    /// What.
    pub data: Data,
    /// Where to.
    pub target: Target,
    /// Whether the home has a key ring.
    pub encrypted: bool,
    /// Whether the caches are emptied before each run.
    pub cold: bool,
    /// Options of `capstan backup`.
    pub options: Vec<String>,
}

impl Backup {
    /// A backup at defaults.
    pub fn new(data: &Data, target: Target) -> Self {
        let options = Vec::new();
        Self { data: data.clone(), target, encrypted: false, cold: false, options }
    }

    /// Adds options.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|o| (*o).to_owned()));
        self
    }

    /// With a key ring.
    pub fn encrypted(mut self) -> Self {
        self.encrypted = true;
        self
    }

    /// With caches emptied before each run.
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    /// As a contender; each run has a new home and a new medium, removed at its end.
    pub fn contender<'a>(self, context: &'a Context, label: &str) -> Contender<'a> {
        Contender::new(label, move || {
            let archive = self.run(context, "run")?;
            let sample = archive.sample;
            archive.remove()?;
            Ok(sample)
        })
    }

    /// Runs it once and keeps home and medium, whose names end in `tag`.
    pub fn run(&self, context: &Context, tag: &str) -> Result<Archive, BenchError> {
        let home = self.make_home(context, tag)?;
        let medium = match self.target {
            Target::Null | Target::Named(_) => None,
            Target::Directory(place) => Some(context.fresh(place, &format!("medium-{tag}"))?),
        };
        if self.target == Target::Directory(Place::Disk) {
            // What was removed must not be written back during the run.
            rustix::fs::sync();
        }
        if medium.as_deref().and_then(Path::parent).is_some_and(is_tmpfs) {
            context.warm_memory(self.data.bytes)?;
        }
        if self.cold {
            context.drop_caches()?;
        } else {
            context.warm_source(&self.data)?;
        }
        let mut command = command(context, &home);
        command
            .arg("backup")
            .arg(&self.data.path)
            .args(["--name", NAME, "--full", "--json", "--to"]);
        match (&medium, self.target) {
            (Some(path), _) => command.arg(path),
            (None, Target::Named(name)) => command.arg(name),
            (None, _) => command.arg("null:"),
        };
        let ran = context.run(command.args(&self.options))?;
        let report = check(&ran.stdout, "capstan backup", self.data.files)?;
        let bytes_read = report["bytes_read"].as_u64().unwrap_or(0);
        if bytes_read < self.data.bytes {
            return Err(BenchError::Unexpected {
                program: "capstan backup".into(),
                problem: format!("it read {bytes_read} of {} bytes", self.data.bytes),
            });
        }
        let stored = medium.as_deref().map_or(Ok(0), tree_bytes)?;
        let sample = Sample {
            wall_s: ran.usage.wall_s,
            cpu_s: ran.usage.cpu_s,
            peak_rss: report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss),
            stored,
            disk_read: ran.usage.disk_read,
        };
        Ok(Archive { home, medium, data: self.data.clone(), sample })
    }

    /// A home whose database exists, as the repositories of the rivals do, in which `key init` ran if it is to encrypt.
    fn make_home(&self, context: &Context, tag: &str) -> Result<PathBuf, BenchError> {
        let home = context.fresh(Place::Memory, &format!("home-{tag}"))?;
        context.run(command(context, &home).arg("sessions"))?;
        if self.encrypted {
            context.run(command(context, &home).args(["key", "init"]))?;
        }
        Ok(home)
    }
}

/// A backup that was made.
#[derive(Debug)]
pub struct Archive {
    home: PathBuf,
    medium: Option<PathBuf>,
    data: Data,
    /// What making it cost.
    pub sample: Sample,
}

impl Archive {
    /// Backs the same data up once more, as an incremental, and keeps that too.
    pub fn again(&self, context: &Context) -> Result<Sample, BenchError> {
        context.warm_source(&self.data)?;
        self.incremental(context, 0)
    }

    /// An incremental of which so many files changed. What is in the caches stays as it is.
    pub fn incremental(&self, context: &Context, changed: u64) -> Result<Sample, BenchError> {
        let kept = self.data.files - changed;
        self.next(context, &[("kept", kept)])
    }

    /// An incremental after all files were moved or touched, with the bytes that it stored.
    pub fn moved(&self, context: &Context) -> Result<Sample, BenchError> {
        let stored = || self.medium.as_deref().map_or(Ok(0), tree_bytes);
        let before = stored()?;
        let sample = self.next(context, &[("kept", 0), ("moved", self.data.files)])?;
        Ok(Sample { stored: stored()?.saturating_sub(before), ..sample })
    }

    /// An incremental whose report has these numbers.
    fn next(&self, context: &Context, counts: &[(&str, u64)]) -> Result<Sample, BenchError> {
        let mut command = command(context, &self.home);
        command.arg("backup").arg(&self.data.path).args(["--name", NAME, "--json", "--to"]);
        let ran = context.run(command.args(&self.medium))?;
        let report = check(&ran.stdout, "capstan backup", self.data.files)?;
        let differs = |(key, count): &&(&str, u64)| report[*key].as_u64() != Some(*count);
        if let Some((key, _)) = counts.iter().find(differs) {
            return Err(BenchError::Unexpected {
                program: "capstan backup".into(),
                problem: format!("method {}, {} files {key}", report["method"], report[*key]),
            });
        }
        if report["method"] != "incr" {
            return Err(BenchError::Unexpected {
                program: "capstan backup".into(),
                problem: format!("it made a backup of method {}", report["method"]),
            });
        }
        let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
        Ok(Sample { peak_rss, ..ran.usage.into() })
    }

    /// The medium, where there is one.
    pub fn medium(&self) -> Option<&Path> {
        self.medium.as_deref()
    }

    /// Restores into a directory of its own, which is removed at the end.
    pub fn restore(&self, context: &Context, place: Place) -> Result<Sample, BenchError> {
        self.restore_into(context, &context.fresh(place, "restored")?)
    }

    /// Restores into this directory, which must not exist and is removed at the end.
    pub fn restore_into(&self, context: &Context, target: &Path) -> Result<Sample, BenchError> {
        fs::create_dir_all(target).map_err(io_error("create", target))?;
        if is_tmpfs(target) {
            context.warm_memory(self.data.bytes)?;
        }
        let mut command = command(context, &self.home);
        command.args(["restore", NAME, "--json", "--into"]).arg(target);
        let ran = context.run(&mut command)?;
        let report = check(&ran.stdout, "capstan restore", self.data.files)?;
        let restored = tree_bytes(target)?;
        if restored != self.data.bytes {
            return Err(BenchError::Unexpected {
                program: "capstan restore".into(),
                problem: format!("it restored {restored} of {} bytes", self.data.bytes),
            });
        }
        remove(target)?;
        let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
        Ok(Sample { peak_rss, ..ran.usage.into() })
    }

    /// Removes it.
    pub fn remove(self) -> Result<(), BenchError> {
        if let Some(medium) = &self.medium {
            remove(medium)?;
        }
        remove(&self.home)
    }
}

fn command(context: &Context, home: &Path) -> Command {
    let mut command = Command::new(&context.capstan);
    command.arg("--home").arg(home).arg("--quiet");
    command.env("CAPSTAN_PASSPHRASE", PASSPHRASE).env("CAPSTAN_NEW_PASSPHRASE", PASSPHRASE);
    command
}

/// The report, if it says that all is done.
fn check(stdout: &str, program: &str, files: u64) -> Result<Value, BenchError> {
    let report = parse(stdout, program)?;
    let status = report["status"].as_str().unwrap_or("missing");
    let done = report["files"].as_u64().unwrap_or(0);
    if status != "completed" || done != files {
        return Err(BenchError::Unexpected {
            program: program.into(),
            problem: format!("its status is {status} and it did {done} of {files} files"),
        });
    }
    Ok(report)
}
