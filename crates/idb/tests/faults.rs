//! Errors that count against a medium, and what was written since.

mod common;

use capstan_format::id::MediumId;
use common::*;

#[test]
fn errors_count_until_they_are_taken_back() {
    let (_dir, idb) = begun();
    let id = MediumId(nth(1));
    let state = || {
        let of = idb.management(id).unwrap();
        let listed = idb.media_with_errors().unwrap();
        (of.errors, of.damaged_us, listed.contains(&id))
    };
    assert_eq!(state(), (0, None, false));
    idb.add_medium_error(id, 5, false).unwrap();
    // Damage is one error, however often it is found.
    idb.add_medium_error(id, 6, true).unwrap();
    idb.add_medium_error(id, 7, true).unwrap();
    assert_eq!(state(), (2, Some(6), false));
    // As long as it is there, nothing is taken back.
    idb.forgive_errors(id).unwrap();
    assert_eq!(state(), (2, Some(6), false));
    idb.clear_medium_damage(id, false).unwrap();
    assert_eq!(state(), (2, None, true));
    idb.forgive_errors(id).unwrap();
    assert_eq!(state(), (0, None, false));
    // Who takes it back that a medium was retired says that others were at fault.
    idb.add_medium_error(id, 8, false).unwrap();
    idb.set_medium_retired(id, 9).unwrap();
    idb.unretire_medium(id).unwrap();
    assert_eq!(state(), (0, None, false));
}

#[test]
fn sessions_count_that_committed_since_the_last_error() {
    let (_dir, idb) = begun();
    let id = MediumId(nth(1));
    let commit = |n: u8, at_us: i64| {
        let mut row = segment(n, 1, u32::from(n), 1);
        row.committed_us = at_us;
        idb.commit_segments(&[(row, Vec::new())]).unwrap();
    };
    commit(1, 10);
    idb.add_medium_error(id, 10, false).unwrap();
    assert_eq!(idb.sessions_since_error(id).unwrap(), 0);
    commit(2, 11);
    commit(3, 12);
    assert_eq!(idb.sessions_since_error(id).unwrap(), 1, "it is one session");
    idb.add_medium_error(id, 13, false).unwrap();
    assert_eq!(idb.sessions_since_error(id).unwrap(), 0);
}
