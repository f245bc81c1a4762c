//! Who reads a version holds it, with all that it builds on, in the internal database: nothing of it is removed meanwhile, by whom
//! and from where ever.
//!
//! A process that can be seen has what it holds as long as it is there, also while it is stopped. Of another, whoever would remove
//! something watches by his own clock that it says for as long as a lease is given that it is there: clocks differ.

use capstan_address::HostName;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use capstan_engine::message::Code;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{Idb, IdbError, PruneRow, Reader};

use crate::Cell;
use crate::error::{Result, SessionRefusal};
use crate::observe::Stop;
use crate::process::keeper::{Keeper, lease_name};
use crate::process::{Sight, begun, look_at, place};
use crate::session::{SessionLog, now_us};

/// How leases are given.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// For so long, if they are not kept.
    lease: Duration,
    /// How often they are kept.
    beat: Duration,
    /// How often one that cannot be seen is looked at.
    look: Duration,
}

const TERMS: Terms = Terms {
    lease: Duration::from_secs(30),
    beat: Duration::from_secs(10),
    look: Duration::from_millis(500),
};

/// Versions that this process reads, until it is dropped.
pub(crate) struct Reading {
    idb: Arc<Idb>,
    reader: Reader,
    /// Keeps the lease.
    keeper: Keeper,
}

impl Reading {
    /// `None` where the version was given up; see [`Idb::hold_versions`].
    fn of(
        idb: &Arc<Idb>,
        versions: &[VersionId],
        living: bool,
        terms: Terms,
    ) -> std::result::Result<Option<Self>, IdbError> {
        let reader = this_process(idb.host());
        let Some(held) = idb.hold_versions(&reader, versions, living)? else { return Ok(None) };
        let (of_keeper, kept) = (idb.clone(), reader.clone());
        let keeper = Keeper::begin("version lease", terms.beat, move || {
            // If the database is away, others cannot remove anything either.
            let _ = of_keeper.keep_holding(&kept, &held);
        });
        Ok(Some(Self { idb: idb.clone(), reader, keeper }))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.keeper.end();
        // If it cannot be said, the lease ends with the process.
        let _ = self.idb.free_versions(&self.reader);
    }
}

fn this_process(host: &HostName) -> Reader {
    let now = now_us();
    let pid = std::process::id();
    Reader {
        lease: lease_name(now),
        host: host.to_owned(),
        place: place(),
        pid,
        started: begun(),
        beat: 0,
        since_us: now,
    }
}

/// Ends the leases of dead processes: those that are seen to be gone at once, those that cannot be seen when they were not kept for as long as a lease is
/// given. `tell` is told who is waited for; `stop` ends the waiting.
fn end_dead(
    idb: &Idb,
    terms: Terms,
    tell: &mut dyn FnMut(&Reader),
    stop: &dyn Fn() -> bool,
) -> std::result::Result<(), IdbError> {
    let shared = idb.is_on_server();
    let mut seen: HashMap<String, (u64, Instant)> = HashMap::new();
    loop {
        let mut waits = false;
        for reader in idb.readers()? {
            match look_at(reader.pid, &reader.place, &reader.started, shared) {
                Sight::There => continue,
                Sight::Gone => {
                    idb.end_lease(&reader)?;
                    continue;
                }
                Sight::Hidden => {}
            }
            match seen.get(&reader.lease) {
                None => {
                    tell(&reader);
                    seen.insert(reader.lease.clone(), (reader.beat, Instant::now()));
                    waits = true;
                }
                // It was kept since: its process is there.
                Some((beat, _)) if *beat != reader.beat => {}
                Some((_, since)) if since.elapsed() >= terms.lease => idb.end_lease(&reader)?,
                Some(_) => waits = true,
            }
        }
        if !waits || stop() {
            return Ok(());
        }
        thread::sleep(terms.look);
    }
}

impl Cell {
    /// Holds a version that is to be read, with all that it builds on. Refuses one that was given up.
    pub(crate) fn hold_version(&self, version: VersionId) -> Result<Reading> {
        Reading::of(&self.idb, &[version], true, TERMS)?
            .ok_or_else(|| SessionRefusal::VersionExpired { version }.into())
    }

    /// Holds versions that are to be read, with all that they build on, also those that were given up: they are not removed from now
    /// on.
    pub(crate) fn hold_versions(&self, versions: &[VersionId]) -> Result<Option<Reading>> {
        Ok(Reading::of(&self.idb, versions, false, TERMS)?)
    }

    /// Ends the leases of processes that died, before something is removed that might be read.
    pub(crate) fn end_dead_leases(&self, log: &SessionLog<'_>, stop: &Stop) -> Result<()> {
        let mut tell = |reader: &Reader| {
            let text = format!("waiting until it is seen whether {} still reads", reader.who());
            log.say(Code::IsRead, "cell", &reader.host, text);
        };
        Ok(end_dead(&self.idb, TERMS, &mut tell, &|| stop.0.load(Relaxed))?)
    }

    /// All versions, as [`Idb::prune_rows`] has them. Processes that are seen to be gone read none of them: a killed one says no more that
    /// it is done. Nothing is waited for.
    pub(crate) fn rows_of_the_living(&self) -> Result<Vec<PruneRow>> {
        let mut rows = self.idb.prune_rows()?;
        if rows.iter().all(|row| row.readers.is_empty()) {
            return Ok(rows);
        }
        let shared = self.idb.is_on_server();
        let is_gone = |r: &Reader| look_at(r.pid, &r.place, &r.started, shared) == Sight::Gone;
        let there: HashSet<String> =
            self.idb.readers()?.iter().filter(|r| !is_gone(r)).map(Reader::who).collect();
        for row in &mut rows {
            row.readers.retain(|who| there.contains(who));
        }
        Ok(rows)
    }

    /// Refuses to give up what a medium has while somebody reads it.
    pub(crate) fn refuse_read(&self, medium: MediumId) -> Result<()> {
        if self.idb.reader_on_medium(medium)?.is_none() {
            return Ok(());
        }
        end_dead(&self.idb, TERMS, &mut |_| (), &|| false)?;
        let Some((version, reader)) = self.idb.reader_on_medium(medium)? else { return Ok(()) };
        let called = match self.idb.version(version)? {
            Some(version) => self.called(&version)?,
            None => version.short(),
        };
        let label = self.idb.medium(medium)?.map_or_else(|| medium.short(), |m| m.label);
        Err(SessionRefusal::MediumRead { reader: reader.who(), version: called, label }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const SHORT: Terms = Terms {
        lease: Duration::from_millis(300),
        beat: Duration::from_millis(50),
        look: Duration::from_millis(10),
    };

    fn idb() -> (tempfile::TempDir, Arc<Idb>) {
        let dir = tempfile::tempdir().unwrap();
        let idb = Arc::new(Idb::open(&dir.path().join("home")).unwrap());
        let object = capstan_format::id::ObjectId([1; 16]);
        let named = |name: &str| name.to_owned();
        let of = capstan_idb::Object {
            id: object,
            name: named("o"),
            host: HostName::recorded("h"),
            sealed: None,
        };
        idb.put_object(&of).unwrap();
        for n in 1..=2u8 {
            idb.upsert_version(&capstan_idb::Version {
                id: VersionId([n; 16]),
                object,
                status: capstan_idb::Status::Completed,
                method: named("full"),
                base: (n == 2).then_some(VersionId([1; 16])),
                key: None,
                null_device: false,
                created_us: i64::from(n),
                stands_for: None,
            })
            .unwrap();
        }
        (dir, idb)
    }

    fn elsewhere() -> Reader {
        let process = this_process(&HostName::recorded("here"));
        Reader {
            place: format!("{} pid:[1]", crate::process::boot_id()),
            host: HostName::recorded("elsewhere"),
            ..process
        }
    }

    fn held(idb: &Idb) -> Vec<Vec<String>> {
        idb.prune_rows().unwrap().into_iter().map(|row| row.readers).collect()
    }

    fn settle(idb: &Idb) {
        end_dead(idb, SHORT, &mut |_| (), &|| false).unwrap();
    }

    #[test]
    fn what_is_read_is_held_with_what_it_builds_on_until_that_is_done() {
        let (_dir, idb) = idb();
        let reading = Reading::of(&idb, &[VersionId([2; 16])], true, SHORT).unwrap().unwrap();
        settle(&idb);
        assert!(held(&idb).iter().all(|who| who.len() == 1), "{:?}", held(&idb));
        drop(reading);
        assert!(held(&idb).iter().all(Vec::is_empty));
        let of_base = Reading::of(&idb, &[VersionId([1; 16])], true, SHORT).unwrap().unwrap();
        assert_eq!(held(&idb).iter().filter(|who| !who.is_empty()).count(), 1);
        drop(of_base);
    }

    #[test]
    fn what_was_given_up_is_read_only_while_something_builds_on_it() {
        let (_dir, idb) = idb();
        let (base, top) = (VersionId([1; 16]), VersionId([2; 16]));
        let expire = |id| idb.expire(5, &[], |_| (vec![id], ())).unwrap();
        let of = |id| Reading::of(&idb, &[id], true, SHORT).unwrap().is_some();
        expire(base);
        assert!(of(base) && of(top));
        expire(top);
        assert!(!of(base) && !of(top));
        assert!(Reading::of(&idb, &[top], false, SHORT).unwrap().is_some());
    }

    #[test]
    fn a_process_of_this_machine_that_is_gone_holds_nothing() {
        let (_dir, idb) = idb();
        let mut dead = this_process(&HostName::recorded("here"));
        dead.started = "1".to_owned();
        idb.hold_versions(&dead, &[VersionId([1; 16])], true).unwrap();
        let begun = Instant::now();
        end_dead(&idb, TERMS, &mut |_| (), &|| false).unwrap();
        assert!(begun.elapsed() < TERMS.lease && idb.readers().unwrap().is_empty());
    }

    #[test]
    fn one_of_another_machine_holds_as_long_as_it_says_so() {
        let (_dir, idb) = idb();
        let theirs = elsewhere();
        let versions = [VersionId([1; 16])];
        idb.hold_versions(&theirs, &versions, true).unwrap();
        let end = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Relaxed) {
                    idb.keep_holding(&theirs, &versions).unwrap();
                    thread::sleep(Duration::from_millis(5));
                }
            });
            settle(&idb);
            assert_eq!(idb.readers().unwrap().len(), 1);
            end.store(true, Relaxed);
        });
        settle(&idb);
        assert_eq!(idb.readers().unwrap(), []);
        // It was stopped for long, and is there again.
        idb.keep_holding(&theirs, &versions).unwrap();
        assert_eq!(idb.readers().unwrap().len(), 1);
    }
}
