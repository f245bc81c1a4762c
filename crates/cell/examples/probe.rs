//! A bare front end for measuring: backs up a path to a device, or restores it.
use capstan_cell::Cell;
use capstan_cell::keyring::Secrets;
use capstan_cell::observe::{Observer, Progress, Stop};
use capstan_cell::request::*;
use capstan_engine::message::{Listener, Message};
struct Ears;
impl Listener for Ears {
    fn message(&self, m: Message) {
        eprintln!("{} {} {}", m.code, m.path, m.text);
    }
}
impl Observer for Ears {
    fn progress(&self, _: &Progress) {}
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let cell =
        Cell::open(std::path::Path::new(&std::env::var("CAPSTAN_HOME").unwrap()), Secrets::none())
            .unwrap();
    let report = if a[1] == "backup" {
        cell.backup(
            &BackupRequest {
                source: Source::Paths(vec![a[2].clone().into()]),
                device: a[3].parse().unwrap(),
                name: Some("x".into()),
                resume: false,
                dry_run: false,
                tags: vec![],
                streams: std::env::var("STREAMS").ok().map(|s| s.parse().unwrap()),
                concurrency: None,
                block_size: std::env::var("BLOCK").ok().map(|s| s.parse().unwrap()),
                segment_size: None,
                buffers: None,
                compression: match a.get(4).map(|s| s.as_str()) {
                    Some("off") => Compression::Off,
                    Some("zstd") => Compression::Fixed(capstan_format::codec::Method::Zstd(1)),
                    _ => Compression::Auto,
                },
                crc: std::env::var("NOCRC").is_err(),
                read: ReadMode::Auto,
                exclude: vec![],
                include: vec![],
                exclude_caches: false,
                exclude_if_present: vec![],
                sizes: None,
                one_file_system: false,
                hard_links_as_files: false,
                lock_files: false,
                locked: Locked::Warn,
                retries: 0,
                retry_wait: std::time::Duration::ZERO,
            },
            &Ears,
            &Stop::default(),
        )
        .unwrap()
    } else {
        cell.restore(
            &RestoreRequest {
                version: VersionName::parse("x"),
                paths: vec![],
                to: RestoreTo::Into(a[2].clone().into()),
                strip: 0,
                overwrite: Overwrite::Always,
                dry_run: false,
                numeric_ids: false,
            },
            &Ears,
            &Stop::default(),
        )
        .unwrap()
    };
    println!(
        "{} files {} bytes {} -> {} in {:.3}s {:.0} MB/s rss {} MiB limit {:?}",
        report.status,
        report.files,
        report.bytes_read,
        report.bytes_written,
        report.elapsed_s,
        report.rate_mb_s,
        report.peak_rss_bytes >> 20,
        report.bottleneck
    );
    for s in report.stages {
        println!(
            "  {:14} busy {:.2} in {:.2} out {:.2}",
            s.name, s.busy_s, s.wait_in_s, s.wait_out_s
        );
    }
}
