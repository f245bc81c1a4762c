//! The limits as contenders: the raw loops of this program, tar, dd.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::{Context, Data, Place, is_tmpfs, remove};
use crate::error::BenchError;
use crate::measure::{Contender, Sample};
use crate::process::Ran;
use crate::rivals::check_restored;

/// The bare warm read with two threads and a buffer of 256 KiB.
pub fn raw_read<'a>(context: &'a Context, data: &'a Data) -> Contender<'a> {
    Contender::new("raw read, 2 threads", move || {
        context.warm_source(data)?;
        let (ran, value) = context.raw(&[&"raw-read", &data.path, &"--threads", &"2"])?;
        loop_sample(&ran, &value, data)
    })
}

/// Walk and read with so many threads, cold.
pub fn cold_read<'a>(context: &'a Context, data: &'a Data, threads: u64) -> Contender<'a> {
    Contender::new(format!("raw read, {threads} threads"), move || {
        context.drop_caches()?;
        let threads = threads.to_string();
        let (ran, value) = context.raw(&[&"cold-read", &data.path, &"--threads", &threads])?;
        loop_sample(&ran, &value, data)
    })
}

/// Writing files of the same names and sizes to memory.
pub fn raw_write<'a>(context: &'a Context, data: &'a Data) -> Contender<'a> {
    Contender::new("raw write, 2 threads", move || {
        let target = context.fresh(Place::Memory, "restored")?;
        context.warm_memory(data.bytes)?;
        let (ran, value) = context.raw(&[&"raw-write", &data.path, &target, &"--threads", &"2"])?;
        remove(&target)?;
        loop_sample(&ran, &value, data)
    })
}

/// The seconds that a loop printed.
fn loop_sample(ran: &Ran, value: &serde_json::Value, data: &Data) -> Result<Sample, BenchError> {
    let done = (value["files"].as_u64(), value["bytes"].as_u64());
    match value["elapsed_s"].as_f64() {
        Some(wall_s) if done == (Some(data.files), Some(data.bytes)) => {
            let (cpu_s, peak_rss) = (ran.usage.cpu_s, ran.usage.peak_rss);
            Ok(Sample { wall_s, cpu_s, peak_rss, ..Sample::default() })
        }
        _ => Err(BenchError::Unexpected {
            program: "a raw loop".into(),
            problem: format!("it did {done:?}, not {} files of {} bytes", data.files, data.bytes),
        }),
    }
}

/// A shell line whose `$1` is the source and whose `$2` is a file to write, which is removed after each run.
pub fn shell<'a>(
    context: &'a Context,
    label: &str,
    line: &'static str,
    data: &'a Data,
    place: Place,
) -> Contender<'a> {
    Contender::new(label, move || {
        let target = context.fresh(place, "written")?;
        if is_tmpfs(context.root(place)) {
            context.warm_memory(data.bytes)?;
        } else {
            rustix::fs::sync();
        }
        context.warm_source(data)?;
        let ran = sh(context, line, &data.path, &target)?;
        let stored = target.metadata().map_or(0, |m| m.len());
        remove(&target)?;
        Ok(sample(&ran, stored))
    })
}

/// A shell line whose `$1` is the source, which is not in the cache.
pub fn cold_shell<'a>(
    context: &'a Context,
    label: &str,
    line: &'static str,
    data: &'a Data,
) -> Contender<'a> {
    Contender::new(label, move || {
        context.drop_caches()?;
        Ok(sample(&sh(context, line, &data.path, Path::new(""))?, 0))
    })
}

/// `tar -x` of an archive into memory.
pub fn untar<'a>(context: &'a Context, archive: &'a Path, data: &'a Data) -> Contender<'a> {
    Contender::new("tar -x", move || {
        let target = context.fresh(Place::Memory, "restored")?;
        std::fs::create_dir_all(&target).map_err(crate::error::io_error("create", &target))?;
        context.warm_memory(data.bytes)?;
        let ran = sh(context, r#"exec tar -xf "$1" -C "$2""#, archive, &target)?;
        check_restored("tar -x", &target, data)?;
        remove(&target)?;
        Ok(sample(&ran, 0))
    })
}

/// A tar archive of the data, to be removed by the caller.
pub fn make_tar(context: &Context, data: &Data, place: Place) -> Result<PathBuf, BenchError> {
    let target = context.fresh(place, "archive.tar")?;
    sh(context, r#"exec tar -cf "$2" -C "$1" ."#, &data.path, &target)?;
    Ok(target)
}

fn sh(context: &Context, line: &str, first: &Path, second: &Path) -> Result<Ran, BenchError> {
    context.run(Command::new("sh").args(["-c", line, "sh"]).arg(first).arg(second))
}

fn sample(ran: &Ran, stored: u64) -> Sample {
    let usage = ran.usage;
    Sample {
        wall_s: usage.wall_s,
        cpu_s: usage.cpu_s,
        peak_rss: usage.peak_rss,
        stored,
        disk_read: usage.disk_read,
    }
}
