//! Media, segments and catalog files.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod common;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read;
use std::time::{Duration, SystemTime};

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, VersionId};
use capstan_idb::{CopyOf, Idb, Status, StreamPart};
use common::*;

const GRACE: Duration = Duration::from_secs(3600);

#[test]
fn a_commit_done_twice_is_done_once() {
    let (_dir, idb) = begun();
    let rows = vec![
        (segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 50), part(1, 2, 1, 0, 60)]),
        (segment(2, 1, 2, 1), vec![part(2, 1, 1, 50, 70)]),
    ];
    idb.commit_segments(&rows).unwrap();
    idb.commit_segments(&rows).unwrap();
    assert_eq!(idb.segments_of_version(VersionId(nth(1))).unwrap(), rows);
    // An import without the key finds the same, later, and cannot count the rows.
    let mut found = rows.clone();
    for (segment, parts) in &mut found {
        segment.committed_us += 1_000_000;
        parts.iter_mut().for_each(|part| part.rows = 0);
    }
    idb.commit_segments(&found).unwrap();
    assert_eq!(idb.segments_of_version(VersionId(nth(1))).unwrap(), rows);
    idb.commit_segments(&[]).unwrap();
}

/// As a medium can have it that nobody honest wrote; and more than go into one statement.
#[test]
fn of_a_part_that_comes_twice_the_last_counts() {
    let (_dir, idb) = begun();
    let mut parts: Vec<StreamPart> = (0..150).map(|s| part(1, s, 1, s.into(), 200)).collect();
    parts.insert(3, part(1, 7, 1, 0, 9));
    idb.commit_segments(&[(segment(1, 1, 1, 1), parts.clone())]).unwrap();
    parts.remove(3);
    let found = idb.segments_of_version(VersionId(nth(1))).unwrap();
    assert_eq!(found, [(segment(1, 1, 1, 1), parts)]);
}

/// A session went from medium 2 to medium 1; then its first segment was copied to the end of medium 1.
#[test]
fn copies_on_its_last_medium_do_not_change_the_order_of_a_sessions_media() {
    let (_dir, idb) = begun();
    idb.put_medium(&medium(2, "second")).unwrap();
    let rows = vec![
        (segment(1, 2, 1, 1), vec![part(1, 1, 1, 0, 50)]),
        (segment(2, 1, 1, 1), vec![part(2, 1, 1, 50, 90)]),
    ];
    let mut copy = segment(3, 1, 2, 1);
    copy.committed_us = rows[0].0.committed_us;
    idb.commit_segments(&rows).unwrap();
    idb.put_copy(copy.id, rows[0].0.id, 0).unwrap();
    idb.commit_segments(&[(copy.clone(), vec![part(3, 1, 1, 0, 50)])]).unwrap();
    let mut found = idb.segments_of_version(VersionId(nth(1))).unwrap();
    found.retain(|(segment, _)| segment.id != copy.id);
    assert_eq!(found, rows);
}

#[test]
fn copies_know_their_originals() {
    let (_dir, idb) = begun();
    let (original, copy) = (segment(1, 1, 1, 1), segment(2, 1, 2, 1));
    let (version, id) = (VersionId(nth(1)), |n| SegmentId(nth(n)));
    // Said twice, and before the segment is there: as by an import, and by a commit that a kill cuts short.
    idb.put_copy(id(2), id(9), 0).unwrap();
    idb.put_copy(id(2), id(1), 3).unwrap();
    idb.put_copy(id(3), id(1), 0).unwrap();
    assert!(idb.copies_of_version(version).unwrap().is_empty());
    let part = |n| vec![part(n, 1, 1, 0, 50)];
    idb.commit_segments(&[(original, part(1)), (copy, part(2))]).unwrap();
    let of = CopyOf { origin: id(1), lacks: 3 };
    assert_eq!(idb.copies_of_version(version).unwrap(), [(id(2), of)].into());
}

#[test]
fn a_commit_is_all_or_nothing() {
    let (_dir, idb) = begun();
    let good = (segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 50)]);
    for bad in [
        (segment(2, 9, 2, 1), vec![]),
        (segment(2, 1, 2, 9), vec![]),
        (segment(2, 1, 2, 1), vec![part(2, 1, 9, 0, 1)]),
        (segment(2, 1, 2, 1), vec![part(2, 1, 1, 0, u64::MAX)]),
    ] {
        idb.commit_segments(&[good.clone(), bad]).unwrap_err();
        assert!(idb.segments_of_medium(MediumId(nth(1))).unwrap().is_empty());
    }
    assert_eq!(idb.last_segment_number(MediumId(nth(1))).unwrap(), None);
    idb.commit_segments(&[good]).unwrap();
    assert_eq!(idb.last_segment_number(MediumId(nth(1))).unwrap(), Some(SegmentNumber(1)));
}

#[test]
fn segments_come_in_the_order_of_sessions_then_of_media_as_they_were_written_then_numbers() {
    let (_dir, idb) = begun();
    idb.put_medium(&medium(2, "tuesday")).unwrap();
    idb.upsert_version(&version(2, 1, Status::Completed)).unwrap();
    // Session 2 begins after session 1, whatever the segments' identities.
    idb.begin_session(&session(2, Some(1), Status::Running), None).unwrap();
    let other_version = part(10, 8, 2, 0, 5);
    // Medium 2 was written first: a session that fills a medium goes on on the next.
    let rows = vec![
        (segment(10, 2, 3, 1), vec![part(10, 2, 1, 9, 12)]),
        (segment(30, 1, 9, 1), vec![part(30, 1, 1, 0, 5)]),
        (segment(20, 1, 10, 1), vec![part(20, 1, 1, 5, 6), part(20, 2, 1, 7, 9)]),
        (segment(5, 1, 11, 2), vec![part(5, 3, 1, 0, 1)]),
    ];
    let mut shuffled: Vec<_> = rows.iter().rev().cloned().collect();
    shuffled[3].1.push(other_version.clone());
    idb.commit_segments(&shuffled).unwrap();
    assert_eq!(idb.segments_of_version(VersionId(nth(1))).unwrap(), rows);
    let only = idb.segments_of_version(VersionId(nth(2))).unwrap();
    assert_eq!(only, [(segment(10, 2, 3, 1), vec![other_version])]);
    let numbers = |n| -> Vec<u32> {
        let found = idb.segments_of_medium(MediumId(nth(n))).unwrap();
        found.iter().map(|segment| segment.number.0).collect()
    };
    assert_eq!((numbers(1), numbers(2)), (vec![9, 10, 11], vec![3]));
    assert_eq!(idb.last_segment_number(MediumId(nth(1))).unwrap(), Some(SegmentNumber(11)));
}

#[test]
fn where_a_segment_begins_on_tape_is_kept_until_something_else_is_known() {
    let (_dir, idb) = begun();
    let found = |object, number| {
        let row = capstan_idb::Segment { object, ..segment(1, 1, number, 1) };
        idb.commit_segments(&[(row, vec![part(1, 1, 1, 0, 5)])]).unwrap();
        let on_medium = idb.segments_of_medium(MediumId(nth(1))).unwrap()[0].object;
        assert_eq!(idb.segments_of_version(VersionId(nth(1))).unwrap()[0].0.object, on_medium);
        on_medium
    };
    assert_eq!(found(None, 4), None);
    assert_eq!(found(Some(700), 4), Some(700));
    // An import through a drive that does not say.
    assert_eq!(found(None, 4), Some(700));
    assert_eq!(found(Some(701), 4), Some(701));
    // Of another place nothing is known.
    assert_eq!(found(None, 5), None);
}

#[test]
fn a_mirrored_segment_has_two_places() {
    let (_dir, idb) = begun();
    idb.put_medium(&medium(2, "mirror")).unwrap();
    let parts = vec![part(1, 1, 1, 0, 50)];
    let places = vec![(segment(1, 1, 4, 1), parts.clone()), (segment(1, 2, 8, 1), parts)];
    idb.commit_segments(&places).unwrap();
    assert_eq!(idb.segments_of_version(VersionId(nth(1))).unwrap(), places);
    assert_eq!(idb.segments_of_medium(MediumId(nth(1))).unwrap(), [places[0].0.clone()]);
    assert_eq!(idb.segments_of_medium(MediumId(nth(2))).unwrap(), [places[1].0.clone()]);
}

#[test]
fn a_large_commit_is_one_transaction() {
    let (_dir, idb) = begun_in(fresh_file());
    let rows: Vec<_> = (0..200_u8)
        .map(|n| {
            let parts: Vec<StreamPart> = (0..8).map(|s| part(n, s, 1, 0, 1)).collect();
            (segment(n, 1, u32::from(n), 1), parts)
        })
        .collect();
    let log = idb.home().join("capstan.db-wal");
    let before = fs::metadata(&log).unwrap().len();
    idb.commit_segments(&rows).unwrap();
    // A transaction for each would log every page it touches again: some ten pages each.
    let logged = fs::metadata(&log).unwrap().len() - before;
    assert!(logged < 200 * 4096 * 2, "{logged} bytes of log");
    assert_eq!(idb.segments_of_version(VersionId(nth(1))).unwrap(), rows);
}

#[test]
fn a_medium_that_moved_is_the_same_medium() {
    let (_dir, idb) = fresh();
    let media = [medium(0xa1, "monday"), medium(0xa2, "%"), medium(0xb1, "a1")];
    media.iter().for_each(|medium| idb.put_medium(medium).unwrap());
    let moved =
        capstan_idb::Medium { device: "file:/mnt/other".parse().unwrap(), ..media[0].clone() };
    idb.put_medium(&moved).unwrap();
    assert_eq!(idb.medium(moved.id).unwrap(), Some(moved));
    assert_eq!(idb.media().unwrap().len(), 3);
    assert_eq!(idb.medium(MediumId(nth(9))).unwrap(), None);
}

#[test]
fn a_medium_has_the_hosts_that_had_it_at_its_place() {
    let (_dir, idb) = fresh();
    let place = |device: &str, host: &str| {
        let medium = capstan_idb::Medium { device: device.parse().unwrap(), ..medium(1, "own") };
        let placed = idb.place_medium(&medium, host, |_| "given".to_owned()).unwrap();
        assert_eq!(idb.medium(medium.id).unwrap(), Some(placed.clone()));
        assert_eq!(placed.label, "given");
        placed.hosts
    };
    assert_eq!(place("file:/backup", "alpha"), ["alpha"]);
    assert_eq!(place("file:/backup", "beta"), ["alpha", "beta"]);
    assert_eq!(place("file:/backup", "alpha"), ["beta", "alpha"]);
    assert_eq!(place("file:/elsewhere", "beta"), ["beta"]);
}

#[test]
fn who_records_a_medium_sees_the_labels_that_others_gave() {
    let (_dir, idb) = fresh();
    let place = |idb: &Idb, n: u8| {
        let number = |known: &[capstan_idb::Medium]| format!("m{}", known.len());
        idb.place_medium(&medium(n, ""), "alpha", number).unwrap();
    };
    let all = |idb: &Idb, from: u8| (from..from + 10).for_each(|n| place(idb, n));
    std::thread::scope(|scope| {
        for from in [10, 20, 30] {
            let home = idb.home();
            scope.spawn(move || all(&Idb::open(home).unwrap(), from));
        }
        all(&idb, 40);
    });
    let labels: HashSet<_> = idb.media().unwrap().into_iter().map(|m| m.label).collect();
    assert_eq!(labels.len(), 40);
}

fn content(idb: &Idb, n: u8) -> Option<Vec<u8>> {
    let file = idb.read_catalog(SegmentId(nth(n))).unwrap();
    file.map(|mut file| {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Everything in the catalogs' directory, sorted.
fn names(idb: &Idb) -> Vec<String> {
    let entries = fs::read_dir(idb.home().join("catalogs")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn age(idb: &Idb, name: &str) {
    let file = File::options().append(true).open(idb.home().join("catalogs").join(name)).unwrap();
    file.set_modified(SystemTime::now() - GRACE - Duration::from_secs(1)).unwrap();
}

#[test]
fn a_catalog_file_is_read_back_and_replaced_whole() {
    let (_dir, idb) = fresh();
    assert_eq!(content(&idb, 1), None);
    let large = vec![7; 100_000];
    idb.write_catalog(SegmentId(nth(1)), &[b"head", b"", &large, b"tail"]).unwrap();
    let all = [&b"head"[..], &large, b"tail"].concat();
    assert_eq!(content(&idb, 1), Some(all));
    // A reader that has it open keeps what it opened.
    let mut open = idb.read_catalog(SegmentId(nth(1))).unwrap().unwrap();
    idb.write_catalog(SegmentId(nth(1)), &[]).unwrap();
    assert_eq!(content(&idb, 1), Some(Vec::new()));
    let mut former = Vec::new();
    open.read_to_end(&mut former).unwrap();
    assert_eq!(former.len(), 100_008);
    assert_eq!(names(&idb), [format!("{}.catalog", SegmentId(nth(1)))]);
}

#[test]
fn what_was_made_of_a_catalog_goes_with_it() {
    let (_dir, idb) = begun();
    let id = SegmentId(nth(1));
    let made = || {
        idb.write_index(id, b"index").unwrap();
        idb.write_table(id, b"table").unwrap();
        assert_eq!(names(&idb).len(), 3);
    };
    idb.write_catalog(id, &[b"catalog"]).unwrap();
    let stamp = idb.catalog_stamp(id).unwrap().unwrap();
    assert_eq!(stamp.len, 7);
    made();
    assert_eq!(idb.catalog_stamp(id).unwrap(), Some(stamp));
    idb.write_catalog(id, &[b"catalog"]).unwrap();
    assert_ne!(idb.catalog_stamp(id).unwrap(), Some(stamp), "another file of the same bytes");
    assert_eq!(names(&idb), [format!("{id}.catalog")]);
    made();
    idb.remove_table(id).unwrap();
    idb.remove_table(id).unwrap();
    assert!(idb.read_table(id).unwrap().is_none() && idb.read_index(id).unwrap().is_some());
    made();
    // Somebody removed the catalog.
    fs::remove_file(idb.home().join("catalogs").join(format!("{id}.catalog"))).unwrap();
    assert_eq!(idb.catalog_stamp(id).unwrap(), None);
    assert_eq!(idb.reconcile_catalogs(GRACE).unwrap(), 0);
    ["index", "table"].iter().for_each(|made| age(&idb, &format!("{id}.{made}")));
    assert_eq!(idb.reconcile_catalogs(GRACE).unwrap(), 2);
    assert_eq!(names(&idb), [""; 0]);
}

#[test]
fn a_catalog_that_cannot_be_written_leaves_nothing() {
    let (_dir, idb) = fresh();
    // Something in the way of the rename.
    let name = format!("{}.catalog", SegmentId(nth(1)));
    fs::create_dir(idb.home().join("catalogs").join(&name)).unwrap();
    let error = idb.write_catalog(SegmentId(nth(1)), &[b"x"]).unwrap_err();
    assert!(error.to_string().contains(&name), "{error}");
    assert_eq!(names(&idb), [name]);
}

#[test]
fn only_old_catalogs_without_a_segment_are_removed() {
    let (_dir, idb) = begun();
    let name = |n: u8| format!("{}.catalog", SegmentId(nth(n)));
    // 1: committed, old. 2: never committed, old. 3: never committed, new.
    (1..=3).for_each(|n| idb.write_catalog(SegmentId(nth(n)), &[b"x"]).unwrap());
    idb.commit_segments(&[(segment(1, 1, 1, 1), vec![])]).unwrap();
    let temporary = |n: u8| format!("{}.4711-0.tmp", SegmentId(nth(n)));
    for foreign in ["README", "notes.tmp", "x.catalog", &temporary(4), &temporary(5)] {
        fs::write(idb.home().join("catalogs").join(foreign), "").unwrap();
    }
    for old in [name(1), name(2), temporary(4), "README".into(), "notes.tmp".into()] {
        age(&idb, &old);
    }
    age(&idb, "x.catalog");
    assert_eq!(idb.reconcile_catalogs(GRACE).unwrap(), 2);
    let mut left = vec![
        name(1),
        name(3),
        temporary(5),
        "README".into(),
        "notes.tmp".into(),
        "x.catalog".into(),
    ];
    left.sort();
    assert_eq!(names(&idb), left);
    assert_eq!(idb.reconcile_catalogs(GRACE).unwrap(), 0);
}

#[test]
fn many_catalogs_are_reconciled_in_batches() {
    let (_dir, idb) = begun();
    let id = |n: u16| {
        let mut bytes = nth(0);
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        SegmentId(bytes)
    };
    let mut rows = Vec::new();
    for n in 0..700 {
        let name = format!("{}.catalog", id(n));
        fs::write(idb.home().join("catalogs").join(&name), "").unwrap();
        age(&idb, &name);
        if n % 3 == 0 {
            let row = segment(0, 1, u32::from(n), 1);
            rows.push((capstan_idb::Segment { id: id(n), ..row }, Vec::new()));
        }
    }
    idb.commit_segments(&rows).unwrap();
    assert_eq!(idb.reconcile_catalogs(GRACE).unwrap(), 700 - rows.len());
    assert_eq!(names(&idb).len(), rows.len());
    assert!(rows.iter().all(|(row, _)| idb.read_catalog(row.id).unwrap().is_some()));
}
