//! `capstan status`: how it stands with each object, for people and for monitoring.

mod object;
pub mod tapes;

use std::fmt::Write as _;
use std::time::Duration;

use capstan_cell::{
    Cell, DirtyDrive, DriveRecord, Health, LastSession, ObjectStatus, ProtectedTape, Refused,
    RefusedNow, age_text,
};
use capstan_engine::message::path_text;
use jiff::Timestamp;
use serde_json::{Value, json};
pub use tapes::away_json;

use crate::args::{Global, StatusArgs};
use crate::exit::{COMPLETED, CRITICAL, Failure, WARNING, one_line};
use crate::output::Output;
use crate::process::home;
use crate::text::local_time;
use crate::text::sizes::grouped;
use crate::text::table::{Align, table};

/// Runs the command.
pub fn run(global: &Global, args: &StatusArgs) -> Result<u8, Failure> {
    match show(global, args) {
        // A plugin says what it could not find out in its line, with the code for that.
        Err(failure) if args.plugin && !failure.error.is_empty() => {
            let (mut out, failure) = (Output::new(), global.named(failure));
            out.text(&format!("CAPSTAN UNKNOWN - {}\n", one_line(&failure.error)))?;
            out.finish()?;
            Ok(3)
        }
        result => result,
    }
}

fn show(global: &Global, args: &StatusArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let max_age = args.max_age.age(&cell)?;
    if let Some(name) = &args.object {
        return object::show(&cell, name, max_age, args.json);
    }
    let all = cell.status(&args.names, max_age)?;
    let (poor, wanted, away) = (cell.poor_media()?, cell.tapes_wanted()?, cell.media_away()?);
    let (refused, waits) = (cell.refused_now()?, cell.waits()?);
    let runs: Vec<_> = refused.iter().filter(|of| of.refusal.kind == Refused::Run).collect();
    let runs = if args.names.is_empty() { runs } else { Vec::new() };
    let of_runs = (!runs.is_empty()).then_some(Health::Warning);
    // That is of all objects, whatever was asked for.
    let ill_home: Vec<String> = cell.full_home().into_iter().chain(cell.damaged_pages()).collect();
    let of_home = (!ill_home.is_empty()).then_some(Health::Critical);
    let dirty = cell.dirty_drives()?;
    let protected = cell.write_protected()?;
    let ill = cell.ill_drives()?;
    let is_to_do = !dirty.is_empty() || !ill.is_empty() || !protected.is_empty();
    let of_drives = is_to_do.then_some(Health::Warning);
    let locks = cell.locks_not_on_media().unwrap_or_default();
    let worst = all.iter().map(|o| o.health).max().max(of_runs).max(of_home).max(of_drives);
    let mut out = Output::new();
    if args.json {
        out.json(&json!({
            "status": worst.map_or("unknown", Health::name),
            "max_age_s": max_age.as_secs(),
            "objects": all.iter().map(json_of).collect::<Vec<_>>(),
            "home": home_json(&cell, &ill_home),
            "runs": runs.iter().map(|of| run_json(of)).collect::<Vec<_>>(),
            "waits": waits.iter().map(tapes::wait_json).collect::<Vec<_>>(),
            "tapes_wanted": wanted.iter().map(tapes::wanted_json).collect::<Vec<_>>(),
            "dirty_drives": dirty.iter().map(tapes::dirty_json).collect::<Vec<_>>(),
            "ill_drives": ill.iter().map(tapes::ill_json).collect::<Vec<_>>(),
            "write_protected": protected.iter().map(tapes::protected_json).collect::<Vec<_>>(),
            "poor_media": poor.iter().map(tapes::poor_json).collect::<Vec<_>>(),
            "media_away": away.iter().map(tapes::away_json).collect::<Vec<_>>(),
            "locks_not_on_media": locks.iter().map(|of| json!({
                "lock": of.lock, "kind": of.kind.to_string(), "media": of.media,
            })).collect::<Vec<_>>(),
        }))?;
    } else {
        out.text(&first_line(&all, &runs, &ill_home, (&dirty, &ill, &protected), worst))?;
        if args.plugin {
            out.text(&performance_data(&all, max_age))?;
        }
        out.text("\n")?;
        out.text(&list(&all))?;
        for why in &ill_home {
            out.text(&format!("{}\n", one_line(why)))?;
        }
        let is_shown =
            |of: &&RefusedNow| args.names.is_empty() || args.names.contains(&of.refusal.name);
        for of in refused.iter().filter(is_shown) {
            out.text(&format!("{}\n", one_line(&of.text())))?;
        }
        out.text(&tapes::wait_lines(&waits))?;
        out.text(&tapes::wanted_lines(&wanted))?;
        out.text(&tapes::dirty_lines(&dirty))?;
        out.text(&tapes::ill_lines(&ill))?;
        out.text(&tapes::protected_lines(&protected))?;
        out.text(&tapes::poor_lines(&poor))?;
        out.text(&tapes::away_lines(&away))?;
        for of in &locks {
            out.text(&format!("{}\n", one_line(&of.text())))?;
        }
    }
    out.finish()?;
    Ok(match worst {
        // Nothing was ever backed up: to monitoring that is no good news.
        None if args.plugin => 3,
        Some(health) if args.plugin => health as u8,
        // What was given up on purpose is missed by nobody.
        None if cell.has_sessions()? => COMPLETED,
        worst => code_of(worst),
    })
}

/// The exit code that says so.
fn code_of(worst: Option<Health>) -> u8 {
    match worst {
        None | Some(Health::Warning) => WARNING,
        Some(Health::Good) => COMPLETED,
        Some(Health::Critical) => CRITICAL,
    }
}

/// The room that the home has, and what is wrong with it.
fn home_json(cell: &Cell, ill: &[String]) -> Value {
    let room = cell.home_room();
    json!({
        "path": cell.home().display().to_string(),
        "free": room.map(|room| room.free),
        "full": room.is_some_and(|room| room.is_full),
        "why": ill,
    })
}

/// `CAPSTAN CRITICAL - 1 critical, 1 warning, 2 ok: home: it has no complete version; data (warning): its last backup, 1f2e3d4c, had errors`
fn first_line(
    all: &[ObjectStatus],
    runs: &[&RefusedNow],
    ill_home: &[String],
    (dirty, ill, protected): (&[DirtyDrive], &[DriveRecord], &[ProtectedTape]),
    worst: Option<Health>,
) -> String {
    let Some(worst) = worst else {
        return "CAPSTAN UNKNOWN - nothing was backed up here".to_owned();
    };
    let count = |health| {
        let n = all.iter().filter(|o| o.health == health).count();
        (n > 0).then(|| format!("{} {}", grouped(n as u64), health.name()))
    };
    let mut counts: Vec<_> =
        [Health::Critical, Health::Warning, Health::Good].into_iter().filter_map(count).collect();
    if !runs.is_empty() {
        counts.push(format!("{} went wrong", crate::text::count(runs.len() as u64, "run")));
    }
    match dirty.len() {
        0 => {}
        1 => counts.push("1 drive asks to be cleaned".to_owned()),
        n => counts.push(format!("{n} drives ask to be cleaned")),
    }
    match ill.len() {
        0 => {}
        1 => counts.push("1 drive is not well".to_owned()),
        n => counts.push(format!("{n} drives are not well")),
    }
    match protected.len() {
        0 => {}
        1 => counts.push("1 tape is write-protected".to_owned()),
        n => counts.push(format!("{n} tapes are write-protected")),
    }
    if !ill_home.is_empty() {
        counts.push("the home needs somebody".to_owned());
    }
    let mut line = format!("CAPSTAN {} - {}", worst.name().to_uppercase(), counts.join(", "));
    let bad = all.iter().filter(|o| o.health != Health::Good && o.health == worst);
    let bad = bad.map(|o| format!("{}: {}", path_text(o.name.as_bytes()), o.why.join(", ")));
    let bad = ill_home.iter().map(|why| one_line(why)).chain(bad);
    // Nobody looks for them behind what is worse.
    let less = all.iter().filter(|o| o.health != Health::Good && o.health != worst);
    let less = less.map(|o| {
        let name = path_text(o.name.as_bytes());
        format!("{name} ({}): {}", o.health.name(), o.why.join(", "))
    });
    let all = bad.chain(runs.iter().map(|of| one_line(&of.text()))).chain(less);
    for (i, text) in all.enumerate() {
        // What stands behind a bar is performance data.
        let text = text.replace('|', "/");
        let _ = write!(line, "{} {text}", if i == 0 { ":" } else { ";" });
    }
    line
}

/// ` | 'desk age'=3600s;;93600`, as the Monitoring Plugins' guidelines have it.
fn performance_data(all: &[ObjectStatus], max_age: Duration) -> String {
    let mut data = String::from(" |");
    for o in all {
        if let Some(age) = o.age {
            let label = path_text(o.name.as_bytes()).replace(['\'', '=', '|'], "_");
            let _ = write!(data, " '{label} age'={}s;;{}", age.as_secs(), max_age.as_secs());
        }
    }
    data
}

/// A line per object, columns as wide as need be.
fn list(all: &[ObjectStatus]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let head = ["Object", "Host", "Health", "Last complete", "Age", "Last backup", "Last drill"];
    let row = |o: &ObjectStatus| {
        let none = || "none".to_owned();
        [
            o.name.clone(),
            o.host.to_string(),
            o.health.name().to_owned(),
            o.complete_us.map_or_else(none, local_time),
            o.age.map_or_else(String::new, age_text),
            o.last_backup.as_ref().map_or_else(none, |s| s.status.to_string().replace('_', " ")),
            o.last_drill.as_ref().map_or_else(none, drill_text),
        ]
    };
    table(head.map(|title| (title, Align::Left)), all.iter().map(row).collect())
}

/// `2026-11-20 22:54:39 completed, 12 files`
fn drill_text(s: &LastSession) -> String {
    let files = s.drill.as_ref().map_or(0, |d| d.files);
    let status = s.status.to_string().replace('_', " ");
    format!("{} {status}, {} files", local_time(s.started_us), grouped(files))
}

/// What went wrong with a run.
fn run_json(of: &RefusedNow) -> Value {
    let r = &of.refusal;
    json!({
        "spec": r.name, "host": r.host, "exit_code": r.code, "reason": r.reason,
        "time": Timestamp::from_microsecond(r.refused_us).ok().map(|t| t.to_string()),
        "age_s": of.age.as_secs(),
    })
}

fn json_of(o: &ObjectStatus) -> Value {
    let time = |us: i64| Timestamp::from_microsecond(us).ok().map(|t| t.to_string());
    let session = |s: &LastSession| {
        json!({
            "session": s.id, "status": s.status.as_str(), "start": time(s.started_us), "drill": s.drill,
        })
    };
    let mut backup = o.last_backup.as_ref().map(session);
    if let Some(backup) = backup.as_mut().and_then(Value::as_object_mut) {
        backup.remove("drill");
    }
    json!({
        "name": o.name, "host": o.host, "health": o.health.name(), "why": o.why,
        "last_complete": o.complete_us.and_then(time), "age_s": o.age.map(|a| a.as_secs()),
        "last_backup": backup, "last_drill": o.last_drill.as_ref().map(session),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_address::HostName;

    fn object(name: &str, health: Health, age: u64) -> ObjectStatus {
        ObjectStatus {
            name: name.to_owned(),
            host: HostName::recorded("ann"),
            health,
            why: if health == Health::Good { Vec::new() } else { vec!["it is old".to_owned()] },
            complete_us: Some(1_700_000_000_000_000),
            age: Some(Duration::from_secs(age)),
            last_backup: None,
            last_drill: None,
        }
    }

    #[test]
    fn the_first_line_is_a_plugins() {
        let all = [object("a|b", Health::Critical, 100), object("it's", Health::Good, 7)];
        assert_eq!(
            first_line(&all, &[], &[], (&[], &[], &[]), Some(Health::Critical)),
            "CAPSTAN CRITICAL - 1 critical, 1 ok: a/b: it is old"
        );
        let both = [object("a", Health::Warning, 1), object("b", Health::Critical, 1)];
        assert_eq!(
            first_line(&both, &[], &[], (&[], &[], &[]), Some(Health::Critical)),
            "CAPSTAN CRITICAL - 1 critical, 1 warning: b: it is old; a (warning): it is old"
        );
        assert_eq!(
            first_line(&all[1..], &[], &[], (&[], &[], &[]), Some(Health::Good)),
            "CAPSTAN OK - 1 ok"
        );
        assert!(first_line(&[], &[], &[], (&[], &[], &[]), None).starts_with("CAPSTAN UNKNOWN"));
        let data = performance_data(&all, Duration::from_secs(60));
        assert_eq!(data, " | 'a_b age'=100s;;60 'it_s age'=7s;;60");
    }
}
