//! Any files, in any streams, in any order of their blocks, come back the same: by the catalog, and by reading all.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use capstan_devices::memory::FaultyStorage;
use capstan_engine::entropy::Entropy;
use capstan_engine::link::BlockPort;
use capstan_format::catalog::Contents;
use capstan_format::codec::Method;
use capstan_format::entry::Kind;
use capstan_format::id::StreamId;
use capstan_format::record::{OtherEnd, SessionEnd, SessionEnds};
use capstan_media_agent::read::scan::scan;
use capstan_media_agent::read::segment::SegmentReader;
use capstan_media_agent::write::writer::Writer;
use capstan_remote::data::blocks::port::RemoteBlocks;
use capstan_remote::data::blocks::serve::{BlocksServed, serve_blocks};
use capstan_remote::data::dial_here;
use capstan_remote::data::registry::Registry;
use capstan_wire::compression::Compression;
use capstan_wire::data::Reach;
use common::{
    Fill, Got, Reported, Shape, Spec, Through, assert_same, device, label, open, recorder, take,
    write_session_through, writer,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn spec() -> impl Strategy<Value = Spec> {
    let kind = prop_oneof![
        12 => Just(Kind::File),
        1 => Just(Kind::Dir),
        1 => Just(Kind::Symlink),
        1 => Just(Kind::CharDevice),
        1 => Just(Kind::Tombstone),
        2 => Just(Kind::Part),
    ];
    let len = prop_oneof![
        2 => Just(0u32),
        4 => 1..500u32,
        4 => 4000..70_000u32,
        2 => 60_000..600_000u32,
    ];
    let fill = proptest::option::weighted(0.1, 0..100_000u32);
    let xattrs = prop_oneof![20 => Just(0u32), 4 => 1..200u32, 1 => 1..500_000u32];
    let rest =
        (0..240u8, any::<bool>(), proptest::bool::weighted(0.3), proptest::bool::weighted(0.1));
    (kind, len, proptest::bool::weighted(0.1), fill, proptest::bool::weighted(0.1), xattrs, rest)
        .prop_map(|(kind, len, sparse, fill_from, outcome, xattrs, rest)| Spec {
            kind,
            len,
            sparse,
            fill_from,
            outcome,
            xattrs: if kind == Kind::Part { 0 } else { xattrs },
            name_len: rest.0,
            compressible: rest.1,
            flush: rest.2,
            idle: rest.3,
        })
}

fn shape() -> impl Strategy<Value = Shape> {
    let block_size = prop_oneof![4 => Just(64u32 << 10), 1 => Just(68 << 10), 1 => Just(256 << 10), 1 => Just(1 << 20)];
    let segment_size = prop_oneof![Just(1u64), Just(128 << 10), Just(700_000), Just(4 << 20)];
    let catalog_limit = prop_oneof![1 => Just(1u64), 1 => Just(20_000), 3 => Just(4 << 20)];
    let compression = prop_oneof![
        Just(Compression::Off),
        Just(Compression::Auto),
        Just(Compression::Fixed(Method::Zstd(1))),
    ];
    (
        block_size,
        segment_size,
        catalog_limit,
        2..12usize,
        compression,
        any::<bool>(),
        any::<bool>(),
        any::<u64>(),
    )
        .prop_map(
            |(block_size, segment_size, catalog_limit, buffers, compression, crc, sealed, seed)| {
                Shape {
                    block_size,
                    segment_size,
                    catalog_limit,
                    buffers,
                    compression,
                    crc,
                    sealed,
                    seed,
                }
            },
        )
}

fn cases() -> u32 {
    if std::env::var_os("CAPSTAN_SOAK").is_some() { 5_000 } else { 150 }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_multiplexing_reads_back(
        shape in shape(),
        streams in proptest::collection::vec(proptest::collection::vec(spec(), 0..40), 1..5),
        pokes in 0..4u32,
    ) {
        within_a_minute(move || round_trip(&shape, &streams, pokes));
    }

}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases() / 4,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_multiplexing_over_connections_reads_back(
        shape in shape(),
        streams in proptest::collection::vec(proptest::collection::vec(spec(), 0..40), 1..5),
        pokes in 0..4u32,
        ahead in 1..9usize,
    ) {
        // No stream may hold what another one needs.
        let buffers = shape.buffers.max(streams.len() * ahead + 2);
        let shape = Shape { buffers, ..shape };
        let through = move |writer: &Writer, streams: &[StreamId], fill: &mut Fill<'_>| {
            over_connections(writer, streams, ahead, fill);
        };
        within_a_minute(move || round_trip_through(&shape, &streams, pokes, &through));
    }
}

/// Serves a writer's port to streams that reach it over connections of this process.
fn over_connections(writer: &Writer, streams: &[StreamId], ahead: usize, fill: &mut Fill<'_>) {
    let registry = Registry::new(Entropy::seeded(1));
    let waiting = registry.expect().unwrap();
    let port = writer.port();
    let how = BlocksServed { ahead, patience: Duration::from_secs(30) };
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve_blocks(&waiting, &port, streams, how));
        let reach = Reach { at: String::new(), ticket: waiting.ticket().clone() };
        fill(Arc::new(RemoteBlocks::new(reach, port.block_size(), dial_here(&registry))));
        waiting.close();
        let ends = serving.join().unwrap();
        assert_eq!(ends.len(), streams.len());
        assert!(ends.iter().all(|end| end.broken.is_none()), "{ends:?}");
    });
}

#[test]
fn a_row_as_large_as_rows_get_reads_back() {
    let mut streams = vec![vec![Spec::file(100); 3], vec![Spec::file(5000); 3]];
    for (i, s) in streams.iter_mut().flatten().enumerate() {
        s.xattrs = if i % 2 == 0 { 520_000 } else { 10 };
        s.flush = i == 2;
    }
    let shape = Shape {
        block_size: 64 << 10,
        segment_size: 64 << 10,
        catalog_limit: 4 << 20,
        buffers: 3,
        compression: Compression::Off,
        crc: true,
        sealed: true,
        seed: 1,
    };
    within_a_minute(move || round_trip(&shape, &streams, 0));
}

/// Of sessions that were written together one that has nothing in the last segment has its end in one of its own.
#[test]
fn who_has_nothing_in_the_last_segment_ends_in_one_of_its_own() {
    let shape = Shape {
        block_size: 64 << 10,
        segment_size: 1 << 20,
        catalog_limit: 4 << 20,
        buffers: 3,
        compression: Compression::Off,
        crc: true,
        sealed: false,
        seed: 2,
    };
    let storage = FaultyStorage::new(None);
    let reported = Reported::default();
    let device = device(&storage, shape.block_size).unwrap();
    let writer = writer(Box::new(device), &shape, 1, recorder(&reported));
    let end = || SessionEnd {
        status: "completed".to_owned(),
        ended_us: 9,
        files: 1,
        dirs: 0,
        bytes_read: 0,
        bytes_written: 0,
        segments: Vec::new(),
        lacks: None,
    };
    let others = [2, 3].map(|n| OtherEnd { session: label(n), end: end() }).into();
    writer.finish(SessionEnds { own: Some(end()), others }).unwrap();
    let ends: Vec<_> = reported
        .lock()
        .unwrap()
        .iter()
        .map(|(header, end, _)| {
            assert!(end.session_end.is_some() && end.other_ends.is_empty());
            (header.session.clone(), end.session)
        })
        .collect();
    let expected = [1, 2, 3].map(|n| (label(n), label(n).session));
    assert_eq!(ends, expected);
}

/// A hang is a failure of its own, not a gate that never ends.
fn within_a_minute(run: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => {
            panic!("streams and media agent wait for each other")
        }
        _ => {
            if let Err(why) = thread.join() {
                std::panic::resume_unwind(why);
            }
        }
    }
}

fn round_trip(shape: &Shape, streams: &[Vec<Spec>], pokes: u32) {
    round_trip_through(shape, streams, pokes, &|writer, _, fill| fill(Arc::new(writer.port())));
}

fn round_trip_through(shape: &Shape, streams: &[Vec<Spec>], pokes: u32, through: &Through) {
    let storage = FaultyStorage::new(None);
    let reported = Reported::default();
    let device = device(&storage, shape.block_size).unwrap();
    let writer = writer(Box::new(device), shape, 3, recorder(&reported));
    let (given, written) = write_session_through(writer, (shape, 3), streams, pokes, through);
    let written = written.unwrap();

    let medium = open(&storage).unwrap();
    let numbers = medium.segments().unwrap();
    assert_eq!(numbers, written.segments, "no other segments are there");
    let mut by_catalog: BTreeMap<_, Got> = BTreeMap::new();
    let mut by_scan: BTreeMap<_, Got> = BTreeMap::new();
    let mut bytes = 0;
    for (number, (header, end, catalog)) in numbers.iter().zip(reported.lock().unwrap().iter()) {
        let reader = SegmentReader::open(&medium, *number).unwrap();
        bytes += reader.len().unwrap();
        assert_eq!(&reader.header().unwrap(), header);
        assert_eq!(&reader.end().unwrap(), end);
        let contents = reader.catalog().unwrap();
        take(&mut by_catalog, &reader, &contents, shape.sealed);

        let scanned = scan(&reader).unwrap();
        assert_eq!(scanned.damage, []);
        assert!(scanned.catalog_whole && scanned.unknown_frames == 0);
        take(&mut by_scan, &reader, &scanned.contents, shape.sealed);
        assert_consistent(&contents, &scanned.contents, end);
        let kept = Contents::from_catalog(header.segment, &catalog[..]).unwrap();
        assert_eq!(kept.streams.len(), contents.streams.len(), "the IDB's catalog is the medium's");
    }
    assert_eq!(bytes, written.bytes);
    let reported = reported.lock().unwrap();
    if let Some(((_, last, _), before)) = reported.split_last() {
        let ids: Vec<_> = before.iter().map(|(header, ..)| header.segment).collect();
        assert_eq!(last.session_end.as_ref().unwrap().segments, ids, "none goes unnoticed");
    }
    let empty = Got::default();
    for given in &given {
        assert_same(given, by_catalog.get(&given.stream).unwrap_or(&empty));
        assert_same(given, by_scan.get(&given.stream).unwrap_or(&empty));
    }
}

/// What the catalog says is what reading the streams finds.
fn assert_consistent(
    catalog: &Contents,
    scanned: &Contents,
    end: &capstan_format::record::SegmentEnd,
) {
    assert_eq!(catalog.header, scanned.header);
    assert_eq!(scanned.end.as_ref(), Some(end));
    assert_eq!(catalog.streams.len(), scanned.streams.len());
    for s in &catalog.streams {
        let other = scanned.streams.iter().find(|o| o.stream == s.stream).unwrap();
        assert_eq!(s.label, other.label);
        assert!(s.label.is_some() && s.names.is_some());
        assert_eq!(s.index, other.index);
        assert_eq!(s.logical_end, other.logical_end);
        let batches = |s: &capstan_format::catalog::StreamContents| {
            s.batches.iter().map(|b| (b.header, b.stored.clone())).collect::<Vec<_>>()
        };
        assert_eq!(batches(s), batches(other));
        let extent = end.streams.iter().find(|e| e.stream == s.stream).unwrap();
        assert_eq!(extent.logical_end, s.logical_end);
        assert_eq!(extent.frames, s.index.len() as u64);
        assert_eq!(Some(extent.first_sequence), s.index.first().map(|p| p.sequence));
        assert_eq!(Some(extent.logical_start), s.index.first().map(|p| p.logical));
    }
}
