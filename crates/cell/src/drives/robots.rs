//! Robots of libraries that several hosts share, and the drives that a session needs at a time: booked in the internal database, which
//! all of them have.
//!
//! A lease is put off by the process that has it as long as it moves a tape, so one that is not put off any more is a dead process's.
//! Of a process that can be seen it is known at once that it is gone. Of another, whoever waits watches by his own clock that the lease
//! stays as it is for as long as it is given: clocks of hosts differ.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use capstan_address::{HostName, LibraryName};
use capstan_engine::leaving;
use capstan_idb::{Idb, IdbError, RobotLease};
use capstan_medium::DeviceError;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::shared::Common;
use capstan_medium::tape::TapeError;
use parking_lot::Mutex;

use crate::Cell;
use crate::error::chain;
use crate::process::keeper::{Keeper, lease_name};
use crate::process::{Sight, birth, look};
use crate::session::now_us;

/// How leases are given.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// For so long.
    lease: Duration,
    /// How often they are looked at by who waits.
    look: Duration,
    /// How long one is waited for. A look into every slot takes up to an hour.
    patience: Duration,
}

const TERMS: Terms = Terms {
    lease: Duration::from_secs(30),
    look: Duration::from_millis(250),
    patience: Duration::from_secs(60 * 60),
};

/// Who is told, in a sentence, that a robot is waited for.
type Tell = dyn Fn(&str) + Send + Sync;

impl Cell {
    /// Has this process book the robots that it moves tapes with. `tell` is told when one has to be waited for.
    pub fn share_libraries(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        // This outlives the cell, which closes its database when it ends.
        let idb = Arc::downgrade(&self.idb);
        let seen = Mutex::default();
        self.devices.share_with(Arc::new(Sharing { idb, tell: Box::new(tell), seen }));
    }
}

/// What this process shares with others that have the same database.
struct Sharing {
    idb: Weak<Idb>,
    tell: Box<Tell>,
    /// How the leases of others were seen: who asks again and again knows which of them is a dead process's.
    seen: Mutex<Seen>,
}

impl Common for Sharing {
    fn book(
        &self,
        queue: &Arc<Queue>,
        robot: &str,
    ) -> std::result::Result<Box<dyn Send>, TapeError> {
        match self.idb.upgrade() {
            Some(idb) => Ok(Box::new(Booked::wait(queue, idb, robot, TERMS, &*self.tell)?)),
            None => Ok(Box::new(())),
        }
    }

    fn claim(&self, drive: &str) -> std::result::Result<Box<dyn Send>, TapeError> {
        match self.idb.upgrade() {
            // Processes of one host have locks for that.
            Some(idb) if idb.is_on_server() => {
                Ok(Box::new(Booked::at_once(&idb, drive, TERMS, &mut self.seen.lock())?))
            }
            _ => Ok(Box::new(())),
        }
    }

    fn disturbed(&self, library: &LibraryName) {
        if let Some(idb) = self.idb.upgrade() {
            // If the database is away, no session looks there either for what to load.
            let _ = idb.forget_seen_tapes(&library.to_string(), None);
        }
    }
}

impl Cell {
    /// Books the drives that a session needs at a time, in each library so many: all of them, or none while it waits. So the sessions
    /// that need several have them all, and none that has one waits for what another such has. A session that needs one drive books
    /// none: it waits for nothing while it has that.
    pub(crate) fn book_drives(
        &self,
        needs: &[(LibraryName, u32)],
    ) -> crate::error::Result<Vec<Booked>> {
        let mut robots = Vec::new();
        for (library, need) in needs {
            // What is wrong with one that cannot be asked is said when it is opened.
            let Ok(open) = self.devices.library(library) else { continue };
            let drives = open.elements().drives;
            robots.push((library, open.robot(), drives, (*need).min(drives) as usize));
        }
        if robots.iter().map(|of| of.3).sum::<usize>() < 2 {
            return Ok(Vec::new());
        }
        let mut applicant = Applicant::new(&self.idb, TERMS);
        let mut wait = self.devices.queue().wait();
        loop {
            let (mut all, mut lacks) = (Vec::new(), None);
            for (library, robot, drives, need) in &robots {
                let mut booked = Vec::new();
                let mut other = None;
                for n in 1..=*drives {
                    if booked.len() == *need {
                        break;
                    }
                    let taken = applicant.take(&format!("{robot} booked {n}"));
                    match taken.map_err(DeviceError::from)? {
                        Taken::Had(one) => booked.push(one),
                        Taken::ByOther(held) => other = Some(held),
                    }
                }
                if let Some(held) = other.filter(|_| booked.len() < *need) {
                    lacks = Some((library, held));
                    break;
                }
                all.append(&mut booked);
            }
            let Some((library, held)) = lacks else { return Ok(all) };
            drop(all);
            let what = format!("a drive of library {library}");
            let busy = TapeError::Busy { what, holder: holder(&held) };
            if !wait.again(&busy) {
                return Err(DeviceError::from(busy).into());
            }
        }
    }
}

/// A robot, or one of the drives that it needs at a time, that this process has.
pub(crate) struct Booked {
    idb: Arc<Idb>,
    lease: RobotLease,
    /// Puts the lease off.
    keeper: Keeper,
}

/// Who would have leases, and how those of others were seen.
struct Applicant<'a> {
    idb: &'a Arc<Idb>,
    terms: Terms,
    seen: Seen,
}

/// Leases of others, by what they are of: since when they are as they are.
type Seen = HashMap<String, (RobotLease, Instant)>;

impl<'a> Applicant<'a> {
    fn new(idb: &'a Arc<Idb>, terms: Terms) -> Self {
        Self { idb, terms, seen: HashMap::new() }
    }

    /// Takes a lease, or says who has it.
    fn take(&mut self, robot: &str) -> std::result::Result<Taken, TapeError> {
        let (idb, terms) = (self.idb, self.terms);
        let failed = |e: IdbError| TapeError::Library {
            library: robot.to_owned(),
            problem: format!("its robot cannot be booked: {}", chain(&e)).into(),
        };
        loop {
            let wanted = new_lease(self.idb.host(), robot, terms);
            let Some(held) = idb.take_robot(&wanted).map_err(failed)? else {
                return Ok(Taken::Had(Booked::keep(idb.clone(), wanted, terms)));
            };
            let known = self.seen.get(robot).filter(|(known, _)| *known == held);
            let is_stale = known.is_some_and(|(_, since)| since.elapsed() >= terms.lease);
            let is_dead = look(held.pid, &held.birth, idb.is_on_server()) == Sight::Gone;
            if is_dead || is_stale {
                idb.end_robot_lease(&held).map_err(failed)?;
                continue;
            }
            if known.is_none() {
                self.seen.insert(robot.to_owned(), (held.clone(), Instant::now()));
            }
            return Ok(Taken::ByOther(held));
        }
    }
}

/// Who has a lease that was asked for.
enum Taken {
    Had(Booked),
    ByOther(RobotLease),
}

impl Booked {
    /// Waits for a robot.
    fn wait(
        queue: &Arc<Queue>,
        idb: Arc<Idb>,
        robot: &str,
        terms: Terms,
        tell: &Tell,
    ) -> Result<Self, TapeError> {
        let begun = Instant::now();
        let mut applicant = Applicant::new(&idb, terms);
        let mut told: Option<String> = None;
        let mut notice = queue.notice();
        loop {
            let held = match applicant.take(robot)? {
                Taken::Had(booked) => return Ok(booked),
                Taken::ByOther(held) => held,
            };
            if begun.elapsed() >= terms.patience || leaving::has_left() {
                return Err(TapeError::Busy {
                    what: format!("the robot of library {robot}"),
                    holder: holder(&held),
                });
            }
            let who = holder(&held);
            let why = format!("waiting for the robot of library {robot}, which {who} has");
            notice.put_up(&why);
            if told.as_ref() != Some(&held.lease) {
                tell(&why);
                told = Some(held.lease);
            }
            leaving::nap(terms.look);
        }
    }

    /// Takes a drive, or says who has it.
    fn at_once(
        idb: &Arc<Idb>,
        drive: &str,
        terms: Terms,
        seen: &mut Seen,
    ) -> Result<Self, TapeError> {
        let mut applicant = Applicant { idb, terms, seen: std::mem::take(seen) };
        let taken = applicant.take(drive);
        *seen = applicant.seen;
        match taken? {
            Taken::Had(booked) => Ok(booked),
            Taken::ByOther(held) => {
                Err(TapeError::Busy { what: drive.to_owned(), holder: holder(&held) })
            }
        }
    }

    fn keep(idb: Arc<Idb>, lease: RobotLease, terms: Terms) -> Self {
        let (of_keeper, kept) = (idb.clone(), lease.clone());
        let keeper = Keeper::begin("robot lease", terms.lease / 3, move || {
            // If the database is away, others cannot book either.
            let _ = of_keeper.prolong_robot(&kept, now_us() + micros(terms.lease));
        });
        Self { idb, lease, keeper }
    }
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.keeper.end();
        // If it cannot be said, the lease ends by itself.
        let _ = self.idb.free_robot(&self.lease);
    }
}

fn new_lease(host: &HostName, robot: &str, terms: Terms) -> RobotLease {
    let now = now_us();
    RobotLease {
        robot: robot.to_owned(),
        lease: lease_name(now),
        host: host.to_owned(),
        pid: std::process::id(),
        birth: birth(),
        since_us: now,
        until_us: now + micros(terms.lease),
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn holder(held: &RobotLease) -> String {
    format!("process {} on {}", held.pid, held.host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_medium::host::waits::Waits;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    const SHORT: Terms = Terms {
        lease: Duration::from_millis(300),
        look: Duration::from_millis(5),
        patience: Duration::from_secs(60),
    };

    fn idb() -> (tempfile::TempDir, Arc<Idb>) {
        let dir = tempfile::tempdir().unwrap();
        let idb = Arc::new(Idb::open(&dir.path().join("home")).unwrap());
        (dir, idb)
    }

    fn of_other_host() -> RobotLease {
        RobotLease {
            host: HostName::recorded("elsewhere"),
            lease: "theirs".to_owned(),
            ..new_lease(&HostName::recorded("here"), "r", SHORT)
        }
    }

    #[test]
    fn one_has_it_at_a_time_however_long_it_takes() {
        let (_dir, idb) = idb();
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let booked = Booked::wait(
                        &Arc::new(Queue::counted_by(Waits::default())),
                        idb.clone(),
                        "r",
                        SHORT,
                        &|_| (),
                    )
                    .unwrap();
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    // Longer than the lease, which is put off.
                    thread::sleep(Duration::from_millis(500));
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                    drop(booked);
                });
            }
        });
        assert!(
            idb.take_robot(&new_lease(&HostName::recorded("here"), "r", SHORT)).unwrap().is_none(),
            "it was given back"
        );
        assert!(
            idb.take_robot(&new_lease(&HostName::recorded("here"), "other", SHORT))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_lease_that_is_not_put_off_ends_whatever_its_clock_says() {
        let (_dir, idb) = idb();
        let mut theirs = of_other_host();
        theirs.until_us += 1_000_000_000_000;
        assert_eq!(idb.take_robot(&theirs).unwrap(), None);
        let begun = Instant::now();
        let told = parking_lot::Mutex::new(Vec::new());
        let said = Arc::new(told);
        let told = said.clone();
        let tell = move |text: &str| told.lock().push(text.to_owned());
        let booked = Booked::wait(
            &Arc::new(Queue::counted_by(Waits::default())),
            idb.clone(),
            "r",
            SHORT,
            &tell,
        )
        .unwrap();
        assert!(begun.elapsed() >= SHORT.lease);
        assert_eq!(said.lock().len(), 1);
        assert!(
            said.lock()[0]
                .ends_with(&format!("which process {} on elsewhere has", std::process::id()))
        );
        // Whose lease it was cannot end the other's.
        idb.free_robot(&theirs).unwrap();
        assert!(
            idb.take_robot(&new_lease(&HostName::recorded("here"), "r", SHORT)).unwrap().is_some()
        );
        drop(booked);
    }

    #[test]
    fn one_that_is_put_off_is_waited_for_and_its_holder_named() {
        let (_dir, idb) = idb();
        let theirs = of_other_host();
        assert_eq!(idb.take_robot(&theirs).unwrap(), None);
        let end = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while end.load(SeqCst) == 0 {
                    idb.prolong_robot(&theirs, now_us()).unwrap();
                    thread::sleep(Duration::from_millis(50));
                }
            });
            let terms = Terms { patience: Duration::from_millis(900), ..SHORT };
            let refused = Booked::wait(
                &Arc::new(Queue::counted_by(Waits::default())),
                idb.clone(),
                "r",
                terms,
                &|_| (),
            )
            .err()
            .unwrap();
            end.store(1, SeqCst);
            assert!(refused.to_string().contains("on elsewhere"), "{refused}");
        });
    }

    #[test]
    fn a_drive_is_had_at_once_or_its_holder_is_named_until_the_lease_is_a_dead_ones() {
        let (_dir, idb) = idb();
        let mut seen = Seen::new();
        let own = Booked::at_once(&idb, "other", SHORT, &mut seen).unwrap();
        assert!(Booked::at_once(&idb, "other", SHORT, &mut seen).err().unwrap().is_busy());
        drop(own);
        assert_eq!(idb.take_robot(&of_other_host()).unwrap(), None);
        let refused = Booked::at_once(&idb, "r", SHORT, &mut seen).err().unwrap();
        assert!(refused.is_busy() && refused.to_string().contains("on elsewhere"), "{refused}");
        thread::sleep(SHORT.lease);
        drop(Booked::at_once(&idb, "r", SHORT, &mut seen).unwrap());
    }

    #[test]
    fn a_process_of_this_host_that_is_gone_has_nothing() {
        let (_dir, idb) = idb();
        let dead = RobotLease {
            pid: u32::MAX - 1,
            lease: "dead".to_owned(),
            ..new_lease(&HostName::recorded("here"), "r", TERMS)
        };
        assert_eq!(idb.take_robot(&dead).unwrap(), None);
        let begun = Instant::now();
        drop(
            Booked::wait(&Arc::new(Queue::counted_by(Waits::default())), idb, "r", TERMS, &|_| ())
                .unwrap(),
        );
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
