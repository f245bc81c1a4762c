//! `capstan versions`: the versions of an object that can be restored, or those that have a path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use capstan_cell::{Cell, VersionInfo};
use capstan_engine::message::path_text;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::args::{Global, VersionsArgs};
use crate::exit::Failure;
use crate::look::ls::{self, Lines};
use crate::output::{JsonList, Output};
use crate::paths;
use crate::process::home;
use crate::text::kept::{kept_text, put_kept};
use crate::text::local_time;
use crate::text::sizes::{bytes_text, grouped};
use crate::text::table::Align::{Left, Right};
use crate::text::table::columns;

/// Runs the command.
pub fn run(global: &Global, args: &VersionsArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    if let Some(name) = args.what.to_str()
        && cell.has_object(name)?
    {
        return of_object(global, &cell, name, args.json);
    }
    match name_and_path(&args.what, &|name| cell.has_object(name).map_err(Failure::from))? {
        Some((name, path)) => {
            of_path(global, &cell, Some(name), OsStr::from_bytes(path), args.json)
        }
        None => of_path(global, &cell, None, &args.what, args.json),
    }
}

/// What is `NAME:PATH`, where that is the name of an object: the longest one that is.
fn name_and_path<'a>(
    what: &'a OsStr,
    is_object: &dyn Fn(&str) -> Result<bool, Failure>,
) -> Result<Option<(&'a str, &'a [u8])>, Failure> {
    let bytes = what.as_bytes();
    for at in (0..bytes.len()).rev().filter(|at| bytes[*at] == b':') {
        let (Ok(name), path) = (std::str::from_utf8(&bytes[..at]), &bytes[at + 1..]) else {
            continue;
        };
        if !name.is_empty() && !path.is_empty() && is_object(name)? {
            return Ok(Some((name, path)));
        }
    }
    Ok(None)
}

fn of_object(global: &Global, cell: &Cell, name: &str, as_json: bool) -> Result<u8, Failure> {
    let versions = cell.versions_of_object(name)?;
    let mut out = Output::new();
    if as_json {
        JsonList::all(&mut out, "versions", &versions, |v| json_of(v).into())?;
    } else if !versions.is_empty() {
        out.text(&list(&versions))?;
    }
    if versions.is_empty() {
        let name = path_text(name.as_bytes());
        ls::nothing_found(global, &format!("'{name}' has no version that can be restored"));
    }
    out.finish().map(|()| crate::exit::COMPLETED)
}

/// A line per version, columns as wide as need be.
fn list(versions: &[VersionInfo]) -> String {
    let head = [
        ("Version", Left),
        ("Host", Left),
        ("Start", Left),
        ("Method", Left),
        ("State", Left),
        ("Files", Right),
        ("Read", Right),
        ("Stored", Right),
        ("Media", Left),
        ("Protection", Left),
        ("Tags", Left),
    ];
    // Where all are of one host, which that is goes without saying.
    let several_hosts = versions.iter().any(|v| v.host != versions[0].host);
    let row = |v: &VersionInfo| {
        [
            format!("{}@{}", v.name, v.session.get(..8).unwrap_or_default()),
            if several_hosts { v.host.to_string() } else { String::new() },
            local_time(v.started_us),
            v.method.clone(),
            v.state.as_str().to_owned(),
            v.files.map_or("-".to_owned(), grouped),
            v.bytes_read.map_or("-".to_owned(), bytes_text),
            bytes_text(v.bytes_stored),
            v.media.join(","),
            kept_text(&v.kept),
            v.tags.join(","),
        ]
    };
    columns(head, versions.iter().map(row).collect())
}

fn json_of(v: &VersionInfo) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    let started = Timestamp::from_microsecond(v.started_us).map(|t| t.to_string());
    put("name", v.name.clone().into());
    put("host", v.host.to_string().into());
    put("session", v.session.clone().into());
    put("started", started.ok().into());
    put("method", v.method.clone().into());
    put("state", v.state.as_str().replace(' ', "_").into());
    put("files", v.files.into());
    put("bytes_read", v.bytes_read.into());
    put("bytes_stored", v.bytes_stored.into());
    put("media", v.media.clone().into());
    put("tags", v.tags.clone().into());
    put_kept(&mut object, &v.kept);
    object
}

fn of_path(
    global: &Global,
    cell: &Cell,
    name: Option<&str>,
    typed: &OsStr,
    as_json: bool,
) -> Result<u8, Failure> {
    let path = &paths::absolute(typed)?;
    let mut lines = Lines::of_names(cell, as_json, "versions");
    let found = cell.versions_of_path(name, path, &mut |found| {
        if as_json {
            return lines.row(&ls::json_of_found(found));
        }
        lines.put(|out, _| {
            let entry = &found.listed.entry;
            let state = ls::suffix(&found.listed, true);
            let not_whole = ls::not_whole(found.state);
            let kept = match kept_text(&found.kept) {
                kept if kept.is_empty() => kept,
                kept => format!("  ({kept})"),
            };
            out.text(&format!(
                "{}@{}  backed up {}  changed {}  {:>12}{state}{not_whole}{kept}\n",
                path_text(found.name.as_bytes()),
                found.session.get(..8).unwrap_or_default(),
                local_time(found.started_us),
                ls::time(entry.mtime),
                entry.size,
            ))
        });
    });
    let passed = match found {
        Ok(passed) => passed,
        Err(e) => return lines.end(Map::new(), Some(e.into())),
    };
    ls::warn(global, &passed);
    if lines.empty {
        let (what, path) = (name.map(|n| path_text(n.as_bytes())), path_text(path));
        let why = match what {
            Some(name) => format!("no version of '{name}' has {path}"),
            None => format!("no version has {path}, and no object is called so"),
        };
        let why = match paths::from_root(typed) {
            Some(root) if is_in_any(cell, name, &root) => {
                format!("{why}; {} is there: write that", path_text(&root))
            }
            _ => why,
        };
        ls::nothing_found(global, &why);
    }
    lines.end(ls::passed_over(&passed), None)
}

/// Whether any version has a path.
fn is_in_any(cell: &Cell, name: Option<&str>, path: &[u8]) -> bool {
    let mut is_there = false;
    // It is asked for a hint alone.
    let _ = cell.versions_of_path(name, path, &mut |_| is_there = true);
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_of_an_object_stands_before_the_path() {
        let known = ["a", "a:b", "/etc"];
        let split = |what: &str| {
            let what = OsStr::new(what).to_owned();
            let found = name_and_path(&what, &|name| Ok(known.contains(&name))).unwrap();
            found.map(|(name, path)| (name.to_owned(), String::from_utf8_lossy(path).into_owned()))
        };
        let pair = |name: &str, path: &str| Some((name.to_owned(), path.to_owned()));
        assert_eq!(split("a:/f"), pair("a", "/f"));
        assert_eq!(split("a:b:/f:g"), pair("a:b", "/f:g"));
        assert_eq!(split("/etc:/etc/hosts"), pair("/etc", "/etc/hosts"));
        for path in ["c:/f", "/srv/a:b", ":/f", "a:", "a"] {
            assert_eq!(split(path), None, "{path}");
        }
    }
}
