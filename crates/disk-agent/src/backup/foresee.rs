//! What a backup would do with each name. A stream's own decisions are made, so that all counts are those of the backup; only
//! contents that would be stored are not read, but counted.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use capstan_engine::link::{BlockPort, FilledBlock, Grant, LinkClosed, SegmentOrdinal};
use capstan_engine::queue::Queue;
use capstan_engine::threads::{self, NoThread};
use capstan_format::entry::{ExtentKind, Kind, join};
use capstan_format::id::StreamId;

use capstan_port::disk::backup::EachForeseen;
use capstan_wire::foreseen::{Fate, Foreseen};

use super::counters::Counters;
use super::reader::StreamReader;
use super::{Backup, GROUPS_WAITING, walk_event};
use crate::backup::huge::Pieces;
use crate::walk::ahead::Ahead;
use crate::walk::{BaseCursor, Group, LeftOut, WalkItem, Walker};
use capstan_stream::options::StreamOptions;

/// Foresees a backup of the roots; counts as the backup does. Calls with each name, in the order of the walk.
pub(super) fn foresee(
    backup: &Backup<'_>,
    roots: &[Vec<u8>],
    base: Option<&mut dyn BaseCursor>,
    stream: StreamOptions,
    each: &mut EachForeseen<'_>,
) -> Result<(), NoThread> {
    let queues = [Queue::<Arc<Group>>::new(GROUPS_WAITING)];
    let (pieces, ahead) = (Pieces::default(), Ahead::default());
    let writer = backup.open_stream(stream);
    let mut reader = StreamReader::new(backup, writer, &queues[0], &pieces, &ahead, true);
    let has_base = base.is_some();
    std::thread::scope(|scope| {
        let queues = &queues;
        let ahead = &ahead;
        let walk = move || {
            let walker = Walker {
                selection: backup.selection,
                queues,
                ahead,
                names_left_out: true,
                stop: backup.stop,
                found: &backup.counters.found,
                meters: &backup.meters,
                event: &|event| walk_event(event, backup.counters, backup.listener),
            };
            walker.run(roots, base);
        };
        threads::start_in(scope, "walk", walk)?;
        let mut waited = Duration::ZERO;
        let mut left_out: HashSet<Vec<u8>> = HashSet::new();
        while let Some(group) = queues[0].take(&mut waited) {
            reader.now = SystemTime::now();
            for (index, item) in group.items.iter().enumerate() {
                let path = join(&item.dir.path, &item.listed.name);
                // Of what is left out now, that the last version has it is not said name by name.
                if item.gone && is_within(&left_out, &path) {
                    continue;
                }
                let foreseen = reader.foresee(item, index, path);
                if has_base && foreseen.fate == Fate::LeftOut {
                    left_out.insert(foreseen.path.clone());
                }
                each(&foreseen);
            }
        }
        reader.count(0);
        Ok(())
    })
}

/// Whether a path, or a directory that it is in, is one of these.
fn is_within(paths: &HashSet<Vec<u8>>, path: &[u8]) -> bool {
    let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
    !paths.is_empty() && ends.chain([path.len()]).any(|end| paths.contains(&path[..end]))
}

/// What a name added to the counters.
#[derive(Clone, Copy, PartialEq)]
struct Seen {
    dirs: u64,
    kept: u64,
    skipped: u64,
    in_use: u64,
}

impl Seen {
    fn of(counters: &Counters) -> Self {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        Self {
            dirs: of(&counters.dirs),
            kept: of(&counters.kept),
            skipped: of(&counters.skipped),
            in_use: of(&counters.in_use),
        }
    }
}

impl StreamReader<'_> {
    /// What becomes of a name.
    fn foresee(&mut self, item: &WalkItem, index: usize, path: Vec<u8>) -> Foreseen {
        if item.left_out.as_deref() == Some(&LeftOut::Failed) {
            return Foreseen { path, fate: Fate::Failed, bytes: 0, rule: None, contents: false };
        }
        if let Some(why) = &item.left_out {
            let rule = Some(why.text(self.backup.selection));
            let contents = item.listed.name.is_empty() && !item.dir.path.is_empty();
            return Foreseen { path, fate: Fate::LeftOut, bytes: 0, rule, contents };
        }
        let before = Seen::of(self.backup.counters);
        let (mut rows, mut opened) = (Vec::new(), Vec::new());
        self.open(item, index, false, None, &mut rows, &mut opened);
        let after = Seen::of(self.backup.counters);
        let mut bytes = 0;
        for file in &opened {
            bytes += match file.ranges.as_slice() {
                [] => file.size,
                ranges => ranges.iter().map(|(_, len)| len).sum(),
            };
            self.count_file();
        }
        self.backup.counters.bytes.fetch_add(bytes, Relaxed);
        let left_out =
            (after.skipped > before.skipped).then_some(match after.in_use > before.in_use {
                true => LeftOut::InUse,
                false => LeftOut::Size,
            });
        let refers = |kind: &ExtentKind| matches!(kind, ExtentKind::AsIn(_) | ExtentKind::At(..));
        let fate = match rows.first() {
            _ if left_out.is_some() => Fate::LeftOut,
            Some((row, _)) if row.kind == Kind::Tombstone => Fate::Removed,
            Some((row, _)) if bytes == 0 && row.extents.iter().any(|x| refers(&x.kind)) => {
                Fate::Metadata
            }
            Some(_) if item.base.is_none() => Fate::New,
            Some(_) => Fate::Changed,
            None if after.kept > before.kept || after.dirs > before.dirs => Fate::Unchanged,
            None => Fate::Failed,
        };
        let rule = left_out.map(|why| why.text(self.backup.selection));
        Foreseen { path, fate, bytes, rule, contents: false }
    }
}

/// A media agent's end of the link where nothing is written.
#[derive(Debug)]
pub struct Nowhere;

/// Bytes of a block that nobody asks for.
const BLOCK: usize = 256 << 10;

impl BlockPort for Nowhere {
    fn block_size(&self) -> usize {
        BLOCK
    }

    fn open_stream(&self, _stream: StreamId) {}

    fn grant(&self, _stream: StreamId) -> Result<Grant, LinkClosed> {
        Err(LinkClosed)
    }

    fn grant_more(&self, _stream: StreamId, _segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
        Err(LinkClosed)
    }

    fn submit(&self, _block: FilledBlock) -> Result<(), LinkClosed> {
        Err(LinkClosed)
    }

    fn give_back(&self, _stream: StreamId, _grant: Grant) {}

    fn is_closing(&self, _stream: StreamId, _segment: SegmentOrdinal) -> bool {
        false
    }

    fn is_closed(&self) -> bool {
        true
    }

    fn leave_segment(&self, _stream: StreamId, _segment: SegmentOrdinal) {}

    fn close_stream(&self, _stream: StreamId) -> Result<(), LinkClosed> {
        Ok(())
    }
}
