//! `capstan protect` and `lock`, and how every list shows until when a version is kept.

use capstan_cell::VersionRef;
use capstan_engine::clock::now_us;
use capstan_engine::message::path_text;
use capstan_idb::{Keeping, Protection};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::args::{Global, LockVersionArgs, ProtectArgs, ProtectMediumArgs};
use crate::exit::{COMPLETED, Failure};
use crate::home;
use crate::output::{JsonList, Output, local_time};
use crate::sizes::grouped;

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
    put_kept(&mut out, &name, &kept, args.json)?;
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
    kept.iter().try_for_each(|(name, kept)| put_kept(&mut out, name, kept, false))?;
    out.finish().map(|()| COMPLETED)
}

fn kept_json(name: &str, kept: &Keeping) -> Value {
    let mut object = Map::new();
    object.insert("name".to_owned(), name.into());
    put(&mut object, kept);
    object.into()
}

fn put_kept(out: &mut Output, name: &str, kept: &Keeping, as_json: bool) -> Result<(), Failure> {
    if as_json {
        out.json(&kept_json(name, kept))
    } else {
        let lock = kept.lock_at(now_us()).map(|until| format!(", locked until {}", time(until)));
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
            time(locked.until_us),
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

/// `3 segments`.
pub fn count(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// How a version is kept, in a few words, for lists; nothing where keep rules decide.
pub fn kept_text(kept: &Keeping) -> String {
    match kept.lock_at(now_us()) {
        Some(until) => format!("locked until {}", time(until)),
        None if kept.expired_us.is_some() => "expired".to_owned(),
        None if kept.protection == Protection::Rules => String::new(),
        None => protection_text(kept.protection),
    }
}

/// Puts into a JSON object how a version is kept.
pub fn put(object: &mut Map<String, Value>, kept: &Keeping) {
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    put("protection", protection_json(kept.protection));
    put("catalog_protection", protection_json(kept.catalog));
    put("locked_until", kept.locked_until_us.map(rfc3339).into());
    put("expired", kept.expired_us.map(rfc3339).into());
}

/// `none`, `rules`, `permanent`, or until when.
fn protection_json(protection: Protection) -> Value {
    match protection {
        Protection::Rules => "rules".into(),
        Protection::None => "none".into(),
        Protection::Permanent => "permanent".into(),
        Protection::UntilUs(until) => rfc3339(until).into(),
    }
}

fn protection_text(protection: Protection) -> String {
    match protection {
        Protection::Rules => "kept as keep rules say".to_owned(),
        Protection::None => "not protected".to_owned(),
        Protection::Permanent => "protected for ever".to_owned(),
        Protection::UntilUs(until) if until <= now_us() => {
            format!("protection ended {}", time(until))
        }
        Protection::UntilUs(until) => format!("protected until {}", time(until)),
    }
}

fn rfc3339(us: i64) -> String {
    Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |t| t.to_string())
}

/// By the minute.
fn time(us: i64) -> String {
    let text = local_time(us);
    text.get(..16).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_say_the_strongest() {
        let later = now_us() + 1_000_000_000;
        let kept = Keeping { protection: Protection::Permanent, ..Keeping::default() };
        assert_eq!(kept_text(&Keeping::default()), "");
        assert_eq!(kept_text(&kept), "protected for ever");
        let locked = Keeping { locked_until_us: Some(later), ..kept };
        assert!(kept_text(&locked).starts_with("locked until 2"));
        assert_eq!(kept_text(&Keeping { locked_until_us: Some(5), ..kept }), "protected for ever");
        let ended = Keeping { protection: Protection::UntilUs(5), ..kept };
        assert!(kept_text(&ended).starts_with("protection ended 19"));
        let mut object = Map::new();
        put(&mut object, &ended);
        assert_eq!(object["protection"], "1970-01-01T00:00:00.000005Z");
        assert_eq!(object["locked_until"], Value::Null);
    }
}
