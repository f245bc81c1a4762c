//! Where tables go that have no room in memory.

use std::fs::File;
use std::io;

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
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
    }
}
