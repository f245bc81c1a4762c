//! Names that people give: of objects, and of the one file that an input becomes.

use crate::error::{CellError, Result};

/// Checks an object's name: one that can be typed and shown.
pub(crate) fn check_object(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(CellError::BadInput(
            "the object's name is empty; give --name a name, or leave it out".to_owned(),
        ));
    }
    if name.chars().any(char::is_control) {
        return Err(CellError::BadInput(format!(
            "the object's name {name:?} has control characters; give --name one that can be typed"
        )));
    }
    Ok(())
}

/// The path of an input's one file, as it is stored: without leading slashes, and one that a restore takes.
pub(crate) fn input_path(name: &str) -> Result<&str> {
    let path = name.trim_start_matches('/');
    let why = path.split('/').find_map(|component| match component {
        "" => Some("it is empty or has an empty component"),
        "." | ".." => Some("it has a component . or .."),
        _ if component.contains('\0') => Some("it has a zero byte"),
        _ => None,
    });
    match why {
        None => Ok(path),
        Some(why) => Err(CellError::BadInput(format!(
            "{name:?} cannot be the name of a file: {why}; give --stdin-name a plain name or path, as shop.sql or db/shop"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_paths_are_what_a_restore_takes() {
        assert_eq!(input_path("dump.sql").unwrap(), "dump.sql");
        assert_eq!(input_path("//db/..a/.b").unwrap(), "db/..a/.b");
        for bad in ["", "/", ".", "..", "../x", "a/../b", "./a", "a//b", "a/", "a\0b"] {
            assert!(matches!(input_path(bad), Err(CellError::BadInput(_))), "{bad:?}");
        }
    }

    #[test]
    fn object_names_can_be_typed() {
        assert!(check_object("/etc,/home übung").is_ok());
        for bad in ["", "a\nb", "\x1b[1m", "\u{85}"] {
            assert!(check_object(bad).is_err(), "{bad:?}");
        }
    }
}
