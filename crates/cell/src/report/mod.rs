//! The session report: what every session says at its end, in text and as JSON.

pub(crate) mod bottleneck;
pub(crate) mod expected;
pub(crate) mod history;
pub(crate) mod outcome;

use capstan_address::HostName;
use std::collections::BTreeMap;

use capstan_engine::meter::{Meters, Stage};
use capstan_engine::problem::Problem;
use capstan_engine::verdict::{Flow, Verdict};
use capstan_format::id::MediumId;
use capstan_medium::tape::{DriveSession, Struck};
use serde::{Deserialize, Serialize};

pub use crate::report::bottleneck::{Bottleneck, LateBackhitches};
use crate::request::Encrypt;

/// An entry of a report's `errors`.
#[derive(Debug, Clone, Serialize)]
pub struct ReportError {
    /// The file, directory or device.
    pub path: String,
    /// What happened.
    pub error: String,
    /// The code's name.
    pub code: &'static str,
    /// The same with what to do apart, of what was refused: no code says there what to do.
    #[serde(skip)]
    pub refused: Option<Problem>,
}

/// Of what a replica (a mirror, a copy) was read, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replica {
    /// Label of the medium where it was looked for first.
    pub medium: String,
    /// The segment's number there.
    pub number: u32,
    /// The segment's id.
    pub segment: String,
    /// What is wrong there.
    pub why: String,
    /// Label of the medium that it was read from.
    pub used: String,
    /// How many of its frames; 0 if all of it.
    pub frames: u64,
}

/// What one stage did.
#[derive(Debug, Clone, Serialize)]
pub struct StageReport {
    /// The stage's name.
    pub name: &'static str,
    /// Seconds at work, all its threads together.
    pub busy_s: f64,
    /// Seconds waiting for input.
    pub wait_in_s: f64,
    /// Seconds waiting to hand output on.
    pub wait_out_s: f64,
    /// Bytes that went through.
    pub bytes: u64,
}

/// A measure of a backup that is out of line with the object's earlier ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Anomaly {
    /// `changed_files`: the share of files that changed; `stored_size`: bytes on the medium for each byte read;
    /// `input_size`: bytes of standard input or a command; `no_files`: no file was found.
    pub what: &'static str,
    /// Its value.
    pub value: f64,
    /// The median of earlier backups; of `no_files` the files that the last one found.
    pub median: f64,
    /// How far they spread about it, as a standard deviation.
    pub spread: f64,
    /// How many they are.
    pub sessions: usize,
}

/// How long a restore of all is expected to take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpectedRestore {
    /// Seconds.
    pub seconds: f64,
    /// Files to restore.
    pub files: u64,
    /// Bytes to restore.
    pub bytes: u64,
    /// The kind of session whose pace it rests on: `restore`, `drill` or `backup`.
    pub rests_on: &'static str,
    /// The id of that session; of several, of the one whose pace is the median.
    pub session: String,
    /// How many they are.
    pub sessions: u64,
    /// The kind of medium that they read or wrote: `disk`, `tape L9` and so on.
    pub medium: String,
}

/// What a drill took and proved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct DrillReport {
    /// Share of the files that was asked for, 0 to 1.
    pub sample: f64,
    /// Where on the circle of path hashes (0 to 2^64 - 1) the sample began.
    pub from: u64,
    /// Where it ended; the next drill begins there.
    pub to: u64,
    /// Share of the files that drills have taken since they last had taken all.
    pub round: f64,
    /// Whether that is all.
    pub round_complete: bool,
    /// Files in the sample.
    pub files: u64,
    /// Files restored and proved by comparison with the live file, byte by byte.
    pub by_live_file: u64,
    /// Files restored and proved by the checksum of their contents, or those of what was read, length and metadata.
    pub by_checksum: u64,
    /// Files whose data carry no checksums (`backup --no-crc`): length and metadata are right.
    pub by_length: u64,
    /// Files that were not restored as they are recorded.
    pub failed: u64,
    /// Seconds that restoring took.
    pub restore_s: f64,
    /// Where they were restored to.
    pub scratch: String,
}

/// A version that a stage session looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct StagedVersion {
    /// The object's name.
    pub name: String,
    /// The session that wrote it.
    pub session: String,
    /// When it was begun, as RFC 3339 UTC.
    pub start: String,
    /// Bytes that it has on the disk media that are staged.
    pub bytes: u64,
    /// Whether they were copied, verified and given back; in a dry run, whether they would be.
    pub staged: bool,
    /// Why they stay.
    pub why: Option<String>,
}

/// What a stage session did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Staged {
    /// Whether it only says what would be done.
    pub dry_run: bool,
    /// Versions that were staged.
    pub staged_versions: u64,
    /// Bytes written to the target.
    pub copied_bytes: u64,
    /// Bytes read back from there and found whole.
    pub verified_bytes: u64,
    /// Segments that were removed from disk.
    pub freed_segments: u64,
    /// Bytes that this gave back.
    pub freed_bytes: u64,
    /// The versions that were chosen, and those that could not be, oldest first.
    pub versions: Vec<StagedVersion>,
}

impl Staged {
    /// Counts the versions that were staged.
    pub(crate) fn count(&mut self) {
        self.staged_versions = self.versions.iter().filter(|v| v.staged).count() as u64;
    }
}

/// What a backup was told to take. Field names are those of `--json`.
#[derive(Debug, Clone, Serialize, Deserialize, Default)]
pub struct Selected {
    /// Its paths, resolved; none where it was standard input or a command.
    pub paths: Vec<String>,
    /// Those that were named by other paths, as symbolic links above them were followed: by these.
    #[serde(default)]
    pub through: BTreeMap<String, String>,
    /// Those of its paths that the version before had and no PATH led to any more, while PATHs were missing: each may be what one of them
    /// led to then, of which there was no record.
    #[serde(default)]
    pub unplaced: Vec<String>,
    /// Patterns of what was left out.
    pub exclude: Vec<String>,
    /// Exceptions to them.
    pub include: Vec<String>,
    /// Whether tagged caches were left out.
    pub exclude_caches: bool,
    /// Names that leave out the directories that hold them.
    pub exclude_if_present: Vec<String>,
    /// Smallest and largest size of files taken, in bytes.
    pub sizes: Option<(u64, u64)>,
    /// Whether other file systems were not entered.
    pub one_file_system: bool,
}

/// The note of a session that failed before its first commit.
pub(crate) const NOTHING_COMMITTED: &str =
    "nothing was committed: there is nothing of this session to restore";

/// What a tape drive did in a session, as far as it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct DriveReport {
    /// The drive.
    pub name: String,
    /// Share of the time, while there was something to write or read, that the tape moved, 0 to 1.
    pub streaming: Option<f64>,
    /// Stops in which the tape was moved back to start anew.
    pub backhitches: Option<u64>,
    /// Those of them that came about because it was not fed, or emptied, as fast as its lowest speed; others follow commits.
    pub late_backhitches: Option<u64>,
    /// Seconds that these took.
    pub backhitch_s: Option<f64>,
    /// The lowest rate at which it goes on without stopping, MB = 10^6 bytes.
    pub lowest_mb_s: Option<f64>,
    /// Bytes per second at the medium meanwhile, MB = 10^6 bytes.
    pub medium_mb_s: Option<f64>,
    /// Passes of the tape's whole length by the head.
    pub passes: Option<f64>,
    /// What the tape is called: by its sticker, or by its medium's label where somebody was asked for it.
    pub tape: Option<String>,
    /// How often the drive went to a place on the tape, instead of reading or writing on.
    pub locates: Option<u64>,
    /// Seconds that this took.
    pub locate_s: Option<f64>,
    /// Bytes written for each byte on the tape, by the drive's own compression.
    pub compression_ratio: Option<f64>,
    /// Errors that the drive corrected itself.
    pub corrected_errors: Option<u64>,
    /// Errors that stayed.
    pub hard_errors: Option<u64>,
    /// Blocks that could not be read at first, and were at a later try.
    pub read_again: u64,
    /// Seconds in which a robot brought the tape.
    pub load_s: Option<f64>,
}

impl DriveReport {
    pub(crate) fn of(session: &DriveSession) -> Self {
        let moved = session.statistics.filter(|s| s.streaming().is_some());
        Self {
            name: session.name.clone(),
            streaming: moved.and_then(|s| s.streaming()),
            backhitches: moved.map(|s| s.backhitches),
            late_backhitches: moved.map(|s| s.late_backhitches),
            backhitch_s: moved.map(|s| s.late_s / session.scale),
            lowest_mb_s: session.speeds.map(|speeds| speeds.lowest / 1e6),
            medium_mb_s: moved.and_then(|s| s.medium_rate()).map(|rate| rate / 1e6),
            passes: moved.map(|s| s.passes),
            tape: session.tape.clone(),
            locates: Some(session.locates),
            locate_s: Some(session.locating.as_secs_f64()),
            compression_ratio: session.counters.compression_ratio,
            corrected_errors: session.counters.corrected_errors,
            hard_errors: session.counters.hard_errors,
            read_again: session.read_again,
            load_s: session.mount.as_ref().map(|mount| mount.took.as_secs_f64()),
        }
    }
}

/// What is to be said of a tape of which something was read at a later try only.
fn read_again_note(drive: &DriveSession) -> Option<String> {
    let blocks = match drive.read_again {
        0 => return None,
        1 => "1 block".to_owned(),
        n => format!("{n} blocks"),
    };
    let of = drive.tape.as_ref().map_or_else(String::new, |tape| format!(" of tape {tape}"));
    Some(format!(
        "{}: {blocks}{of} could not be read at first and came at a later try; nothing is lost: clean the drive, and copy the tape \
         if it happens again",
        drive.name
    ))
}

/// A session's report. Field names are those of `--json`.
#[derive(Debug, Clone, Serialize, Default)]
pub struct Report {
    /// The session's id.
    pub session: String,
    /// The object's name.
    pub name: String,
    /// The host.
    pub host: HostName,
    /// Method: `full`; of other sessions their kind (`restore`, `verify`, `import`).
    pub method: String,
    /// The session it goes on with or restores from.
    pub base_session: Option<String>,
    /// `completed`, `completed_with_errors`, `incomplete` or `failed`.
    pub status: String,
    /// Start, as RFC 3339 UTC.
    pub start: String,
    /// End, as RFC 3339 UTC.
    pub end: String,
    /// Files (all that are not directories).
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Left out by options, or not overwritten.
    pub skipped: u64,
    /// Those of a restore that were not overwritten, and whose owner, mode, attributes or flags were put right.
    pub put_right: u64,
    /// In use while they were read.
    pub in_use: u64,
    /// Stored or restored with unreadable parts.
    pub corrupt: u64,
    /// Whose data lie on media that are away.
    pub away: u64,
    /// Bytes of those.
    pub away_bytes: u64,
    /// The media on which they lie.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub away_media: Vec<AwayReport>,
    /// Files that did not change: an earlier backup, or an earlier run of this one, has them.
    pub kept: u64,
    /// Files that were moved or touched, whose contents an earlier version has.
    pub moved: u64,
    /// Bytes of those contents, which were not stored again.
    pub moved_bytes: u64,
    /// Files of which no contents were stored: moved or touched ones, empty ones, links.
    pub no_contents: u64,
    /// What a backup was told to take; nothing where a path is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selected>,
    /// Where a backup found something mounted, and something in it, and where it was at the last one and is missing now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mounted: Option<Vec<String>>,
    /// Likewise contents that another may mask: btrfs subvolumes, directories that a file system in memory lay over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maskable: Option<Vec<String>>,
    /// What is out of line with the object's earlier backups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub anomalies: Vec<Anomaly>,
    /// How long a restore of what a backup made is expected to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_restore: Option<ExpectedRestore>,
    /// What a drill took and proved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drill: Option<DrillReport>,
    /// What a stage session did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// What a restore would read, by medium in the order of use: of a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pick: Vec<Pick>,
    /// Number of errors; `errors` may list fewer.
    pub error_count: u64,
    /// The first errors, at most 10,000.
    pub errors: Vec<ReportError>,
    /// Of what replicas were read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<Replica>,
    /// Bytes read: from the source (backup) or the media (restore).
    pub bytes_read: u64,
    /// Bytes written: to the medium (backup), as they lie there after the drive's own compression where it counts them, or to the
    /// target (restore).
    pub bytes_written: u64,
    /// Labels of the media.
    pub media: Vec<String>,
    /// Seconds from start to end.
    pub elapsed_s: f64,
    /// `bytes_read` (backup) or `bytes_written` (restore) per second, MB = 10^6 bytes.
    pub rate_mb_s: f64,
    /// The same without start and end: median of the samples taken while data flowed.
    pub rate_sustained_mb_s: f64,
    /// Seconds in which media were changed; of sessions that read, in which robots brought tapes.
    pub media_change_s: f64,
    /// Seconds in which drives without a robot waited for their tapes, those of changes included.
    pub tape_wait_s: f64,
    /// Most memory the process had, in bytes.
    pub peak_rss_bytes: u64,
    /// Who encrypted what was written; nothing where nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encrypt>,
    /// What the tape drives did, one for each tape that was written or read, as far as it is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveReport>,
    /// Planned faults of virtual drives and libraries that struck.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Struck>,
    /// What limited.
    pub bottleneck: Option<Bottleneck>,
    /// What the watch says of that, and which way data went.
    #[serde(skip)]
    pub verdict: Option<(Verdict, Flow)>,
    /// What each stage did.
    pub stages: Vec<StageReport>,
    /// What is worth knowing once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether its medium is full: it ended since, or could not begin.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub device_full: bool,
    /// Bytes on the tapes for each one that was written to their drives, where these count them.
    #[serde(skip)]
    pub drives_shrink: Option<f64>,
    /// Whether it ended since its medium could not be written.
    #[serde(skip)]
    pub device_failed: bool,
    /// What the medium said, where it was that.
    #[serde(skip)]
    pub failure: Option<String>,
    /// Of several media those that were full, where it was that.
    #[serde(skip)]
    pub full_media: Vec<MediumId>,
    /// Whether that was since its drive could not be reached, which says nothing of the medium.
    #[serde(skip)]
    pub device_lost: bool,
}

impl Report {
    /// Fills in verdict and stages.
    pub fn set_stages(&mut self, meters: &Meters, verdict: Verdict, flow: Flow) {
        self.verdict = Some((verdict, flow));
        self.judge();
        self.stages = Stage::ALL
            .into_iter()
            .zip(meters.read())
            .map(|(stage, r)| StageReport {
                name: stage.name(),
                busy_s: r.busy.as_secs_f64(),
                wait_in_s: r.wait_in.as_secs_f64(),
                wait_out_s: r.wait_out.as_secs_f64(),
                bytes: r.bytes,
            })
            .collect();
    }

    fn judge(&mut self) {
        if let Some((verdict, flow)) = self.verdict {
            self.bottleneck = Some(Bottleneck::of(verdict, flow, &self.drives));
        }
    }

    /// Says that nothing of the session is on a medium, so that what was read does not pass for what was saved.
    pub(crate) fn nothing_committed(&mut self) {
        (self.files, self.dirs, self.kept) = (0, 0, 0);
        (self.moved, self.moved_bytes, self.no_contents) = (0, 0, 0);
        self.notes.push(NOTHING_COMMITTED.to_owned());
    }

    /// Fills in what tape drives did, and notes what they have to say.
    pub(crate) fn set_drives(&mut self, drives: &[DriveSession]) {
        self.drives = drives.iter().map(DriveReport::of).collect();
        let counted = drives.iter().map(|drive| drive.counters);
        let counted = counted.filter_map(|c| c.bytes_written.zip(c.bytes_on_tape));
        let (sent, on_tape) = counted.fold((0_u64, 0_u64), |sum, (sent, on_tape)| {
            (sum.0.saturating_add(sent), sum.1.saturating_add(on_tape))
        });
        self.drives_shrink = (sent > 0 && on_tape > 0).then(|| on_tape as f64 / sent as f64);
        for drive in drives {
            let alerts = drive.alerts.iter().map(|alert| format!("{}: {}", drive.name, alert.text));
            self.notes.extend(alerts);
            self.notes.extend(read_again_note(drive));
        }
        self.judge();
    }

    /// What bytes that were written to tape drives take on their tapes, as far as the drives count it.
    pub(crate) fn on_tape(&self, bytes: u64) -> u64 {
        self.drives_shrink.map_or(bytes, |share| (bytes as f64 * share).round() as u64)
    }

    /// The same of a session that reads: all its tapes had to be brought.
    pub(crate) fn set_drives_read(&mut self, drives: &[DriveSession]) {
        self.set_drives(drives);
        // A sum of nothing would be -0.0.
        self.media_change_s = self.drives.iter().filter_map(|d| d.load_s).fold(0.0, |a, b| a + b);
    }

    /// This report with what an earlier one of the same kind says added to it.
    pub(crate) fn after(mut self, earlier: Option<Self>) -> Self {
        let Some(mut earlier) = earlier else { return self };
        if self.exit_code() == 0 {
            self.status = earlier.status;
        }
        earlier.media.append(&mut self.media);
        earlier.errors.append(&mut self.errors);
        earlier.notes.append(&mut self.notes);
        earlier.faults.append(&mut self.faults);
        Self {
            start: earlier.start,
            name: format!("{}, {}", earlier.name, self.name),
            files: self.files + earlier.files,
            dirs: self.dirs + earlier.dirs,
            bytes_read: self.bytes_read + earlier.bytes_read,
            tape_wait_s: self.tape_wait_s + earlier.tape_wait_s,
            elapsed_s: self.elapsed_s + earlier.elapsed_s,
            error_count: self.error_count + earlier.error_count,
            media: earlier.media,
            errors: earlier.errors,
            notes: earlier.notes,
            faults: earlier.faults,
            ..self
        }
    }

    /// The exit code that goes with the status: 0, 3 or 1.
    pub fn exit_code(&self) -> u8 {
        match self.status.as_str() {
            "completed" => 0,
            "completed_with_errors" => 3,
            _ => 1,
        }
    }
}

/// What is said where no file is there.
pub(crate) const NO_FILES: &str = "no_files";
/// What is said of an input that gave little: below this share of the median...
pub(crate) const INPUT_SIZE: &str = "input_size";

/// A medium that a restore reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pick {
    /// Its id.
    pub medium: String,
    /// Its label.
    pub label: String,
    /// What is on the sticker of its tape; nothing where several are read, or it has none.
    pub barcode: Option<String>,
    /// Where it is: a place of its library, where it was brought, or why it is not at hand; empty where it is in its place.
    pub place: String,
    /// Whether somebody has to bring it.
    pub away: bool,
    /// Its device.
    pub device: String,
    /// The tapes of it that are read; of an array those that are there, and as many of the others as have to be brought.
    pub tapes: Vec<PickedTape>,
    /// Files that have something on it.
    pub files: u64,
    /// Bytes of files on it.
    pub bytes: u64,
    /// The versions that need it: the one that is restored, and those that it builds on.
    #[serde(rename = "for")]
    pub versions: Vec<String>,
}

/// A tape that a restore reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PickedTape {
    /// What is on its sticker.
    pub barcode: String,
    /// Where it is: a place of its library, where it was brought, or that it is not there.
    pub place: String,
    /// Whether somebody has to bring it.
    pub away: bool,
    /// Its library.
    pub library: String,
}

/// A medium that is away, and what lies on it of what was to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AwayReport {
    /// Its id.
    pub medium: String,
    /// Its label.
    pub label: String,
    /// What is on its tape's sticker, where it has one.
    pub barcode: Option<String>,
    /// Where it was brought, or why it is not at hand.
    pub place: String,
    /// Files that have something on it, each counted at one medium.
    pub files: u64,
    /// Their bytes: the whole of each.
    pub bytes: u64,
}

/// A tape that was retired by a session.
pub(crate) struct Retired {
    /// Its label.
    pub label: String,
    /// The labels of those that its copies were written to.
    pub copies: Vec<String>,
}
