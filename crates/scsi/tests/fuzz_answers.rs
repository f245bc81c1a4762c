//! A few seconds of what `fuzz/` does for hours: random bytes, and answers of real devices changed at random.

mod answers;

use proptest::prelude::*;

/// Beginnings of real answers, so that changes reach the inside of decoders.
const REAL: &[&[u8]] = &[
    &[0x70, 0, 0x80, 0, 1, 0, 0, 10, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
    &[0x72, 3, 0x11, 0, 0, 0, 0, 16, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 9, 4, 2, 0, 0x20],
    &[
        1, 0, 0, 2, 0, 0, 0, 0x70, 4, 0x80, 0, 0x34, 0, 0, 0, 0x68, 1, 0, 9, 0, 0, 0, 0, 0, 0,
        0x80, 3, 0xe8,
    ],
    &[1, 0x80, 0, 10, b'D', b'R', b'V', b'0', b'0', b'0', b'0', b'0', b'0', b'1'],
    &[1, 0x83, 0, 12, 1, 3, 0, 8, 0x50, 0, 0xe1, 0x11, 0, 0, 0, 1],
    &[
        27, 0, 0x90, 8, 0x5a, 0, 0, 0, 0, 1, 0, 0, 0x8f, 14, 0xc0, 0x80, 0, 0, 0, 1, 0, 0, 0, 1, 0,
        0, 0, 0,
    ],
    &[23, 0, 0, 0, 0x1d, 18, 0, 1, 0, 1, 3, 0xe8, 0, 8, 0, 10, 0, 1, 1, 0, 0, 2, 0, 0],
    &[0x2e, 0, 0, 10, 0, 20, 0, 1, 1, 0, 21, 0, 1, 0],
    &[0x0c, 0, 0, 16, 0, 0, 0, 4, 0, 0, 3, 0, 0, 1, 0, 4, 0, 0, 2, 0],
    &[
        0, 0x10, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20, 10, 0, 0, 0,
        0, 0, 0, 32,
    ],
    &[
        0, 0, 0, 28, 0x92, 0, 0, 0, 0, 2, 0, 16, 0, 10, 0, 0, 0, 0, 0, 60, 0, 0, 11, 0xb8, 0x34, 0,
        0, 6, 0, 1, 0, 10,
    ],
    &[
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0,
        0, 0,
    ],
];

#[test]
fn real_answers_are_read() {
    REAL.iter().for_each(|bytes| answers::all(bytes));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        answers::all(&bytes);
    }

    #[test]
    fn real_answers_with_damage(
        which in 0..REAL.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        tail in prop::collection::vec(any::<u8>(), 0..120),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = [REAL[which], &tail[..]].concat();
        for (at, value) in &damage {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        answers::all(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        answers::all(&bytes);
    }
}
