//! A process that is to end reads no segment to its end. By itself, since that holds for all of a process.

mod common;

use capstan_devices::memory::FaultyStorage;
use capstan_engine::leaving;
use capstan_media_agent::read::scan::scan;
use capstan_media_agent::read::segment::SegmentReader;
use capstan_port::media::read::error::ReadError;
use capstan_wire::compression::Compression;
use common::{Reported, Shape, Spec, device, open, recorder, write_session, writer};

#[test]
fn a_scan_ends_within_a_segment() {
    let (storage, reported) = (FaultyStorage::new(None), Reported::default());
    let shape = Shape {
        block_size: 64 << 10,
        segment_size: 4 << 20,
        catalog_limit: 4 << 20,
        buffers: 4,
        compression: Compression::Off,
        crc: true,
        sealed: false,
        seed: 9,
    };
    let made = device(&storage, shape.block_size).unwrap();
    let writer = writer(Box::new(made), &shape, 3, recorder(&reported));
    write_session(writer, &shape, 3, &[vec![Spec::file(600_000)]], 0).1.unwrap();
    let medium = open(&storage).unwrap();
    let number = medium.segments().unwrap()[0];
    let read = || scan(&SegmentReader::open(&medium, number).unwrap());
    assert_eq!(read().unwrap().damage, []);
    leaving::leave();
    assert!(matches!(read(), Err(ReadError::Stopped)), "it was read to its end");
}
