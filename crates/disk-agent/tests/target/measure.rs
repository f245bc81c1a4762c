//! What many small files cost. Not a test; run by
//! `strace -fc TEST_PROGRAM --ignored --exact measure::small_files` or without strace for the time.

use std::time::Instant;

use capstan_format::entry::Kind;

use crate::{entry, file, open, restore};

const DIRS: usize = 1000;
const FILES_PER_DIR: usize = 100;

#[test]
#[ignore = "a measurement"]
fn small_files() {
    let tmp = tempfile::tempdir_in("/dev/shm").unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let (file, data) = (file(0o644), [42u8; 4096]);
    let start = Instant::now();
    for d in 0..DIRS {
        let dir = format!("some/where/d{d}");
        for f in 0..FILES_PER_DIR {
            let name = format!("f{f}");
            restore(&mut worker, &file, dir.as_bytes(), name.as_bytes(), &data).unwrap();
        }
        worker.finish_dir(&entry(Kind::Dir, 0o755), dir.as_bytes()).unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    let files = (DIRS * FILES_PER_DIR) as f64;
    println!("{files} files in {seconds:.3} s: {:.2} us each", seconds / files * 1e6);
}
