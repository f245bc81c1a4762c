//! Segments that are read at another host give what they give within one process: records, catalogs, scans and opened frames, whole and
//! damaged.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

#[path = "../../media-agent/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use capstan_address::Address;
use capstan_devices::host::LocalDevices;
use capstan_engine::problem::Explain;
use capstan_format::id::{KeyId, SegmentId};
use capstan_format::keys::{Cipher, Key32};
use capstan_media_agent::agent::LocalMediaAgent;
use capstan_medium::host::{DeviceHost, Media};
use capstan_port::media::MediaAgent;
use capstan_port::media::read::findings::Scan;
use capstan_port::media::read::segment::ReadSegment;
use capstan_remote::connection::Beats;
use capstan_remote::devices::{RemoteDevices, serve};
use capstan_remote::transport::Transport;
use capstan_wire::compression::Compression;
use capstan_wire::keys::{FrameKey, SecretKey};
use common::{Shape, Spec, recorder, write_session, writer};

const BLOCK: u32 = 64 << 10;
const KEY: KeyId = KeyId([9; 16]);

/// Writes a session of two streams into a directory.
fn written(host: &LocalDevices, path: &Path, sealed: bool) -> Address {
    let at: Address = format!("file:{}", path.display()).parse().unwrap();
    let opened = host.writable(&at, &|| Ok(common::medium(BLOCK)), None, &()).unwrap();
    let shape = Shape {
        block_size: BLOCK,
        segment_size: u64::from(BLOCK) * 8,
        catalog_limit: 4 << 20,
        buffers: 4,
        compression: Compression::Off,
        crc: true,
        sealed,
        seed: 5,
    };
    let device = opened.into_device().into_device().unwrap();
    let writer = writer(device, &shape, 3, recorder(&Arc::default()));
    let specs = |n| (0..n).map(|i| Spec::file([10, 3000, 90_000][i % 3])).collect();
    write_session(writer, &shape, 3, &[specs(14), specs(9)], 0).1.unwrap();
    at
}

fn key(fill: u8) -> Vec<FrameKey> {
    let of = |is_of_names| {
        let key = SecretKey(Key32::new([fill; 32]));
        FrameKey { id: KEY, is_of_names, key, cipher: Cipher::Aes256Gcm }
    };
    vec![of(true), of(false)]
}

fn shown<T: std::fmt::Debug, E: Explain>(result: Result<T, E>) -> String {
    match result {
        Ok(found) => format!("{found:?}"),
        Err(e) => format!("{e} | {:?}", e.problem()),
    }
}

fn shown_scan(scan: Scan) -> String {
    let mut poor: Vec<_> = scan.poor.iter().collect();
    poor.sort();
    format!(
        "{:?} {:?} {} {} {} {:?} {poor:?} {}",
        scan.contents,
        scan.damage,
        scan.unknown_frames,
        scan.closed,
        scan.catalog_whole,
        scan.catalog,
        scan.bytes(),
    )
}

/// All that a segment tells.
fn told(segment: &dyn ReadSegment) -> Vec<String> {
    let other = SegmentId([77; 16]);
    let mut told = vec![
        format!("{:?} {} {}", segment.medium(), segment.path(), segment.block_size()),
        shown(segment.bytes()),
        format!("{:?}", segment.object()),
        shown(segment.header()),
        shown(segment.end()),
        shown(segment.catalog()),
        shown(segment.catalog_of(other)),
        shown(segment.scan().map(shown_scan)),
        shown(segment.scan_of(other).map(shown_scan)),
        shown(segment.scan_with(&key(7)).map(shown_scan)),
    ];
    segment.expect(1);
    if let Ok(end) = segment.end() {
        told.push(shown(segment.catalog_of(end.segment)));
        told.push(shown(segment.scan_of(end.segment).map(shown_scan)));
    }
    let Ok(mut layout) = segment.catalog() else { return told };
    // As if the session had that key.
    for stream in &mut layout.streams {
        if let Some(label) = &mut stream.label {
            label.session.key = Some(KEY);
        }
    }
    for stream in &layout.streams {
        let places: Vec<_> = stream.index.iter().filter(|p| p.logical_frame).copied().collect();
        for keys in [key(7), key(8), Vec::new()] {
            let ends = segment.open_frames(&layout, stream.stream, &places, &keys);
            told.extend(ends.into_iter().map(shown));
        }
    }
    told
}

fn compare(sealed: bool) {
    let dir = tempfile::tempdir().unwrap();
    let host = LocalDevices::default();
    let at = written(&host, &dir.path().join("m"), sealed);
    let agent: Arc<dyn MediaAgent> = Arc::new(LocalMediaAgent::system().unwrap());
    let (here, there) = Transport::pair().unwrap();
    let (devices, of_host): (Arc<dyn DeviceHost>, _) = (Arc::new(host.clone()), agent.clone());
    let hosted = std::thread::spawn(move || serve(there, Beats::default(), devices, of_host));
    let remote = RemoteDevices::connect(here, Beats::default()).unwrap();
    let _hosted = hosted.join().unwrap().unwrap();
    let reading = remote.media_agent(agent.clone());
    let (near, far) = (host.medium(&at).unwrap(), remote.medium(&at).unwrap());
    let numbers = near.segments().unwrap();
    assert!(numbers.len() > 1);
    let mut opened = 0;
    for number in numbers {
        let path = dir.path().join(format!("m/{:08}.segment", number.0));
        let whole = fs::read(&path).unwrap();
        let places = [0, BLOCK as usize + 90, BLOCK as usize * 2 + 9000, whole.len() - 9000];
        for damaged in [None].into_iter().chain(places.map(Some)) {
            let mut bytes = whole.clone();
            damaged.into_iter().for_each(|at| bytes[at] ^= 1);
            fs::write(&path, &bytes).unwrap();
            let one = told(&*agent.open(&near, number).unwrap());
            let segment = reading.open(&far, number).unwrap();
            assert!(segment.handle().is_some());
            let other = told(&*segment);
            for (one, other) in one.iter().zip(&other) {
                assert_eq!(one, other);
            }
            assert_eq!(one.len(), other.len());
            opened += one.iter().filter(|text| text.parse::<u64>().is_ok()).count();
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(opened > 20, "{opened}");
    let refused = reading.open(&near, capstan_format::id::SegmentNumber(1)).map(|_| ());
    assert!(shown(refused).contains("passed to another host"));
    let missing = reading.open(&far, capstan_format::id::SegmentNumber(99)).map(|_| ());
    let local = agent.open(&near, capstan_format::id::SegmentNumber(99)).map(|_| ());
    assert_eq!(shown(missing), shown(local));
}

#[test]
fn segments_are_read_at_their_host() {
    compare(false);
}

#[test]
fn sealed_frames_are_opened_there_with_keys_as_values() {
    compare(true);
}
