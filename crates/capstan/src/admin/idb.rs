//! `capstan idb` and `capstan catalog`: the internal database's check, figures, backup and return.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use capstan_cell::Cell;
use capstan_cell::idb_admin::{self, Finding, IdbStats, LoadRequest, Recovered, RecoveryKey};
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::Stop;
use capstan_engine::message::path_text;
use serde::Serialize;
use serde_json::json;
use zeroize::Zeroizing;

use crate::args::{CatalogCommand, Global, IdbCommand, LoadArgs, RecoverArgs, RecoveryKeyArgs};
use crate::exit::{COMPLETED, FAILED, Failure};
use crate::look::export;
use crate::output::progress::Console;
use crate::output::{JsonList, Output, ask_secret};
use crate::process::environment::{self, ENV_IDB_RECOVERY};
use crate::process::home;
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::fields;

/// Completed, with something to see to.
const WITH_ERRORS: u8 = 3;
/// The longest sheet that is read, in bytes.
const SHEET_MAX: u64 = 64 << 10;

/// Runs `idb`.
pub fn run(global: &Global, command: &IdbCommand) -> Result<u8, Failure> {
    match command {
        IdbCommand::Check { json } => check(global, *json),
        IdbCommand::Stats { json } => stats(global, *json),
        IdbCommand::RecoveryKey(args) => recovery_key(global, args),
        IdbCommand::Move { json } => move_tables(global, *json),
        IdbCommand::Recover(args) => recover(global, args),
    }
}

/// Runs `catalog`.
pub fn catalog(global: &Global, command: &CatalogCommand) -> Result<u8, Failure> {
    match command {
        CatalogCommand::Load(args) => load(global, args),
        CatalogCommand::Export(args) => export::run(global, args),
    }
}

fn check(global: &Global, as_json: bool) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let mut out = Output::new();
    let mut list = JsonList::new("findings");
    let mut count: u64 = 0;
    let mut failure = None;
    let mut each = |f: Finding| {
        count += 1;
        let said = match as_json {
            true => list
                .row(&mut out, &json!({"what": f.what, "problem": f.problem, "advice": f.advice})),
            false => out.text(&format!(
                "{}: {}; {}\n",
                path_text(f.what.as_bytes()),
                f.problem,
                f.advice
            )),
        };
        failure = failure.take().or(said.err());
    };
    let segments = cell.idb_check(&Stop::default(), &mut each);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut more = serde_json::Map::new();
    let segments = match segments {
        Ok(segments) => segments,
        Err(e) if as_json => {
            let failure = Failure::from(e).named(cell.devices().queue());
            failure.put(&mut more);
            list.end(&mut out, &more)?;
            out.finish()?;
            return Err(failure.in_json());
        }
        Err(e) => return Err(e.into()),
    };
    if as_json {
        more.insert("segments_checked".to_owned(), segments.into());
        list.end(&mut out, &more)?;
    } else {
        let text = match count {
            0 => format!("{} segments checked: all agrees\n", grouped(segments)),
            n => format!("{} segments checked: {} findings\n", grouped(segments), grouped(n)),
        };
        out.text(&text)?;
    }
    out.finish()?;
    Ok(if count == 0 { COMPLETED } else { WITH_ERRORS })
}

fn stats(global: &Global, as_json: bool) -> Result<u8, Failure> {
    let stats = home::open(global)?.idb_stats()?;
    let mut out = Output::new();
    if as_json {
        let rows: serde_json::Map<_, _> =
            stats.rows.iter().map(|(name, n)| (name.replace(' ', "_"), (*n).into())).collect();
        out.json(&json!({
            "rows": rows,
            "database": stats.place,
            "tables_bytes": stats.sizes.tables,
            "catalogs": stats.sizes.catalogs,
            "catalogs_bytes": stats.sizes.catalog_bytes,
            "media_bytes": stats.media_bytes,
            "recovery_key": stats.backup.has_recovery_key,
            "last_backup": stats.backup.last,
        }))?;
    } else {
        out.text(&stats_page(&stats))?;
    }
    out.finish().map(|()| COMPLETED)
}

fn stats_page(stats: &IdbStats) -> String {
    let mut lines: Vec<(String, String)> =
        stats.rows.iter().map(|(name, n)| (capital(name), grouped(*n))).collect();
    lines.push((
        "Tables".to_owned(),
        format!("{} in {}", bytes_text(stats.sizes.tables), stats.place),
    ));
    let catalogs = format!(
        "{} in {} files",
        bytes_text(stats.sizes.catalog_bytes),
        grouped(stats.sizes.catalogs)
    );
    lines.push(("Catalogs".to_owned(), catalogs));
    lines.push(("On media".to_owned(), bytes_text(stats.media_bytes)));
    let backup = match (&stats.backup.last, stats.backup.has_recovery_key) {
        (Some(last), _) => format!("last {last}"),
        (None, true) => "with the next session".to_owned(),
        (None, false) => "none: `capstan idb recovery-key` makes the key for it".to_owned(),
    };
    lines.push(("Own backup".to_owned(), backup));
    let lines: Vec<_> = lines.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    fields(&lines)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A recovery sheet as JSON. The code is borrowed, so that no copy of it is left behind.
#[derive(Serialize)]
struct Sheet<'a> {
    name: &'a str,
    cell: String,
    key: &'a str,
    code: &'a str,
}

fn recovery_key(global: &Global, args: &RecoveryKeyArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let host = capstan_cell::system_host().to_string();
    let name = args.name.clone().unwrap_or(host);
    cell.make_recovery_key(args.replace, |key| print_recovery_key(&cell, key, &name, args.json))?;
    Ok(COMPLETED)
}

/// Prints the sheet of a recovery key, or the same as JSON.
fn print_recovery_key(
    cell: &Cell,
    key: &RecoveryKey,
    name: &str,
    as_json: bool,
) -> Result<(), Failure> {
    if as_json {
        let sheet =
            Sheet { name, cell: cell.id().to_string(), key: &key.id, code: key.code.as_str() };
        let mut text = Zeroizing::new(Vec::with_capacity(4096 + name.len()));
        let failed = |why: String| Failure::of(FAILED, why, None);
        serde_json::to_writer(&mut *text, &sheet).map_err(|e| failed(e.to_string()))?;
        text.push(b'\n');
        let mut out = Output::new();
        out.text(std::str::from_utf8(&text).map_err(|e| failed(e.to_string()))?)?;
        return out.finish();
    }
    // Ample, so that writing leaves no copies of the code behind.
    let mut sheet = Zeroizing::new(String::with_capacity(4096 + name.len()));
    let _ = write!(
        sheet,
        "CAPSTAN DATABASE RECOVERY SHEET\n===============================\n\n\
         Database of: {}\nCell:        {}\nPrinted:     {}\nOpens key:   {}\n\n\
         Who has this sheet and a medium can read which machines, objects and media there are. Backups that\n\
         are encrypted stay so: they need what opens the key ring. Keep it locked away, not with the media.\n\n\
         Recovery code:\n\n",
        path_text(name.as_bytes()),
        cell.id(),
        jiff::Zoned::now().strftime("%Y-%m-%d"),
        key.id
    );
    for line in key.code.lines() {
        let _ = writeln!(sheet, "    {line}");
    }
    sheet.push_str(
        "\nTyping it: capitals or not, with or without spaces, dashes and line numbers. Each line has a\n\
         checksum: a mistake is told by line.\n\nAfter the loss of the machine:\n\n\
         \x20   1. Install capstan, and mount the medium that was written last.\n\
         \x20   2. capstan idb recover /where/it/is (or scsi:/dev/sgN, a tape drive or library)\n",
    );
    let mut out = Output::new();
    out.text(&sheet)?;
    out.finish()
}

fn move_tables(global: &Global, as_json: bool) -> Result<u8, Failure> {
    let moved = idb_admin::move_database(&home::home(global)?)?;
    let mut out = Output::new();
    if as_json {
        out.json(&json!({"database": moved.place, "rows": moved.rows, "left": moved.left}))?;
    } else {
        out.text(&format!(
            "{} rows are in {}; the file {} is not used any more\n",
            grouped(moved.rows),
            moved.place,
            moved.left.display()
        ))?;
    }
    out.finish().map(|()| COMPLETED)
}

fn recover(global: &Global, args: &RecoverArgs) -> Result<u8, Failure> {
    let home = home::home_to_recover(global)?;
    let console = Console::new(global)?;
    let recovery = match code(args.code_file.as_deref())? {
        Some(code) => Secrets::none().with_recovery_code(&code),
        None => Secrets::none().with_prompt(Box::new(ask_secret)),
    };
    // Somebody may have to put in tapes.
    crate::process::operator::set(None, global)?;
    // Names are opened by what is given; nobody is asked once more.
    let secrets = Secrets::from_variables(&environment::variable)?;
    let done = idb_admin::recover(
        home::agents(global.devices.clone())?,
        &home,
        &args.device,
        &recovery,
        secrets,
        &console,
        &Stop::default(),
    );
    console.finish();
    let done = done.map_err(|e| match e {
        capstan_cell::CellError::NoKey(_) => Failure::bad_input(
            "the backup of the database has to be opened, and no recovery code is given",
            "set CAPSTAN_IDB_RECOVERY or give --code-file",
        ),
        other => other.into(),
    })?;
    let mut out = Output::new();
    if args.json {
        out.json(&json!({
            "cell": done.cell,
            "created": rfc3339(done.created_us),
            "from": done.from,
            "newer_unread": done.newer.iter().map(|of| json!({
                "at": of.at, "created": of.created_us.and_then(rfc3339), "why": of.why,
            })).collect::<Vec<_>>(),
            "media": done.media.iter().map(|m| json!({
                "label": m.label, "device": m.device, "lacking": m.lacking, "files": m.files,
            })).collect::<Vec<_>>(),
            "not_looked_at": done.unread,
            "notes": done.notes,
        }))?;
    } else {
        out.text(&recovered_page(&done))?;
    }
    out.finish()?;
    let is_lacking = done.media.iter().any(|m| m.lacking.is_some());
    let may_lack = !done.unread.is_empty() || !done.newer.is_empty();
    Ok(if is_lacking || may_lack { WITH_ERRORS } else { COMPLETED })
}

fn rfc3339(us: i64) -> Option<String> {
    jiff::Timestamp::from_microsecond(us).ok().map(|time| time.to_string())
}

fn recovered_page(done: &Recovered) -> String {
    let mut text = format!(
        "the internal database of cell {} is back, as of {} ({})\n",
        done.cell,
        local_time(done.created_us),
        done.from
    );
    for of in &done.newer {
        let time = of.created_us.map(|us| format!(" of {}", local_time(us))).unwrap_or_default();
        let at = path_text(of.at.as_bytes());
        let _ =
            writeln!(text, "warning: a newer backup{time}, {at}, could not be read: {}", of.why);
    }
    if !done.newer.is_empty() {
        let _ = writeln!(
            text,
            "warning: of what was done after {} only what lies on media is there. Pools, labels, protection, keys and reports of that time \
             are missing, and media that were first written then are not known: `capstan import MEDIUM` makes each known. If another medium \
             has the newer backup, recover that one into an empty home",
            local_time(done.created_us)
        );
    }
    for m in &done.media {
        let label = path_text(m.label.as_bytes());
        let _ = match &m.lacking {
            None => writeln!(text, "medium '{label}': {} files", grouped(m.files)),
            Some(why) => writeln!(text, "medium '{label}' ({}) is lacking: {why}", m.device),
        };
    }
    for tape in &done.unread {
        let _ = writeln!(
            text,
            "{} could not be looked at: the newest database may be on it; if so, recover it anew into an empty home when the tape can be read",
            path_text(tape.as_bytes())
        );
    }
    for note in &done.notes {
        let _ = writeln!(text, "{}", path_text(note.as_bytes()));
    }
    text
}

/// The recovery code that is given: the environment's, or a file's.
fn code(file: Option<&Path>) -> Result<Option<Zeroizing<String>>, Failure> {
    if let Some(path) = file {
        let mut text = Zeroizing::new(String::with_capacity(SHEET_MAX as usize));
        let read = File::open(path).and_then(|f| f.take(SHEET_MAX).read_to_string(&mut text));
        read.map_err(|e| {
            Failure::bad_input(
                format!("cannot read the recovery code in {}: {e}", path.display()),
                "name a file with the code, or the sheet as it was printed",
            )
        })?;
        return Ok(Some(code_lines(&text)));
    }
    Ok(environment::secret_text(ENV_IDB_RECOVERY)?.map(|text| code_lines(&text)))
}

/// The lines of a code in a sheet: those that begin with a number and a colon. A text without such is a code as a whole.
fn code_lines(text: &Zeroizing<String>) -> Zeroizing<String> {
    let is_line = |line: &&str| {
        let line = line.trim();
        ["1:", "2:", "3:", "4:"].iter().any(|number| line.starts_with(number))
    };
    let mut code = Zeroizing::new(String::with_capacity(text.len() + 8));
    for line in text.lines().filter(is_line) {
        code.push_str(line.trim());
        code.push('\n');
    }
    if code.is_empty() { text.clone() } else { code }
}

fn load(global: &Global, args: &LoadArgs) -> Result<u8, Failure> {
    let request = match (&args.version, &args.medium) {
        (Some(version), _) => LoadRequest::Version(version.clone()),
        // One of the two is required.
        (None, medium) => LoadRequest::Medium(medium.clone().unwrap_or_default()),
    };
    let console = Console::new(global)?;
    let cell = home::open(global)?;
    let done = cell.load_catalogs(&request, &console, &Stop::default());
    console.finish();
    let done = done?;
    let mut out = Output::new();
    if args.json {
        out.json(&json!({"catalogs": done.catalogs, "bytes": done.bytes, "failed": done.failed}))?;
    } else {
        let failed = match done.failed {
            0 => String::new(),
            n => format!(", {} could not be had", grouped(n)),
        };
        out.text(&format!(
            "{} catalogs are loaded, {}{failed}\n",
            grouped(done.catalogs),
            bytes_text(done.bytes)
        ))?;
    }
    out.finish()?;
    Ok(if done.failed == 0 { COMPLETED } else { WITH_ERRORS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_in_its_sheet() {
        let find = |text: &str| code_lines(&Zeroizing::new(text.to_owned())).to_string();
        assert_eq!(find("Title\n\n    1: AB\n  2: CD\nnote 3: no\n"), "1: AB\n2: CD\n");
        assert_eq!(find("ab cd\nef"), "ab cd\nef");
        assert_eq!(capital("places of segments"), "Places of segments");
    }
}
