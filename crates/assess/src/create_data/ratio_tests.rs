//! Measures mixed content with the codecs it is calibrated for.

use super::content::Content;
use super::options::Pattern;

const KIB: usize = 1024;

fn data(index: u64, size: usize, ratio: f64) -> Vec<u8> {
    let mut data = vec![0; size];
    Content::new(Pattern::Mixed, 1, index, size as u64, ratio).fill(&mut data);
    data
}

/// Ratios by zstd -1, an lz4 block and an lz4 frame of `parts` compressed independently.
fn ratios<'a>(parts: impl Iterator<Item = &'a [u8]>) -> [f64; 3] {
    let mut bytes_in = 0;
    let mut out = [0; 3];
    let mut zstd = zstd::bulk::Compressor::new(1).unwrap();
    for part in parts {
        bytes_in += part.len();
        out[0] += zstd.compress(part).unwrap().len();
        out[1] += lz4::block::compress(part, None, false).unwrap().len();
        let mut frame = lz4::EncoderBuilder::new().level(1).build(Vec::new()).unwrap();
        std::io::Write::write_all(&mut frame, part).unwrap();
        let (frame, result) = frame.finish();
        result.unwrap();
        out[2] += frame.len();
    }
    out.map(|bytes| bytes_in as f64 / bytes as f64)
}

/// Asserts that every codec is within `percent` of `ratio`; lz4 frames get `frame_percent`.
fn check(what: &str, ratio: f64, measured: [f64; 3], percent: f64, frame_percent: f64) {
    let limits = [percent, percent, frame_percent];
    for ((codec, got), limit) in ["zstd -1", "lz4", "lz4 frame"].iter().zip(measured).zip(limits) {
        let off = (got / ratio - 1.0) * 100.0;
        assert!(off.abs() < limit, "{what}: {codec} gives {got:.3}, {off:+.1} % from {ratio}");
    }
}

const RATIOS: [f64; 12] = [1.0, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 12.0, 16.0];

#[test]
fn large_data_in_frames_of_256_kib() {
    for ratio in RATIOS {
        let data = data(1, 8 * KIB * KIB, ratio);
        check("256 KiB frames", ratio, ratios(data.chunks(256 * KIB)), 5.0, 5.0);
        check("cut off the grid", ratio, ratios(data[1000..].chunks(256 * KIB)), 5.0, 5.0);
        check("whole", ratio, ratios(std::iter::once(&data[..])), 5.0, 5.0);
    }
}

/// The codecs' cost for a frame is part of what is measured: 19 bytes of lz4's frame format are
/// 4 % of 8 KiB at ratio 16. So lz4 frames get 10 % here, the codecs themselves keep the 5 %.
#[test]
fn large_data_in_frames_of_8_kib() {
    for ratio in RATIOS {
        let data = data(2, 4 * KIB * KIB, ratio);
        check("8 KiB frames", ratio, ratios(data.chunks(8 * KIB)), 5.0, 10.0);
        check("cut off the grid", ratio, ratios(data[1000..].chunks(8 * KIB)), 10.0, 15.0);
    }
}

#[test]
fn small_files() {
    for ratio in RATIOS {
        for kib in [4, 8, 12, 16, 64] {
            let files: Vec<_> = (0..100).map(|index| data(index, kib * KIB, ratio)).collect();
            let what = format!("files of {kib} KiB");
            check(&what, ratio, ratios(files.iter().map(|file| &file[..])), 5.0, 10.0);
        }
    }
}

/// A drive looks back 1 KiB at most: all matches must start within that.
#[test]
fn redundancy_is_within_one_kib() {
    for ratio in [1.5, 2.0, 4.0, 16.0] {
        let data = data(3, 64 * KIB, ratio);
        let mut literals = 0;
        let mut at = 0;
        while at < data.len() {
            let match_at = |distance: usize| {
                let length = data[at..].iter().zip(&data[at - distance..]);
                length.take_while(|(a, b)| a == b).count()
            };
            match (8..=at.min(1024)).map(match_at).max().unwrap_or(0) {
                length @ 8.. => at += length,
                _ => {
                    literals += 1;
                    at += 1;
                }
            }
        }
        let bound = data.len() as f64 / literals as f64;
        assert!(bound >= ratio && bound < ratio * 1.15, "{bound} for {ratio}");
    }
}

/// Prints deviations in percent and speeds: `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table to calibrate by"]
fn table() {
    use std::time::Instant;
    for ratio in RATIOS.into_iter().chain([31.0]) {
        let start = Instant::now();
        let mut made = vec![0; 64 * KIB * KIB];
        let mut content = Content::new(Pattern::Mixed, 1, 1, 1 << 40, ratio);
        let size = made.len() as f64 / 1e9;
        content.fill(&mut made);
        let warm = Instant::now();
        made.chunks_mut(128 * KIB).for_each(|part| content.fill(part));
        let made_s = warm.elapsed().as_secs_f64();
        // The same memory again and again, as a writer does it.
        let cached = Instant::now();
        for _ in 0..512 {
            content.fill(&mut made[..128 * KIB]);
        }
        let cached_s = cached.elapsed().as_secs_f64();
        let mut zstd = zstd::bulk::Compressor::new(1).unwrap();
        let packing = Instant::now();
        for part in made.chunks(256 * KIB) {
            zstd.compress(part).unwrap();
        }
        let zstd_s = packing.elapsed().as_secs_f64();
        let (generate, cached, zstd_1) = (size / made_s, size / cached_s, size / zstd_s);
        print!("{ratio:5}: makes {generate:.1}, cached {cached:.1}, zstd -1 {zstd_1:.2} GB/s");
        for kib in [8192, 256, 64, 8, 4] {
            let r = ratios(made[..8 << 20].chunks(kib * KIB)).map(|r| (r / ratio - 1.0) * 100.0);
            print!(" | {kib}K {:+.1} {:+.1} {:+.1}", r[0], r[1], r[2]);
        }
        println!(" ({:.1} s)", start.elapsed().as_secs_f64());
    }
}
