//! The report as Markdown.

use std::fmt::Write;

use super::{Book, Goal, Line, Side, SweepLine, host};

const MIB: f64 = 1024.0 * 1024.0;

/// The whole report, its benchmarks in `order`.
pub fn render(book: &Book, order: &[&str]) -> String {
    let mut out = String::from(
        "# Results of `make bench`\n\nWritten by `bench`; README.md beside it says how each row is measured. Times are \
         medians of runs in turn with the rival, in seconds (fastest to slowest); MB is 10^6 bytes, MiB 2^20.\n\n",
    );
    for line in host::describe() {
        let _ = writeln!(out, "- {line}");
    }
    out.push_str(
        "\n| benchmark | work | Capstan | against | measured | goal | | CPU s | against | peak MiB | note |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for name in order {
        for line in book.lines.get(*name).into_iter().flatten() {
            out.push_str(&row(name, line));
        }
    }
    if let Some(line) = largest_memory(book) {
        out.push_str(&row("peak-memory", &line));
    }
    if !book.sweep.is_empty() {
        sweep(&mut out, &book.sweep);
    }
    out
}

/// A line for the terminal.
pub fn terminal(line: &Line) -> String {
    let side = |s: &Option<Side>| match s {
        Some(s) if s.runs > 0 => format!("{:.3} s", s.wall_s),
        _ => String::new(),
    };
    let against = line.theirs.as_ref().map_or("", |s| s.label.as_str());
    format!(
        "{:<52} {:>9} {against:<22} {:>9} {:>8} (goal {}) {} {}",
        line.work,
        side(&line.ours),
        side(&line.theirs),
        value(line),
        goal(line),
        line.verdict(),
        line.note
    )
}

fn row(name: &str, line: &Line) -> String {
    let time = |s: &Side| {
        if s.runs == 0 {
            return "–".to_owned();
        }
        format!("{:.3} ({:.3} to {:.3})", s.wall_s, s.range_s.0, s.range_s.1)
    };
    let dash = || "–".to_owned();
    let ours = line.ours.as_ref();
    let theirs = line.theirs.as_ref();
    let cells = [
        name.to_owned(),
        line.work.clone(),
        ours.map_or_else(dash, time),
        theirs.map_or_else(dash, |s| format!("{}: {}", s.label, time(s))),
        value(line),
        goal(line),
        line.verdict(),
        ours.map_or_else(dash, |s| format!("{:.2}", s.cpu_s)),
        theirs.map_or_else(dash, |s| if s.runs == 0 { dash() } else { format!("{:.2}", s.cpu_s) }),
        ours.map_or_else(dash, |s| format!("{:.0}", s.peak_rss as f64 / MIB)),
        if line.note.is_empty() {
            line.date.clone()
        } else {
            format!("{}; {}", line.date, line.note)
        },
    ];
    let cells: Vec<String> =
        cells.iter().map(|c| c.replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn value(line: &Line) -> String {
    line.value.map_or("–".into(), |v| number(v, &line.unit))
}

fn goal(line: &Line) -> String {
    match line.goal {
        Goal::AtLeast(goal) => format!("≥ {}", number(goal, &line.unit)),
        Goal::AtMost(goal) => format!("≤ {}", number(goal, &line.unit)),
        Goal::Shown => "–".into(),
    }
}

fn number(value: f64, unit: &str) -> String {
    match unit {
        "MiB" => format!("{value:.0} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// The largest peak of memory of all benchmarks at defaults.
fn largest_memory(book: &Book) -> Option<Line> {
    let all = book.lines.values().flatten();
    let (line, side) = all
        .filter_map(|line| line.ours.as_ref().map(|side| (line, side)))
        .max_by_key(|(_, side)| side.peak_rss)?;
    Some(Line {
        work: "peak memory of the process, every row".into(),
        ours: Some(side.clone()),
        theirs: None,
        value: Some(side.peak_rss as f64 / MIB),
        unit: "MiB".into(),
        goal: Goal::AtMost(64.0),
        note: format!("the largest: {}", line.work),
        date: line.date.clone(),
    })
}

fn sweep(out: &mut String, lines: &[SweepLine]) {
    out.push_str(
        "\n## Sweeps\n\nThe typical set to a directory in memory and back, one option at a time, the others at their \
         defaults (no compression where it is not what is swept).\n\n\
         | option | value | backup s | MB/s | CPU s | peak MiB | stored MB | restore s |\n|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let _ = writeln!(
            out,
            "| {} | {} | {:.3} | {:.0} | {:.2} | {:.0} | {:.0} | {:.3} |",
            line.option,
            line.value,
            line.backup.wall_s,
            line.rate_mb_s,
            line.backup.cpu_s,
            line.backup.peak_rss as f64 / MIB,
            line.stored / 1e6,
            line.restore_s
        );
    }
}
