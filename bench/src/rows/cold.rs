//! Files that are not in the cache, on a disk, to the null device.

use crate::baselines::{cold_read, cold_shell};
use crate::capstan::{Backup, Target};
use crate::context::{Context, Place, Set, is_tmpfs};
use crate::error::BenchError;
use crate::measure::{Contender, alternate};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

/// Numbers of threads of which the best is the limit.
const THREADS: [u64; 5] = [1, 2, 8, 32, 64];

/// Makes sure that what is cold is on a disk, and that caches can be dropped.
pub fn need_disk(context: &Context) -> Result<(), BenchError> {
    let disk = context.root(Place::Disk);
    std::fs::create_dir_all(disk).map_err(crate::error::io_error("create", disk))?;
    if is_tmpfs(disk) {
        let path = disk.display();
        return Err(BenchError::Skip(format!("{path} is a tmpfs, never cold: give --disk")));
    }
    context.drop_caches()
}

pub fn small(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    need_disk(context)?;
    let data = context.data(Set::Small)?;
    // One run of each finds the best; the comparison then runs in turn.
    let mut tried = Vec::new();
    for threads in THREADS {
        let sample = (cold_read(context, &data, threads).run)()?;
        eprintln!("  raw read cold, {threads} threads: {:.3} s", sample.wall_s);
        tried.push((sample.wall_s, threads));
    }
    let best = tried.iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(32, |t| t.1);
    let tar = r#"tar -cf - -C "$1" . | cat >/dev/null"#;
    let outcomes = alternate(
        context,
        vec![
            Backup::new(&data, Target::Null)
                .cold()
                .options(&["--compress", "off"])
                .contender(context, "capstan"),
            cold_read(context, &data, best),
            cold_shell(context, "tar | cat", tar, &data),
        ],
    )?;
    let [ours, raw, tar] = &outcomes[..] else { return Ok(()) };
    let all: Vec<String> = tried.iter().map(|(s, n)| format!("{n}: {s:.2} s")).collect();
    let note = format!("raw read by threads, one run each: {}", all.join(", "));
    let work = "small to null, cold";
    sheet.add(Line::speed(work, ours, raw, Goal::AtLeast(0.75)).note(note));
    sheet.add(Line::speed(work, ours, tar, Goal::AtLeast(3.0)));
    Ok(())
}

pub fn large(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    need_disk(context)?;
    let data = context.data(Set::Large)?;
    let mut contenders: Vec<Contender<'_>> = ["auto", "buffered", "direct"]
        .iter()
        .map(|mode| {
            Backup::new(&data, Target::Null)
                .cold()
                .options(&["--compress", "off", "--read", mode])
                .contender(context, &format!("capstan --read {mode}"))
        })
        .collect();
    let direct =
        r#"find "$1" -type f -exec dd if={} of=/dev/null bs=1M iflag=direct status=none \;"#;
    let buffered = r#"find "$1" -type f -exec dd if={} of=/dev/null bs=1M status=none \;"#;
    contenders.push(cold_shell(context, "dd iflag=direct", direct, &data));
    contenders.push(cold_shell(context, "dd", buffered, &data));
    let outcomes = alternate(context, contenders)?;
    let [auto, ours_buffered, ours_direct, direct, buffered] = &outcomes[..] else {
        return Ok(());
    };
    let better = if direct.wall_s() < buffered.wall_s() { direct } else { buffered };
    let both = format!("dd direct {:.3} s, buffered {:.3} s", direct.wall_s(), buffered.wall_s());
    let line = |mode: &str, ours, goal| {
        Line::speed(&format!("large files to null, cold, --read {mode}"), ours, better, goal)
    };
    sheet.add(line("auto", auto, Goal::AtLeast(0.97)).note(both));
    sheet.add(line("buffered", ours_buffered, Goal::Shown));
    sheet.add(line("direct", ours_direct, Goal::Shown));
    Ok(())
}
