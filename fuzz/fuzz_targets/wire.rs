#![no_main]

use capstan_wire::backup::BackupJob;
use capstan_wire::{decode, encode};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(job) = decode::<BackupJob>(data) {
        let again = encode(&job).expect("what was read is written");
        assert_eq!(decode::<BackupJob>(&again).expect("and is read again"), job);
    }
});
