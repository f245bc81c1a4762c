//! Warm files to the null device, against reading them raw: what the engine costs.

use crate::baselines::raw_read;
use crate::capstan::{Backup, Target};
use crate::context::{Context, Set};
use crate::error::BenchError;
use crate::measure::alternate;
use crate::report::{Goal, Line};
use crate::rows::Sheet;

pub fn typical(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Typical)?;
    let backup = Backup::new(&data, Target::Null).options(&["--compress", "off"]);
    let outcomes = alternate(
        context,
        vec![
            backup.clone().contender(context, "capstan"),
            raw_read(context, &data),
            backup.options(&["--no-crc"]).contender(context, "capstan --no-crc"),
        ],
    )?;
    let [with, raw, without] = &outcomes[..] else { return Ok(()) };
    sheet.add(Line::speed("typical to null, CRC", with, raw, Goal::AtLeast(0.70)));
    sheet.add(Line::speed("typical to null, no CRC", without, raw, Goal::AtLeast(0.85)));
    Ok(())
}

pub fn small(context: &Context, sheet: &mut Sheet<'_>) -> Result<(), BenchError> {
    let data = context.data(Set::Small)?;
    let backup = Backup::new(&data, Target::Null).options(&["--compress", "off"]);
    let outcomes =
        alternate(context, vec![backup.contender(context, "capstan"), raw_read(context, &data)])?;
    let [ours, raw] = &outcomes[..] else { return Ok(()) };
    let rate = format!("{:.0} files/s", data.files as f64 / ours.wall_s());
    sheet.add(Line::speed("small to null, CRC", ours, raw, Goal::AtLeast(0.55)).note(rate));
    Ok(())
}
