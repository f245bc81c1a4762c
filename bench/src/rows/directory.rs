//! The typical set to a directory, without and with compression, against tar.

use crate::baselines::{make_tar, shell};
use crate::capstan::{Backup, Target};
use crate::context::{Context, Data, Place, Set, remove};
use crate::error::BenchError;
use crate::measure::alternate;
use crate::report::{Goal, Line};
use crate::rows::Sheet;

const TAR_SYNC: &str = r#"tar -cf "$2" -C "$1" . && sync "$2""#;
const DD_DIRECT: &str = r#"dd if="$1" of="$2" bs=1M oflag=direct conv=fsync status=none"#;

pub fn synced(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    // The set and one file of the same bytes, which dd copies, both in the page cache.
    context.need_memory(data.bytes * 2)?;
    let archive = make_tar(context, &data, Place::Disk)?;
    let as_one = Data { path: archive.clone(), ..data.clone() };
    let outcomes = alternate(
        context,
        vec![
            Backup::new(&data, Target::Directory(Place::Disk))
                .options(&["--compress", "off"])
                .contender(context, "capstan"),
            shell(context, "tar, sync", TAR_SYNC, &data, Place::Disk),
            shell(context, "dd oflag=direct", DD_DIRECT, &as_one, Place::Disk),
        ],
    );
    remove(&archive)?;
    let outcomes = outcomes?;
    let [ours, tar, dd] = &outcomes[..] else { return Ok(()) };
    let work = "typical to a directory, no compression, synced";
    sheet.add(Line::speed(work, ours, tar, Goal::AtLeast(1.5)));
    sheet.add(
        Line::speed(work, ours, dd, Goal::AtLeast(0.9)).note("counts where the disk is the limit"),
    );
    let gb = data.bytes as f64 / 1e9;
    let (a, b) = (ours.cpu_s() / gb, tar.cpu_s() / gb);
    sheet.add(
        Line::ratio(
            "CPU seconds per GB, typical to a directory",
            ours,
            tar,
            a / b,
            Goal::AtMost(1.0),
        )
        .note(format!("{a:.2} and {b:.2} CPU s/GB")),
    );
    Ok(())
}

pub fn zstd(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    context.need_memory(data.bytes * 2)?;
    let line = r#"tar -cf - -C "$1" . | zstd -1 -T0 -q -o "$2""#;
    let outcomes = alternate(
        context,
        vec![
            Backup::new(&data, Target::Directory(Place::Memory))
                .options(&["--compress", "zstd:1"])
                .contender(context, "capstan"),
            shell(context, "tar | zstd -1 -T0", line, &data, Place::Memory),
        ],
    )?;
    let [ours, tar] = &outcomes[..] else { return Ok(()) };
    let stored = format!("stored {:.0} and {:.0} MB", ours.stored() / 1e6, tar.stored() / 1e6);
    let work = "typical to a directory in memory, zstd:1";
    sheet.add(Line::speed(work, ours, tar, Goal::AtLeast(1.5)).note(stored));
    Ok(())
}
