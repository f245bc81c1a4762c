//! Looking at trees as they are: the row of each name, in the order of the walk. No contents are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use capstan_engine::meter::Meters;
use capstan_engine::queue::Queue;
use capstan_engine::threads::{self, NoThread};
use capstan_format::entry::{Entry, Kind, Timestamp};
use rustix::io::Errno;

use crate::ctime;
use crate::linux::source::{self, Buffers, DirHandle};
use crate::select::Selection;
use crate::walk::ahead::Ahead;
use crate::walk::{Group, WalkEvent, Walker};

/// Groups of names that the walk is ahead.
const GROUPS_WAITING: usize = 4;

/// Calls with the row of each name that a backup of the roots would take, and its directory, until that says `false`.
pub fn look(
    roots: &[Vec<u8>],
    selection: &Selection,
    stop: &AtomicBool,
    event: &(dyn Fn(WalkEvent<'_>) + Sync),
    each: &mut dyn FnMut(&DirHandle, Entry) -> bool,
) -> Result<(), NoThread> {
    let queues = [Queue::<Arc<Group>>::new(GROUPS_WAITING)];
    let walker = Walker {
        selection,
        queues: &queues,
        ahead: &Ahead::default(),
        names_left_out: false,
        stop,
        found: &AtomicU64::new(0),
        meters: &Meters::default(),
        event,
    };
    std::thread::scope(|scope| {
        threads::start_in(scope, "walk", || walker.run(roots, None))?;
        let mut buffers = Buffers::default();
        let mut waited = Duration::ZERO;
        while let Some(group) = queues[0].take(&mut waited) {
            for item in &group.items {
                let row = match row_of(&item.dir, &item.listed.name, &mut buffers) {
                    Ok(row) => row,
                    Err(e) => {
                        let path = capstan_format::entry::join(&item.dir.path, &item.listed.name);
                        event(WalkEvent::Failed(&path, e, false));
                        continue;
                    }
                };
                if row.is_some_and(|row| !each(&item.dir, row)) {
                    queues[0].close();
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

/// What a name is now, with all that a backup keeps of it but the contents; `None` if it is gone.
pub fn row_of(dir: &DirHandle, name: &[u8], buffers: &mut Buffers) -> Result<Option<Entry>, Errno> {
    let stat = match source::stat_at(dir, name) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(e) => return Err(e),
    };
    let Some(mut row) = source::entry_of(dir, name, &stat) else { return Ok(None) };
    if row.kind == Kind::Symlink {
        row.target = source::read_link(dir, name)?;
    }
    let opened = match row.kind {
        Kind::File | Kind::Dir => source::open_at(dir, name, row.kind == Kind::Dir).ok(),
        _ => None,
    };
    match opened {
        Some(fd) => source::add_details(&fd, &mut row, buffers)?,
        None => source::add_details_at(dir, &mut row, buffers)?,
    }
    Ok(Some(row))
}

/// Whether a name in a directory, and a path (absolute, without leading slash) of whatever length, are names of one inode.
pub fn same_inode(dir: &DirHandle, name: &[u8], path: &[u8]) -> bool {
    let (a, b) = (source::stat_at(dir, name), source::stat_of(path));
    matches!((a, b), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// Whether what a name in a directory has now came into being after an inode was `changed`: it then is another inode, if it has the same
/// number too. File systems give the number of a removed file to the next one. `false` where the file system does not say, and where
/// the inode's own times tell that the clock was wrong when it came into being.
pub fn was_born_after(dir: &DirHandle, name: &[u8], changed: Timestamp) -> bool {
    let Ok(stat) = source::stat_at(dir, name) else { return false };
    let born = source::born_at(dir, name, &stat);
    // A backup may have recorded the time of change as a nanosecond earlier.
    born.is_some_and(|born| ctime::earlier(born) > changed && born <= source::ctime_of(&stat))
}
