//! `capstan protect` and `lock`, and how every list shows until when a version is kept.

use capstan_cell::VersionRef;
use capstan_engine::clock::now_us;
use capstan_engine::message::path_text;
use capstan_idb::{Keeping, Protection};
use serde_json::{Map, Value, json};

use crate::args::{Global, LockVersionArgs, ProtectArgs, ProtectMediumArgs};
use crate::exit::{COMPLETED, Failure};
use crate::output::{JsonList, Output};
use crate::process::home;
use crate::text::count;
use crate::text::kept::{minute, protection_text, put_kept, rfc3339};

/// Runs `protect`.
pub fn protect(global: &Global, args: &ProtectArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let (protection, catalog) = (args.kept.protection(), args.kept.catalog_until);
    if args.not_whole {
        let name = match args.which.version() {
            VersionRef::Name(of) if of.session.is_none() => of.name,
            _ => {
                return Err(Failure::bad_input(
                    "--not-whole means all versions of a name that are not whole",
                    "leave the session out",
                ));
            }
        };
        let kept = cell.protect_not_whole(&name, protection, catalog)?;
        return put_all_kept(&kept, args.json, "all its versions are whole, as far as is known\n");
    }
    let (name, kept) = cell.protect(&args.which.version(), protection, catalog)?;
    let mut out = Output::new();
    print_kept(&mut out, &name, &kept, args.json)?;
    out.finish().map(|()| COMPLETED)
}

/// Runs `media protect`.
pub fn protect_medium(global: &Global, args: &ProtectMediumArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let (protection, catalog) = (args.kept.protection(), args.kept.catalog_until);
    let kept = cell.protect_medium(&args.medium, protection, catalog)?;
    put_all_kept(&kept, args.json, "nothing that is kept lies on it\n")
}

/// The versions that were changed; if there are none, what that means.
fn put_all_kept(kept: &[(String, Keeping)], as_json: bool, none: &str) -> Result<u8, Failure> {
    let mut out = Output::new();
    if as_json {
        JsonList::all(&mut out, "versions", kept, |(name, kept)| kept_json(name, kept))?;
        return out.finish().map(|()| COMPLETED);
    }
    if kept.is_empty() {
        out.text(none)?;
    }
    kept.iter().try_for_each(|(name, kept)| print_kept(&mut out, name, kept, false))?;
    out.finish().map(|()| COMPLETED)
}

fn kept_json(name: &str, kept: &Keeping) -> Value {
    let mut object = Map::new();
    object.insert("name".to_owned(), name.into());
    put_kept(&mut object, kept);
    object.into()
}

fn print_kept(out: &mut Output, name: &str, kept: &Keeping, as_json: bool) -> Result<(), Failure> {
    if as_json {
        out.json(&kept_json(name, kept))
    } else {
        let lock = kept.lock_at(now_us()).map(|until| format!(", locked until {}", minute(until)));
        out.text(&format!(
            "{}: {}{}; catalog {}\n",
            path_text(name.as_bytes()),
            protection_text(kept.protection),
            lock.unwrap_or_default(),
            match kept.catalog {
                Protection::Rules => "as long as the version".to_owned(),
                other => protection_text(other),
            }
        ))
    }
}

/// Runs `lock`.
pub fn lock(global: &Global, args: &LockVersionArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let locked = cell.lock(&args.which.version(), args.until)?;
    let mut out = Output::new();
    if args.json {
        out.json(&json!({
            "name": locked.name, "locked_until": rfc3339(locked.until_us), "versions": locked.versions,
            "segments": locked.segments, "media": locked.media, "not_recorded_on": locked.elsewhere,
        }))?;
    } else {
        out.text(&format!(
            "{}: locked until {}, with {} and {} on {}\n",
            path_text(locked.name.as_bytes()),
            minute(locked.until_us),
            count(locked.versions, "version"),
            count(locked.segments, "segment"),
            path_text(locked.media.join(", ").as_bytes()),
        ))?;
        if !locked.elsewhere.is_empty() {
            let media = path_text(locked.elsewhere.join(", ").as_bytes());
            out.text(&format!("not recorded on {media}: not at hand; lock again when it is\n"))?;
        }
    }
    out.finish().map(|()| COMPLETED)
}
