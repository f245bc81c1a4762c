//! Arrays: parity against striping on devices that keep nothing, at a rate and without; parity by itself.

use crate::capstan::{Backup, Target};
use crate::context::{Context, Set};
use crate::error::BenchError;
use crate::measure::{Contender, Sample, alternate};
use crate::report::{Goal, Line};
use crate::rows::Sheet;

/// Data that parity is computed of.
const PARITY_BYTES: u64 = 16 << 30;

pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    let to = |device: &'static str| {
        let backup = Backup::new(&data, Target::Named(device)).options(&["--compress", "off"]);
        backup.contender(context, device)
    };
    // Four drives of which three take as much data as three alone; far below what this machine can.
    let limited = alternate(
        context,
        vec![
            to("rait5:null:rate=100,null:rate=100,null:rate=100,null:rate=100"),
            to("rait0:null:rate=100,null:rate=100,null:rate=100"),
        ],
    )?;
    if let [parity, stripes] = &limited[..] {
        let work = "rait5 of four drives of 100 MB/s, against rait0 of three";
        sheet.add(Line::speed(work, parity, stripes, Goal::AtLeast(0.97)));
    }
    let unlimited = alternate(
        context,
        vec![
            to("rait5:null:,null:,null:,null:"),
            to("rait0:null:,null:,null:"),
            to("rait:4+2:null:,null:,null:,null:,null:,null:"),
            to(
                "rait:10+4:null:,null:,null:,null:,null:,null:,null:,null:,null:,null:,null:,null:,null:,null:",
            ),
        ],
    )?;
    if let [parity, stripes, six, fourteen] = &unlimited[..] {
        let work = "rait5 of four to null, against rait0 of three";
        sheet.add(Line::speed(work, parity, stripes, Goal::AtLeast(0.70)));
        sheet.add(Line::speed("rait:4+2 to null, against rait0", six, stripes, Goal::Shown));
        sheet.add(Line::speed("rait:10+4 to null, against rait0", fourteen, stripes, Goal::Shown));
    }
    for (work, layout, goal) in [
        ("XOR of rait5, one core, data in", "3+1", Goal::AtLeast(10.0)),
        ("parity of rait:4+2, one core, data in", "4+2", Goal::Shown),
        ("parity of rait:10+4, one core, data in", "10+4", Goal::Shown),
    ] {
        let outcomes = alternate(context, vec![parity(context, layout)])?;
        for outcome in &outcomes {
            let rate = PARITY_BYTES as f64 / 1e9 / outcome.wall_s();
            sheet.add(Line::alone(work, outcome, rate, "GB/s", goal));
        }
    }
    Ok(())
}

/// The bare computation, in one thread, of blocks that stay in the cache.
fn parity<'a>(context: &'a Context, layout: &'static str) -> Contender<'a> {
    Contender::new(format!("parity {layout}"), move || {
        let bytes = PARITY_BYTES.to_string();
        let (ran, value) = context.raw(&[&"parity", &layout, &"--bytes", &bytes])?;
        let wall_s = value["elapsed_s"].as_f64().unwrap_or(f64::NAN);
        Ok(Sample {
            wall_s,
            cpu_s: ran.usage.cpu_s,
            peak_rss: ran.usage.peak_rss,
            ..Sample::default()
        })
    })
}
