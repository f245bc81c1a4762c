//! One option after the other, each over its values in turn: how much it matters, and whether the default is good.

use crate::capstan::{Backup, Target};
use crate::context::{Context, Place, Set};
use crate::error::BenchError;
use crate::measure::{Contender, Outcome, Sample, alternate, median};
use crate::report::{Goal, Line, Side, SweepLine};
use crate::rows::Sheet;

/// An option and its values, each with the arguments that set it; the default sets nothing.
type Sweep = (&'static str, &'static [&'static str]);

const DEFAULT: &str = "default";
const SWEEPS: &[Sweep] = &[
    ("--concurrency", &[DEFAULT, "1", "2", "3", "4", "5"]),
    ("--block-size", &[DEFAULT, "64K", "128K", "256K", "512K", "1M", "2M", "4M"]),
    ("--segment-size", &[DEFAULT, "10MB", "100MB", "1GB", "10GB"]),
    ("--buffers", &[DEFAULT, "1", "2", "4", "8", "16", "32"]),
    ("--no-crc", &[DEFAULT, ""]),
    ("--compress", &[DEFAULT, "off", "lz4", "zstd:1", "zstd:3"]),
];

pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Quarter)?;
    context.need_memory(data.bytes * 3)?;
    let mut table = Vec::new();
    for (option, values) in SWEEPS {
        let restores: Vec<std::cell::RefCell<Vec<f64>>> =
            values.iter().map(|_| Default::default()).collect();
        let contenders = values.iter().zip(&restores).map(|(value, restores)| {
            let mut backup = Backup::new(&data, Target::Directory(Place::Memory));
            if *option != "--compress" {
                backup = backup.options(&["--compress", "off"]);
            }
            match *value {
                DEFAULT => {}
                "" => backup = backup.options(&[option]),
                // As many streams as are to feed the device, else the option could not matter.
                value if *option == "--concurrency" => {
                    backup = backup.options(&[option, value, "--streams", value]);
                }
                value => backup = backup.options(&[option, value]),
            }
            Contender::new(label(option, value), move || -> Result<Sample, BenchError> {
                let archive = backup.run(context, "run")?;
                let sample = archive.sample;
                let restored = archive.restore(context, Place::Memory);
                archive.remove()?;
                restores.borrow_mut().push(restored?.wall_s);
                Ok(sample)
            })
        });
        let outcomes = alternate(context, contenders.collect())?;
        for ((value, outcome), restores) in values.iter().zip(&outcomes).zip(&restores) {
            if !outcome.ran() {
                continue;
            }
            // The first round does not count here either.
            let restores = restores.borrow().iter().skip(1).copied().collect();
            table.push(SweepLine {
                option: (*option).into(),
                value: if value.is_empty() { "set".into() } else { (*value).into() },
                backup: Side::from(outcome),
                rate_mb_s: data.bytes as f64 / 1e6 / outcome.wall_s(),
                stored: outcome.stored(),
                restore_s: median(restores),
            });
        }
        sheet.add(compare(option, &outcomes));
        let failed = outcomes.iter().filter_map(|o| Some((o, o.failed.as_ref()?)));
        for (outcome, reason) in failed {
            sheet.add(Line::missing(&outcome.label, reason));
        }
    }
    sheet.set_sweep(table);
    Ok(())
}

/// The default against the best value. What is swept of CRC and compression is a choice of the user, not of speed.
fn compare(option: &str, outcomes: &[Outcome]) -> Line {
    let ran = outcomes.iter().filter(|o| o.ran());
    let best = ran.min_by(|a, b| a.wall_s().total_cmp(&b.wall_s()));
    let (Some(default), Some(best)) = (outcomes.first(), best) else {
        return Line::missing(option, "no value of it ran");
    };
    let goal = match option {
        "--no-crc" | "--compress" => Goal::Shown,
        _ => Goal::AtLeast(0.95),
    };
    Line::speed(&format!("{option}: default against its best value"), default, best, goal)
}

fn label(option: &str, value: &str) -> String {
    format!("{option} {value}").trim_end().to_owned()
}
