//! Rows in their binary form: those of before are read for ever, each comes back as it was, and what is none does no harm.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

use std::sync::Arc;

use capstan_engine::frames::Lack;
use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_format::acl::{AclNames, Whose};
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind, Outcome, OutcomeCode, Timestamp};
use capstan_format::id::{MediumId, StreamId};
use capstan_wire::rows::{self, MOST_ROWS, are_rows};
use minicbor::{Decode, Encode};
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
struct Row {
    #[cbor(n(0), with = "rows::form")]
    entry: Entry,
    #[cbor(n(1), with = "rows::form")]
    user: Option<Arc<[u8]>>,
    #[cbor(n(2), with = "rows::form")]
    acl: Option<Arc<AclNames>>,
    #[cbor(n(3), with = "rows::form")]
    lack: Option<Lack>,
    #[cbor(n(4), with = "rows::form")]
    read: Result<Vec<(u64, u64)>, String>,
    #[cbor(n(5), with = "rows::form")]
    code: Code,
}

/// The same as a newer side has it.
#[derive(Encode)]
struct Newer {
    #[n(0)]
    row: u64,
    #[n(1)]
    more: Option<u64>,
}

/// The same as it was.
#[derive(Debug, PartialEq, Eq, Decode)]
struct Older {
    #[n(0)]
    row: u64,
}

fn full() -> Row {
    let extents = [
        ExtentKind::Data,
        ExtentKind::Hole,
        ExtentKind::Parts,
        ExtentKind::AsIn([7; 16]),
        ExtentKind::At(StreamId([8; 16]), 99),
        ExtentKind::Unknown(300),
    ];
    let entry = Entry {
        kind: Kind::CharDevice,
        dir: b"home/\xff".to_vec(),
        name: b"tty".to_vec(),
        mode: 0o4755,
        uid: 1000,
        gid: 70_000,
        size: 1 << 40,
        mtime: Timestamp { sec: -5, nsec: 999_999_999 },
        ctime: Timestamp { sec: 1_795_000_000, nsec: 1 },
        ino: 77,
        dev: 2049,
        link: true,
        replaces: true,
        target: b"home/first".to_vec(),
        rdev: (4, 64),
        inode_flags: 0x10,
        xattrs: vec![(b"user.a".to_vec(), b"\x00b".to_vec())],
        extents: extents.into_iter().map(|kind| Extent { len: 4096, kind }).collect(),
        part_offset: 5,
        outcome: Some(Outcome { code: OutcomeCode::Short, errno: 5, offset: 512 }),
    };
    let away = Lack::Away {
        medium: MediumId([9; 16]),
        why: "is at the bank".to_owned(),
        text: Problem::new("disk1 is at the bank").hint("fetch it"),
    };
    let names = AclNames::from([((Whose::Group, 5), Arc::from(&b"staff"[..]))]);
    Row {
        entry,
        user: Some(Arc::from(&b"ann"[..])),
        acl: Some(Arc::new(names)),
        lack: Some(away),
        read: Err("gone".to_owned()),
        code: Code::Vanished,
    }
}

fn plain() -> Row {
    let entry = Entry { dir: b"etc".to_vec(), name: b"fstab".to_vec(), ..Entry::default() };
    Row { entry, user: None, acl: None, lack: None, read: Ok(vec![(1, 2)]), code: Code::Changed }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As it was when rows were made first. A later version may say more, and reads this all the same.
const GOLDEN: &str = include_str!("golden/rows.hex");

#[test]
fn their_form_never_changes() {
    let message = rows::encode(&[full(), plain()]).unwrap();
    assert_eq!(hex(&message), GOLDEN.trim_end());
    assert_eq!(rows::decode::<Row>(&message).unwrap(), [full(), plain()]);
    assert!(are_rows(&message));
    assert!(!are_rows(b"{}") && !are_rows(b"\"stop\"") && !are_rows(b""));
}

#[test]
fn what_a_newer_side_says_besides_is_left_alone() {
    let message = rows::encode(&[Newer { row: 7, more: Some(8) }]).unwrap();
    assert_eq!(rows::decode::<Older>(&message).unwrap(), [Older { row: 7 }]);
}

#[test]
fn a_row_of_a_usual_file_is_short() {
    let of = |entry: Entry| Row { entry, ..plain() };
    let usual = full().entry;
    let usual = Entry {
        kind: Kind::File,
        size: 40_000,
        link: false,
        replaces: false,
        target: Vec::new(),
        rdev: (0, 0),
        inode_flags: 0,
        xattrs: Vec::new(),
        extents: Vec::new(),
        part_offset: 0,
        outcome: None,
        ..usual
    };
    assert!(rows::encode(&[of(usual)]).unwrap().len() < 80);
}

#[test]
fn no_number_is_believed() {
    // A list of four thousand million rows.
    assert!(rows::decode::<Row>(&[0x9a, 0xff, 0xff, 0xff, 0xff]).is_err());
    // One within the limit, that does not come.
    assert!(rows::decode::<Row>(&[0x99, 0xff, 0xff]).is_err());
    // A row of which the pairs of numbers are as many as can be.
    let mut bad = rows::encode(&[plain()]).unwrap();
    let at = bad.iter().rposition(|byte| *byte == 0x81).unwrap();
    bad.splice(at + 1..=at + 1, [0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert!(rows::decode::<Row>(&bad).is_err());
    let more = vec![7u64; MOST_ROWS as usize + 1];
    assert!(rows::encode(&more).is_err());
    assert!(rows::encode(&more[1..]).is_ok());
}

prop_compose! {
    fn entries()(
        kind in 0..=9u8,
        dir in prop::collection::vec(any::<u8>(), 0..20),
        name in prop::collection::vec(any::<u8>(), 0..20),
        (mode, uid, gid, size) in (0..=0o7777u16, any::<u32>(), any::<u32>(), any::<u64>()),
        (sec, nsec, ino, dev) in (any::<i64>(), 0..1_000_000_000u32, any::<u64>(), any::<u64>()),
        (link, replaces, rdev) in (any::<bool>(), any::<bool>(), any::<(u32, u32)>()),
        target in prop::collection::vec(any::<u8>(), 0..9),
        (inode_flags, part_offset) in (any::<u32>(), any::<u64>()),
        lens in prop::collection::vec(any::<u64>(), 0..4),
    ) -> Entry {
        let extents = lens.into_iter().map(|len| Extent { len, kind: ExtentKind::Unknown(len) });
        let time = Timestamp { sec, nsec };
        Entry {
            kind: Kind::from_u8(kind).unwrap(),
            dir, name, mode, uid, gid, size, mtime: time, ctime: time, ino, dev, link, replaces, rdev,
            target, inode_flags, part_offset, extents: extents.collect(), ..Entry::default()
        }
    }
}

proptest! {
    #[test]
    fn each_comes_back_as_it_was(all in prop::collection::vec(entries(), 0..5)) {
        let all: Vec<Row> = all.into_iter().map(|entry| Row { entry, ..full() }).collect();
        let message = rows::encode(&all).unwrap();
        prop_assert_eq!(rows::decode::<Row>(&message).unwrap(), all);
    }

    #[test]
    fn what_is_none_does_no_harm(
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..9),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut message = rows::encode(&[full(), plain()]).unwrap();
        let (at, cut) = (at.index(message.len()), cut.index(message.len()));
        message.splice(at..(at + with.len()).min(message.len()), with);
        let _ = rows::decode::<Row>(&message);
        let _ = rows::decode::<Row>(&message[cut..]);
    }
}
