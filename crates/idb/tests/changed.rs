//! Media that are not as they were last written.

mod common;

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, SessionId, VersionId};
use capstan_idb::{Loss, LostData, Status, Totals, Version};
use common::*;

#[test]
fn a_medium_is_marked_until_it_is_as_recorded() {
    let (_dir, idb) = begun();
    let id = MediumId(nth(1));
    assert_eq!(idb.changed_media().unwrap(), []);
    idb.set_medium_changed(id, None).unwrap();
    idb.set_medium_changed(id, Some((5, "segment 3 is missing"))).unwrap();
    // Since when stays, what differs is what was seen last.
    idb.set_medium_changed(id, Some((9, "segment 2 is missing"))).unwrap();
    let found = idb.management(id).unwrap();
    assert_eq!(
        (found.changed_us, found.changed_why.as_deref()),
        (Some(5), Some("segment 2 is missing"))
    );
    assert_eq!(idb.changed_media().unwrap(), [id]);
    idb.set_medium_changed(id, None).unwrap();
    let found = idb.management(id).unwrap();
    assert_eq!((found.changed_us, found.changed_why), (None, None));
    // One that was recycled is another one.
    idb.set_medium_changed(id, Some((5, "x"))).unwrap();
    idb.replace_medium(id, &medium(7, "other")).unwrap();
    assert_eq!(idb.changed_media().unwrap(), []);
}

#[test]
fn what_a_medium_has_lost_is_forgotten_with_what_needs_it() {
    let (_dir, idb) = begun();
    idb.put_medium(&medium(2, "second")).unwrap();
    let (first, second) = (MediumId(nth(1)), MediumId(nth(2)));
    idb.commit_segments(&[
        (segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 50)]),
        (segment(2, 1, 2, 1), vec![part(2, 1, 1, 50, 70)]),
        (segment(3, 1, 3, 1), vec![part(3, 1, 1, 70, 90)]),
        // A mirror has the second one.
        (segment(2, 2, 1, 1), vec![part(2, 1, 1, 50, 70)]),
    ])
    .unwrap();
    let last = idb.last_segments_of_medium(first, 2).unwrap();
    assert_eq!(last.iter().map(|s| s.number.0).collect::<Vec<_>>(), [3, 2]);
    let (lost, mirrored) = (SegmentId(nth(3)), SegmentId(nth(2)));
    let version = VersionId(nth(1));
    let at = |n: u8| {
        let claims = idb.claims().unwrap();
        claims.iter().filter(|c| c.origin == SegmentId(nth(n))).count()
    };
    assert_eq!((at(1), at(2), at(3)), (1, 2, 1));
    // Nothing is forgotten under who writes it, nor under who reads it.
    let refused = idb.forget_segments_of_medium(first, &[lost], 6).unwrap_err();
    assert!(refused.is_bad_input() && refused.to_string().contains("session"), "{refused}");
    assert_eq!(at(3), 1);
    let (ended, totals) = (Some(Status::Completed), Totals::default());
    idb.end_session(SessionId(nth(1)), Status::Completed, 5, &totals, "{}", ended).unwrap();
    idb.forget_segments_of_medium(first, &[mirrored], 7).unwrap();
    assert_eq!(idb.segments_of_version(version).unwrap().len(), 3, "the mirror has it");
    assert_eq!(idb.lost_versions().unwrap(), []);
    idb.forget_segments_of_medium(first, &[lost], 8).unwrap();
    let found = idb.lost_versions().unwrap();
    let loss = Loss::Medium { label: "monday".to_owned(), lost_us: 8 };
    assert_eq!(found, [LostData { version, loss }]);
    assert_eq!(idb.last_segment_number(first).unwrap(), Some(SegmentNumber(1)));
    assert_eq!(idb.last_segment_number(second).unwrap(), Some(SegmentNumber(1)));
    // A copy elsewhere is as good, and so is the segment itself when it turns up.
    idb.put_copy(SegmentId(nth(4)), lost, 0).unwrap();
    idb.commit_segments(&[(segment(4, 2, 2, 1), vec![])]).unwrap();
    assert_eq!(idb.lost_versions().unwrap(), []);
    idb.forget_segments_of_medium(second, &[SegmentId(nth(4))], 9).unwrap();
    assert_eq!(idb.lost_versions().unwrap().len(), 1);
    idb.commit_segments(&[(segment(3, 1, 3, 1), vec![part(3, 1, 1, 70, 90)])]).unwrap();
    assert_eq!(idb.lost_versions().unwrap(), []);
    // What is forgotten is not missed.
    idb.forget_segments_of_medium(first, &[lost], 10).unwrap();
    idb.forget_segments_of_medium(first, &[SegmentId(nth(1))], 11).unwrap();
    idb.forget_segments_of_medium(second, &[mirrored], 12).unwrap();
    assert_eq!((idb.version(version).unwrap(), idb.lost_versions().unwrap()), (None, vec![]));
}

#[test]
fn what_is_lost_is_lost_to_what_builds_on_it_now() {
    let (_dir, idb) = begun();
    let (ended, totals) = (Some(Status::Completed), Totals::default());
    idb.end_session(SessionId(nth(1)), Status::Completed, 5, &totals, "{}", ended).unwrap();
    idb.put_medium(&medium(2, "second")).unwrap();
    let (first, second) = (MediumId(nth(1)), MediumId(nth(2)));
    let id = |n: u8| VersionId(nth(n));
    let on = |n: u8, base: u8| Version {
        base: Some(VersionId(nth(base))),
        ..version(n, 1, Status::Completed)
    };
    // 2 builds on 1, 3 on 2; the full 4 stands for 2.
    idb.upsert_version(&on(2, 1)).unwrap();
    idb.upsert_version(&on(3, 2)).unwrap();
    let full = Version { stands_for: Some(id(2)), ..version(4, 1, Status::Completed) };
    idb.upsert_version(&full).unwrap();
    idb.commit_segments(&[
        (segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 50)]),
        (segment(2, 1, 2, 1), vec![part(2, 2, 2, 0, 50)]),
        (segment(3, 2, 1, 1), vec![part(3, 3, 3, 0, 50)]),
        (segment(4, 2, 2, 1), vec![part(4, 4, 4, 0, 50)]),
        (segment(5, 2, 3, 1), vec![part(5, 4, 4, 50, 90)]),
    ])
    .unwrap();
    let lost = || idb.lost_versions().unwrap().into_iter().map(|of| of.version).collect::<Vec<_>>();
    assert_eq!((idb.stand_ins(id(2)).unwrap(), lost()), (vec![id(4)], vec![]));
    // Both versions below the third are forgotten, which is not whole without them.
    let gone = [SegmentId(nth(1)), SegmentId(nth(2))];
    idb.forget_segments_of_medium(first, &gone, 8).unwrap();
    assert_eq!((lost(), idb.bases_gone().unwrap()), (vec![id(3)], vec![id(2)]));
    assert!(idb.rebase(id(2), id(4)).unwrap());
    assert_eq!((lost(), idb.bases_gone().unwrap()), (vec![], vec![]));
    // A full that was given up, or lost something, stands for nothing any more.
    idb.expire(10, &[], |_| (vec![id(4)], ())).unwrap();
    assert_eq!(idb.stand_ins(id(2)).unwrap(), []);
    idb.bring_back(&[id(4)]).unwrap();
    assert_eq!(idb.stand_ins(id(2)).unwrap(), [id(4)]);
    idb.forget_segments_of_medium(second, &[SegmentId(nth(4))], 9).unwrap();
    assert_eq!((lost(), idb.stand_ins(id(2)).unwrap()), (vec![id(3), id(4)], vec![]));
    assert!(!idb.rebase(id(2), id(4)).unwrap());
}

/// Which segments were written nobody may know: that a stream begins late, or has a gap, tells that one is missing.
#[test]
fn a_stream_with_a_gap_is_not_whole_until_there_is_none() {
    let (_dir, idb) = begun();
    let version = VersionId(nth(1));
    let commit = |n: u8, from, to| {
        idb.commit_segments(&[(segment(n, 1, n.into(), 1), vec![part(n, 77, 1, from, to)])])
            .unwrap();
    };
    let lost = || idb.lost_versions().unwrap();
    let noted = |now_us| idb.note_gaps(&[version], now_us).unwrap();
    commit(2, 50, 70);
    noted(5);
    assert_eq!(lost(), [], "it is written still");
    let (ended, totals) = (Some(Status::Completed), Totals::default());
    idb.end_session(SessionId(nth(1)), Status::Completed, 5, &totals, "{}", ended).unwrap();
    noted(6);
    assert_eq!(lost(), [LostData { version, loss: Loss::Segments }]);
    assert_eq!(idb.segments_belonging_to(version).unwrap(), [SegmentId(nth(2))]);
    commit(1, 0, 50);
    // What has no bytes leaves none out.
    commit(3, 70, 70);
    noted(7);
    assert_eq!(lost(), []);
    commit(5, 90, 99);
    noted(8);
    assert_eq!(lost(), [LostData { version, loss: Loss::Segments }]);
    // What overlaps, as it was written again, fills the gap too.
    commit(4, 60, 90);
    noted(9);
    assert_eq!(lost(), []);
}

/// What a session's end lists is known to belong to its version, until it is there.
#[test]
fn a_version_is_not_whole_without_what_it_is_known_to_have() {
    let (_dir, idb) = begun();
    let version = VersionId(nth(1));
    idb.commit_segments(&[(segment(1, 1, 1, 1), vec![part(1, 1, 1, 0, 50)])]).unwrap();
    let all = [1, 2, 3].map(|n| SegmentId(nth(n)));
    idb.expect_segments(version, &all[..1], 4).unwrap();
    assert_eq!(idb.lost_versions().unwrap(), []);
    idb.expect_segments(version, &all, 5).unwrap();
    let lost = [LostData { version, loss: Loss::Segments }];
    assert_eq!(idb.lost_versions().unwrap(), lost);
    assert_eq!(idb.segments_belonging_to(version).unwrap(), all);
    idb.commit_segments(&[(segment(3, 1, 3, 1), vec![])]).unwrap();
    assert_eq!(idb.lost_versions().unwrap(), lost);
    // A copy that lacks something does not stand for it.
    idb.put_copy(SegmentId(nth(4)), all[1], 2).unwrap();
    idb.commit_segments(&[(segment(4, 1, 4, 1), vec![])]).unwrap();
    assert_eq!(idb.lost_versions().unwrap(), lost);
    idb.put_copy(SegmentId(nth(5)), all[1], 0).unwrap();
    idb.commit_segments(&[(segment(5, 1, 5, 1), vec![])]).unwrap();
    assert_eq!(idb.lost_versions().unwrap(), []);
}
