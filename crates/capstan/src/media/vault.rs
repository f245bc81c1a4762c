//! `capstan media vault`: what is carried to the vault and fetched from there, as lines, as JSON.

use capstan_address::LibraryName;
use capstan_cell::{Carried, Fetch, ToFetch, ToVault, VaultReport, Vaulting};
use capstan_engine::message::path_text;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::args::Global;
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, Failure};
use crate::look::status::tapes;
use crate::media::kept_until;
use crate::output::{JsonList, Output};
use crate::process::home;
use crate::text::table::{Align::Left, columns};

/// Runs it.
pub fn run(global: &Global, library: Option<&LibraryName>, as_json: bool) -> Result<u8, Failure> {
    let report = home::open(global)?.vault_report(library)?;
    let mut out = Output::new();
    if as_json {
        print_json(&mut out, &report)?;
    } else {
        out.text(&page(&report))?;
    }
    out.finish()?;
    Ok(if report.unasked.is_empty() { COMPLETED } else { COMPLETED_WITH_ERRORS })
}

fn page(report: &VaultReport) -> String {
    let mut parts: Vec<String> = Vec::new();
    match (&report.to_vault[..], &report.to_fetch[..]) {
        ([], []) => parts.push("nothing to vault, nothing to fetch\n".to_owned()),
        (to_vault, to_fetch) => {
            parts.push(match to_vault {
                [] => "nothing to vault\n".to_owned(),
                list => format!("To vault:\n{}", vault_lines(list)),
            });
            parts.push(match to_fetch {
                [] => "nothing to fetch\n".to_owned(),
                list => format!("To fetch:\n{}", fetch_lines(list)),
            });
        }
    }
    let unasked = report.unasked.iter().map(|(library, why)| {
        let (library, why) = (path_text(library.as_bytes()), path_text(why.as_bytes()));
        format!("{library} cannot be asked, so its tapes are not in the list: {why}\n")
    });
    parts.extend(Some(unasked.collect::<String>()).filter(|text| !text.is_empty()));
    parts.join("\n")
}

fn vault_lines(list: &[ToVault]) -> String {
    let head = [
        ("Barcode", Left),
        ("Label", Left),
        ("Place", Left),
        ("Library", Left),
        ("Pool", Left),
        ("To", Left),
        ("Kept until", Left),
        ("Why", Left),
    ];
    let row = |of: &ToVault| {
        let why = match (of.why, place(&of.what)) {
            (Vaulting::Exported, place) if place.starts_with("mail:") => {
                "exported, to be taken out"
            }
            (Vaulting::Exported, _) => "exported, and still here",
            (Vaulting::Asked, _) => "to leave by --eject-to, and still here",
            (Vaulting::Full, _) => "full",
            (Vaulting::Closed, _) => "its pool appends nothing",
            (Vaulting::Rotated, _) => "its day is over",
            (Vaulting::InMail, _) => "put into a mail slot",
        };
        [
            barcode(&of.what),
            label(&of.what),
            place(&of.what),
            library(&of.what),
            pool(&of.what),
            outside(&of.to),
            kept_until(&of.what.info),
            why.to_owned(),
        ]
    };
    columns(head, list.iter().map(row).collect())
}

fn fetch_lines(list: &[ToFetch]) -> String {
    let head = [("Barcode", Left), ("Label", Left), ("From", Left), ("Pool", Left), ("Why", Left)];
    let row = |of: &ToFetch| {
        let what = of.what.as_ref();
        let text = |part: fn(&Carried) -> String| what.map(part).unwrap_or_default();
        let is_out = what.is_some_and(Carried::is_out);
        let from = match (is_out, text(place).as_str()) {
            (false, _) => String::new(),
            (true, "") => outside(&of.location),
            (true, place) => format!("{} (already in {place})", outside(&of.location)),
        };
        let why = match &of.why {
            Fetch::Expired => "nothing on it must stay".to_owned(),
            Fetch::Free => "it holds nothing".to_owned(),
            Fetch::Next => "it is one of those that the next night of its set takes".to_owned(),
            Fetch::Unseen => {
                "its turn has come by record; it was not seen since the database was recovered, so import it first".to_owned()
            }
            Fetch::Wanted(sessions) => {
                let who: Vec<_> = sessions.iter().map(tapes::who).collect();
                let wanted = match (what, &sessions[..]) {
                    // No certain tape: what is asked for says which ones will do.
                    (None, [of, ..]) => format!("{} in {}: ", of.request.wanted, of.request.drive),
                    _ => String::new(),
                };
                format!("{wanted}wanted by {}", who.join("; "))
            }
        };
        [text(barcode), text(label), from, text(pool), path_text(why.as_bytes())]
    };
    columns(head, list.iter().map(row).collect())
}

fn barcode(what: &Carried) -> String {
    what.tape.as_ref().map(|tape| tape.barcode.clone()).unwrap_or_default()
}

fn label(what: &Carried) -> String {
    path_text(what.info.medium.label.as_bytes())
}

/// Its place in the library; nothing where it is not in there.
fn place(what: &Carried) -> String {
    what.tape.as_ref().and_then(|tape| tape.place).map(|place| place.short()).unwrap_or_default()
}

/// The library; of another medium its device.
fn library(what: &Carried) -> String {
    let device = || what.info.medium.device.to_string();
    let of = what.tape.as_ref().map_or_else(device, |tape| tape.library.clone());
    path_text(of.as_bytes())
}

fn pool(what: &Carried) -> String {
    what.info.management.pool.clone().unwrap_or_default()
}

fn outside(location: &str) -> String {
    match location {
        "" => "out of the house".to_owned(),
        location => path_text(location.as_bytes()),
    }
}

fn print_json(out: &mut Output, report: &VaultReport) -> Result<(), Failure> {
    let vault = |of: &ToVault| {
        let mut row = json_of(Some(&of.what));
        row.insert("to".to_owned(), of.to.clone().into());
        row.insert("why".to_owned(), of.why.as_str().into());
        Value::from(row)
    };
    let fetch = |of: &ToFetch| {
        let mut row = json_of(of.what.as_ref());
        row.insert("location".to_owned(), of.location.clone().into());
        row.insert("why".to_owned(), of.why.as_str().into());
        let sessions: &[_] = if let Fetch::Wanted(sessions) = &of.why { sessions } else { &[] };
        let sessions = sessions.iter().map(tapes::wanted_json);
        row.insert("wanted_by".to_owned(), sessions.collect::<Vec<_>>().into());
        Value::from(row)
    };
    let mut more = Map::new();
    more.insert("to_fetch".to_owned(), report.to_fetch.iter().map(fetch).collect());
    let unasked = report.unasked.iter();
    let unasked = unasked.map(|(library, why)| json!({ "library": library, "error": why }));
    more.insert("unasked".to_owned(), unasked.collect());
    let mut list = JsonList::new("to_vault");
    report.to_vault.iter().try_for_each(|of| list.row(out, &vault(of)))?;
    list.end(out, &more)
}

/// What is known of it, as far as it is known what it is.
fn json_of(what: Option<&Carried>) -> Map<String, Value> {
    let info = what.map(|what| &what.info);
    let tape = what.and_then(|what| what.tape.as_ref());
    let time = |us: Option<i64>| {
        us.and_then(|us| Timestamp::from_microsecond(us).ok()).map(|t| t.to_string())
    };
    let is_for_ever = info.is_some_and(|m| m.kept_for_ever);
    let fields: [(&str, Value); 12] = [
        ("id", info.map(|m| m.medium.id.to_string()).into()),
        ("label", info.map(|m| m.medium.label.clone()).into()),
        ("barcode", tape.map(|tape| tape.barcode.clone()).into()),
        ("library", tape.map(|tape| tape.library.clone()).into()),
        ("place", tape.and_then(|tape| tape.place).map(|place| place.short()).into()),
        ("device", info.map(|m| m.medium.device.to_string()).into()),
        ("pool", info.and_then(|m| m.management.pool.clone()).into()),
        ("state", info.map(|m| m.state.as_str()).into()),
        ("exported", time(what.and_then(Carried::exported_us)).into()),
        ("kept_until", time(info.filter(|_| !is_for_ever).and_then(|m| m.kept_until_us)).into()),
        ("kept_for_ever", is_for_ever.into()),
        ("kept_by_set", info.is_some_and(|m| m.kept_by_set).into()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
