//! Counting what a backup would store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use capstan_engine::message::Listener;
use capstan_engine::meter::Meters;
use capstan_engine::queue::Queue;
use capstan_engine::threads::{self, NoThread};
use capstan_format::entry::Kind;

use super::{Counters, GROUPS_WAITING, walk_event};
use crate::ahead::Ahead;
use crate::linux::source;
use crate::select::Selection;
use crate::walk::{Group, WalkItem, Walker};

/// Counts what a backup of the roots would store; opens no file.
pub fn count(
    roots: &[Vec<u8>],
    selection: &Selection,
    stop: &AtomicBool,
    listener: &dyn Listener,
) -> Result<Counters, NoThread> {
    let counters = Counters::default();
    let queues = [Queue::<Arc<Group>>::new(GROUPS_WAITING)];
    let ahead = Ahead::default();
    let meters = Meters::default();
    std::thread::scope(|scope| {
        threads::start_in(scope, "counting", || {
            let mut waited = Duration::ZERO;
            while let Some(group) = queues[0].take(&mut waited) {
                group.items.iter().for_each(|item| count_item(item, selection, &counters));
            }
        })?;
        let walker = Walker {
            selection,
            queues: &queues,
            ahead: &ahead,
            stop,
            found: &counters.found,
            meters: &meters,
            event: &|event| walk_event(event, &counters, listener),
        };
        walker.run(roots, None);
        Ok(())
    })?;
    Ok(counters)
}

fn count_item(item: &WalkItem, selection: &Selection, counters: &Counters) {
    let Ok(stat) = source::stat_at(&item.dir, &item.listed.name) else { return };
    let Some(entry) = source::entry_of(&item.dir, &item.listed.name, &stat) else { return };
    let counter = match entry.kind {
        Kind::Dir => &counters.dirs,
        Kind::File if selection.sizes.as_ref().is_some_and(|s| !s.contains(&entry.size)) => {
            &counters.skipped
        }
        _ => {
            counters.bytes.fetch_add(entry.size, Relaxed);
            &counters.files
        }
    };
    counter.fetch_add(1, Relaxed);
}
