//! Where tables go that have no room in memory.

use std::fs::File;
use std::path::PathBuf;
use std::{fmt, io};

/// A temporary file without a name, open for reading and writing, in the directory for such files; an error where there is no room.
pub fn spill_file() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let dir = std::env::temp_dir();
    match rustix::fs::open(&dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(File::from(fd)),
        // File systems without O_TMPFILE: a name that is gone at once.
        Err(_) => {
            let path = dir.join(format!("capstan-{}-{:p}", std::process::id(), &flags));
            let made = File::options().read(true).write(true).create_new(true).open(&path);
            let file = made.map_err(of_spill)?;
            std::fs::remove_file(&path).map_err(of_spill)?;
            Ok(file)
        }
    }
}

/// What went wrong with a temporary file.
#[derive(Debug)]
struct SpillError {
    dir: PathBuf,
    source: io::Error,
}

impl fmt::Display for SpillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.source.to_string();
        let said = said.split(" (os error").next().unwrap_or_default().to_lowercase();
        let what = match self.source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space there, or set TMPDIR to a directory that has room"
            }
            _ => "check that directory, or set TMPDIR to another one",
        };
        let dir = self.dir.display();
        write!(f, "{said} in {dir}, where temporary files go ({what})")
    }
}

impl std::error::Error for SpillError {}

/// The same error of a temporary file, which names the directory and says what to do.
pub fn of_spill(e: io::Error) -> io::Error {
    if is_of_spill(&e) {
        return e;
    }
    io::Error::new(e.kind(), SpillError { dir: std::env::temp_dir(), source: e })
}

/// Whether it is a temporary file that failed.
pub fn is_of_spill(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|e| e.is::<SpillError>())
}
