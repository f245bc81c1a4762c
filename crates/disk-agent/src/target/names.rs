//! Names from the medium, which nobody vouches for: what is no plain name is refused.

use std::ffi::{CStr, CString};

use capstan_format::entry::join;

use super::Target;
use super::error::{ShownPath, TargetError};
use crate::linux::restore::Errno;

/// Longest path below the target, in bytes. Linux has no limit; a path of this length was made to
/// do harm.
const PATH_BYTES_MAX: usize = 1 << 20;

fn fault(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("a name in it is empty"),
        b"." | b".." => Some("it leads to another directory"),
        _ if name.contains(&b'/') => Some("the name holds a slash"),
        _ if name.contains(&0) => Some("it holds a zero byte"),
        _ => None,
    }
}

fn bad(path: Vec<u8>, why: &'static str) -> TargetError {
    TargetError::BadName { path: ShownPath(path), why }
}

/// `name` in `dir` as system calls want it, if it is a plain name.
pub fn component(dir: &[u8], name: &[u8]) -> Result<CString, TargetError> {
    if let Some(why) = fault(name) {
        return Err(bad(join(dir, name), why));
    }
    CString::new(name).map_err(|_| bad(join(dir, name), "it holds a zero byte"))
}

/// A symbolic link's text as system calls want it.
pub fn link_text(dir: &[u8], name: &CStr, text: &[u8]) -> Result<CString, TargetError> {
    let why = if text.is_empty() { "its link text is empty" } else { "its link text holds a zero" };
    match CString::new(text) {
        Ok(text) if !text.is_empty() => Ok(text),
        _ => Err(bad(join(dir, name.to_bytes()), why)),
    }
}

/// Whether a symbolic link's text is one that can be made.
pub fn check_link_text(path: &[u8], text: &[u8]) -> Result<(), TargetError> {
    let (dir, name) = split(path);
    link_text(dir, &component(dir, name)?, text).map(|_| ())
}

/// Whether every component of a directory's path is a plain name. The empty path is the root.
pub fn check_path(path: &[u8]) -> Result<(), TargetError> {
    if path.is_empty() {
        return Ok(());
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(bad(path[..256].to_vec(), "its path is longer than 1 MiB"));
    }
    match path.split(|b| *b == b'/').find_map(fault) {
        Some(why) => Err(bad(path.to_vec(), why)),
        None => Ok(()),
    }
}

/// A path without its last component, and that component.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// A name for what is written beside something. What an earlier restore left that was killed has others.
pub(super) fn temporary_name(target: &Target) -> Result<CString, Errno> {
    CString::new(target.mark.name(target.next_temporary())).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_pass() {
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"/"] {
            assert!(matches!(component(b"d", name), Err(TargetError::BadName { .. })), "{name:?}");
        }
        for name in [&b"..."[..], b".a", b"a..", b"\xff\xfe", b" ", b"\n"] {
            assert_eq!(component(b"d", name).unwrap().as_bytes(), name);
        }
        for path in [&b"/a"[..], b"a/", b"a//b", b"a/../b", b"./a", b"a/.", b"a/b\0"] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        assert!(check_path(b"a/b/...").is_ok() && check_path(b"").is_ok());
        assert!(check_path(&b"a/".repeat(1 << 20)).is_err());
    }
}
