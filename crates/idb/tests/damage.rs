//! Which segments are known to be damaged, and where.

mod common;

use std::collections::HashSet;

use capstan_format::id::{MediumId, SegmentId};
use common::*;

#[test]
fn damage_is_of_a_place_until_it_is_found_whole() {
    let (_dir, idb) = begun();
    idb.put_medium(&medium(2, "second")).unwrap();
    let (first, second) = (MediumId(nth(1)), MediumId(nth(2)));
    let segments = [
        (segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 50)]),
        (segment(2, 1, 2, 1), vec![part(2, 1, 1, 50, 70)]),
        (segment(2, 2, 1, 1), vec![part(2, 1, 1, 50, 70)]),
    ];
    idb.commit_segments(&segments).unwrap();
    let (one, two) = (SegmentId(nth(1)), SegmentId(nth(2)));
    assert_eq!(idb.damaged_places().unwrap(), HashSet::new());
    idb.put_damage(first, &[one, two], 5).unwrap();
    idb.put_damage(second, &[two], 6).unwrap();
    let damaged = || idb.damaged_places().unwrap();
    assert_eq!(damaged(), [(first, one), (first, two), (second, two)].into());
    let of = |medium| idb.management(medium).unwrap().damaged_us;
    assert_eq!((of(first), of(second)), (Some(5), Some(6)));
    idb.clear_damage_of(first, &[one]).unwrap();
    assert_eq!(damaged(), [(first, two), (second, two)].into());
    // What is recorded again, where it is: nobody read it. In another place nothing is known of it.
    idb.commit_segments(&segments).unwrap();
    assert_eq!(damaged().len(), 2);
    idb.commit_segments(&[(segment(2, 2, 9, 1), vec![part(2, 1, 1, 50, 70)])]).unwrap();
    assert_eq!(damaged(), [(first, two)].into());
    // The last one that is damaged takes the mark along.
    for (medium, left) in [(first, Some(5)), (second, None)] {
        idb.clear_damage_without_segments(medium).unwrap();
        assert_eq!(of(medium), left);
    }
    idb.clear_medium_damage(first, true).unwrap();
    assert_eq!((damaged(), of(first)), (HashSet::new(), None));
}
