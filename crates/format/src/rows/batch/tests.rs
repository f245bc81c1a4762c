use super::*;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..20)
}

fn time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(sec, nsec)| Timestamp { sec, nsec })
}

fn entry() -> impl Strategy<Value = Entry> {
    let places = (name(), name(), 0u8..10, 0u16..=0o7777, any::<u32>(), any::<u32>());
    let inode = (time(), time(), any::<u64>(), any::<u64>(), any::<u32>());
    let extra = (
        any::<(bool, bool, u32, u32)>(),
        name(),
        prop::collection::vec((name(), name()), 0..3),
        prop::collection::vec((0u64..1 << 40, 0u8..5), 0..4),
        0u64..1 << 40,
    );
    (places, inode, extra).prop_map(|(p, i, x)| {
        let kind = Kind::from_u8(p.2).unwrap();
        let extents: Vec<_> =
            x.3.iter()
                .map(|(len, kind)| Extent {
                    len: *len,
                    kind: match kind {
                        0 => ExtentKind::Data,
                        1 => ExtentKind::Hole,
                        2 => ExtentKind::Parts,
                        3 => ExtentKind::At(StreamId([7; 16]), 1 << 40),
                        _ => ExtentKind::AsIn([9; 16]),
                    },
                })
                .collect();
        Entry {
            kind,
            dir: p.0,
            name: p.1,
            mode: p.3,
            uid: p.4,
            gid: p.5,
            size: if extents.is_empty() { x.4 } else { extents.iter().map(|e| e.len).sum() },
            mtime: i.0,
            ctime: i.1,
            ino: i.2,
            dev: i.3,
            inode_flags: i.4,
            link: x.0.0,
            replaces: x.0.1,
            rdev: (x.0.2, x.0.3),
            target: x.1,
            xattrs: x.2,
            extents,
            part_offset: if kind == Kind::Part { x.4 } else { 0 },
            outcome: (kind == Kind::Outcome).then_some(Outcome {
                code: OutcomeCode::Unreadable,
                errno: 5,
                offset: x.4,
            }),
        }
    })
}

proptest! {
    #[test]
    fn any_rows_read_back(
        entries in prop::collection::vec(entry(), 0..40),
        users in prop::collection::vec((any::<u32>(), name()), 0..3),
    ) {
        let mut encoder = BatchEncoder::new();
        let mut bytes = Vec::new();
        // Twice, to show that an encoder starts afresh.
        for _ in 0..2 {
            entries.iter().for_each(|e| encoder.push(e));
            users.iter().for_each(|(n, name)| encoder.user(*n, name));
            encoder.finish(77, &mut bytes);
            prop_assume!(entries.iter().map(|e| e.logical_len() as u128).sum::<u128>() < 1 << 60);
            let batch = Batch::decode(&bytes).unwrap();
            prop_assert_eq!(batch.data_at, 77);
            prop_assert_eq!(&batch.entries, &entries);
            prop_assert_eq!(&batch.users, &users);
            let mut names = Vec::new();
            Batch::each_name(&bytes, &mut |dir, name| {
                names.push((dir.to_vec(), name.to_vec()));
                true
            }).unwrap();
            let there = entries.iter().map(|e| (e.dir.clone(), e.name.clone()));
            prop_assert_eq!(names, there.collect::<Vec<_>>());
        }
    }

    #[test]
    fn damaged_batches_are_errors_or_other_batches_never_a_panic(
        entries in prop::collection::vec(entry(), 1..10),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut encoder = BatchEncoder::new();
        let mut bytes = Vec::new();
        entries.iter().for_each(|e| encoder.push(e));
        encoder.finish(0, &mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = Batch::decode(&bytes);
        let _ = Batch::each_name(&bytes, &mut |_, _| true);
        let _ = Batch::decode(&bytes[..at]);
    }
}
