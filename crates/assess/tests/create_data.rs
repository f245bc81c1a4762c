//! The generator as a whole: trees on a real file system.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use capstan_assess::create_data::{
    Amount, CreateDataError, Distribution, MTIME_UNIX_S, Options, Pattern, create_data,
};

fn options() -> Options {
    Options {
        amount: Amount::Files(120),
        size_min: 1000,
        size_max: 300_000,
        depth: 3,
        breadth: 2,
        files_per_dir: Some(10),
        streams: 1,
        sync: false,
        ..Options::default()
    }
}

/// Every path below `dir` with its modification time and a hash of its content.
fn listing(dir: &Path) -> BTreeMap<PathBuf, (i64, u64, u64)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::metadata(&path).unwrap();
            let mut hasher = DefaultHasher::new();
            if metadata.is_dir() {
                open.push(path.clone());
            } else {
                fs::read(&path).unwrap().hash(&mut hasher);
            }
            let size = if metadata.is_dir() { 0 } else { metadata.len() };
            let relative = path.strip_prefix(dir).unwrap().to_path_buf();
            found.insert(relative, (metadata.mtime(), size, hasher.finish()));
        }
    }
    found
}

fn create(options: &Options) -> BTreeMap<PathBuf, (i64, u64, u64)> {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("new/tree");
    let summary = create_data(&dir, options, &|_, _| {}).unwrap();
    let listing = listing(&dir);
    let sizes = listing.values().map(|&(_, size, _)| size);
    assert_eq!(sizes.clone().sum::<u64>(), summary.bytes);
    assert_eq!(sizes.filter(|&size| size > 0).count() as u64, summary.files);
    assert_eq!(listing.len() as u64, summary.files + summary.dirs);
    assert!(summary.elapsed_s > 0.0 && summary.rate_mb_s > 0.0);
    assert_eq!(fs::metadata(&dir).unwrap().mtime(), MTIME_UNIX_S);
    listing
}

#[test]
fn same_options_give_the_same_tree_whatever_the_writers() {
    for pattern in Pattern::ALL {
        let one = create(&Options { pattern, ..options() });
        assert!(one.values().all(|&(mtime, ..)| mtime == MTIME_UNIX_S));
        for streams in [2, 7] {
            assert_eq!(create(&Options { pattern, streams, ..options() }), one, "{pattern:?}");
        }
        assert_eq!(create(&Options { pattern, sync: true, ..options() }), one);
    }
}

#[test]
fn layout_on_the_disk_does_not_change_the_content() {
    let plain = create(&options());
    for fragment_percent in [35, 100] {
        let pieces = create(&Options { fragment_percent, streams: 3, ..options() });
        assert_eq!(pieces, plain);
    }
}

#[test]
fn another_seed_gives_other_contents() {
    let one = create(&options());
    let other = create(&Options { seed: 2, ..options() });
    assert!(one.keys().eq(other.keys()), "names are by number");
    let contents = |listing: &BTreeMap<_, (i64, u64, u64)>| -> Vec<u64> {
        listing.values().filter(|&&(_, size, _)| size > 0).map(|&(.., hash)| hash).collect()
    };
    let (one, other) = (contents(&one), contents(&other));
    assert!(one.iter().all(|hash| !other.contains(hash)), "no content in common");
}

#[test]
fn deep_preset_has_over_a_hundred_levels() {
    let deep = create(&Options { sync: false, ..Options::preset("deep").unwrap() });
    let levels = deep.keys().map(|path| path.components().count()).max().unwrap();
    assert_eq!(levels, 121, "120 directories and the file");
    assert_eq!(deep.values().filter(|&&(_, size, _)| size > 0).count(), 3000);
}

#[test]
fn bytes_and_distribution_are_met() {
    let listing = create(&Options {
        amount: Amount::Bytes(3_500_000),
        size_min: 1 << 12,
        size_max: 1 << 17,
        distribution: Distribution::Bytes,
        files_per_dir: None,
        ..options()
    });
    let mut by_size = BTreeMap::<u64, u64>::new();
    for &(_, size, _) in listing.values().filter(|&&(_, size, _)| size > 0) {
        *by_size.entry(size).or_default() += 1;
    }
    assert_eq!(by_size.len(), 6);
    for (size, count) in by_size {
        assert!((size * count).abs_diff(3_500_000 / 6) <= size, "{count} files of {size}");
    }
}

#[test]
fn spread_ratios_keep_the_whole_at_the_ratio() {
    let temporary = tempfile::tempdir().unwrap();
    let spread = Options {
        amount: Amount::Files(200),
        size_min: 1 << 14,
        size_max: 1 << 17,
        ratio: 3.0,
        ratio_spread: true,
        depth: 0,
        files_per_dir: None,
        ..options()
    };
    create_data(temporary.path(), &spread, &|_, _| {}).unwrap();
    let (mut bytes_in, mut bytes_out, mut least, mut most) = (0.0, 0.0, f64::MAX, 0.0_f64);
    for entry in fs::read_dir(temporary.path()).unwrap() {
        let data = fs::read(entry.unwrap().path()).unwrap();
        let packed = zstd::bulk::compress(&data, 1).unwrap().len() as f64;
        bytes_in += data.len() as f64;
        bytes_out += packed;
        least = least.min(data.len() as f64 / packed);
        most = most.max(data.len() as f64 / packed);
    }
    let ratio: f64 = bytes_in / bytes_out;
    assert!((ratio / 3.0 - 1.0).abs() < 0.05, "{ratio}");
    assert!(least < 1.1 && most > 4.7, "{least} to {most}");
}

#[test]
fn progress_ends_with_the_totals() {
    let temporary = tempfile::tempdir().unwrap();
    let (bytes, files) = (AtomicU64::new(0), AtomicU64::new(0));
    let fragmented = Options { fragment_percent: 50, streams: 2, ..options() };
    let summary = create_data(temporary.path(), &fragmented, &|bytes_now, files_now| {
        bytes.fetch_max(bytes_now, Ordering::Relaxed);
        files.fetch_max(files_now, Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!(bytes.into_inner(), summary.bytes);
    assert_eq!(files.into_inner(), summary.files);
    assert!(summary.fragmented_files > 20 && summary.fragmented_files <= 60);
}

#[test]
fn what_is_there_stays_untouched() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("used");
    fs::create_dir(&dir).unwrap();
    fs::create_dir(dir.join("lost+found")).unwrap();
    fs::write(dir.join("letter"), "dear").unwrap();
    let error = create_data(&dir, &options(), &|_, _| {}).unwrap_err();
    assert!(matches!(&error, CreateDataError::NotEmpty { found, .. } if found == "letter"));
    assert!(error.is_bad_input() && error.to_string().contains("not empty"));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);

    let error = create_data(&dir.join("letter"), &options(), &|_, _| {}).unwrap_err();
    assert!(matches!(error, CreateDataError::NotADirectory { .. }));
    let error = create_data(&dir.join("letter/below"), &options(), &|_, _| {}).unwrap_err();
    assert!(!error.to_string().is_empty());

    fs::remove_file(dir.join("letter")).unwrap();
    create_data(&dir, &options(), &|_, _| {}).unwrap();
}

#[test]
fn bad_options_leave_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("tree");
    for bad in [
        Options { ratio: 17.0, ..options() },
        Options { amount: Amount::Files(1 << 40), ..options() },
        Options { depth: 1, files_per_dir: Some(1), ..options() },
    ] {
        let error = create_data(&dir, &bad, &|_, _| {}).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        assert!(!dir.exists());
    }
    let huge = Options { size_min: 1 << 50, size_max: 1 << 50, ..options() };
    let error = create_data(&dir, &huge, &|_, _| {}).unwrap_err();
    assert!(matches!(error, CreateDataError::NoSpace { .. }), "{error}");
}
