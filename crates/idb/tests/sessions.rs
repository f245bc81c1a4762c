//! Sessions, objects and versions: begin, end, death, import, and how they are found.

mod common;

use capstan_address::HostName;
use capstan_format::id::{KeyId, ObjectId, SessionId, VersionId};
use capstan_idb::{IdbError, KeyRecord, Object, Running, Status, Totals};
use common::*;

const TOTALS: Totals = Totals { files: 3, dirs: 2, bytes_read: 1 << 40, bytes_written: 5 };

#[test]
fn the_words_of_the_statuses() {
    for (status, word) in [
        (Status::Running, "running"),
        (Status::Completed, "completed"),
        (Status::CompletedWithErrors, "completed_with_errors"),
        (Status::Incomplete, "incomplete"),
        (Status::Failed, "failed"),
    ] {
        assert_eq!(status.to_string(), word);
        assert_eq!(word.parse::<Status>().unwrap(), status);
    }
    let message = "Completed".parse::<Status>().unwrap_err().to_string();
    assert!(message.contains("'Completed'") && message.contains("incomplete"), "{message}");
}

#[test]
fn a_session_ends_with_its_version() {
    let (_dir, idb) = begun();
    let id = SessionId(nth(1));
    let version_status = Some(Status::CompletedWithErrors);
    idb.end_session(id, Status::CompletedWithErrors, 77, &TOTALS, "{\"x\":1}", version_status)
        .unwrap();
    let ended = idb.session(id).unwrap().unwrap();
    assert_eq!(ended.status, Status::CompletedWithErrors);
    assert_eq!((ended.files, ended.dirs), (3, 2));
    assert_eq!((ended.bytes_read, ended.bytes_written), (1 << 40, 5));
    assert_eq!((ended.ended_us, ended.report.as_deref()), (Some(77), Some("{\"x\":1}")));
    // What the end does not concern is as it was.
    let begin = session(1, Some(1), Status::Running);
    assert_eq!(
        (ended.tags, ended.pid, ended.started_us),
        (begin.tags, begin.pid, begin.started_us)
    );
    let version = idb.version(VersionId(nth(1))).unwrap().unwrap();
    assert_eq!(version.status, Status::CompletedWithErrors);
}

#[test]
fn an_end_that_fails_changes_nothing() {
    let (_dir, idb) = begun();
    let totals = Totals { bytes_read: u64::MAX, ..TOTALS };
    let end = |id: u8, totals| {
        let version = Some(Status::Completed);
        idb.end_session(SessionId(nth(id)), Status::Completed, 1, totals, "", version)
    };
    let too_large = end(1, &totals).unwrap_err();
    assert!(matches!(too_large, IdbError::TooLarge { column: "bytes_read", .. }), "{too_large}");
    let unknown = end(2, &TOTALS).unwrap_err();
    assert!(matches!(unknown, IdbError::Unknown { what: "session", .. }), "{unknown}");
    // A session without a version, told to end one: the session's own end is taken back too.
    idb.begin_session(&session(3, None, Status::Running), None).unwrap();
    assert!(matches!(end(3, &TOTALS), Err(IdbError::Unknown { .. })));
    for session in idb.sessions(9).unwrap() {
        assert_eq!((session.status, session.files), (Status::Running, 0));
    }
    assert_eq!(idb.version(VersionId(nth(1))).unwrap().unwrap().status, Status::Running);
}

#[test]
fn a_begin_that_fails_leaves_no_version() {
    let (_dir, idb) = begun();
    let broken = session(2, Some(9), Status::Running);
    let error = idb.begin_session(&broken, Some(&version(2, 1, Status::Running))).unwrap_err();
    assert!(error.to_string().contains("what it refers to is not recorded"), "{error}");
    assert_eq!(idb.version(VersionId(nth(2))).unwrap(), None);
    assert_eq!(idb.session(broken.id).unwrap(), None);
}

#[test]
fn an_incomplete_version_can_be_resumed_a_complete_one_not() {
    let (_dir, idb) = begun();
    let again = version(1, 1, Status::Running);
    idb.mark_dead_sessions(&|_| true).unwrap();
    assert_eq!(idb.version(again.id).unwrap().unwrap().status, Status::Incomplete);
    idb.begin_session(&session(2, Some(1), Status::Running), Some(&again)).unwrap();
    assert_eq!(idb.version(again.id).unwrap().unwrap().status, Status::Running);
    let done = Some(Status::Completed);
    idb.end_session(SessionId(nth(2)), Status::Completed, 5, &TOTALS, "{}", done).unwrap();
    let refused = idb.begin_session(&session(3, Some(1), Status::Running), Some(&again));
    assert!(matches!(refused, Err(IdbError::VersionComplete { .. })));
    assert_eq!(idb.version(again.id).unwrap().unwrap().status, Status::Completed);
    let of_version: Vec<_> =
        idb.sessions_of_version(again.id).unwrap().into_iter().map(|s| s.id).collect();
    assert_eq!(of_version, [SessionId(nth(1)), SessionId(nth(2))], "oldest first");
}

#[test]
fn the_dead_become_incomplete_and_the_living_stay() {
    let (_dir, idb) = begun();
    idb.begin_session(&session(2, Some(2), Status::Running), Some(&version(2, 1, Status::Running)))
        .unwrap();
    // Dead too, but it only read: the version it read is complete and stays so.
    let mut done = version(3, 1, Status::Completed);
    done.created_us = 1;
    idb.upsert_version(&done).unwrap();
    idb.begin_session(&session(3, Some(3), Status::Running), None).unwrap();
    idb.begin_session(&session(4, None, Status::Failed), None).unwrap();

    let is_dead = |running: &Running| {
        assert_eq!(running.session.birth, "boot");
        assert_ne!(running.session.pid, 104, "only the running are asked for");
        assert!((0..60_000_000).contains(&running.silent_us.unwrap()));
        running.session.pid != 102
    };
    let dead = idb.mark_dead_sessions(&is_dead).unwrap();
    assert_eq!(dead, [SessionId(nth(1)), SessionId(nth(3))]);
    let status = |n| idb.session(SessionId(nth(n))).unwrap().unwrap().status;
    assert_eq!(
        [1, 2, 3, 4].map(status),
        [Status::Incomplete, Status::Running, Status::Incomplete, Status::Failed]
    );
    let status = |n| idb.version(VersionId(nth(n))).unwrap().unwrap().status;
    assert_eq!([1, 2, 3].map(status), [Status::Incomplete, Status::Running, Status::Completed]);
    assert!(idb.mark_dead_sessions(&is_dead).unwrap().is_empty(), "once");
}

#[test]
fn a_version_is_abandoned_only_when_its_last_session_is_gone() {
    let (_dir, idb) = begun();
    idb.begin_session(&session(2, Some(1), Status::Running), None).unwrap();
    let status = || idb.version(VersionId(nth(1))).unwrap().unwrap().status;
    let others = |running: &Running| running.session.pid != 102;
    assert_eq!(idb.mark_dead_sessions(&others).unwrap(), [SessionId(nth(1))]);
    assert_eq!(status(), Status::Running);
    idb.end_session(SessionId(nth(2)), Status::Failed, 1, &TOTALS, "", None).unwrap();
    assert!(idb.mark_dead_sessions(&|_| false).unwrap().is_empty());
    assert_eq!(status(), Status::Incomplete, "found at the next look");
}

#[test]
fn an_import_never_says_less() {
    let (_dir, idb) = begun();
    let (sid, vid) = (SessionId(nth(1)), VersionId(nth(1)));
    let import = |status| {
        idb.upsert_version(&version(1, 1, status)).unwrap();
        let mut found = session(1, Some(1), status);
        (found.pid, found.files) = (0, 2);
        idb.upsert_session(&found).unwrap();
        let recorded = idb.session(sid).unwrap().unwrap();
        (recorded.status, idb.version(vid).unwrap().unwrap().status, recorded.pid, recorded.files)
    };
    use Status::{Completed, CompletedWithErrors, Failed, Incomplete, Running};
    // Its medium is imported while it still runs.
    assert_eq!(import(Incomplete), (Running, Running, 101, 0));
    // It died; the import counts what is there; then the medium with the end record comes.
    idb.mark_dead_sessions(&|_| true).unwrap();
    assert_eq!(import(Incomplete), (Incomplete, Incomplete, 101, 2));
    assert_eq!(import(Completed), (Completed, Completed, 0, 2));
    for later in [Incomplete, Failed, CompletedWithErrors, Completed] {
        assert_eq!(import(later), (Completed, Completed, 0, 2), "{later}");
    }
    // A new row is taken as it is.
    let mut new = session(9, Some(1), Incomplete);
    new.report = Some("{}".into());
    idb.upsert_session(&new).unwrap();
    assert_eq!(idb.session(new.id).unwrap(), Some(new));
}

#[test]
fn two_imports_of_pieces_add_up() {
    let (_dir, idb) = begun();
    idb.mark_dead_sessions(&|_| true).unwrap();
    let mut piece = session(1, None, Status::Incomplete);
    (piece.files, piece.bytes_read, piece.parent) = (9, 1, Some(SessionId(nth(7))));
    piece.host = HostName::default();
    idb.upsert_session(&piece).unwrap();
    (piece.files, piece.bytes_read, piece.parent) = (4, 8, None);
    idb.upsert_session(&piece).unwrap();
    let merged = idb.session(piece.id).unwrap().unwrap();
    assert_eq!((merged.files, merged.bytes_read), (9, 8));
    assert_eq!((merged.parent, merged.version), (Some(SessionId(nth(7))), Some(VersionId(nth(1)))));
    assert_eq!(merged.host, "alpha");

    let mut keyed = version(1, 1, Status::Incomplete);
    keyed.key = Some(KeyId(nth(3)));
    idb.upsert_version(&keyed).unwrap();
    idb.upsert_version(&version(1, 1, Status::Incomplete)).unwrap();
    assert_eq!(idb.version(keyed.id).unwrap(), Some(keyed));
}

#[test]
fn a_sealed_name_is_kept_and_a_known_name_is_not_lost() {
    let (_dir, idb) = fresh();
    let sealed = Some(vec![0, 1, 0xab, 0xff]);
    let id = ObjectId(nth(1));
    let without_key =
        Object { id, name: String::new(), host: HostName::default(), sealed: sealed.clone() };
    idb.put_object(&without_key).unwrap();
    assert_eq!(idb.object(id).unwrap(), Some(without_key.clone()));
    let named = Object { sealed: None, ..object(1, "etc") };
    idb.put_object(&named).unwrap();
    let known = Object { sealed, ..named };
    assert_eq!(idb.object(id).unwrap(), Some(known.clone()));
    idb.put_object(&without_key).unwrap();
    assert_eq!(idb.objects_by_name("etc").unwrap(), [known]);
}

#[test]
fn a_name_is_found_exactly() {
    let (_dir, idb) = fresh();
    let nasty = ["etc", "et_", "%", "' OR 1=1 --", "naïve\u{1F600}"];
    for (n, name) in (1..).zip(nasty) {
        idb.put_object(&object(n, name)).unwrap();
    }
    for (n, name) in (1..).zip(nasty) {
        assert_eq!(idb.objects_by_name(name).unwrap(), [object(n, name)]);
    }
    assert!(idb.objects_by_name("e").unwrap().is_empty());
    assert_eq!(idb.objects().unwrap().len(), nasty.len());
}

#[test]
fn versions_and_sessions_come_newest_first_in_the_order_in_which_they_were_begun_and_committed() {
    let (_dir, idb) = begun();
    idb.put_object(&object(2, "home")).unwrap();
    for n in [3, 2, 4] {
        let status = Status::Running;
        idb.begin_session(&session(n, Some(n), status), Some(&version(n, 1, status))).unwrap();
    }
    let versions = idb.versions_of(ObjectId(nth(1))).unwrap();
    assert_eq!(versions.iter().map(|v| v.id.0[0]).collect::<Vec<_>>(), [4, 2, 3, 1]);
    assert!(idb.versions_of(ObjectId(nth(2))).unwrap().is_empty());
    let of = |limit| idb.sessions(limit).unwrap().iter().map(|s| s.id.0[0]).collect::<Vec<_>>();
    assert_eq!((of(2), of(usize::MAX)), (vec![4, 2], vec![4, 2, 3, 1]));
    assert!(of(0).is_empty());
    // The one that is complete last is the newest, and is begun when it was.
    let (id, done) = (SessionId(nth(3)), Status::Completed);
    idb.end_session(id, done, 9, &Totals::default(), "{}", Some(done)).unwrap();
    let versions = idb.versions_of(ObjectId(nth(1))).unwrap();
    assert_eq!(versions.iter().map(|v| v.id.0[0]).collect::<Vec<_>>(), [3, 4, 2, 1]);
    assert_eq!(of(usize::MAX), [4, 2, 3, 1]);
}

#[test]
fn a_session_is_found_by_its_first_digits() {
    let (_dir, idb) = fresh();
    for n in [0xa0, 0xaf, 0xb0] {
        idb.begin_session(&session(n, None, Status::Running), None).unwrap();
    }
    let found = |typed: &str| {
        idb.sessions_by_prefix(typed).unwrap().iter().map(|s| s.id.0[0]).collect::<Vec<_>>()
    };
    assert!(found("a0").is_empty() && found("a0e").is_empty(), "too few digits");
    assert_eq!(found("AFEE"), [0xaf]);
    assert_eq!(found("b0ee"), [0xb0]);
    assert_eq!(found(&SessionId(nth(0xa0)).to_string()), [0xa0]);
    assert!(found(&format!("{}0", SessionId(nth(0xa0)))).is_empty());
    for typed in ["", "%", "a%", "_0", "a_", "*", "c", "' OR 1=1 --"] {
        assert!(found(typed).is_empty(), "{typed:?}");
    }
}

#[test]
fn an_import_keeps_the_key_as_it_was_last_wrapped() {
    let (_dir, idb) = fresh();
    let record = |text: &str| KeyRecord { id: KeyId(nth(1)), record: text.into() };
    idb.import_key(&record("1")).unwrap();
    idb.put_key(&record("2")).unwrap();
    idb.import_key(&record("1")).unwrap();
    assert_eq!(idb.key(KeyId(nth(1))).unwrap(), Some(record("2")));
    assert_eq!(idb.key(KeyId(nth(2))).unwrap(), None);
}

#[test]
fn what_was_taken_for_dead_runs_again_when_it_is_heard_of() {
    let (_dir, idb) = begun();
    let (sid, vid) = (SessionId(nth(1)), VersionId(nth(1)));
    let give_up = || {
        assert_eq!(idb.mark_dead_sessions(&|_| true).unwrap(), [sid]);
        idb.expire(5, &[], |_| (vec![vid], ())).unwrap();
    };
    let expired = || idb.prune_rows().unwrap()[0].keeping.expired_us;
    let status =
        || (idb.session(sid).unwrap().unwrap().status, idb.version(vid).unwrap().unwrap().status);
    give_up();
    assert_eq!((status(), expired()), ((Status::Incomplete, Status::Incomplete), Some(5)));
    idb.beat(101, "another boot").unwrap();
    assert_eq!(status().0, Status::Incomplete);
    idb.beat(101, "boot").unwrap();
    assert_eq!((status(), expired()), ((Status::Running, Status::Running), None));
    // Its end says the same of one that was not heard of again.
    give_up();
    idb.end_session(sid, Status::Completed, 9, &TOTALS, "{}", Some(Status::Completed)).unwrap();
    assert_eq!((status(), expired()), ((Status::Completed, Status::Completed), None));
    idb.beat(101, "boot").unwrap();
    assert_eq!(status().0, Status::Completed);
}

#[test]
fn one_that_is_heard_of_while_it_is_looked_at_is_not_dead() {
    let (_dir, idb) = begun();
    let heard = |_: &Running| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        idb.beat(101, "boot").unwrap();
        true
    };
    assert_eq!(idb.mark_dead_sessions(&heard).unwrap(), []);
    assert_eq!(idb.mark_dead_sessions(&|_| true).unwrap(), [SessionId(nth(1))]);
}
