//! `capstan media`: media as lines, as pages, as JSON.

pub mod library;
pub mod pool;
pub mod rait;
pub mod vault;
pub mod vtl;

use capstan_address::Address;
use capstan_cell::arrays::ArrayInfo;
use capstan_cell::media::{Condition, MediumInfo, place_shown};
use capstan_cell::observe::Stop;
use capstan_cell::repair::RepairRequest;
use capstan_cell::request::{CopyWhat, VerifyRequest};
use capstan_cell::{Cell, Foreign, Initialise, Made};
use capstan_engine::message::path_text;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::admin::protect;
use crate::args::{Global, InitArgs, MediaCommand};
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, Failure};
use crate::look::ls::Lines;
use crate::output::progress::Console;
use crate::output::{JsonList, Output};
use crate::process::home;
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::{Align, columns, fields};
use crate::work::session::{self, Show};
use crate::work::{copy, restore, stage};

/// Runs `media`.
pub fn run(global: &Global, command: &MediaCommand) -> Result<u8, Failure> {
    match command {
        MediaCommand::List { pool, json } => list(global, pool.as_deref(), *json)?,
        MediaCommand::Show { medium, json } => {
            let cell = home::open(global)?;
            let info = cell.media_show(medium)?;
            show(&info, cell.array_at_hand(&info.medium).as_ref(), *json)?;
        }
        MediaCommand::Init(args) => return init(global, args),
        MediaCommand::Label { medium, label, json } => {
            print(&home::open(global)?.media_label(medium, label)?, *json)?;
        }
        MediaCommand::Move { medium, pool, set, json, .. } => {
            let cell = home::open(global)?;
            let before = cell.media_show(medium)?;
            let moved = cell.media_move(medium, pool.as_deref(), *set)?;
            if let Some(text) = kept_longer(&before, &moved) {
                eprintln!("capstan: warning: {text}");
            }
            print(&moved, *json)?;
        }
        MediaCommand::Export { medium, to, json } => {
            print(&home::open(global)?.media_export(medium, to)?, *json)?;
        }
        MediaCommand::Vault { library, json } => {
            return vault::run(global, library.as_ref(), *json);
        }
        MediaCommand::Recycle { medium, foreign, give_up, json } => {
            recycle(global, medium, (*foreign, *give_up), *json)?;
        }
        MediaCommand::Forget { medium, json } => forget(global, medium, *json)?,
        MediaCommand::Erase { medium, secure, foreign: false, give_up, json } => {
            erase(global, medium, (*secure, *give_up), *json)?;
        }
        MediaCommand::Erase { medium, secure, foreign: true, json, .. } => {
            erase_foreign(global, medium, *secure, *json)?;
        }
        MediaCommand::Retire(args) if args.undo => {
            print(&home::open(global)?.media_unretire(&args.medium)?, args.json)?;
        }
        MediaCommand::Retire(args) => return stage::retire(global, args),
        MediaCommand::Adopt { medium, unencrypted, as_new, json } => {
            adopt(global, medium, (*unencrypted, *as_new), *json)?;
        }
        MediaCommand::Protect(args) => return protect::protect_medium(global, args),
        MediaCommand::Copy { medium, target } => {
            return copy::run(global, CopyWhat::Medium(medium.clone()), false, target);
        }
        MediaCommand::Repair(args) => {
            let request = RepairRequest {
                medium: args.medium.clone(),
                from: args.from.clone(),
                remove_unreadable: args.remove_unreadable,
                as_it_is: args.as_it_is,
                dry_run: args.dry_run,
            };
            let show = Show { method: "repair", json: args.json, to_stderr: false };
            return session::run(global, &show, |cell, console, stop| {
                Ok(cell.media_repair(&request, console, stop)?)
            });
        }
        MediaCommand::Import(args) => return restore::import(global, args),
        MediaCommand::Verify { medium, json } => {
            let request = VerifyRequest::Medium(medium.clone());
            let show = Show { method: "verify", json: *json, to_stderr: false };
            return session::run(global, &show, |cell, console, stop| {
                Ok(cell.verify(&request, console, stop)?)
            });
        }
    }
    Ok(COMPLETED)
}

/// Lists the media of a pool, or all.
fn list(global: &Global, pool: Option<&str>, json: bool) -> Result<(), Failure> {
    let list = home::open(global)?.media_list(pool)?;
    let mut out = Output::new();
    if json {
        JsonList::all(&mut out, "media", &list, json_of)?;
    } else {
        out.text(&lines(&list))?;
    }
    out.finish()
}

/// Makes media of another cell, or of a copied home, those of this one.
fn adopt(
    global: &Global,
    medium: &str,
    (unencrypted, as_new): (bool, bool),
    json: bool,
) -> Result<(), Failure> {
    let console = Console::new(global)?;
    let cell = home::open(global)?;
    if as_new {
        let one = cell.media_adopt_as_new(medium, unencrypted, &console, &Stop::default())?;
        return print(&one, json);
    }
    match &cell.media_adopt(medium, unencrypted, &console)?[..] {
        media if json => {
            let mut out = Output::new();
            JsonList::all(&mut out, "media", media, json_of)?;
            out.finish()
        }
        [one] => print(one, false),
        several => adopted(several),
    }
}

/// Makes a medium, or several of the tapes of a library.
fn init(global: &Global, args: &InitArgs) -> Result<u8, Failure> {
    let wanted = Initialise {
        label: args.label.clone(),
        pool: args.pool.clone(),
        set: None,
        block_size: args.block_size,
        new_medium: args.new_medium,
    };
    let cell = home::open(global)?;
    if let Some(barcodes) = &args.barcodes {
        return init_many(&cell, args, barcodes, &wanted);
    }
    print(&cell.media_init(&args.device, &wanted)?, args.json)?;
    Ok(COMPLETED)
}

/// Makes media of the tapes of a library, and says of each what became of it as soon as that is known.
fn init_many(
    cell: &Cell,
    args: &InitArgs,
    barcodes: &str,
    wanted: &Initialise,
) -> Result<u8, Failure> {
    let Address::Tape(library) = &args.device else {
        return Err(Failure::bad_input(
            format!("{} is no tape library", args.device),
            "name a library with --barcodes, as vtape:/dir or scsi:/dev/sgN",
        ));
    };
    let mut lines = Lines::of(cell.devices().clone(), args.json, "tapes");
    let mut media = 0;
    let failed =
        cell.media_init_many(library, barcodes, wanted, args.dry_run, &mut |barcode, made| {
            media += u64::from(matches!(made, Made::Medium(_) | Made::Would(_)));
            match args.json {
                true => lines.row(&json_of_made(barcode, made)),
                false => lines.put(|out, _| {
                    out.text(&format!(
                        "{}: {}\n",
                        path_text(barcode.as_bytes()),
                        sentence_of(made)
                    ))?;
                    out.flush()
                }),
            }
        });
    let failed = match failed {
        Ok(failed) => failed,
        Err(e) => return lines.end(Map::new(), Some(e.into())),
    };
    if !args.json {
        let made = if args.dry_run { "would be made" } else { "are made" };
        let not = match failed {
            0 => String::new(),
            1 => ", 1 tape is none".to_owned(),
            n => format!(", {} tapes are none", grouped(n)),
        };
        lines.put(|out, _| out.text(&format!("{} media {made}{not}\n", grouped(media))));
    }
    let mut totals = Map::new();
    totals.insert("made".to_owned(), if args.dry_run { 0 } else { media }.into());
    totals.insert("failed".to_owned(), failed.into());
    let code = lines.end(totals, None)?;
    Ok(if failed > 0 { COMPLETED_WITH_ERRORS } else { code })
}

fn sentence_of(made: &Made) -> String {
    let named = |label: &str| path_text(label.as_bytes());
    match made {
        Made::Medium(info) => {
            let pool = info.management.pool.as_ref().map(|pool| format!(" in pool {pool}"));
            format!("medium '{}'{}", named(&info.medium.label), pool.unwrap_or_default())
        }
        Made::Would(label) => format!("would be medium '{}'", named(label)),
        Made::Is(label) => format!("is medium '{}' already", named(label)),
        Made::Failed(why) => format!("not made: {}", path_text(why.as_bytes())),
    }
}

fn json_of_made(barcode: &str, made: &Made) -> Value {
    let (result, id, label, why) = match made {
        Made::Medium(info) => {
            ("made", Some(info.medium.id.to_string()), Some(&info.medium.label), None)
        }
        Made::Would(label) => ("would-be", None, Some(label), None),
        Made::Is(label) => ("medium", None, Some(label), None),
        Made::Failed(why) => ("failed", None, None, Some(why)),
    };
    json!({ "barcode": barcode, "result": result, "id": id, "label": label, "why": why })
}

fn adopted(media: &[MediumInfo]) -> Result<(), Failure> {
    let mut out = Output::new();
    let labels: Vec<_> = media.iter().map(|m| path_text(m.medium.label.as_bytes())).collect();
    out.text(&format!("{} media are of this cell now: {}\n", media.len(), labels.join(", ")))?;
    out.finish()
}

fn recycle(
    global: &Global,
    medium: &str,
    (foreign, give_up): (bool, bool),
    as_json: bool,
) -> Result<(), Failure> {
    let cell = home::open(global)?;
    let done = match foreign {
        true => cell.media_recycle_foreign(medium)?,
        false => cell.media_recycle(medium, give_up)?,
    };
    let mut out = Output::new();
    if as_json {
        out.json(&json!({
            "id": done.medium.id.to_string(),
            "label": done.medium.label,
            "segments": done.segments,
            "bytes": done.bytes,
            "versions": done.versions,
        }))?;
    } else {
        out.text(&format!(
            "medium '{}' is free: {} in {} segments and {} versions are given up\n",
            path_text(done.medium.label.as_bytes()),
            bytes_text(done.bytes),
            grouped(done.segments),
            grouped(done.versions)
        ))?;
    }
    out.finish()
}

fn forget(global: &Global, medium: &str, as_json: bool) -> Result<(), Failure> {
    let done = home::open(global)?.media_forget(medium)?;
    let mut out = Output::new();
    if as_json {
        out.json(&json!({
            "id": done.medium.id.to_string(),
            "label": done.medium.label,
            "device": done.medium.device,
            "versions": done.versions,
            "given_up": done.given_up,
            "not_whole": done.not_whole,
        }))?;
    } else {
        let lack = match done.not_whole {
            0 => String::new(),
            n => format!("; {} are not whole any more, as their copies lack something", grouped(n)),
        };
        let more = match done.given_up {
            0 => String::new(),
            n => format!("; {} more that build on them go by the next prune", grouped(n)),
        };
        out.text(&format!(
            "medium '{}' is forgotten, and {} versions that only it had{more}{lack}\n",
            path_text(done.medium.label.as_bytes()),
            grouped(done.versions)
        ))?;
    }
    out.finish()
}

fn erase(
    global: &Global,
    medium: &str,
    (secure, give_up): (bool, bool),
    as_json: bool,
) -> Result<(), Failure> {
    let done = home::open(global)?.media_erase(medium, secure, give_up)?;
    let mut out = Output::new();
    if as_json {
        out.json(&json!({
            "id": done.medium.id.to_string(),
            "label": done.medium.label,
            "device": done.medium.device,
            "secure": done.secure,
            "not_overwritten": done.not_overwritten,
            "segments": done.segments,
            "bytes": done.bytes,
            "versions": done.versions,
        }))?;
    } else {
        out.text(&format!(
            "medium '{}' is erased{}: {} is blank; {} in {} segments and {} versions are gone\n",
            path_text(done.medium.label.as_bytes()),
            if done.secure { " and overwritten" } else { "" },
            path_text(done.medium.device.to_string().as_bytes()),
            bytes_text(done.bytes),
            grouped(done.segments),
            grouped(done.versions)
        ))?;
        for left in &done.not_overwritten {
            let left = path_text(left.as_bytes());
            out.text(&format!("{left}: it was removed, and not overwritten\n"))?;
        }
    }
    out.finish()
}

fn erase_foreign(global: &Global, tape: &str, secure: bool, as_json: bool) -> Result<(), Failure> {
    let was = home::open(global)?.erase_foreign(tape, secure)?;
    let mut out = Output::new();
    if as_json {
        let (was, label) = match &was {
            Foreign::Blank => ("blank", None),
            Foreign::Other => ("other", None),
            Foreign::Medium(label) => ("medium", Some(label)),
        };
        out.json(&json!({ "device": tape, "was": was, "label": label, "secure": secure }))?;
    } else {
        let was = match &was {
            Foreign::Blank => "nothing was on it".to_owned(),
            Foreign::Other => "it was no medium of Capstan".to_owned(),
            Foreign::Medium(label) => format!("medium '{}' was on it", path_text(label.as_bytes())),
        };
        let how = if secure { " and overwritten" } else { "" };
        let tape = path_text(tape.as_bytes());
        out.text(&format!("{tape} is erased{how}, and blank; {was}\n"))?;
    }
    out.finish()
}

/// A line per medium; without columns that none of them has anything for.
pub fn lines(list: &[MediumInfo]) -> String {
    use Align::{Left, Right};
    let head = [
        ("Label", Left),
        ("Id", Left),
        ("Barcode", Left),
        ("Where", Left),
        ("State", Left),
        ("Condition", Left),
        ("Pool", Left),
        ("Used", Right),
        ("Size", Right),
        ("Loads", Right),
        ("Kept until", Left),
        ("Last written", Left),
        ("Device", Left),
    ];
    let row = |m: &MediumInfo| {
        let barcodes: Vec<_> = m.tapes.iter().map(|tape| tape.barcode.as_str()).collect();
        [
            path_text(m.medium.label.as_bytes()),
            m.medium.id.short(),
            barcodes.join(", "),
            whereabouts(m),
            m.state.to_string(),
            Some(m.condition.to_string())
                .filter(|_| m.condition != Condition::Good)
                .unwrap_or_default(),
            pool_of(m),
            m.used.map(percent).unwrap_or_default(),
            bytes_text(m.holdings.bytes),
            loads(m).map(grouped).unwrap_or_default(),
            kept_until(m),
            m.holdings.last_us.map_or_else(|| "never".to_owned(), local_time),
            device(m),
        ]
    };
    columns(head, list.iter().map(row).collect())
}

/// Until when something on it must stay; empty where nothing must.
pub fn kept_until(m: &MediumInfo) -> String {
    match (m.kept_for_ever, m.kept_until_us) {
        (true, _) => "for ever".to_owned(),
        (false, until) if m.kept_by_set => its_turn(m, until),
        (false, until) => until.map(local_time).unwrap_or_default(),
    }
}

/// Until when a rotation set keeps what is on a medium, if that must not stay longer.
fn its_turn(m: &MediumInfo, until_us: Option<i64>) -> String {
    let set = m.management.rotation_set.map(|set| set.to_string()).unwrap_or_default();
    match until_us {
        Some(until) => format!("its turn ({set}), not before {}", local_time(until)),
        None => format!("its turn ({set})"),
    }
}

/// A share as people read it: nothing is 0 %, and what has anything is at least 1 %.
fn percent(share: f64) -> String {
    let percent = (share * 100.0).floor();
    let percent = if share > 0.0 { percent.max(1.0) } else { 0.0 };
    format!("{percent:.0} %")
}

/// How often robots loaded its tapes; nothing of one for which there is no robot.
fn loads(m: &MediumInfo) -> Option<u64> {
    (!m.tapes.is_empty()).then_some(m.management.loads)
}

/// Where a medium is.
fn whereabouts(m: &MediumInfo) -> String {
    path_text(place_shown(m).as_bytes())
}

/// The device; of tapes that the barcode names, the library.
fn device(m: &MediumInfo) -> String {
    let device = match &m.tapes[..] {
        [tape] => tape.library.clone(),
        _ => m.medium.device.to_string(),
    };
    path_text(device.as_bytes())
}

fn absent(m: &MediumInfo) -> String {
    match (&m.absent, &m.host) {
        (Some(why), _) => format!(" (not at hand: {})", path_text(why.as_bytes())),
        (None, Some(host)) => format!(" (host '{}' has it too)", path_text(host.as_bytes())),
        (None, None) => String::new(),
    }
}

fn pool_of(m: &MediumInfo) -> String {
    let pool = m.management.pool.clone().unwrap_or_default();
    m.management.rotation_set.map(|set| format!("{pool} ({set})")).unwrap_or(pool)
}

/// A medium with the members that it has, if it is an array.
fn show(m: &MediumInfo, array: Option<&ArrayInfo>, as_json: bool) -> Result<(), Failure> {
    let Some(array) = array else { return print(m, as_json) };
    let mut out = Output::new();
    if as_json {
        let mut object = json_of(m);
        object["members"] = rait::members_json(array).into();
        out.json(&object)?;
    } else {
        out.text(&format!("{}\n{}", page(m), rait::members(array)))?;
    }
    out.finish()
}

/// That what lies on a medium stays for longer in the slower set to which it was moved, with what it builds on.
fn kept_longer(before: &MediumInfo, moved: &MediumInfo) -> Option<String> {
    let (was, is) = (before.management.rotation_set, moved.management.rotation_set?);
    let is_slower = moved.kept_by_set && was.is_some_and(|was| was < is);
    is_slower.then(|| {
        format!(
            "what medium '{}' holds is kept until its turn in the {is} set now, and so are the tapes with what that builds on; move a \
             tape when it holds nothing, or recycle it before",
            path_text(moved.medium.label.as_bytes())
        )
    })
}

fn print(m: &MediumInfo, as_json: bool) -> Result<(), Failure> {
    let mut out = Output::new();
    if as_json {
        out.json(&json_of(m))?;
    } else {
        out.text(&page(m))?;
    }
    out.finish()
}

fn page(m: &MediumInfo) -> String {
    let kept = match (m.kept, m.kept_for_ever, m.kept_until_us) {
        (0, ..) => String::new(),
        (n, false, until) if m.kept_by_set => {
            format!("{} versions, until {}", grouped(n), its_turn(m, until))
        }
        (n, false, Some(until)) => {
            format!("{} versions, the last until {}", grouped(n), local_time(until))
        }
        (n, ..) => format!("{} versions, without end", grouped(n)),
    };
    let mut condition = match m.reasons.is_empty() {
        true => m.condition.to_string(),
        false => format!("{} ({})", m.condition, m.reasons.join(", ")),
    };
    if let Some(ways) = &m.ways_out {
        condition.push_str(&format!("; {}", path_text(ways.as_bytes())));
    }
    let exported = m.management.exported_us.map(|us| {
        let to = m.management.exported_to.clone().unwrap_or_default();
        format!("{} {}", local_time(us), path_text(to.as_bytes())).trim_end().to_owned()
    });
    fields(&[
        ("Medium", path_text(m.medium.label.as_bytes())),
        ("Id", m.medium.id.to_string()),
        ("Device", format!("{}{}", path_text(m.medium.device.to_string().as_bytes()), absent(m))),
        ("Host", m.host.as_deref().map(|host| path_text(host.as_bytes())).unwrap_or_default()),
        ("Cell", if m.foreign { "another" } else { "" }.to_owned()),
        ("Pool", pool_of(m)),
        ("State", m.state.to_string()),
        ("Condition", condition),
        ("Exported", exported.unwrap_or_default()),
        ("Retired", m.management.retired_us.map(local_time).unwrap_or_default()),
        ("Must stay", kept),
        ("Encryption", encryption(m)),
        ("Versions", grouped(m.versions.len() as u64)),
        ("Sessions", grouped(m.holdings.sessions)),
        ("Segments", grouped(m.holdings.segments)),
        ("Where", if m.tapes.is_empty() { String::new() } else { whereabouts(m) }),
        ("Used", m.used.map(percent).unwrap_or_default()),
        ("Loads", loads(m).map(grouped).unwrap_or_default()),
        ("Size", bytes_text(m.holdings.bytes)),
        ("Free", m.free_bytes.map(bytes_text).unwrap_or_default()),
        ("Block size", bytes_text(m.medium.block_size.into())),
        ("Made", local_time(m.management.first_us)),
        ("Last written", m.holdings.last_us.map(local_time).unwrap_or_default()),
        ("Passes", grouped(m.passes())),
        ("Errors", grouped(m.management.errors)),
    ])
}

fn encryption(m: &MediumInfo) -> String {
    let Some(pairs) = &m.drive_key else { return String::new() };
    let pairs: Vec<_> = pairs.iter().map(ToString::to_string).collect();
    format!("by its drive; key {} opens it", pairs.join(", "))
}

/// A medium as JSON.
pub fn json_of(m: &MediumInfo) -> Value {
    let time = |us: Option<i64>| {
        us.and_then(|us| Timestamp::from_microsecond(us).ok()).map(|t| t.to_string())
    };
    json!({
        "id": m.medium.id.to_string(),
        "label": m.medium.label,
        "device": m.medium.device,
        "host": m.medium.hosts.last(),
        "barcode": match &m.tapes[..] { [tape] => Some(&tape.barcode), _ => None },
        "place": match &m.tapes[..] { [tape] => tape.place.map(|place| place.short()), _ => None },
        "tapes": m.tapes.iter().map(|tape| json!({
            "barcode": tape.barcode,
            "library": tape.library,
            "place": tape.place.map(|place| place.short()),
            "exported": time(tape.exported.as_ref().map(|(us, _)| *us)),
            "exported_to": tape.exported.as_ref().map(|(_, to)| to),
        })).collect::<Vec<_>>(),
        "pool": m.management.pool,
        "rotation_set": m.management.rotation_set.map(|set| set.to_string()),
        "state": m.state.as_str(),
        "condition": m.condition.to_string(),
        "reasons": m.reasons,
        "hint": m.ways_out,
        "at_hand": m.absent.is_none(),
        "foreign": m.foreign,
        "block_size": m.medium.block_size,
        "segments": m.holdings.segments,
        "sessions": m.holdings.sessions,
        "versions": m.versions.len(),
        "versions_kept": m.kept,
        "kept_until": if m.kept_for_ever { None } else { time(m.kept_until_us) },
        "kept_for_ever": m.kept_for_ever,
        "kept_by_set": m.kept_by_set,
        "bytes": m.holdings.bytes,
        "used_percent": m.used.map(|share| (share * 1000.0).round() / 10.0),
        "capacity_bytes": m.management.capacity,
        "loads": loads(m),
        "free_bytes": m.free_bytes,
        "made": time(Some(m.management.first_us)),
        "last_written": time(m.holdings.last_us),
        "passes": m.passes(),
        "errors": m.management.errors,
        "exported": time(m.management.exported_us),
        "exported_to": m.management.exported_to,
        "retired": time(m.management.retired_us),
        "encryption": m.drive_key.as_ref().map(|_| "drive"),
        "drive_key": m.drive_key.as_ref().map(|pairs| {
            pairs.iter().map(ToString::to_string).collect::<Vec<_>>()
        }),
    })
}
