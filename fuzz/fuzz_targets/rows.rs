#![no_main]

use capstan_format::entry::Entry;
use capstan_wire::rows;
use minicbor::{Decode, Encode};

#[derive(Debug, PartialEq, Encode, Decode)]
struct Row(#[cbor(n(0), with = "rows::form")] Entry);

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(all) = rows::decode::<Row>(data) {
        let again = rows::encode(&all).expect("what was read is written");
        assert_eq!(rows::decode::<Row>(&again).expect("and is read again"), all);
    }
});
