//! `capstan library`: what is where in a tape library, and tapes from here to there.

use capstan_cell::library::{self, DriveStatus, Exported, Inventoried, LibraryStatus, Moved};
use capstan_cell::{Cell, CellError, DriveRecord};
use capstan_engine::message::{path_text, shell_word};
use capstan_idb::{Medium, TapeIs};
use capstan_medium::tape::{FoundDevice, Held, Place};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::args::{Global, LibraryCommand, OfLibrary};
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, Failure, one_line};
use crate::look::ls::Lines;
use crate::output::{JsonList, Output};
use crate::process::home;
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::{Align, fields, table};

/// Runs `library`.
pub fn run(global: &Global, command: &LibraryCommand) -> Result<u8, Failure> {
    let mut out = Output::new();
    let cell = match command {
        LibraryCommand::Status(_)
        | LibraryCommand::Move { .. }
        | LibraryCommand::Load { .. }
        | LibraryCommand::Unload { .. }
        | LibraryCommand::Clean { .. } => home::open_to_share(global)?,
        _ => None,
    };
    match command {
        LibraryCommand::Scan { iscsi, json } => return scan(global, iscsi, *json),
        LibraryCommand::Status(of) => {
            let status = library::status(&global.devices, &of.library)?;
            let mut records = cell.as_ref().map_or(Ok(Vec::new()), Cell::drive_records)?;
            let name = of.library.resolved().to_string();
            records.retain(|record| record.library == name);
            if of.json {
                out.json(&json_of_status(&status, &records))?;
            } else {
                out.text(&page(&status, &records))?;
            }
        }
        LibraryCommand::Inventory { of, rescan } => {
            let list = home::open(global)?.library_inventory(&of.library, *rescan)?;
            if of.json {
                JsonList::all(&mut out, "tapes", &list, json_of_tape)?;
            } else {
                out.text(&lines(&list))?;
                out.text(&elsewhere(&list, &of.library.to_string()))?;
            }
        }
        LibraryCommand::Move { of, from, to } => {
            say(&mut out, of, &library::move_tape(&global.devices, &of.library, *from, *to)?)?;
        }
        LibraryCommand::Load { of, tape, drive } => {
            say(&mut out, of, &library::load(&global.devices, &of.library, tape, *drive)?)?;
        }
        LibraryCommand::Unload { of, drive } => {
            say(&mut out, of, &library::unload(&global.devices, &of.library, *drive)?)?;
        }
        LibraryCommand::Import(of) => {
            let cell = home::open(global)?;
            let mut told = Told::of(global, of);
            let count = cell.library_import(&of.library, &mut |tape| told.tell(tape));
            if count.as_ref().is_ok_and(|count| *count == 0) && !of.json {
                out.text("no tapes are in the mail slots\n")?;
            }
            told.end(count.map(drop))?;
        }
        LibraryCommand::Export { of, barcodes, location } => {
            let cell = home::open(global)?;
            let mut told = Told::of(global, of);
            let done =
                cell.library_export(&of.library, barcodes, location, &mut |tape| told.tell(tape));
            told.end(done.map(drop))?;
        }
        LibraryCommand::Disable { of, drive } => {
            set_in_service(global, &mut out, (of, *drive), false)?
        }
        LibraryCommand::Enable { of, drive } => {
            set_in_service(global, &mut out, (of, *drive), true)?
        }
        LibraryCommand::Clean { of, drive } => {
            clean(global, &mut out, cell.as_ref(), (of, *drive))?;
        }
    }
    out.finish().map(|()| COMPLETED)
}

/// Cleans a drive, and says with what.
fn clean(
    global: &Global,
    out: &mut Output,
    cell: Option<&Cell>,
    (of, drive): (&OfLibrary, u32),
) -> Result<(), Failure> {
    let cleaned = match cell {
        Some(cell) => cell.library_clean(&of.library, drive)?,
        None => library::clean(&global.devices, &of.library, drive)?,
    };
    let (barcode, left) = (&cleaned.barcode, cleaned.left);
    if of.json {
        return out.json(&json!({ "drive": drive, "barcode": barcode, "uses_left": left }));
    }
    let left = left.map_or(String::new(), |n| format!(", {n} uses left"));
    out.text(&format!("drive {drive} is cleaned with tape {barcode}{left}\n"))
}

/// Takes a drive out of service, or back into it, and says so.
fn set_in_service(
    global: &Global,
    out: &mut Output,
    (of, drive): (&OfLibrary, u32),
    is_in: bool,
) -> Result<(), Failure> {
    home::open(global)?.set_drive_in_service(&of.library, drive, is_in)?;
    if of.json {
        return out.json(&json!({ "drive": drive, "in_service": is_in }));
    }
    let is = if is_in { "in service" } else { "out of service" };
    out.text(&format!("drive {drive} is {is}\n"))
}

/// What is on record against a drive, in words; nothing where that is nothing.
fn on_record(records: &[DriveRecord], drive: u32) -> Option<String> {
    let record = records.iter().find(|record| record.drive == drive)?;
    let out = record.out_us.map(|us| format!("out of service since {}", local_time(us)));
    let ill = record.why_ill().map(|why| {
        let when = record.ill_us().map_or(String::new(), |us| format!(" at {}", local_time(us)));
        format!("sessions take it last: it {why}{when}")
    });
    let all: Vec<String> = out.into_iter().chain(ill).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn scan(global: &Global, hosts: &[String], as_json: bool) -> Result<u8, Failure> {
    let (seen, failed) = library::scan(&global.devices, hosts)?;
    let mut out = Output::new();
    if as_json {
        JsonList::all(&mut out, "devices", &seen, json_of_seen)?;
    } else if seen.is_empty() {
        out.text("no tape drives and libraries were found\n")?;
    } else {
        out.text(&seen_lines(&seen))?;
    }
    out.finish()?;
    for why in &failed {
        eprintln!("capstan: error: {}", one_line(why));
    }
    Ok(if failed.is_empty() { COMPLETED } else { COMPLETED_WITH_ERRORS })
}

fn seen_lines(list: &[FoundDevice]) -> String {
    use Align::Left;
    let head = [
        ("Device", Left),
        ("Kind", Left),
        ("Model", Left),
        ("Serial number", Left),
        ("Node", Left),
        ("In use by", Left),
    ];
    let row = |s: &FoundDevice| {
        [
            s.name.to_string(),
            kind(s).to_owned(),
            s.info.model.clone(),
            s.info.serial.clone().unwrap_or_default(),
            s.tape_node.clone().unwrap_or_default(),
            s.info.in_use.clone().unwrap_or_default(),
        ]
    };
    table(head, list.iter().map(row).collect())
}

fn kind(seen: &FoundDevice) -> &'static str {
    if seen.is_changer { "library" } else { "drive" }
}

fn json_of_seen(s: &FoundDevice) -> Value {
    json!({
        "device": s.name.to_string(),
        "kind": kind(s),
        "model": s.info.model,
        "serial": s.info.serial,
        "node": s.tape_node,
        "in_use_by": s.info.in_use,
    })
}

fn page(status: &LibraryStatus, records: &[DriveRecord]) -> String {
    use Align::Left;
    let count = |of: fn(&Place) -> bool, all: u32| {
        let full = status.tapes.iter().filter(|tape| of(&tape.place)).count() as u64;
        format!("{}, {} with tapes", grouped(all.into()), grouped(full))
    };
    let mail = status.elements.mail_slots;
    let mut text = fields(&[
        ("Library", status.name.clone()),
        ("Drives", grouped(status.elements.drives.into())),
        ("Slots", count(|p| matches!(p, Place::Slot(_)), status.elements.slots)),
        ("Mail slots", count(|p| matches!(p, Place::Mail(_)), mail)),
    ]);
    text.push('\n');
    let head = [
        ("Place", Left),
        ("Tape", Left),
        ("Model", Left),
        ("Serial number", Left),
        ("Device", Left),
        ("In use by", Left),
        ("Note", Left),
    ];
    let row = |d: &DriveStatus| {
        [
            Place::Drive(d.number).short(),
            d.tape.as_ref().map(barcode).unwrap_or_default(),
            d.info.model.clone(),
            d.info.serial.clone().unwrap_or_default(),
            d.info.device.clone().unwrap_or_default(),
            d.info.in_use.clone().unwrap_or_default(),
            d.info
                .note
                .iter()
                .cloned()
                .chain(on_record(records, d.number))
                .collect::<Vec<_>>()
                .join("; "),
        ]
    };
    text.push_str(&table(head, status.drives.iter().map(row).collect()));
    let mail = status.tapes.iter().filter(|tape| matches!(tape.place, Place::Mail(_)));
    let rows: Vec<_> = mail.map(|tape| [tape.place.short(), barcode(tape)]).collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table([("Place", Left), ("Tape", Left)], rows));
    }
    text
}

fn barcode(tape: &Held) -> String {
    match tape.barcode.as_str() {
        "" => "(no barcode)".to_owned(),
        barcode => barcode.to_owned(),
    }
}

fn json_of_status(status: &LibraryStatus, records: &[DriveRecord]) -> Value {
    let drives = status.drives.iter().map(|d| {
        json!({
            "drive": d.number,
            "tape": d.tape.as_ref().map(|tape| &tape.barcode),
            "tape_from": d.tape.as_ref().and_then(|tape| tape.from).map(|from| from.short()),
            "model": d.info.model,
            "serial": d.info.serial,
            "device": d.info.device,
            "in_use_by": d.info.in_use,
            "note": d.info.note,
            "in_service": !records.iter().any(|of| of.drive == d.number && of.out_us.is_some()),
            "on_record": on_record(records, d.number),
        })
    });
    let tapes = status
        .tapes
        .iter()
        .map(|tape| json!({ "place": tape.place.short(), "barcode": tape.barcode }));
    json!({
        "library": status.name,
        "slots": status.elements.slots,
        "mail_slots": status.elements.mail_slots,
        "drives": drives.collect::<Vec<_>>(),
        "tapes": tapes.collect::<Vec<_>>(),
    })
}

fn lines(list: &[Inventoried]) -> String {
    use Align::{Left, Right};
    let head = [
        ("Place", Left),
        ("Barcode", Left),
        ("State", Left),
        ("Label", Left),
        ("Pool", Left),
        ("Size", Right),
    ];
    let row = |i: &Inventoried| {
        let known = i.known.as_ref();
        [
            i.tape.place.short(),
            barcode(&i.tape),
            state(i),
            known.map_or_else(|| i.among.join(" or "), |k| k.label.clone()),
            known.and_then(|k| k.pool.clone()).unwrap_or_default(),
            known.map(|k| bytes_text(k.bytes)).unwrap_or_default(),
        ]
    };
    table(head, list.iter().map(row).collect())
}

/// Which medium a tape may be that has its barcode in another library, and how that is found out.
fn may_be(medium: &Medium, tape: &str) -> String {
    let device = medium.device.to_string();
    let of = device.split("?tape=").next().unwrap_or_default();
    format!(
        "medium '{}' of {} has that barcode and is not there: `capstan import {}` makes it known here if it is that one",
        path_text(medium.label.as_bytes()),
        path_text(of.as_bytes()),
        shell_word(tape)
    )
}

/// A line per tape that may be a medium of another library; of many how all are looked at.
fn elsewhere(list: &[Inventoried], library: &str) -> String {
    let all: Vec<_> = list.iter().filter_map(|i| Some((i, i.elsewhere.as_ref()?))).collect();
    match all.len() {
        0..=3 => {
            let tape = |i: &Inventoried| format!("{library}?tape={}", i.tape.barcode);
            let line = |(i, other): &(&Inventoried, &Medium)| {
                format!("{}: {}\n", barcode(&i.tape), may_be(other, &tape(i)))
            };
            all.iter().map(line).collect()
        }
        n => format!(
            "{n} tapes have barcodes of media of other libraries that are not there: `capstan import {}` makes known here those that \
             are these media\n",
            shell_word(library)
        ),
    }
}

fn json_of_elsewhere(medium: &Medium) -> Value {
    json!({ "id": medium.id.to_string(), "label": medium.label, "device": medium.device })
}

fn state(tape: &Inventoried) -> String {
    match &tape.known {
        _ if let Some(uses) = &tape.uses => match (uses.left, uses.used) {
            (Some(0), _) => "cleans, used up".to_owned(),
            (Some(1), _) => "cleans, 1 use left".to_owned(),
            (Some(left), _) => format!("cleans, {left} uses left"),
            (None, 0) => "cleans".to_owned(),
            (None, used) => format!("cleans, used {}", crate::text::count(used, "time")),
        },
        Some(known) => known.state.to_string(),
        None if let Some(seen) = &tape.seen => {
            let time = local_time(seen.seen_us);
            let day = time.split(' ').next().unwrap_or_default();
            match path_text(seen.detail.as_bytes()) {
                detail if detail.is_empty() || seen.is == TapeIs::Unreadable => {
                    format!("{}, seen {day}", seen.is)
                }
                detail => format!("{} ({detail}), seen {day}", seen.is),
            }
        }
        None if tape.among.is_empty() => "unknown".to_owned(),
        None => "unclear".to_owned(),
    }
}

fn json_of_tape(i: &Inventoried) -> Value {
    let known = i.known.as_ref().map(|k| {
        json!({
            "id": k.id.to_string(),
            "label": k.label,
            "pool": k.pool,
            "state": k.state.as_str(),
            "bytes": k.bytes,
        })
    });
    json!({
        "place": i.tape.place.short(),
        "barcode": i.tape.barcode,
        "from": i.tape.from.map(|from| from.short()),
        "cleaning": i.tape.is_cleaning(),
        "uses": i.uses.map(|uses| uses.used),
        "uses_left": i.uses.and_then(|uses| uses.left),
        "known": known,
        "among": i.among,
        "elsewhere": i.elsewhere.as_ref().map(json_of_elsewhere),
        "seen": i.seen.as_ref().map(|seen| json!({
            "is": seen.is.as_str(),
            "detail": seen.detail,
            "at": Timestamp::from_microsecond(seen.seen_us).ok().map(|at| at.to_string()),
        })),
    })
}

/// Says what was moved.
fn say(out: &mut Output, of: &OfLibrary, moved: &Moved) -> Result<(), Failure> {
    match of.json {
        true => out.json(&json_of_move(moved)),
        false => out.text(&format!("{}\n", sentence(moved))),
    }
}

/// Says what was moved as soon as it is; as JSON when all is.
struct Told {
    lines: Lines,
    json: bool,
    library: String,
}

impl Told {
    fn of(global: &Global, of: &OfLibrary) -> Self {
        let lines = Lines::of(global.device_host(), of.json, "moved");
        Self { lines, json: of.json, library: of.library.to_string() }
    }

    fn tell(&mut self, tape: &Exported) {
        if self.json {
            let mut json = json_of_move(&tape.moved);
            json["label"] = tape.label.clone().into();
            json["elsewhere"] = tape.elsewhere.as_ref().map(json_of_elsewhere).into();
            return self.lines.row(&json);
        }
        let label = match &tape.label {
            Some(label) => format!(" (medium '{label}')"),
            None => match &tape.elsewhere {
                None => " (not known here)".to_owned(),
                Some(other) => {
                    let tape = format!("{}?tape={}", self.library, tape.moved.barcode);
                    format!(" (not known here; {})", may_be(other, &tape))
                }
            },
        };
        self.lines.put(|out, _| {
            out.text(&format!("{}{label}\n", sentence(&tape.moved)))?;
            out.flush()
        });
    }

    fn end(self, done: Result<(), CellError>) -> Result<u8, Failure> {
        self.lines.end(Map::new(), done.err().map(Failure::from))
    }
}

fn sentence(moved: &Moved) -> String {
    let tape = match moved.barcode.as_str() {
        "" => "the tape".to_owned(),
        barcode => format!("tape {barcode}"),
    };
    match moved.to {
        Some(to) if to == moved.from => format!("{tape} is in {to}"),
        Some(to) => format!("{tape} is moved from {} to {to}", moved.from),
        None => format!("{tape} of {} is unloaded; take it out", moved.from),
    }
}

fn json_of_move(moved: &Moved) -> Value {
    json!({
        "barcode": moved.barcode,
        "from": moved.from.short(),
        "to": moved.to.map(|to| to.short()),
    })
}
