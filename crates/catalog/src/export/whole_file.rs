//! A file that appears under its name when all of it is there, and else not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use capstan_engine::durable;
use capstan_engine::message::plain;

use crate::error::{CatalogError, Result};

/// A file being written beside the place it is for; removed again unless [`Self::commit`] is called.
pub struct WholeFile {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    committed: bool,
}

impl WholeFile {
    /// Begins the file that `target` will be, readable by its owner alone. What is there is replaced, if it is a file.
    pub fn create(target: &Path) -> Result<Self> {
        let bad = |why: &str| CatalogError::NotWritable {
            path: target.display().to_string(),
            why: why.to_owned(),
        };
        // Renaming would replace a link, not what it leads to.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_dir() => return Err(bad("it is a directory")),
            Ok(found) if !found.is_file() => return Err(bad("it is no regular file")),
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(bad(&plain(&e))),
            _ => {}
        }
        let Some(name) = target.file_name() else { return Err(bad("it has no name")) };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.tmp", std::process::id()));
        let temporary = target.with_file_name(hidden);
        // Of a process that was killed and had the same number.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        let file = file.map_err(|e| bad(&plain(&e)))?;
        Ok(Self { file, temporary, target, committed: false })
    }

    /// Gives the file its name, durably.
    pub fn commit(mut self) -> Result<()> {
        let named = || {
            self.file.sync_all()?;
            durable::rename(&self.temporary, &self.target)
        };
        named().map_err(CatalogError::io("write", self.target.display()))?;
        self.committed = true;
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.committed {
            // If it cannot be removed either, its name says what it is.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(names(), 0);
        for text in ["first", "second"] {
            let mut file = WholeFile::create(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.commit().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(), 1);
        // What a link leads to is replaced, not the link.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        WholeFile::create(&link).unwrap().commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        for bad in [dir.path(), Path::new("/dev/null"), &dir.path().join("no/file"), Path::new("/")]
        {
            assert!(
                matches!(WholeFile::create(bad), Err(CatalogError::NotWritable { .. })),
                "{bad:?}"
            );
        }
    }
}
