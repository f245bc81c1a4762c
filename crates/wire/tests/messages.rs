//! Messages in their JSON form: those of before are read for ever, each comes back as it was, and what is none does no harm.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

use std::collections::HashSet;
use std::time::Duration;

use capstan_format::codec::Method;
use capstan_format::id::{KeyId, ObjectId, SessionId, StreamId, VersionId};
use capstan_format::keys::Cipher;
use capstan_format::record::{SessionLabel, StreamNames};
use capstan_select::Pattern;
use capstan_wire::backup::{
    BackupJob, JobSource, Locked, MountedLast, ReadMode, ReadOptions, Rules, Streams, Trees,
};
use capstan_wire::compression::Compression;
use capstan_wire::keys::{JobKeys, SecretKey};
use capstan_wire::{LONGEST, WireError, decode, encode};
use proptest::prelude::*;

/// As it was when the message was made first. A later version may say more, and reads this all the same.
const OF_TREES: &str = include_str!("golden/backup_of_trees.json");
const OF_COMMAND: &str = include_str!("golden/backup_of_command.json");

fn label() -> SessionLabel {
    SessionLabel {
        session: SessionId([1; 16]),
        object: ObjectId([2; 16]),
        version: VersionId([3; 16]),
        parent: None,
        base: Some(VersionId([4; 16])),
        started_us: 1_795_000_000_000_000,
        key: Some(KeyId([5; 16])),
        cipher: Some(Cipher::Aes256Gcm),
        state_us: None,
        stands_for: None,
    }
}

fn streams() -> Streams {
    let names = StreamNames {
        name: "home".to_owned(),
        host: "desk".to_owned(),
        method: "incr".to_owned(),
        tags: vec!["nightly".to_owned()],
    };
    let key = |byte| SecretKey([byte; 32].into());
    let keys = JobKeys { names: key(6), contents: key(7), cipher: Cipher::Aes256Gcm };
    Streams {
        ids: vec![StreamId([8; 16]), StreamId([9; 16])],
        label: label(),
        names,
        keys: Some(keys),
        crc: true,
        compression: Compression::Auto,
    }
}

fn of_trees() -> BackupJob {
    let listed = Pattern { text: "*.o".to_owned(), from: Some(("/etc/left-out".to_owned(), 7)) };
    let rules = Rules {
        exclude: vec!["*.tmp".into(), listed],
        include: vec!["keep.tmp".into()],
        exclude_caches: true,
        exclude_if_present: vec![b".nobackup".to_vec()],
        sizes: Some(0..=1 << 40),
        one_file_system: true,
        never: vec![b"/var/lib/capstan".to_vec()],
        media: vec![b"/mnt/disk1".to_vec()],
        kept_roots: vec![b"srv/old".to_vec()],
        inner_roots: vec![b"home/\xff/mail".to_vec()],
    };
    let mounted_last = MountedLast {
        mounted: Some(HashSet::from(["/srv".to_owned()])),
        maskable: None,
        rows_tell: false,
    };
    let read = ReadOptions {
        locked: Locked::Warn,
        lock_files: false,
        hard_links_as_files: false,
        retries: 3,
        retry_wait: Duration::from_millis(1500),
        mode: ReadMode::Auto,
    };
    let roots = vec![b"home".to_vec(), b"srv".to_vec()];
    let source = JobSource::Trees(Box::new(Trees { roots, rules, mounted_last, read }));
    BackupJob { source, builds_on: Some(VersionId([4; 16])), streams: streams() }
}

fn of_command() -> BackupJob {
    let (line, path) = ("pg_dump shop".to_owned(), "db/shop.sql".to_owned());
    let compression = Compression::Fixed(Method::Zstd(9));
    let streams = Streams { keys: None, compression, ..streams() };
    BackupJob { source: JobSource::Command { line, path }, builds_on: None, streams }
}

#[test]
fn messages_of_before_are_read_for_ever() {
    for (golden, job) in [(OF_TREES, of_trees()), (OF_COMMAND, of_command())] {
        assert_eq!(decode::<BackupJob>(golden.as_bytes()).unwrap(), job);
        let now = String::from_utf8(encode(&job).unwrap()).unwrap();
        assert_eq!(now, golden.trim_end(), "the form of a message has changed");
    }
}

#[test]
fn what_a_newer_side_says_besides_is_left_alone() {
    let newer = OF_COMMAND.replacen('{', "{\"a_later_field\":[1,{}],", 1);
    assert_eq!(decode::<BackupJob>(newer.as_bytes()).unwrap(), of_command());
}

#[test]
fn what_is_no_message_is_refused() {
    for bad in ["", "{}", "[]", "null", "{\"source\":{\"other\":1}}"] {
        assert!(matches!(decode::<BackupJob>(bad.as_bytes()), Err(WireError::Json(_))), "{bad}");
    }
    let deep = "[".repeat(1 << 20);
    assert!(decode::<BackupJob>(deep.as_bytes()).is_err());
    let long = vec![b' '; LONGEST + 1];
    assert!(matches!(decode::<BackupJob>(&long), Err(WireError::TooLong(_))));
    let level = OF_COMMAND.replace("zstd:9", "zstd:99");
    assert!(decode::<BackupJob>(level.as_bytes()).is_err());
    let short = OF_TREES.replace("BgYG", "");
    assert!(decode::<BackupJob>(short.as_bytes()).is_err());
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", of_trees());
    assert!(shown.contains("SecretKey") && !shown.contains("6, 6"), "{shown}");
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ -~äöü]{0,12}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..12)
    ]
}

proptest! {
    #[test]
    fn names_of_any_bytes_come_back(
        roots in prop::collection::vec(name(), 0..4),
        never in prop::collection::vec(name(), 0..4),
        retries in any::<u32>(),
        sizes in prop::option::of((any::<u64>(), any::<u64>()).prop_map(|(a, b)| a..=b)),
    ) {
        let mut job = of_trees();
        let JobSource::Trees(trees) = &mut job.source else { unreachable!() };
        (trees.roots, trees.rules.never, trees.read.retries) = (roots, never, retries);
        trees.rules.sizes = sizes;
        prop_assert_eq!(decode::<BackupJob>(&encode(&job).unwrap()).unwrap(), job);
    }

    #[test]
    fn a_message_with_a_byte_changed_is_one_or_is_refused(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = OF_TREES.trim_end().as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(job) = decode::<BackupJob>(&bytes) {
            prop_assert_eq!(decode::<BackupJob>(&encode(&job).unwrap()).unwrap(), job);
        }
    }
}
