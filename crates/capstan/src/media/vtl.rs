//! `capstan vtl`: virtual libraries are made, added to, and made to fail.

use std::path::Path;

use capstan_cell::CellError;
use capstan_engine::message::{path_text, shell_word};
use capstan_medium::DeviceError;
use capstan_medium::tape::{Place, TapeError};
use capstan_tape::DriveModel;
use capstan_tape::vtl::library::{Design, Library, NewTape};
use serde_json::{Value, json};

use crate::args::{CreateVtlArgs, VtlCommand};
use crate::exit::{COMPLETED, Failure};
use crate::output::{JsonList, Output};
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::{Align, table};

/// Runs `vtl`.
pub fn run(command: &VtlCommand) -> Result<u8, Failure> {
    let mut out = Output::new();
    match command {
        VtlCommand::Create(args) => create(args, &mut out)?,
        VtlCommand::Models { json } => {
            let models = DriveModel::names().into_iter().filter_map(DriveModel::named);
            let models: Vec<_> = models.collect();
            if *json {
                JsonList::all(&mut out, "models", &models, |model| json_of(model))?;
            } else {
                out.text(&lines(&models))?;
            }
        }
        VtlCommand::Fault { dir, drive, plan, json } => {
            let library = Library::open(dir).map_err(failure)?;
            library.plan_faults(*drive, plan).map_err(failure)?;
            if *json {
                out.json(&json!({ "drive": drive, "plan": plan }))?;
            }
        }
        VtlCommand::Insert { dir, barcode, json } => {
            let library = Library::open(dir).map_err(failure)?;
            let place = match library.design().alone {
                true => library.insert(barcode).map(|()| Place::Drive(1)),
                false => library.put_in(barcode),
            };
            let place = place.map_err(failure)?;
            if *json {
                out.json(&json!({ "barcode": barcode, "place": place.short() }))?;
            } else if !library.design().alone {
                out.text(&format!("tape {barcode} is in {place}\n"))?;
            }
        }
        VtlCommand::Take { dir, barcode, json } => {
            let library = Library::open(dir).map_err(failure)?;
            let from = library.take(barcode).map_err(failure)?;
            if *json {
                out.json(&json!({ "barcode": barcode, "from": from.short() }))?;
            } else {
                out.text(&format!("tape {barcode} is taken out of {from}\n"))?;
            }
        }
        VtlCommand::AddTape { dir, barcode, cleaning, write_protected, json } => {
            let library = Library::open(dir).map_err(failure)?;
            let new = NewTape {
                barcode: barcode.clone(),
                cleanings: *cleaning,
                write_protected: *write_protected,
            };
            let tape = library.add_tape(&new).map_err(failure)?;
            if *json {
                out.json(&json!({ "barcode": tape.barcode, "place": tape.place.short() }))?;
            } else {
                out.text(&format!("tape {} is in {}\n", tape.barcode, tape.place))?;
            }
        }
    }
    out.finish().map(|()| COMPLETED)
}

fn failure(error: TapeError) -> Failure {
    CellError::from(DeviceError::from(error)).into()
}

fn create(args: &CreateVtlArgs, out: &mut Output) -> Result<(), Failure> {
    let design = Design {
        model: args.model.clone(),
        drives: if args.alone { 1 } else { args.drives },
        slots: args.slots,
        mail_slots: if args.alone { 0 } else { args.mail_slots },
        alone: args.alone,
        capacity: args.capacity,
        scale: args.scale,
        ratio: args.ratio,
    };
    let tapes = args.tapes.unwrap_or(args.slots);
    Library::create(&args.dir, &design, tapes).map_err(failure)?;
    let device = device_of(&args.dir);
    if args.json {
        return out.json(&json!({
            "device": device,
            "model": design.model,
            "drives": design.drives,
            "slots": design.slots,
            "mail_slots": design.mail_slots,
            "alone": design.alone,
            "tapes": tapes,
            "capacity": design.capacity,
            "scale": design.scale,
            "ratio": design.ratio,
        }));
    }
    if design.alone {
        return out.text(&format!(
            "{0} is a {1} drive that stands alone, with {2} tapes on its shelf; `capstan backup PATH --to {0}` uses it\n",
            shell_word(path_text(device.as_bytes())),
            design.model,
            grouped(tapes.into()),
        ));
    }
    out.text(&format!(
        "{} is a library of {} {} drives, {} slots and {} tapes; `capstan backup PATH --to {}` uses it\n",
        shell_word(path_text(device.as_bytes())),
        grouped(design.drives.into()),
        design.model,
        grouped(design.slots.into()),
        grouped(tapes.into()),
        shell_word(path_text(device.as_bytes())),
    ))
}

fn device_of(dir: &Path) -> String {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    format!("vtape:{}", dir.display())
}

fn lines(models: &[&DriveModel]) -> String {
    use Align::{Left, Right};
    let head = [
        ("Model", Left),
        ("Native", Right),
        ("Lowest", Right),
        ("Tape", Right),
        ("Buffer", Right),
        ("Load", Right),
        ("Locate", Right),
        ("Rewind", Right),
        ("Unload", Right),
        ("Backhitch", Right),
        ("Encrypts", Left),
    ];
    let rate = |bytes: f64| format!("{}/s", bytes_text(bytes as u64));
    let seconds = |s: f64, name: &str, model: &DriveModel| {
        let guess = if model.estimates.iter().any(|e| e == name) { "~" } else { "" };
        format!("{guess}{s} s")
    };
    let row = |m: &&DriveModel| {
        [
            m.name.clone(),
            rate(m.native()),
            rate(m.speeds.first().copied().unwrap_or_default()),
            bytes_text(m.capacity as u64),
            bytes_text(m.buffer as u64),
            seconds(m.load_s, "load", m),
            seconds(m.locate_s, "average_locate", m),
            seconds(m.rewind_s, "average_rewind", m),
            seconds(m.unload_s, "unload", m),
            seconds(m.backhitch_s, "backhitch", m),
            if m.encrypts { "AES-256" } else { "-" }.to_owned(),
        ]
    };
    table(head, models.iter().map(row).collect())
}

fn json_of(m: &DriveModel) -> Value {
    json!({
        "name": m.name,
        "native": m.native(),
        "speeds": m.speeds,
        "host_max": m.host_max,
        "capacity": m.capacity,
        "buffer": m.buffer,
        "load_s": m.load_s,
        "locate_s": m.locate_s,
        "rewind_s": m.rewind_s,
        "unload_s": m.unload_s,
        "backhitch_s": m.backhitch_s,
        "wraps": m.wraps,
        "block_max": m.block_max,
        "encrypts": m.encrypts,
        "cleaning_cycles": m.cleaning_cycles,
        "passes": m.passes,
        "estimates": m.estimates,
    })
}
