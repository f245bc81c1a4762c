//! Opening: what it creates, what it keeps, what it refuses, and who may have it open.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use capstan_format::id::SessionId;
use capstan_idb::{Idb, IdbError, KeyRecord, Status, Totals};
use common::*;

#[test]
fn an_idb_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Idb>();
}

#[test]
fn what_it_creates_is_for_its_owner_alone() {
    let (_dir, idb) = fresh_file();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(idb.home().to_owned()), 0o700);
    assert_eq!(mode(idb.home().join("catalogs")), 0o700);
    assert_eq!(mode(idb.home().join("capstan.db")), 0o600);
    assert_eq!(mode(idb.home().join("capstan.db-wal")), 0o600);
}

#[test]
fn reopening_keeps_everything() {
    let (_dir, idb) = begun();
    let home = idb.home().to_owned();
    let key = KeyRecord { id: capstan_format::id::KeyId(nth(9)), record: "{\"kdf\":1}".into() };
    idb.put_key(&key).unwrap();
    let segments = vec![(segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 99)])];
    idb.commit_segments(&segments).unwrap();
    drop(idb);
    assert!(!home.join("capstan.db-wal").exists(), "closed cleanly");
    assert_eq!(home.join("capstan.db").exists(), !server::is_wanted());

    let idb = Idb::open(&home).unwrap();
    assert_eq!(idb.objects().unwrap(), [object(1, "etc")]);
    assert_eq!(idb.media().unwrap(), [medium(1, "monday")]);
    assert_eq!(
        idb.version(version(1, 1, Status::Running).id).unwrap(),
        Some(version(1, 1, Status::Running))
    );
    assert_eq!(idb.sessions(9).unwrap(), [session(1, Some(1), Status::Running)]);
    assert_eq!(idb.segments_of_version(version(1, 1, Status::Running).id).unwrap(), segments);
    assert_eq!(idb.key(key.id).unwrap(), Some(key));
}

#[test]
fn a_killed_process_loses_nothing_recorded() {
    let (dir, idb) = begun_in(fresh_file());
    let home = idb.home().to_owned();
    // The files as they lie on the disk while it is open: what a kill leaves.
    let copy = dir.path().join("after");
    fs::create_dir(&copy).unwrap();
    for name in ["capstan.db", "capstan.db-wal"] {
        fs::copy(home.join(name), copy.join(name)).unwrap();
    }
    let recovered = Idb::open(&copy).unwrap();
    assert_eq!(recovered.sessions(9).unwrap(), idb.sessions(9).unwrap());
    assert_eq!(recovered.sessions(9).unwrap().len(), 1);
}

#[test]
fn opening_again_is_quick_and_writes_nothing() {
    let (_dir, idb) = begun_in(fresh_file());
    let home = idb.home().to_owned();
    let log = home.join("capstan.db-wal");
    let before = fs::metadata(&log).unwrap();
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let other = Idb::open(&home).unwrap();
        best = best.min(start.elapsed());
        drop(other);
    }
    assert!(best < Duration::from_millis(30), "{best:?}");
    let after = fs::metadata(&log).unwrap();
    assert_eq!((before.len(), before.mtime_nsec()), (after.len(), after.mtime_nsec()));
}

#[test]
fn a_file_that_is_no_database_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let text = "not a database, but long enough to be taken for one's header, surely".repeat(20);
    fs::write(dir.path().join("capstan.db"), &text).unwrap();
    let error = Idb::open(dir.path()).unwrap_err();
    assert!(matches!(error, IdbError::Sql { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("capstan.db") && message.contains("importing the media"), "{message}");
    assert_eq!(fs::read_to_string(dir.path().join("capstan.db")).unwrap(), text);
}

#[test]
fn a_home_that_is_a_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::write(&home, "").unwrap();
    let message = Idb::open(&home).unwrap_err().to_string();
    assert!(message.contains("home") && message.contains("CAPSTAN_HOME"), "{message}");
}

#[test]
fn within_a_runtime_it_is_an_error_and_no_panic() {
    let (_dir, idb) = fresh();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        assert!(matches!(idb.media(), Err(IdbError::InsideRuntime)));
        assert!(matches!(Idb::open(idb.home()), Err(IdbError::InsideRuntime)));
    });
    assert!(idb.media().unwrap().is_empty());
}

/// As many processes as there are threads: each opens the database for itself.
#[test]
fn many_create_the_same_database_at_once() {
    for _ in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("a/b/home");
        server::prepare(&home);
        let start = Barrier::new(6);
        thread::scope(|scope| {
            for n in 0..6 {
                let (home, start) = (&home, &start);
                scope.spawn(move || {
                    start.wait();
                    let idb = Idb::open(home).unwrap();
                    idb.put_object(&object(n, "same")).unwrap();
                });
            }
        });
        assert_eq!(Idb::open(&home).unwrap().objects_by_name("same").unwrap().len(), 6);
    }
}

#[test]
fn two_write_at_the_same_time_and_lose_nothing() {
    let (_dir, first) = begun();
    let second = Idb::open(first.home()).unwrap();
    let start = Barrier::new(2);
    thread::scope(|scope| {
        for (half, idb) in [&first, &second].into_iter().enumerate() {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                for i in 0..100_u8 {
                    let n = i * 2 + u8::try_from(half).unwrap();
                    let row = (segment(n, 1, u32::from(n), 1), vec![part(n, 1, 1, 0, 1)]);
                    idb.commit_segments(&[row]).unwrap();
                    // Both read what both write.
                    idb.last_segment_number(medium(1, "").id).unwrap().unwrap();
                }
            });
        }
    });
    for idb in [&first, &second] {
        assert_eq!(idb.segments_of_medium(medium(1, "").id).unwrap().len(), 200);
    }
    second
        .end_session(SessionId(nth(1)), Status::Completed, 9, &Totals::default(), "{}", None)
        .unwrap();
    assert_eq!(first.session(SessionId(nth(1))).unwrap().unwrap().status, Status::Completed);
}
