#![no_main]

#[path = "../../crates/scsi/tests/answers/mod.rs"]
mod answers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| answers::all(data));
