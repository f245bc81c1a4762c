//! Answers and events in their JSON form: those of before are read for ever, each comes back as it was, and what is none does no harm.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

use std::fmt::Debug;
use std::time::Duration;

use capstan_format::id::{KeyId, SessionId};
use capstan_format::keys::Cipher;
use capstan_wire::backup::{Counts, HandedOver, Noted, Rules};
use capstan_wire::check::{CompareJob, ProofJob, ScratchAsked};
use capstan_wire::compression::Compression;
use capstan_wire::foreseen::{Fate, Foreseen};
use capstan_wire::host::Processors;
use capstan_wire::keys::{SecretKey, SessionKey};
use capstan_wire::probe::{Probe, Work};
use capstan_wire::restore::{
    ArchiveSpec, LeftAlone, Overwrite, RestoreCounts, RestoreDone, SpoolSpec, TargetSpec,
};
use capstan_wire::source::{Named, PathsAsked, RootLink, RootsAsked, RootsFound, Used, UsedAsked};
use capstan_wire::{decode, encode};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn foreseen() -> Foreseen {
    let rule = Some("--exclude *.tmp".to_owned());
    Foreseen {
        path: b"home/\xff.tmp".to_vec(),
        fate: Fate::LeftOut,
        bytes: 0,
        rule,
        contents: true,
    }
}

fn handed_over() -> HandedOver {
    let counts = Counts { found: 9, files: 7, dirs: 2, bytes: 1 << 40, ..Counts::default() };
    let noted = Noted { mounted: vec!["/srv".to_owned()], ..Noted::default() };
    HandedOver { is_whole: true, input_failed: Some("exit status 1".to_owned()), counts, noted }
}

fn probe() -> Probe {
    Probe { bytes: 5_000_000, time: Duration::from_millis(1500), tried: 300_000, shrunk: 100_000 }
}

fn processors() -> Processors {
    Processors { number: 8, ticks: 1_000_000, idle: 900_000 }
}

fn work() -> Work {
    Work { compression: Compression::Auto, cipher: Some(Cipher::Aes256Gcm) }
}

/// That a value is what its golden file says, and the other way round; and that a newer side may say more.
fn is_as_before<T: Serialize + DeserializeOwned + PartialEq + Debug>(golden: &str, value: &T) {
    let golden = golden.trim_end();
    let now = String::from_utf8(encode(value).unwrap()).unwrap();
    assert_eq!(now, golden, "the form of a message has changed");
    assert_eq!(&decode::<T>(golden.as_bytes()).unwrap(), value);
    let newer = golden.replacen('{', "{\"a_later_field\":[1,{}],", 1);
    assert_eq!(&decode::<T>(newer.as_bytes()).unwrap(), value);
}

/// What is none is refused, or is another one that comes back.
fn is_one_or_refused<T: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(value) = decode::<T>(bytes) {
        assert_eq!(decode::<T>(&encode(&value).unwrap()).unwrap(), value);
    }
}

macro_rules! values {
    ($($test:ident: $of:ty = $value:expr, $golden:literal;)*) => {
        $(
            #[test]
            fn $test() {
                is_as_before::<$of>(include_str!(concat!("golden/", $golden)), &$value);
            }
        )*

        proptest! {
            #[test]
            fn a_byte_changed_makes_another_or_none(at in any::<prop::sample::Index>(), to in any::<u8>()) {
                $({
                    let mut bytes = include_str!(concat!("golden/", $golden)).trim_end().as_bytes().to_vec();
                    let at = at.index(bytes.len());
                    bytes[at] = to;
                    is_one_or_refused::<$of>(&bytes);
                })*
            }
        }
    };
}

fn paths_asked() -> PathsAsked {
    PathsAsked {
        paths: vec![b"/home".to_vec(), b"./x\xff/".to_vec()],
        own: vec![b"/mnt/disk1".to_vec()],
    }
}

fn named() -> Named {
    let missing = Some("no such file or directory".to_owned());
    Named { path: b"srv/now/".to_vec(), root: b"srv/42".to_vec(), missing, is_own: false }
}

fn roots_asked() -> RootsAsked {
    let used = UsedAsked { one_file_system: true, aside: vec![b"/mnt/disk1".to_vec()] };
    RootsAsked { roots: vec![b"".to_vec(), b"home".to_vec()], used: Some(used) }
}

fn roots_found() -> RootsFound {
    let target = b"../big/home".to_vec();
    let link = RootLink { root: b"home".to_vec(), target, is_to_directory: true };
    RootsFound { links: vec![link], used: Some(Used { inodes: 1 << 20, bytes: 1 << 41 }) }
}

fn session_key() -> SessionKey {
    let contents = SecretKey([7; 32].into());
    SessionKey { id: KeyId([5; 16]), contents, cipher: Cipher::Aes256Gcm }
}

fn compare_job() -> CompareJob {
    let rules = Rules { exclude: vec!["*.tmp".into()], ..Rules::default() };
    let (roots, paths) = (vec![b"home".to_vec()], vec![b"home/\xff".to_vec()]);
    CompareJob { roots, paths, rules, keys: vec![session_key()] }
}

fn scratch_asked() -> ScratchAsked {
    ScratchAsked {
        parent: b"/var/tmp".to_vec(),
        name: "capstan-drill-1-2".to_owned(),
        bytes: 1 << 33,
    }
}

fn proof_job() -> ProofJob {
    ProofJob { scratch: b"/var/tmp/capstan-drill-1-2".to_vec() }
}

fn target_spec() -> TargetSpec {
    TargetSpec {
        directory: b"/srv/\xff".to_vec(),
        overwrite: Overwrite::IfNewer,
        numeric_ids: true,
        only_looked_at: false,
        session: Some(SessionId([1; 16])),
        killed: vec![SessionId([2; 16])],
    }
}

fn archive_spec() -> ArchiveSpec {
    let spool = SpoolSpec { directory: b"/var/tmp".to_vec(), bytes: 1 << 30 };
    ArchiveSpec { file: b"/srv/x.tar".to_vec(), numeric_ids: true, spool: Some(spool) }
}

fn restore_counts() -> RestoreCounts {
    RestoreCounts { files: 7, dirs: 2, bytes: 1 << 40, lost: 1, bytes_read: 1 << 39 }
}

fn restore_done() -> RestoreDone {
    RestoreDone {
        left_alone: LeftAlone { kept: 3, put_right: 2, differ: 1 },
        leftovers_removed: 1,
        is_unchecked: true,
        away: vec![b"home/\xff".to_vec()],
    }
}

values! {
    what_becomes_of_a_name: Foreseen = foreseen(), "foreseen.json";
    what_came_of_a_job: HandedOver = handed_over(), "handed_over.json";
    what_a_probe_showed: Probe = probe(), "probe.json";
    what_a_stream_does: Work = work(), "work.json";
    what_a_host_has: Processors = processors(), "processors.json";
    where_paths_lead_is_asked: PathsAsked = paths_asked(), "paths_asked.json";
    where_a_path_leads: Named = named(), "named.json";
    what_roots_are_is_asked: RootsAsked = roots_asked(), "roots_asked.json";
    what_roots_are: RootsFound = roots_found(), "roots_found.json";
    what_is_compared: CompareJob = compare_job(), "compare_job.json";
    scratch_space_is_asked_for: ScratchAsked = scratch_asked(), "scratch_asked.json";
    what_is_proved: ProofJob = proof_job(), "proof_job.json";
    where_a_restore_writes: TargetSpec = target_spec(), "target_spec.json";
    what_a_restore_did: RestoreCounts = restore_counts(), "restore_counts.json";
    what_came_of_a_restore: RestoreDone = restore_done(), "restore_done.json";
    what_an_archive_is_written_to: ArchiveSpec = archive_spec(), "archive_spec.json";
}
