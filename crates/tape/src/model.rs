//! Real drives as data.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use capstan_medium::tape::Speeds;
use serde::Deserialize;

const MODELS: &str = include_str!("models.toml");
const MB: f64 = 1e6;

/// Seconds that a linear drive needs to stop, move back and be at speed again, where its maker says nothing: an estimate,
/// in the middle of the 2 to 4 s that are reported of DLT and LTO drives.
const BACKHITCH_S: f64 = 3.0;
/// Buffer of a drive of which nothing else is known, in bytes: what the oldest had.
const BUFFER: f64 = 2.0 * 1_048_576.0;
/// Seconds to load, unload, locate and rewind of such a drive: an estimate.
const LOAD_S: f64 = 30.0;
const UNLOAD_S: f64 = 20.0;
const LOCATE_S: f64 = 60.0;
/// The largest block, in bytes: what SSC drives of these families take.
const BLOCK_MAX: usize = 8 << 20;

/// What is known of a drive's type. Rates are bytes per second at the medium, sizes bytes, times seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveModel {
    /// Its name, as `lto-9`.
    pub name: String,
    /// Rates that it can match, ascending; the last is its native rate.
    pub speeds: Vec<f64>,
    /// The most that it takes from the host.
    pub host_max: Option<f64>,
    /// What a tape holds.
    pub capacity: f64,
    /// Its buffer.
    pub buffer: f64,
    /// The stop, rewind and restart when data are late; 0 for helical drives.
    pub backhitch_s: f64,
    /// Time to load a tape.
    pub load_s: f64,
    /// Time to unload one.
    pub unload_s: f64,
    /// Time to locate a block from the begin of the tape, on average.
    pub locate_s: f64,
    /// Time to rewind, on average.
    pub rewind_s: f64,
    /// End-to-end passes that fill a tape.
    pub wraps: u32,
    /// The largest block.
    pub block_max: usize,
    /// Uses of a cleaning tape.
    pub cleaning_cycles: Option<u32>,
    /// Rated end-to-end passes of a medium.
    pub passes: Option<u64>,
    /// Whether it encrypts with AES-256 by a key that it is given.
    pub encrypts: bool,
    /// Values that no maker published, by their names in models.toml.
    pub estimates: Vec<String>,
}

/// A section of models.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    native: f64,
    speeds: Vec<f64>,
    capacity: f64,
    host_max: Option<f64>,
    buffer: Option<f64>,
    #[serde(default)]
    helical: bool,
    backhitch: Option<f64>,
    load: Option<f64>,
    unload: Option<f64>,
    average_locate: Option<f64>,
    average_rewind: Option<f64>,
    wraps: Option<u32>,
    cleaning_cycles: Option<u32>,
    passes: Option<u64>,
    #[serde(default)]
    encrypts: bool,
    #[serde(rename = "shelf_years")]
    _shelf_years: Option<u32>,
    #[serde(default)]
    estimate: Vec<String>,
}

impl DriveModel {
    /// The model of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        all().get(name)
    }

    /// The names of all models.
    pub fn names() -> Vec<&'static str> {
        all().keys().map(String::as_str).collect()
    }

    /// Its native rate in bytes per second.
    pub fn native(&self) -> f64 {
        self.speeds.last().copied().unwrap_or(0.0)
    }

    /// The lowest and the highest rate that it can match.
    pub fn range(&self) -> Speeds {
        Speeds { lowest: self.speeds.first().copied().unwrap_or(0.0), native: self.native() }
    }

    fn of(name: &str, e: Entry) -> Self {
        let mut estimates = e.estimate;
        let mut or = |value: Option<f64>, field: &str, guess: f64| {
            value.unwrap_or_else(|| {
                estimates.push(field.to_owned());
                guess
            })
        };
        let buffer = or(e.buffer.map(|mib| mib * 1_048_576.0), "buffer", BUFFER);
        let backhitch_s = or(e.backhitch.or(e.helical.then_some(0.0)), "backhitch", BACKHITCH_S);
        let load_s = or(e.load, "load", LOAD_S);
        let unload_s = or(e.unload, "unload", UNLOAD_S);
        let locate_s = or(e.average_locate, "average_locate", LOCATE_S);
        let rewind_s = or(e.average_rewind, "average_rewind", LOCATE_S);
        let mut speeds: Vec<f64> = e.speeds.iter().map(|s| s * MB).collect();
        speeds.push(e.native * MB);
        speeds.sort_by(f64::total_cmp);
        speeds.dedup();
        Self {
            name: name.to_owned(),
            speeds,
            host_max: e.host_max.map(|m| m * MB),
            capacity: e.capacity * 1e9,
            buffer,
            backhitch_s,
            load_s,
            unload_s,
            locate_s,
            rewind_s,
            wraps: e.wraps.unwrap_or(1),
            block_max: BLOCK_MAX,
            cleaning_cycles: e.cleaning_cycles,
            passes: e.passes,
            encrypts: e.encrypts,
            estimates,
        }
    }
}

fn all() -> &'static BTreeMap<String, DriveModel> {
    static ALL: OnceLock<BTreeMap<String, DriveModel>> = OnceLock::new();
    ALL.get_or_init(|| {
        // A test reads them: what is compiled in is either right or not shipped.
        let entries: BTreeMap<String, Entry> = toml::from_str(MODELS).unwrap_or_default();
        entries.into_iter().map(|(name, e)| (name.clone(), DriveModel::of(&name, e))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_models_make_sense() {
        toml::from_str::<BTreeMap<String, Entry>>(MODELS).unwrap();
        assert_eq!(DriveModel::names().len(), 20);
        for name in DriveModel::names() {
            let m = DriveModel::named(name).unwrap();
            assert!(m.speeds.is_sorted() && m.speeds[0] > 1e5, "{m:?}");
            assert!(m.native() < 1e9 && m.capacity > m.native() * 60.0, "{m:?}");
            assert!(m.host_max.is_none_or(|h| h >= m.native()), "{m:?}");
            assert!(m.buffer >= BUFFER && m.wraps >= 1, "{m:?}");
            assert!(m.backhitch_s == 0.0 || m.backhitch_s >= 1.0, "{m:?}");
        }
        let lto9 = DriveModel::named("lto-9").unwrap();
        assert_eq!((lto9.native(), lto9.speeds[0]), (408e6, 177e6));
        assert_eq!((lto9.capacity, lto9.wraps), (18e12, 280));
        assert!(!lto9.estimates.contains(&"load".to_owned()));
        assert!(DriveModel::named("floppy").is_none());
        let able = |name| DriveModel::named(name).unwrap().encrypts;
        assert!(["lto-4", "lto-6", "lto-9"].into_iter().all(able));
        assert!(!["lto-3", "dlt-7000", "sdlt-600", "dds-3"].into_iter().any(able));
    }
}
