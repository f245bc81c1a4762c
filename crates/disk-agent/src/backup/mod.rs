//! Reading a source into streams: files are opened in groups, their rows sent, then their contents. [`job`] is how it is asked for.

mod contents;
mod counters;
mod foresee;
mod hardlinks;
mod huge;
mod input;
pub mod job;
mod known;
mod probe;
mod reader;
mod rest;
pub(crate) mod roots;
mod rows;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::ScopedJoinHandle;
use std::time::SystemTime;

use capstan_engine::link::{BlockPort, LinkClosed};
use capstan_engine::message::{Code, Listener, Message, path_text};
use capstan_engine::meter::Meters;
use capstan_engine::queue::Queue;
use capstan_engine::threads;
use capstan_wire::backup::ReadOptions;
use parking_lot::Mutex;
use rustix::io::Errno;

use self::reader::StreamReader;
use crate::backup::counters::Counters;
use crate::backup::huge::Pieces;
use crate::backup::known::by_inode::ByInode;
use crate::linux::source;
use crate::select::Selection;
use crate::walk::ahead::{Ahead, FETCHERS};
use crate::walk::mounts::Unmounted;
use crate::walk::{BaseCursor, Group, WalkEvent, Walker};
use capstan_stream::StreamWriter;
use capstan_stream::options::StreamOptions;
use capstan_stream::owners::OwnerNames;

/// Groups that wait for a stream.
const GROUPS_WAITING: usize = 4;

/// Closes the streams' queues when it is dropped, however it comes about that nobody gives or takes any more: a stream that has
/// come to its end found them closed by the walk.
struct Closing<'q>(&'q [Queue<Arc<Group>>]);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(Queue::close);
    }
}

/// Lets the streams and fetchers end when it is dropped: no more is walked.
struct Walking<'q> {
    _queues: Closing<'q>,
    ahead: &'q Ahead,
}

impl Drop for Walking<'_> {
    fn drop(&mut self) {
        self.ahead.close();
    }
}

/// A backup of file system trees: what all its threads share.
pub(crate) struct Backup<'a> {
    /// The media agent.
    pub port: Arc<dyn BlockPort + 'a>,
    /// Where the time goes.
    pub meters: Arc<Meters>,
    /// Names of owners.
    pub owners: Arc<OwnerNames>,
    /// What is left out.
    pub selection: &'a Selection,
    /// The version that this one builds on: files of which only metadata changed refer to it.
    pub base: Option<[u8; 16]>,
    /// Where files of that are looked up by their inodes.
    pub known: Option<ByInode<'a>>,
    /// How to read.
    pub options: &'a ReadOptions,
    /// Set to end early: what is begun is finished.
    pub stop: &'a AtomicBool,
    /// What is counted.
    pub counters: &'a Counters,
    /// Takes messages.
    pub listener: &'a dyn Listener,
}

impl<'a> Backup<'a> {
    /// Saves the roots into as many streams as are given. Returns when everything was handed to the media agent.
    pub(crate) fn run(
        &self,
        roots: &[Vec<u8>],
        base: Option<&mut dyn BaseCursor>,
        streams: Vec<StreamOptions>,
    ) -> Result<(), LinkClosed> {
        source::raise_open_files();
        let queues: Vec<_> = streams.iter().map(|_| Queue::new(GROUPS_WAITING)).collect();
        let pieces = Pieces::default();
        let ahead = Ahead::behind(self.known.as_ref().map(ByInode::saved_by));
        let busy = Mutex::new(streams.len());
        let single = streams.len() == 1;
        // All streams are known to the media agent before the first asks for a block.
        let writers: Vec<_> = streams.into_iter().map(|o| self.open_stream(o)).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = writers
                .into_iter()
                .zip(&queues)
                .map(|(writer, queue)| {
                    let reader = StreamReader::new(self, writer, queue, &pieces, &ahead, single);
                    let queues = &queues;
                    let busy = &busy;
                    threads::start_in(scope, "stream", move || {
                        // Where nobody takes groups any more, the walk need not go on.
                        let _closing = Closing(queues);
                        reader.run(busy)
                    })
                })
                .collect();
            // A stream that has no thread was closed, and the others end.
            if let Some(Err(e)) = threads.iter().find(|started| started.is_err()) {
                self.say(Code::NoThread, b"", e.to_string());
                *busy.lock() -= threads.iter().filter(|started| started.is_err()).count();
                drop(Closing(&queues));
            }
            for _ in 0..FETCHERS {
                // Without them it is only slower.
                if threads::start_in(scope, "fetch", || ahead.run()).is_err() {
                    break;
                }
            }
            let walker = Walker {
                selection: self.selection,
                queues: &queues,
                ahead: &ahead,
                names_left_out: false,
                stop: self.stop,
                found: &self.counters.found,
                meters: &self.meters,
                event: &|event| walk_event(event, self.counters, self.listener),
            };
            let walking = Walking { _queues: Closing(&queues), ahead: &ahead };
            walker.run(roots, base);
            drop(walking);
            // All are joined, whichever of them failed.
            let results: Vec<_> =
                threads.into_iter().map(|t| t.map_or(Err(LinkClosed), joined)).collect();
            results.into_iter().collect()
        })
    }

    pub(super) fn open_stream(&self, options: StreamOptions) -> StreamWriter<'a> {
        StreamWriter::open(self.port.clone(), self.meters.clone(), self.owners.clone(), options)
    }

    fn say(&self, code: Code, path: &[u8], text: String) {
        say(self.listener, code, path, text);
    }
}

fn joined(stream: ScopedJoinHandle<'_, Result<(), LinkClosed>>) -> Result<(), LinkClosed> {
    stream.join().unwrap_or(Err(LinkClosed))
}

fn walk_event(event: WalkEvent<'_>, counters: &Counters, listener: &dyn Listener) {
    match event {
        WalkEvent::Skipped(_) => {
            counters.skipped.fetch_add(1, Relaxed);
        }
        WalkEvent::LeftOut(path, why) => {
            say(listener, Code::LeftOut, path, format!("left out: {why}"));
        }
        WalkEvent::Failed(path, Errno::NOENT | Errno::NOTDIR, _) => {
            say(listener, Code::Vanished, path, "vanished while the tree was walked".to_owned());
        }
        WalkEvent::NoRoot(path, e, kept) => {
            say(listener, Code::PathMissing, path, format!("{}: {}", text(e), below(kept)));
        }
        WalkEvent::OwnRoot(path) => {
            let why = "it is what is written to, or capstan's home: this version has nothing of it";
            say(listener, Code::PathMissing, path, why.to_owned());
        }
        WalkEvent::Mounted(path) => counters.note_mounted(&path_text(path)),
        WalkEvent::StillMissed(path) => counters.note_mounted(path),
        WalkEvent::Maskable(path) => counters.note_maskable(&path_text(path)),
        WalkEvent::StillMasked(path) => counters.note_maskable(path),
        WalkEvent::NotMounted(path, found, kept) => {
            // Until it is there again or given up the next backup is to know of it, too. The walk says so of a mount point above it, and
            // of one in which something is.
            if found.why.had && !found.is_below && !found.holds {
                counters.note_mounted(&path_text(path));
            }
            if found.why.masked {
                counters.note_maskable(&path_text(path));
            }
            say(listener, Code::NotMounted, path, not_mounted(found, kept));
        }
        WalkEvent::NotEntered(path, kept) => {
            let why =
                format!("it is there and cannot be entered, as if it were not: {}", below(kept));
            say(listener, Code::NotMounted, path, why);
        }
        WalkEvent::NotSorted(path, e, kept) => {
            let why = format!("cannot sort what the directory lists: {e}; {}", below(kept));
            say(listener, Code::NotListed, path, why);
        }
        WalkEvent::Failed(path, e, kept) => {
            let why = format!("cannot list the directory: {}; {}", text(e), below(kept));
            say(listener, Code::NotListed, path, why);
        }
    }
}

/// What becomes of what the last version has, where something cannot be reached.
const KEPT: &str = "what the last version has of it is kept as it was";

/// What becomes of what is at and below a path that cannot be reached. Whether the last version has any of it is not known yet: its
/// rows are read in the order of the walk.
fn below(kept: bool) -> &'static str {
    match kept {
        true => "what the last version has of it, if anything, is kept as it was",
        false => "this version has nothing of it",
    }
}

fn not_mounted(found: Unmounted, kept: bool) -> String {
    let why = match found.why.on_record {
        true => "which is a mount point by /etc/fstab or a mount unit",
        false => "and the last backup found another file system there",
    };
    if !found.is_there {
        return format!(
            "no directory is there, and the last backup found another file system there: {}; --exclude gives it up",
            below(kept)
        );
    }
    if found.why.masked {
        return format!(
            "another directory masks what the last backup found there (an empty one of a snapshot in place of a btrfs subvolume, or a \
             file system in memory): {}; bring that back, or give it up: remove the directory, or exclude it once",
            below(kept)
        );
    }
    match found.holds {
        true => format!(
            "nothing is mounted there, {why}: what is in it now is backed up, and {}",
            below(kept)
        ),
        false => format!("nothing is mounted there, {why}: {}", below(kept)),
    }
}

pub(crate) fn say(listener: &dyn Listener, code: Code, path: &[u8], text: String) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    listener.message(Message {
        code,
        agent: "disk agent",
        path: format!("/{}", path_text(path)),
        text,
        time_us: now.as_micros() as i64,
    });
}

fn text(e: Errno) -> String {
    let full = std::io::Error::from(e).to_string();
    full.split(" (os error").next().unwrap_or_default().to_lowercase()
}
