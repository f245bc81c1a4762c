//! A catalog as large as an object gets: listing and finding in it, as a process each, warm and cold.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::catalog::{FILES_PER_DIR, NAME, dir_of, generate, name_of};
use crate::context::{Context, Place, remove, tree_bytes};
use crate::error::{BenchError, io_error};
use crate::measure::{Contender, Outcome, alternate};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

const FILES: u64 = 91_000_000;
const INCREMENTALS: u64 = 30;

pub fn huge(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let files = if context.quick { FILES / 100 } else { FILES };
    let home = context.fresh(Place::Disk, "catalog-home")?;
    eprintln!("  making catalogs of {files} files and {INCREMENTALS} incrementals");
    let (entries, bytes) = generate(&home, files, INCREMENTALS)?;
    let file = files / 3;
    let dir = format!("/{}", dir_of(file));
    let ask = |label: &str, cold: bool, lines: u64, args: &[&str]| {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let home = home.clone();
        Contender::new(label, move || {
            if cold {
                context.drop_caches()?;
            }
            let mut command = Command::new(&context.capstan);
            command.arg("--home").arg(&home).args(&args);
            let ran = context.run(&mut command)?;
            let found = ran.stdout.lines().count() as u64;
            if found != lines {
                return Err(BenchError::Unexpected {
                    program: "capstan".into(),
                    problem: format!("{found} lines, not {lines}"),
                });
            }
            Ok(ran.usage.into())
        })
    };
    // The first reading makes the sparse indexes.
    let begun = Instant::now();
    let mut first = ask("", false, FILES_PER_DIR, &["ls", NAME, "--depth", "1", &dir]);
    let sample = (first.run)()?;
    let rate = entries as f64 / 1e6 / begun.elapsed().as_secs_f64();
    let made = Outcome { label: "first".into(), samples: vec![sample], failed: None };
    sheet.add(Line::alone(
        "sparse indexes made",
        &made,
        rate,
        "million entries/s",
        Goal::AtLeast(2.0),
    ));
    let mut prune = Command::new(&context.capstan);
    prune.arg("--home").arg(&home).arg("prune");
    let ran = context.run(&mut prune)?.usage;
    let rate = entries as f64 / 1e6 / ran.cpu_s.max(1e-9);
    let packed = Outcome { label: "packed".into(), samples: vec![ran.into()], failed: None };
    let unit = "million entries/s and core";
    sheet.add(Line::alone("catalogs packed by prune", &packed, rate, unit, Goal::AtLeast(2.0)));
    // The tables of outlines are made again.
    (first.run)()?;
    let (at_rest, beside) = at_rest(&home)?;
    let per = |bytes: u64| bytes as f64 / entries as f64;
    let note = format!(
        "{entries} entries; as on the medium {:.2}; sparse indexes and database {:.2} more",
        per(bytes),
        per(beside)
    );
    let goal = Goal::AtMost(12.0);
    sheet.add(
        Line::alone("catalogs at rest", &packed, per(at_rest), "bytes per entry", goal).note(note),
    );
    let name = name_of(file);
    let part = format!("*{}*", &name[3..]);
    let one = part_of(&name, files);
    let outcomes = alternate(
        context,
        vec![
            ask("ls, warm", false, FILES_PER_DIR, &["ls", NAME, "--depth", "1", &dir]),
            ask("ls, cold", true, FILES_PER_DIR, &["ls", NAME, "--depth", "1", &dir]),
            ask("find a name", false, 1, &["find", "--name", &name]),
            ask("find a part of names", false, one, &["find", "--name", &part]),
        ],
    )?;
    let [warm, cold, exact, part] = &outcomes[..] else { return Ok(()) };
    let ms = |o: &Outcome| o.wall_s() * 1000.0;
    sheet.add(Line::alone("list one directory, warm", warm, ms(warm), "ms", Goal::AtMost(100.0)));
    sheet.add(Line::alone("list one directory, cold", cold, ms(cold), "ms", Goal::AtMost(500.0)));
    sheet.add(Line::alone("find a name", exact, ms(exact), "ms", Goal::AtMost(1000.0)));
    let rate = entries as f64 / 1e6 / part.cpu_s().max(1e-9);
    sheet.add(Line::alone(
        "find a part of names",
        part,
        rate,
        "million entries/s and core",
        Goal::AtLeast(20.0),
    ));
    remove(&home)
}

/// Bytes of the catalog files below a home, and of all else there.
fn at_rest(home: &Path) -> Result<(u64, u64), BenchError> {
    let mut catalogs = 0;
    let dir = home.join("catalogs");
    for entry in fs::read_dir(&dir).map_err(io_error("list", &dir))? {
        let path = entry.map_err(io_error("list", &dir))?.path();
        if path.extension().is_some_and(|e| e == "catalog") {
            catalogs += fs::metadata(&path).map_err(io_error("look at", &path))?.len();
        }
    }
    Ok((catalogs, tree_bytes(home)?.saturating_sub(catalogs)))
}

/// How many names have the last digits of that one.
fn part_of(name: &str, files: u64) -> u64 {
    let digits = &name[3..];
    (0..files).filter(|file| name_of(*file).contains(digits)).count() as u64
}
