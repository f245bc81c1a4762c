//! `capstan ls` and `find`: files as lines or as JSON objects.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::Arc;

use capstan_cell::request::FindRequest;
use capstan_cell::{Cell, Found, Listed, PassedOver, VersionState, Which};
use capstan_engine::message::path_text;
use capstan_format::entry::{Entry, Kind, Timestamp};
use capstan_medium::host::DeviceHost;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::{FindArgs, Global, LsArgs};
use crate::exit::{COMPLETED, COMPLETED_WITH_ERRORS, Failure, one_line};
use crate::look::as_of::as_of;
use crate::output::{JsonList, Output, put_path, shown_path, stdout_is_terminal};
use crate::paths;
use crate::process::home;
use crate::text::kept::put_kept;
use crate::text::local_time;

/// Runs `ls`.
pub fn ls(global: &Global, args: &LsArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let version = as_of(global, &cell, &args.version, args.as_of.as_ref())?;
    let paths = paths::of_versions(&cell, &[&version], &args.paths)?;
    let mut lines = Lines::of_names(&cell, args.json, "files");
    let listed = cell.list(&version, &paths, args.depth, &mut |listed| {
        if args.json {
            return lines.row(&json_of(listed));
        }
        lines.put(|out, terminal| {
            if args.long {
                out.text(&long(listed))?;
            }
            out.bytes(&shown_path(&listed.entry.path(), terminal))?;
            out.text(&suffix(listed, args.long))?;
            out.text("\n")
        });
    });
    // What is there is listed, whatever is not.
    lines.end(Map::new(), listed.err().map(Failure::from))
}

/// Runs `find`.
pub fn find(global: &Global, args: &FindArgs) -> Result<u8, Failure> {
    let cell = home::open(global)?;
    let mut lines = Lines::of_names(&cell, args.json, "files");
    let which = match &args.as_of {
        _ if args.all_versions => Which::All,
        Some(at) => Which::AsOf(at.us(&cell)?),
        None => Which::Newest,
    };
    let request = FindRequest {
        pattern: args.pattern.clone(),
        name: args.name.clone(),
        larger: args.larger,
        smaller: args.smaller,
        changed_since_us: args.changed_since.as_ref().map(|when| when.us(&cell)).transpose()?,
        changed_before_us: args.changed_before.as_ref().map(|when| when.us(&cell)).transpose()?,
        kinds: args.kinds.iter().map(|kind| (*kind).into()).collect(),
        which,
    };
    let found = cell.find(&request, &mut |found| {
        if args.json {
            return lines.row(&json_of_found(found));
        }
        lines.put(|out, terminal| {
            out.text(&format!(
                "{}@{}  ",
                path_text(found.name.as_bytes()),
                found.session.get(..8).unwrap_or_default()
            ))?;
            if args.all_versions {
                out.text(&format!("{}  ", local_time(found.started_us)))?;
            }
            out.bytes(&shown_path(&found.listed.entry.path(), terminal))?;
            out.text(&suffix(&found.listed, false))?;
            out.text(&not_whole(found.state))?;
            out.text("\n")
        });
    });
    let passed = match found {
        Ok(passed) => passed,
        Err(e) => return lines.end(Map::new(), Some(e.into())),
    };
    warn(global, &passed);
    if lines.empty {
        let why = match args.all_versions {
            true => "no version has what matches",
            false => "no newest version has what matches; --all-versions looks into all",
        };
        nothing_found(global, why);
    }
    lines.end(passed_over(&passed), None)
}

/// How many versions were not searched.
pub fn passed_over(passed: &PassedOver) -> Map<String, Value> {
    [("versions_passed_over".to_owned(), passed.versions.into())].into_iter().collect()
}

/// Says what was not searched.
pub fn warn(global: &Global, passed: &PassedOver) {
    if let Some(why) = passed.why.as_ref().filter(|_| !global.quiet) {
        // Where nobody reads warnings, what was found remains.
        let _ = writeln!(
            std::io::stderr().lock(),
            "capstan: warning: {} {} passed over, as the names in it stay encrypted: {}",
            passed.versions,
            if passed.versions == 1 { "version is" } else { "versions are" },
            one_line(&why.to_string())
        );
    }
}

/// Says why no line follows: that is no failure.
pub fn nothing_found(global: &Global, why: &str) {
    if !global.quiet {
        // Where nobody reads it, there is nothing to say.
        let _ = writeln!(io::stderr(), "capstan: nothing found: {}", one_line(why));
    }
}

/// Lines on standard output; the first failure is kept.
pub struct Lines {
    out: Output,
    /// As rows of a JSON object.
    list: Option<JsonList>,
    terminal: bool,
    /// Whether there was none.
    pub empty: bool,
    failure: Option<Failure>,
    devices: Arc<dyn DeviceHost>,
    /// The cell whose names are listed.
    cell: Option<Cell>,
}

impl Lines {
    /// Locks standard output. With `json` they are the rows of one object, under that name.
    pub fn of(devices: Arc<dyn DeviceHost>, json: bool, name: &'static str) -> Self {
        let list = json.then(|| JsonList::new(name));
        Self {
            out: Output::new(),
            list,
            terminal: stdout_is_terminal(),
            empty: true,
            failure: None,
            devices,
            cell: None,
        }
    }

    /// The same for what lists names of versions: at the end it is said if names are lost.
    pub fn of_names(cell: &Cell, json: bool, name: &'static str) -> Self {
        Self { cell: Some(cell.clone()), ..Self::of(cell.devices().clone(), json, name) }
    }

    /// Writes a row of the object.
    pub fn row(&mut self, row: &impl Serialize) {
        let Some(mut list) = self.list.take() else { return };
        self.put(|out, _| list.row(out, row));
        self.list = Some(list);
    }

    /// Writes a line; nothing after the first failure.
    pub fn put(&mut self, write: impl FnOnce(&mut Output, bool) -> Result<(), Failure>) {
        if self.failure.is_some() {
            return;
        }
        self.empty = false;
        if let Err(failure) = write(&mut self.out, self.terminal) {
            if failure.error.is_empty() {
                // The reader went away, as `head` does: nothing that follows is of use, and nothing is being written.
                crate::process::drives::give_back(&*self.devices);
                std::process::exit(failure.code.into());
            }
            self.failure = Some(failure);
        }
    }

    /// Ends the object with these further values, and what failed, and writes what is buffered; the exit code.
    pub fn end(
        mut self,
        mut more: Map<String, Value>,
        failed: Option<Failure>,
    ) -> Result<u8, Failure> {
        let failed = failed.map(|failure| failure.named(self.devices.queue()));
        let lost = self.cell.as_ref().and_then(Cell::names_lost).map(|e| e.to_string());
        if let Some(lost) = &lost {
            more.insert("names_lost".to_owned(), lost.as_str().into());
            // Where nobody reads it, the exit code remains.
            let _ = writeln!(io::stderr(), "capstan: error: {}", one_line(lost));
        }
        let list = self.list.take();
        let in_json = list.is_some();
        if let Some(list) = list {
            if let Some(failure) = &failed {
                failure.put(&mut more);
            }
            self.put(|out, _| list.end(out, &more));
        }
        let done = match self.failure {
            Some(failure) => Err(failure),
            None => self.out.finish(),
        };
        match failed {
            Some(failure) if in_json => Err(failure.in_json()),
            Some(failure) => Err(failure),
            None if lost.is_some() => done.map(|()| COMPLETED_WITH_ERRORS),
            None => done.map(|()| COMPLETED),
        }
    }
}

/// `drwxr-xr-x ann users 4096 2026-11-20 22:54:39 `
fn long(listed: &Listed) -> String {
    let entry = &listed.entry;
    let owner = listed.user.clone().unwrap_or_else(|| entry.uid.to_string());
    let group = listed.group.clone().unwrap_or_else(|| entry.gid.to_string());
    let size = match entry.kind {
        Kind::CharDevice | Kind::BlockDevice => format!("{}, {}", entry.rdev.0, entry.rdev.1),
        _ => entry.size.to_string(),
    };
    let (owner, group) = (path_text(owner.as_bytes()), path_text(group.as_bytes()));
    format!("{} {owner:<8} {group:<8} {size:>12} {} ", mode(entry), time(entry.mtime))
}

/// What follows a path: where a link leads (in long lists), and what is not as it should be.
pub fn suffix(listed: &Listed, long: bool) -> String {
    let mut text = String::new();
    if long && !listed.entry.target.is_empty() {
        let arrow = if listed.entry.link { " = /" } else { " -> " };
        let _ = write!(text, "{arrow}{}", path_text(&listed.entry.target));
    }
    if let Some(state) = &listed.state {
        let _ = write!(text, "  [{state}]");
    }
    text
}

/// What follows what a version has that nobody may rely on, or that did not come to its end.
pub fn not_whole(state: VersionState) -> String {
    match state {
        VersionState::Completed | VersionState::WithErrors => String::new(),
        state => format!("  (version is {})", state.as_str()),
    }
}

fn mode(entry: &Entry) -> String {
    let kind = match entry.kind {
        Kind::Dir => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
        _ => '-',
    };
    let mut text = String::with_capacity(10);
    text.push(kind);
    // Each class: shift of its bits, the special bit, and its letters with and without execution.
    for (shift, special, on, off) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = entry.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (entry.mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => on,
            (true, false) => off,
        });
    }
    text
}

/// A file's time, here, by the second.
pub fn time(time: Timestamp) -> String {
    local_time(time.sec.saturating_mul(1_000_000).saturating_add(i64::from(time.nsec / 1000)))
}

/// RFC 3339 in UTC with nanoseconds, or seconds where the calendar ends.
fn rfc3339(time: Timestamp) -> Value {
    match jiff::Timestamp::new(time.sec, i32::try_from(time.nsec).unwrap_or(0)) {
        Ok(time) => time.to_string().into(),
        Err(_) => time.sec.into(),
    }
}

/// A row as a JSON object.
pub fn json_of(listed: &Listed) -> Map<String, Value> {
    let entry = &listed.entry;
    let mut object = Map::new();
    let mut path = vec![b'/'];
    path.extend_from_slice(&entry.path());
    put_path(&mut object, "path", &path);
    let mut put = |key: &str, value: Value| drop(object.insert(key.to_owned(), value));
    put("type", entry.kind.as_str().into());
    put("size", entry.size.into());
    put("mode", format!("{:04o}", entry.mode).into());
    put("uid", entry.uid.into());
    put("gid", entry.gid.into());
    put("user", listed.user.clone().into());
    put("group", listed.group.clone().into());
    put("mtime", rfc3339(entry.mtime));
    put("state", listed.state.clone().into());
    if matches!(entry.kind, Kind::CharDevice | Kind::BlockDevice) {
        put("rdev", vec![entry.rdev.0, entry.rdev.1].into());
    }
    if entry.link {
        let target = [b"/".as_slice(), &entry.target].concat();
        put_path(&mut object, "hard_link_to", &target);
    } else if !entry.target.is_empty() {
        put_path(&mut object, "target", &entry.target);
    }
    object
}

/// A row and the version that it is of as a JSON object.
pub fn json_of_found(found: &Found) -> Map<String, Value> {
    let mut object = Map::new();
    let started = jiff::Timestamp::from_microsecond(found.started_us).map(|t| t.to_string());
    object.insert("name".to_owned(), found.name.clone().into());
    object.insert("host".to_owned(), found.host.to_string().into());
    object.insert("session".to_owned(), found.session.clone().into());
    object.insert("started".to_owned(), started.ok().into());
    put_kept(&mut object, &found.kept);
    let state = found.state.as_str().replace(' ', "_");
    object.insert("version_state".to_owned(), state.into());
    object.extend(json_of(&found.listed));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(entry: Entry) -> Listed {
        Listed { entry, user: Some("ann".to_owned()), group: None, acl: None, state: None }
    }

    #[test]
    fn modes_print_as_ls_has_them() {
        let of = |kind, mode| mode_text(kind, mode);
        fn mode_text(kind: Kind, mode: u16) -> String {
            super::mode(&Entry { kind, mode, ..Entry::default() })
        }
        assert_eq!(of(Kind::File, 0o644), "-rw-r--r--");
        assert_eq!(of(Kind::Dir, 0o1777), "drwxrwxrwt");
        assert_eq!(of(Kind::File, 0o4755), "-rwsr-xr-x");
        assert_eq!(of(Kind::File, 0o6644), "-rwSr-Sr--");
        assert_eq!(of(Kind::Dir, 0o1770), "drwxrwx--T");
    }

    #[test]
    fn json_has_what_programs_need() {
        let entry = Entry {
            dir: b"etc".to_vec(),
            name: b"h\xff".to_vec(),
            size: 7,
            mode: 0o644,
            mtime: Timestamp { sec: 0, nsec: 5 },
            ..Entry::default()
        };
        let object = json_of(&listed(entry));
        assert_eq!(object["path"], "/etc/h\u{fffd}");
        assert_eq!(object["path_bytes"], "L2V0Yy9o/w==");
        assert_eq!(object["mode"], "0644");
        assert_eq!(object["mtime"], "1970-01-01T00:00:00.000000005Z");
        assert_eq!((&object["user"], &object["group"]), (&Value::from("ann"), &Value::Null));
    }

    #[test]
    fn hard_links_and_symbolic_links_are_told_apart() {
        let target = b"a/b".to_vec();
        let soft = Entry { kind: Kind::Symlink, target: target.clone(), ..Entry::default() };
        let hard = Entry { link: true, target, ..Entry::default() };
        assert_eq!(suffix(&listed(soft.clone()), true), " -> a/b");
        assert_eq!(suffix(&listed(soft), false), "");
        assert_eq!(json_of(&listed(hard))["hard_link_to"], "/a/b");
    }
}
