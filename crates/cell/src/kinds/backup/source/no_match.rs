//! Patterns that can match nothing of what is backed up: mostly one that was meant from the working directory.

use std::path::{Component, Path, PathBuf};

use capstan_engine::message::Code;
use capstan_select::Pattern;

use crate::kinds::backup::plan::Plan;
use crate::request::BackupRequest;
use crate::session::SessionLog;

/// Patterns that are named.
const NAMED: usize = 10;
/// Signs with which a component is more than a name.
const SIGNS: [char; 4] = ['*', '?', '[', '\\'];

/// Says of patterns that can match nothing how they are meant.
pub(in crate::kinds::backup) fn say_useless(
    request: &BackupRequest,
    plan: &Plan,
    log: &SessionLog<'_>,
) {
    let Some(selected) = plan.selected(request).filter(|_| !plan.trees.roots.is_empty()) else {
        return;
    };
    let is_useless = |pattern: &&Pattern| {
        // A list that many backups share may well have paths of others.
        let is_of_list =
            pattern.from.is_some() && pattern.text.trim_start_matches('!').starts_with('/');
        !is_of_list && !can_match(&pattern.text, &selected.paths)
    };
    let here = std::env::current_dir().unwrap_or_default();
    let all = request.exclude.iter().chain(&request.include);
    for pattern in all.filter(is_useless).take(NAMED) {
        let bare = pattern.text.trim_start_matches('!');
        let meant = format!("/{}", bare.trim_start_matches('/'));
        let better = from_here(&here, bare).filter(|path| can_match(path, &selected.paths));
        let better = better.map_or_else(String::new, |path| {
            format!("; write '{path}' for that of the working directory")
        });
        let text = format!(
            "the pattern {pattern} matches nothing: it means {meant}, as patterns with a slash begin at the root directory, and nothing \
             below that is backed up{better}"
        );
        log.say(Code::NoMatch, "cell", &plan.name, text);
    }
}

/// The pattern as it would be from a directory on.
fn from_here(here: &Path, pattern: &str) -> Option<String> {
    if pattern.starts_with('/') {
        return None;
    }
    let mut path = PathBuf::new();
    for component in here.join(pattern).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    let slash = if pattern.ends_with('/') { "/" } else { "" };
    Some(format!("{}{slash}", path.to_str()?))
}

/// Whether a pattern can match anything that lies below one of these paths. A line that is no pattern matches nothing, and nobody
/// misses that.
pub(in crate::kinds::backup) fn can_match(pattern: &str, paths: &[String]) -> bool {
    let bare = pattern.trim_start_matches('!').trim_end();
    if bare.is_empty() || bare.starts_with('#') {
        return true;
    }
    let bare = bare.strip_suffix('/').unwrap_or(bare);
    if !bare.contains('/') {
        return true;
    }
    let parts: Vec<&str> = bare.strip_prefix('/').unwrap_or(bare).split('/').collect();
    if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return false;
    }
    paths.iter().any(|path| {
        let mut path = path.split('/').filter(|part| !part.is_empty());
        for part in &parts {
            // It goes on below the path, or may do so anywhere.
            let Some(of_path) = path.next() else { return true };
            if *part == "**" {
                return true;
            }
            if *part != of_path && !part.contains(SIGNS) {
                return false;
            }
        }
        // It matches the path itself, or what is above: that is taken all the same.
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_a_slash_begins_at_the_root() {
        let can = |pattern: &str, path: &str| can_match(pattern, &[path.to_owned()]);
        for pattern in [
            "cache",
            "cache/",
            "*.o",
            "/srv/www/cache",
            "srv/www/cache/",
            "!/srv/www/a",
            "/*/www/x",
            "**/x/y",
            "/srv/**/x",
            "# a comment",
            "",
            "/s?v/www/*",
        ] {
            assert!(can(pattern, "/srv/www"), "{pattern}");
        }
        for pattern in [
            "www/cache",
            "./cache",
            "/srv/www",
            "/srv",
            "../www/x",
            "/srv//www/x",
            "/home/*/x",
            "!www/cache",
        ] {
            assert!(!can(pattern, "/srv/www"), "{pattern}");
        }
        assert!(can("src/cache", "/") && !can("./src/cache", "/"));
        assert!(can_match("/b/x", &["/a".to_owned(), "/b".to_owned()]));
    }

    #[test]
    fn what_is_meant_from_a_directory_is_known() {
        let of = |pattern: &str| from_here(Path::new("/home/ann"), pattern);
        assert_eq!(of("src/cache").unwrap(), "/home/ann/src/cache");
        assert_eq!(of("./src/cache/").unwrap(), "/home/ann/src/cache/");
        assert_eq!(of("../bob/x").unwrap(), "/home/bob/x");
        assert_eq!(of("/x"), None);
    }
}
