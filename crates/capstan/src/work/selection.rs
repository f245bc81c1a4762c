//! Paths and patterns that stand in files, and patterns that are typed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use capstan_cell::request::Pattern;
use capstan_engine::{leaving, threads};

use crate::args::split_paths;
use crate::exit::{FAILED, Failure};

/// How soon a stop is heard while a list is read.
const NAP: Duration = Duration::from_millis(100);
/// Most bytes of a file of paths or patterns: some ten million paths.
const LIST_MAX: u64 = 1 << 30;

/// Patterns in the order in which they count: what is typed overrides what is in files, as later patterns decide.
pub fn patterns(files: &[PathBuf], typed: &[String]) -> Result<Vec<Pattern>, Failure> {
    let mut patterns = Vec::new();
    for file in files {
        patterns.extend(patterns_in(file)?);
    }
    patterns.extend(Pattern::typed(typed));
    Ok(patterns)
}

/// The paths that a file lists.
pub fn paths_in(file: &Path) -> Result<Vec<OsString>, Failure> {
    let paths = split_paths(&read_list(file)?);
    if paths.is_empty() {
        return Err(Failure::bad_input(
            format!("{} names no path", shown(file)),
            "give one path per line",
        ));
    }
    Ok(paths.into_iter().map(PathBuf::into_os_string).collect())
}

/// The lines of a file of patterns.
fn patterns_in(file: &Path) -> Result<Vec<Pattern>, Failure> {
    let text = String::from_utf8(read_list(file)?).map_err(|_| {
        Failure::bad_input(
            format!("{} is not UTF-8", shown(file)),
            "write patterns as UTF-8; ? matches any byte of a name that is not",
        )
    })?;
    let from = shown(file);
    // A file from another system may begin with a byte order mark.
    let lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
    Ok(lines
        .map(|(line, n)| Pattern { text: line.to_owned(), from: Some((from.clone(), n)) })
        .collect())
}

fn read_list(file: &Path) -> Result<Vec<u8>, Failure> {
    let path = file.to_owned();
    let read = move || {
        let mut content = Vec::new();
        let mut read = |from: &mut dyn Read| from.take(LIST_MAX + 1).read_to_end(&mut content);
        match path.as_os_str() == "-" {
            true => read(&mut io::stdin().lock()),
            false => File::open(&path).and_then(|mut file| read(&mut file)),
        }?;
        Ok(content)
    };
    // A pipe may have nobody who writes to it. Who reads from it then ends with the process.
    let Some(content) = while_needed(read) else {
        let why = format!("stopped before all of {} was read", shown(file));
        return Err(Failure::of(FAILED, why, None));
    };
    let content = content.map_err(|e| {
        Failure::bad_input(format!("cannot read {}: {e}", shown(file)), "check its path and mode")
    })?;
    if content.len() as u64 > LIST_MAX {
        return Err(Failure::bad_input(
            format!("{} is longer than 1 GiB", shown(file)),
            "name directories instead of their files",
        ));
    }
    Ok(content)
}

/// What is read in a thread of its own; nothing, where the session is to end before.
fn while_needed(
    read: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
) -> Option<io::Result<Vec<u8>>> {
    let (tell, hear) = mpsc::channel();
    let reader = threads::start("list", move || {
        // Where nobody hears it, the session has ended.
        let _ = tell.send(read());
    });
    if let Err(e) = reader {
        return Some(Err(io::Error::other(e)));
    }
    while !leaving::has_left() {
        match hear.recv_timeout(NAP) {
            Ok(content) => return Some(content),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(io::Error::other("its reader ended")));
            }
        }
    }
    None
}

fn shown(file: &Path) -> String {
    if file.as_os_str() == "-" { "standard input".to_owned() } else { file.display().to_string() }
}
