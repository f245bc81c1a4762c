//! Names that people give: of objects, and of the one file that an input becomes.

use crate::error::{NameRefusal, Result};

/// Longest name of an object, in bytes: as long as the longest path that a call takes.
pub(crate) const NAME_MAX: usize = 4096;
/// Longest tag, place or host name, in bytes.
pub(crate) const TEXT_MAX: usize = 255;
/// Most tags of a session.
pub(crate) const TAGS_MAX: usize = 64;

/// Checks an object's name: one that can be typed and shown.
pub(crate) fn check_object(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(NameRefusal::ObjectEmpty.into());
    }
    if name.chars().any(char::is_control) {
        return Err(NameRefusal::ObjectControls { name: name.to_owned() }.into());
    }
    check_length(name)
}

/// Refuses an object's name that nobody could type, as one made of very many paths is.
pub(crate) fn check_length(name: &str) -> Result<()> {
    if name.len() <= NAME_MAX {
        return Ok(());
    }
    Err(NameRefusal::ObjectTooLong { bytes: name.len(), most: NAME_MAX }.into())
}

/// The tags of a text that joins them by commas.
pub fn split_tags(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

/// Refuses tags that cannot be shown.
pub(crate) fn check_tags(tags: &[String]) -> Result<()> {
    if tags.len() > TAGS_MAX {
        return Err(NameRefusal::TooManyTags { count: tags.len(), most: TAGS_MAX }.into());
    }
    tags.iter().try_for_each(|tag| check_text("a tag", tag))
}

/// Refuses a text that is too long for a list or has control characters.
pub(crate) fn check_text(what: &'static str, text: &str) -> Result<()> {
    if text.len() > TEXT_MAX {
        return Err(NameRefusal::TextTooLong { what, bytes: text.len(), most: TEXT_MAX }.into());
    }
    if text.chars().any(char::is_control) {
        return Err(NameRefusal::TextControls { what }.into());
    }
    Ok(())
}

/// A text from a medium, cut to so many bytes: what others wrote may be of any length.
pub(crate) fn bounded(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most.saturating_sub('…'.len_utf8())));
        text.push('…');
    }
    text
}

/// The path of an input's one file, as it is stored: without leading slashes, and one that a restore takes.
pub(crate) fn input_path(name: &str) -> Result<&str> {
    let path = name.trim_start_matches('/');
    let why = path.split('/').find_map(|component| match component {
        "" => Some("it is empty or has an empty component"),
        "." | ".." => Some("it has a component . or .."),
        _ if component.contains('\0') => Some("it has a zero byte"),
        _ if component.len() > TEXT_MAX => Some("a component is longer than 255 bytes"),
        _ => None,
    });
    let why = why.or((path.len() > NAME_MAX).then_some("it is longer than 4096 bytes"));
    match why {
        None => Ok(path),
        Some(why) => Err(NameRefusal::NoFileName { name: name.to_owned(), why }.into()),
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
            assert!(input_path(bad).is_err_and(|e| e.is_bad_input()), "{bad:?}");
        }
    }

    #[test]
    fn names_have_a_length() {
        let long = "é".repeat(2049);
        assert!(check_object(&long).is_err() && check_object(&long[2..]).is_ok());
        assert!(check_tags(&["x".repeat(256)]).is_err() && check_tags(&["x".repeat(255)]).is_ok());
        assert!(check_tags(&["x\n".to_owned()]).is_err());
        assert!(check_tags(&vec!["x".to_owned(); 65]).is_err());
        assert!(input_path(&"x".repeat(256)).is_err() && input_path(&"x/".repeat(3000)).is_err());
        let cut = bounded(long, TEXT_MAX);
        assert!(cut.len() <= TEXT_MAX && cut.ends_with("é…"), "{cut}");
        assert_eq!(bounded("short".to_owned(), TEXT_MAX), "short");
    }

    #[test]
    fn object_names_can_be_typed() {
        assert!(check_object("/etc,/home übung").is_ok());
        for bad in ["", "a\nb", "\x1b[1m", "\u{85}"] {
            assert!(check_object(bad).is_err(), "{bad:?}");
        }
    }
}
