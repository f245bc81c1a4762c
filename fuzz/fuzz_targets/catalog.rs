#![no_main]

#[path = "../../crates/media-agent/tests/catalogs/mod.rs"]
mod catalogs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| catalogs::catalog(data));
