#![no_main]

use capstan_format::id::StreamId;
use capstan_wire::data::block::{BlockHead, Progress};
use capstan_wire::data::course::Course;
use capstan_wire::data::credit::{Granted, OfSegment, Purse};
use capstan_wire::data::frames::{Asked, Given, Lacking, Ranges, Room};
use capstan_wire::data::head::Head;

// The bodies of all messages of data connections.
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(head) = data.first_chunk() {
        let _ = Head::decode(head);
    }
    if let Ok(head) = BlockHead::decode(data, 64 << 10) {
        let _ = Progress::of(StreamId([0; 16])).check(&head, data);
        let _ = head.notes(data);
    }
    if let Ok(granted) = Granted::decode(data) {
        let _ = Purse::default().granted(&granted);
    }
    if let Ok(ranges) = Ranges::decode(data) {
        let mut course = Course::default();
        if course.expect(ranges).is_ok() {
            let _ = course.coming();
        }
    }
    let _ = OfSegment::decode(data);
    let _ = Room::decode(data);
    let _ = Asked::decode(data);
    let _ = Given::decode(data, 0);
    let _ = Lacking::decode(data);
});
