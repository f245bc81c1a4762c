//! Protection and pruning: the mark, what is found by it, and what is left when all is removed.

mod common;

use capstan_format::id::{MediumId, SegmentId, SessionId, VersionId};
use capstan_idb::{Idb, IdbError, Keeping, Protection, Status, StreamPart};
use common::*;

fn vid(n: u8) -> VersionId {
    VersionId(nth(n))
}

/// A complete version of object 1 with a session, a segment and a catalog file, all of the same number.
fn put(idb: &Idb, n: u8, base: Option<u8>) {
    let status = Status::Running;
    let mut row = version(n, 1, status);
    row.base = base.map(vid);
    idb.begin_session(&session(n, Some(n), status), Some(&row)).unwrap();
    idb.commit_segments(&[(segment(n, 1, n.into(), n), vec![part(n, n, n, 0, 9)])]).unwrap();
    idb.write_catalog(SegmentId(nth(n)), &[b"catalog"]).unwrap();
    let done = Status::Completed;
    idb.end_session(SessionId(nth(n)), done, 9, &Default::default(), "{}", Some(done)).unwrap();
}

fn filled() -> (tempfile::TempDir, Idb) {
    let (dir, idb) = fresh();
    idb.put_object(&object(1, "etc")).unwrap();
    idb.put_medium(&medium(1, "monday")).unwrap();
    idb.put_medium(&medium(2, "copy")).unwrap();
    put(&idb, 1, None);
    put(&idb, 2, Some(1));
    put(&idb, 3, None);
    (dir, idb)
}

fn expire(idb: &Idb, which: &[u8]) {
    let which: Vec<VersionId> = which.iter().map(|n| vid(*n)).collect();
    idb.expire(77, &[], |rows| {
        assert!(rows.is_sorted_by_key(|row| -row.version.created_us));
        (which.clone(), ())
    })
    .unwrap();
}

fn is_expired<T: std::fmt::Debug>(result: capstan_idb::Result<T>) {
    assert!(matches!(result, Err(IdbError::Expired { .. })), "{result:?}");
}

#[test]
fn protection_reads_back() {
    let (_dir, idb) = filled();
    assert_eq!(idb.keeping(vid(1)).unwrap(), Keeping::default());
    for protection in
        [Protection::None, Protection::UntilUs(5), Protection::Permanent, Protection::Rules]
    {
        idb.set_protection(vid(1), Some(protection), None).unwrap();
        idb.set_protection(vid(1), None, Some(protection)).unwrap();
        let kept = idb.keeping(vid(1)).unwrap();
        assert_eq!((kept.protection, kept.catalog), (protection, protection));
    }
    idb.import_protection(vid(1), Protection::UntilUs(8)).unwrap();
    idb.import_protection(vid(1), Protection::UntilUs(9)).unwrap();
    assert_eq!(idb.keeping(vid(1)).unwrap().protection, Protection::UntilUs(8));
    let unknown = idb.set_protection(vid(9), Some(Protection::None), None);
    assert!(matches!(unknown, Err(IdbError::Unknown { .. })));
    // An import of the version leaves all that.
    idb.upsert_version(&version(1, 1, Status::Completed)).unwrap();
    assert_eq!(idb.keeping(vid(1)).unwrap().protection, Protection::UntilUs(8));
}

#[test]
fn a_lock_is_never_shortened() {
    let (_dir, idb) = filled();
    idb.lock(vid(2), &[vid(2), vid(1)], 50).unwrap();
    idb.raise_locks(&[(vid(1), 40), (vid(2), 60), (vid(9), 1)]).unwrap();
    let until = |n| idb.keeping(vid(n)).unwrap().locked_until_us;
    assert_eq!([until(1), until(2), until(3)], [Some(50), Some(60), None]);
    assert_eq!(idb.keeping(vid(1)).unwrap().lock_at(50), None);
    assert_eq!(idb.keeping(vid(1)).unwrap().lock_at(49), Some(50));
}

#[test]
fn what_expired_is_neither_offered_nor_built_on() {
    let (_dir, idb) = filled();
    expire(&idb, &[1, 3]);
    let offered: Vec<_> = idb.versions_of(object(1, "").id).unwrap().iter().map(|v| v.id).collect();
    assert_eq!(offered, [vid(2)]);
    assert!(idb.version(vid(1)).unwrap().is_some(), "what builds on it reads it");
    assert_eq!(idb.keeping(vid(1)).unwrap().expired_us, Some(77));
    is_expired(idb.begin_session(&session(8, Some(1), Status::Running), None));
    let mut next = version(8, 1, Status::Running);
    next.base = Some(vid(3));
    is_expired(idb.begin_session(&session(8, Some(8), Status::Running), Some(&next)));
    assert!(idb.version(vid(8)).unwrap().is_none(), "nothing of it is recorded");
    is_expired(idb.set_protection(vid(1), Some(Protection::Permanent), None));
    is_expired(idb.lock(vid(1), &[vid(1)], 99));
}

#[test]
fn who_uses_a_version_is_seen() {
    let (_dir, idb) = filled();
    let mut reader = session(9, Some(2), Status::Running);
    reader.kind = "restore".into();
    idb.begin_session(&reader, None).unwrap();
    let rows = idb.prune_rows().unwrap();
    let seen: Vec<_> = rows.iter().map(|r| (r.version.id, r.in_use, r.session)).collect();
    let by = |n| Some(SessionId(nth(n)));
    assert_eq!(seen, [(vid(3), false, by(3)), (vid(2), true, by(2)), (vid(1), false, by(1))]);
    assert_eq!(rows[0].tags, session(1, None, Status::Running).tags);
}

#[test]
fn what_nothing_was_committed_of_builds_on_nothing() {
    let (_dir, idb) = filled();
    let mut next = version(8, 1, Status::Running);
    next.base = Some(vid(3));
    let sid = SessionId(nth(8));
    idb.begin_session(&session(8, Some(8), Status::Running), Some(&next)).unwrap();
    let seen = || {
        let (rows, kept) = (idb.prune_rows().unwrap(), idb.versions_kept().unwrap());
        let row = rows.iter().find(|row| row.version.id == vid(8)).unwrap();
        let (kept, _) = kept.iter().find(|(version, _)| version.id == vid(8)).unwrap();
        assert_eq!(row.version.base, kept.base);
        (row.bare, row.version.base)
    };
    let (holds, bare) = ((false, Some(vid(3))), (true, None));
    assert_eq!(seen(), holds);
    let (failed, left) = (Status::Failed, Some(Status::Incomplete));
    idb.end_session(sid, failed, 9, &Default::default(), "{}", left).unwrap();
    assert_eq!(seen(), bare);
    // Who goes on with it may commit something.
    idb.begin_session(&session(9, Some(8), Status::Running), Some(&next)).unwrap();
    assert_eq!(seen(), holds);
    // One that was killed may be heard of again, unless a later one was begun.
    assert_eq!(idb.mark_dead_sessions(&|_| true).unwrap(), [SessionId(nth(9))]);
    assert_eq!(seen(), holds);
    let later = version(7, 1, Status::Running);
    idb.begin_session(&session(7, Some(7), Status::Running), Some(&later)).unwrap();
    assert_eq!(seen(), bare);
    idb.commit_segments(&[(segment(9, 1, 9, 9), vec![part(9, 9, 8, 0, 5)])]).unwrap();
    assert_eq!(seen(), holds);
}

#[test]
fn rows_go_when_no_segment_is_left_anywhere() {
    let (dir, idb) = filled();
    // Version 3 has a copy, and in its own segment something of version 2.
    idb.commit_segments(&[(segment(3, 2, 7, 3), vec![])]).unwrap();
    idb.commit_segments(&[(segment(3, 1, 3, 3), vec![part(3, 9, 2, 0, 5)])]).unwrap();
    let sizes = idb.version_sizes().unwrap();
    let of_two: u64 = sizes.iter().filter(|s| s.version == vid(2)).map(|s| s.segments).sum();
    assert_eq!(of_two, 3, "{sizes:?}");
    assert_eq!(idb.places_of_version(vid(2)).unwrap().len(), 3);
    expire(&idb, &[2, 3]);
    let found = idb.expired_segments().unwrap();
    let places: Vec<_> =
        found.iter().map(|s| (s.medium.0[0], s.number.0, s.versions.len())).collect();
    assert_eq!(places, [(1, 3, 2), (1, 2, 1), (2, 7, 2)], "by medium, the last first");
    let (one, two) = (MediumId(nth(1)), MediumId(nth(2)));
    let id = |n| SegmentId(nth(n));
    let first = idb.forget(&[(id(3), one), (id(2), one)], &[vid(2), vid(3)], 2_003).unwrap();
    assert_eq!((first.versions, first.segments), (0, 1), "the copy is there, with both");
    assert!(
        idb.read_catalog(id(3)).unwrap().is_some() && idb.read_catalog(id(2)).unwrap().is_none()
    );
    // A session that only read a version stays on record without it.
    let mut reader = session(9, None, Status::Completed);
    (reader.kind, reader.version) = ("restore".into(), Some(vid(3)));
    idb.upsert_session(&reader).unwrap();
    let then = idb.forget(&[(id(3), two)], &[vid(2), vid(3)], 2_003).unwrap();
    assert_eq!((then.versions, then.segments), (2, 1));
    assert!(idb.version(vid(3)).unwrap().is_none());
    // Session 2 is older than what is kept of history.
    assert!(idb.session(SessionId(nth(2))).unwrap().is_none());
    assert_eq!(idb.session(SessionId(nth(3))).unwrap().unwrap().version, None);
    assert_eq!(idb.session(SessionId(nth(9))).unwrap().unwrap().version, None);
    assert!(idb.expired_segments().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(dir.path().join("home/catalogs")).unwrap().count(), 1);
    // One that did not expire is not forgotten, whoever asks.
    assert_eq!(idb.forget(&[(id(1), one)], &[vid(1)], 0).unwrap().versions, 0);
}

#[test]
fn catalogs_go_when_none_of_their_versions_wants_them() {
    let (_dir, idb) = filled();
    let shared = StreamPart { stream: part(9, 9, 9, 0, 0).stream, ..part(1, 9, 3, 0, 5) };
    idb.commit_segments(&[(segment(1, 1, 1, 1), vec![shared])]).unwrap();
    for n in [1, 2] {
        idb.set_protection(vid(n), None, Some(Protection::UntilUs(100))).unwrap();
    }
    assert_eq!(idb.drop_catalogs(99).unwrap(), 0);
    assert_eq!(idb.drop_catalogs(100).unwrap(), 1, "version 3 wants that of segment 1");
    assert!(idb.read_catalog(SegmentId(nth(2))).unwrap().is_none());
    idb.set_protection(vid(3), None, Some(Protection::None)).unwrap();
    assert_eq!(idb.drop_catalogs(100).unwrap(), 2);
}

/// More than go into one statement.
#[test]
fn many_go_at_once() {
    let (_dir, idb) = fresh();
    idb.put_object(&object(1, "etc")).unwrap();
    idb.put_medium(&medium(1, "monday")).unwrap();
    let id = |n: u16| {
        let mut id = nth(0);
        id[..2].copy_from_slice(&n.to_be_bytes());
        id
    };
    let versions: Vec<VersionId> = (0..1203).map(|n| VersionId(id(n))).collect();
    let mut segments = Vec::new();
    for n in 0..1203 {
        let row = capstan_idb::Version { id: VersionId(id(n)), ..version(1, 1, Status::Completed) };
        idb.upsert_version(&row).unwrap();
        if n < 1100 {
            let of = capstan_idb::Segment { id: SegmentId(id(n)), ..segment(1, 1, n.into(), 1) };
            let parts = StreamPart { segment: of.id, version: row.id, ..part(1, 1, 1, 0, 9) };
            segments.push((of, vec![parts]));
        }
    }
    idb.upsert_session(&session(1, None, Status::Completed)).unwrap();
    idb.commit_segments(&segments).unwrap();
    let kept = versions[3];
    idb.expire(7, &[], |rows| {
        (rows.iter().map(|r| r.version.id).filter(|id| *id != kept).collect(), ())
    })
    .unwrap();
    let found = idb.expired_segments().unwrap();
    assert_eq!(found.len(), 1099);
    let removed: Vec<_> = found.iter().map(|s| (s.segment, s.medium)).collect();
    let forgotten = idb.forget(&removed, &versions, 0).unwrap();
    assert_eq!((forgotten.versions, forgotten.segments), (1202, 1099));
    assert_eq!(idb.prune_rows().unwrap().len(), 1);
}
