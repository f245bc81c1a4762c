//! A drive of others over iSCSI (tgt), against a bare loop of WRITE commands of the same size to the same target.

use std::process::Command;

use crate::context::{Context, Place, Set, parse, remove};
use crate::error::BenchError;
use crate::measure::{Contender, Sample, alternate};
use crate::report::{Goal, Line};
use crate::rows::Sheet;
use crate::tape_software::tgt::{CHANGER, Library};

/// Size of a tape in MiB: more than the data.
const TAPE_MIB: u32 = 6000;

pub fn all(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    for (block, name) in [(256 << 10, "256 KiB"), (1 << 20, "1 MiB")] {
        let work = format!("typical over iSCSI to tgt, blocks of {name}");
        if Library::start(1, None).is_none() {
            sheet.add(Line::missing(&work, "tgt is not installed"));
            continue;
        }
        let ours = Contender::new("capstan", || {
            let _warm = context.memory_at_hand(data.bytes)?;
            let tgt = loaded(context)?;
            let home = context.fresh(Place::Memory, "home-iscsi")?;
            context.warm_source(&data)?;
            let mut command = Command::new(&context.capstan);
            command
                .arg("--home")
                .arg(&home)
                .args(["--quiet", "backup", "--json", "--name", "tape"]);
            command.args(["--compress", "off", "--block-size", &block.to_string()]);
            command.args(["--to", &tgt.url("1")]).arg(&data.path);
            let ran = context.run(&mut command)?;
            let report = parse(&ran.stdout, "capstan backup")?;
            remove(&home)?;
            let wall_s = report["elapsed_s"].as_f64().unwrap_or(f64::NAN);
            let peak_rss = report["peak_rss_bytes"].as_u64().unwrap_or(ran.usage.peak_rss);
            let stored = report["bytes_written"].as_u64().unwrap_or(0);
            Ok(Sample { wall_s, cpu_s: ran.usage.cpu_s, peak_rss, stored, ..Sample::default() })
        });
        let bare = Contender::new("bare WRITE loop", || {
            let _warm = context.memory_at_hand(data.bytes)?;
            let tgt = loaded(context)?;
            let (block, bytes) = (block.to_string(), data.bytes.to_string());
            let arguments: [&dyn AsRef<std::ffi::OsStr>; 6] =
                [&"tape-write", &tgt.url("1"), &"--buffer", &block, &"--bytes", &bytes];
            let (ran, value) = context.raw(&arguments)?;
            let wall_s = value["elapsed_s"].as_f64().unwrap_or(f64::NAN);
            Ok(Sample {
                wall_s,
                cpu_s: ran.usage.cpu_s,
                peak_rss: ran.usage.peak_rss,
                ..Sample::default()
            })
        });
        let outcomes = alternate(context, vec![ours, bare])?;
        if let [ours, bare] = &outcomes[..] {
            sheet.add(Line::speed(&work, ours, bare, Goal::AtLeast(0.95)));
        }
    }
    Ok(())
}

/// A library with new tapes, the first of which is in its first drive.
fn loaded(context: &Context) -> Result<Library, BenchError> {
    let library =
        Library::start_in(context.root(Place::Memory), TAPE_MIB, None).ok_or_else(|| {
            BenchError::Unexpected {
                program: "tgtd".to_owned(),
                problem: "it does not start".to_owned(),
            }
        })?;
    let mut load = Command::new(&context.capstan);
    load.args(["library", "load", &library.url(CHANGER), "TAPE01L6", "drive:1"]);
    context.run(&mut load)?;
    Ok(library)
}
