//! Small files that a program keeps for itself, of which anybody may have put another thing in the place.
//!
//! A pipe is waited for, for ever and deaf to signals; a device has no end; a file with a hole is longer than any memory.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Opens a file to read it.
///
/// # Errors
/// Those of opening it; [`ErrorKind::InvalidData`] where it is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    refuse_others(path)?;
    File::open(path)
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// Those of reading it; [`ErrorKind::InvalidData`] where it is no regular file, or longer.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(invalid(&format!("it is longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads a text of at most `most` bytes.
///
/// # Errors
/// As [`read`]; [`ErrorKind::InvalidData`] where it is no UTF-8, too.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| invalid("it is no text in UTF-8"))
}

/// Refuses what is there and is no regular file.
///
/// # Errors
/// Those of looking; [`ErrorKind::InvalidData`] where it is none.
pub fn refuse_others(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.is_file() {
        true => Ok(()),
        false => Err(invalid("it is not a regular file")),
    }
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("account");
        assert_eq!(read(&path, 9).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(&path, "123456789").unwrap();
        assert_eq!(read_text(&path, 9).unwrap(), "123456789");
        let refusal = |most| {
            let e = read_text(&path, most).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidData);
            e.to_string()
        };
        assert!(refusal(8).contains("longer than 8 bytes"));
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(refusal(1 << 20).contains("longer"));
        fs::write(&path, b"\xff").unwrap();
        assert!(refusal(9).contains("UTF-8"));
        for other in ["/dev/zero", "/"] {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(other, &path).unwrap();
            assert!(refusal(9).contains("regular file"));
        }
    }
}
