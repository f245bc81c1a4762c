//! Objects of a specification: their keys are options of `capstan backup`, read by its parser.

use std::path::{Path, PathBuf};

use capstan_address::{Address, LibraryName};
use capstan_cell::check_names;
use capstan_select::{Pattern, Patterns};
use clap::{Arg, CommandFactory, Parser};
use toml::de::DeValue;

use super::table::{Mistakes, Table, kind, scalar_text};
use crate::args::BackupArgs;
use crate::exit::Failure;
use crate::work::backup;

/// Options that have no place in a specification: what is read comes from files and commands, and the report goes elsewhere.
const NOT_HERE: [&str; 4] = ["json", "stdin", "dry-run", "list"];
/// Of these, an object's own replaces that of all.
const LEVELS: [&str; 3] = ["full", "incr", "level"];
/// Options that say what is read: with any of them an object needs no paths.
const INPUTS: [&str; 2] = ["files-from", "from-command"];

/// `capstan backup` alone, to give it single options.
#[derive(Debug, Parser)]
#[command(name = "capstan backup", no_binary_name = true)]
struct Line {
    #[command(flatten)]
    backup: BackupArgs,
}

/// An option as it stands in the file.
#[derive(Clone)]
struct Given {
    key: String,
    /// `--key` or `--key=value`, once for each of a list.
    args: Vec<String>,
    /// Whether all that are given count, not only the last.
    list: bool,
}

/// The objects, with the options of all and their own.
pub fn objects(top: &mut Table<'_>, m: &mut Mistakes<'_>) -> Vec<BackupArgs> {
    let known = Line::command();
    let mut common =
        top.table("options", m).map_or_else(Vec::new, |mut t| options(&mut t, &known, m));
    let device = top.has("device") || common.iter().any(|o| o.key == "to");
    if let Some((at, device)) = top.scalar("device", m) {
        common.extend(checked("to", vec![format!("--to={device}")], false, at, m));
    }
    let begin = top.begin;
    let mut objects: Vec<BackupArgs> = Vec::new();
    let tables = top.tables("object", m);
    if tables.is_empty() {
        m.at(begin, "there is nothing to back up; write [[object]] with paths".to_owned());
    }
    for mut table in tables {
        let begin = table.begin;
        let Some(args) = object(&mut table, &common, device, &known, m) else { continue };
        let name = name_of(&args);
        if objects.iter().any(|o| name_of(o) == name) {
            let how = match args.name {
                Some(_) => "give each its own",
                None => "write name = \"…\" to give it its own",
            };
            m.at(begin, format!("'{name}' is the name of an earlier object too; {how}"));
        }
        objects.push(args);
    }
    objects
}

fn object(
    table: &mut Table<'_>,
    common: &[Given],
    device: bool,
    known: &clap::Command,
    m: &mut Mistakes<'_>,
) -> Option<BackupArgs> {
    let begin = table.begin;
    let paths = table.texts("paths", m);
    for path in paths.iter().filter(|p| !Path::new(p.as_str()).is_absolute()) {
        m.at(begin, relative(path));
    }
    let inputs = INPUTS.iter().any(|key| table.has(key));
    let device = device || table.has("to");
    let own = options(table, known, m);
    let has = |keys: &[&str]| own.iter().any(|o| keys.contains(&o.key.as_str()));
    let mut args: Vec<String> = Vec::new();
    for option in common {
        let replaced = own.iter().any(|o| o.key == option.key && !o.list)
            || has(&LEVELS) && LEVELS.contains(&option.key.as_str());
        if !replaced {
            args.extend_from_slice(&option.args);
        }
    }
    if paths.is_empty() && !inputs {
        m.at(
            begin,
            "the object has no paths; write paths = [\"/…\"], files-from or from-command"
                .to_owned(),
        );
        return None;
    }
    if !device {
        m.at(
            begin,
            "the object has no device; write device = \"/…\" at the top, or to = \"/…\" here"
                .to_owned(),
        );
        return None;
    }
    // What of these is there and was refused is a mistake already.
    let refused = paths.is_empty() && !has(&INPUTS);
    if refused || !common.iter().chain(&own).any(|o| o.key == "to") {
        return None;
    }
    args.extend(own.into_iter().flat_map(|o| o.args));
    args.push("--".to_owned());
    args.extend(paths);
    match Line::try_parse_from(args) {
        Ok(line) if line.backup.input.files_from.is_some() && line.backup.name.is_none() => {
            m.at(
                begin,
                "the object has no name, and would be called by what files-from lists: where that cannot be read, nobody would \
                 know which object was not backed up; write name = \"…\""
                    .to_owned(),
            );
            None
        }
        Ok(line) => {
            if let Some(place) = written_twice(&line.backup) {
                let text = format!(
                    "{place} would be written twice, which makes no copy; name another place as the mirror"
                );
                m.at(begin, text);
            }
            // What the backup would refuse of what it is called.
            if let Err(e) = check_names(&backup::bare(&line.backup)) {
                m.at(begin, e.to_string());
            }
            Some(line.backup)
        }
        Err(e) => {
            m.at(begin, said(&e));
            None
        }
    }
}

/// What an object is called: its own name, or what it is called by without one, as far as that is known here.
fn name_of(args: &BackupArgs) -> String {
    match (&args.name, &args.input.from_command) {
        (Some(name), _) => name.clone(),
        (None, Some(_)) => args.input.stdin_name.clone(),
        (None, None) => {
            let paths: Vec<_> = args.paths.iter().map(|p| p.display().to_string()).collect();
            paths.join(",")
        }
    }
}

/// Reads all keys of a table as options; each is checked by itself, so that its mistakes have its line.
fn options(table: &mut Table<'_>, known: &clap::Command, m: &mut Mistakes<'_>) -> Vec<Given> {
    let mut given = Vec::new();
    for (key, at, value) in table.rest() {
        let arg = known.get_arguments().find(|a| a.get_long() == Some(key));
        let Some(arg) = arg.filter(|_| !NOT_HERE.contains(&key) && key != "help") else {
            let alike = known
                .get_arguments()
                .filter_map(Arg::get_long)
                .find(|long| long.replace('-', "") == key.replace(['-', '_'], ""));
            let hint = match alike {
                None => "`capstan backup --help` lists them, without --".to_owned(),
                // It is written as it is called, and has no place here all the same.
                Some(long) if long == key => "take it out".to_owned(),
                Some(long) => format!("write {long}"),
            };
            m.at(at, format!("'{key}' is no option of a backup here; {hint}"));
            continue;
        };
        let list = matches!(arg.get_action(), clap::ArgAction::Append);
        let args = match (value, arg.get_action().takes_values()) {
            (DeValue::Boolean(true), false) => vec![format!("--{key}")],
            (DeValue::Boolean(false), false) => Vec::new(),
            (other, false) => {
                m.at(at, format!("'{key}' is {}; write true or false", kind(other)));
                continue;
            }
            (DeValue::Array(values), true) if list => {
                let texts: Option<Vec<_>> =
                    values.iter().map(|v| scalar_text(v.get_ref())).collect();
                let Some(texts) = texts else {
                    m.at(at, format!("'{key}' is a list of other things; write texts in quotes"));
                    continue;
                };
                texts.into_iter().map(|text| format!("--{key}={text}")).collect()
            }
            (value, true) => match scalar_text(value) {
                Some(text) => vec![format!("--{key}={text}")],
                None => {
                    m.at(at, format!("'{key}' is {}; write a text or a number", kind(value)));
                    continue;
                }
            },
        };
        given.extend(checked(key, args, list, at, m));
    }
    given
}

/// An option, if the parser of backups takes it.
fn checked(
    key: &str,
    args: Vec<String>,
    list: bool,
    at: usize,
    m: &mut Mistakes<'_>,
) -> Option<Given> {
    let mut line = args.clone();
    if key != "to" {
        line.push("--to=null:".to_owned());
    }
    if !INPUTS.contains(&key) {
        line.push("/".to_owned());
    }
    let result = Line::try_parse_from(line).map_err(|e| said(&e)).and_then(|line| {
        let select = &line.backup.select;
        let from_stdin = select.exclude_from.iter().chain(&line.backup.input.files_from);
        if from_stdin.into_iter().any(|file| file.as_os_str() == "-") {
            return Err("there is no standard input here; name a file".to_owned());
        }
        if let Some(path) = relative_place(key, &line.backup) {
            return Err(relative(&path));
        }
        Patterns::new(&Pattern::typed(&select.exclude), &Pattern::typed(&select.include))
            .map(|_| ())
            .map_err(|e| e.to_string())
    });
    match result {
        Ok(()) => Some(Given { key: key.to_owned(), args, list }),
        Err(text) => {
            m.at(at, text);
            None
        }
    }
}

/// What is said of a relative path.
pub(super) fn relative(path: &str) -> String {
    format!("the path '{path}' is relative; write it from the root: there is no working directory")
}

/// A device, a mirror or a list that this option names by a relative path. A null device stands for one that is not given.
fn relative_place(key: &str, args: &BackupArgs) -> Option<String> {
    let paths: Vec<PathBuf> = match key {
        "to" => paths_of(&args.to.device()),
        "mirror" => args.mirror.iter().flat_map(paths_of).collect(),
        "files-from" => args.input.files_from.iter().cloned().collect(),
        "exclude-from" => args.select.exclude_from.clone(),
        _ => Vec::new(),
    };
    first_relative(paths)
}

/// The first of some paths that is relative.
fn first_relative(paths: Vec<PathBuf>) -> Option<String> {
    let is_relative = |path: &PathBuf| !path.is_absolute();
    paths.into_iter().find(is_relative).map(|path| path.display().to_string())
}

/// The paths by which a device is named: directories, libraries.
fn paths_of(address: &Address) -> Vec<PathBuf> {
    let libraries = address.tapes().into_iter().filter_map(|tape| match tape.library {
        LibraryName::Virtual(path) => Some(path),
        LibraryName::Scsi(_) => None,
    });
    address.directories().into_iter().chain(libraries).collect()
}

/// Refuses a device that is named by a relative path.
pub(super) fn refuse_relative(device: &Address) -> Result<(), String> {
    first_relative(paths_of(device)).map_or(Ok(()), |path| Err(relative(&path)))
}

/// A place that an object would be written to twice: its device and a mirror, or two mirrors.
fn written_twice(args: &BackupArgs) -> Option<String> {
    let mut known: Vec<String> = Vec::new();
    let device = Some(args.to.device()).filter(|device| !device.keeps_nothing());
    for address in device.iter().chain(&args.mirror) {
        let directories = address.directories().into_iter();
        // Components: `/m` and `/m/` are one place.
        let places = directories.map(|path| path.components().collect::<PathBuf>());
        let libraries = address.tapes().into_iter().filter(|tape| tape.tape.is_some());
        let places = places.map(|path| path.display().to_string());
        for place in places.chain(libraries.map(|tape| tape.recorded().to_string())) {
            if known.contains(&place) {
                return Some(place);
            }
            known.push(place);
        }
    }
    None
}

/// What the parser says, as one sentence in the words of a specification.
pub(super) fn said(e: &clap::Error) -> String {
    let failure = Failure::usage(e);
    let hint = failure.hint.filter(|hint| !hint.contains("--help"));
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{}{hint}", failure.error)
}
