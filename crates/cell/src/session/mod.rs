//! What all sessions share: time, host, process, messages, the end.

pub(crate) mod lease;
pub(crate) mod presence;
pub(crate) mod refused;
pub(crate) mod transfers;
pub(crate) mod waited;
pub(crate) mod waits;
pub(crate) mod watch;

use capstan_address::HostName;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::clock;
use capstan_engine::message::{Code, Listener, Message, Severity};
use capstan_format::id::SessionId;
use capstan_idb::{Session, Status};
use capstan_medium::host::DeviceHost;
use parking_lot::{Mutex, MutexGuard};

use crate::Cell;
use crate::observe::{Observer, Progress};
use crate::process::birth;
use crate::report::{Report, ReportError};

/// Most errors that a report lists; all are counted.
pub(crate) const ERRORS_LISTED: usize = 10_000;

/// Now, in microseconds since 1970. No two calls give the same, and a clock that is set back while the process runs does not
/// lead back: segments are put in order by the times of their commits.
pub(crate) fn now_us() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    later(&LAST, clock::now_us())
}

/// The time of a clock, or right after the last one that was given where the clock was set back.
fn later(last: &AtomicI64, clock_us: i64) -> i64 {
    let next = |last: i64| clock_us.max(last.saturating_add(1));
    let before = last.fetch_update(Relaxed, Relaxed, |last| Some(next(last)));
    before.map_or(clock_us, next)
}

/// A time as RFC 3339 in UTC, to the millisecond. Civil from days after Howard Hinnant, "chrono-Compatible Low-Level
/// Date Algorithms".
pub(crate) fn rfc3339(us: i64) -> String {
    let (days, in_day) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000));
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let ms = in_day / 1000;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    )
}

/// Whether a session of that kind makes the version that it is recorded with.
pub(crate) fn writes_versions(kind: &str) -> bool {
    kind == "backup" || kind == CONSOLIDATE
}

impl Cell {
    /// The record of a session that this process begins, of nothing so far.
    pub(crate) fn begun(
        &self,
        id: SessionId,
        kind: &str,
        device: String,
        started_us: i64,
    ) -> Session {
        begun_on(self.host(), id, kind, device, started_us)
    }
}

/// The same, of that host.
pub(crate) fn begun_on(
    host: &HostName,
    id: SessionId,
    kind: &str,
    device: String,
    started_us: i64,
) -> Session {
    Session {
        id,
        kind: kind.to_owned(),
        object: None,
        version: None,
        parent: None,
        status: Status::Running,
        host: host.to_owned(),
        device,
        started_us,
        run_us: None,
        ended_us: None,
        files: 0,
        dirs: 0,
        bytes_read: 0,
        bytes_written: 0,
        tags: Vec::new(),
        report: None,
        pid: std::process::id(),
        birth: birth(),
    }
}

/// Most memory this process had so far, in bytes (VmHWM of /proc/self/status).
pub(crate) fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Codes of warnings that say that something of a session's media is lost or was left out.
const OF_MEDIA: [&str; 4] = [
    Code::MemberLost.name(),
    Code::MirrorFailed.name(),
    Code::MirrorAway.name(),
    Code::MediumChanged.name(),
];

/// Collects a session's messages for its report and passes them on.
pub(crate) struct SessionLog<'a> {
    observer: &'a dyn Observer,
    errors: Mutex<(u64, Vec<ReportError>)>,
}

impl<'a> SessionLog<'a> {
    pub fn new(observer: &'a dyn Observer) -> Self {
        Self { observer, errors: Mutex::default() }
    }

    /// How many errors were said, and the first of them.
    pub(crate) fn errors(&self) -> MutexGuard<'_, (u64, Vec<ReportError>)> {
        self.errors.lock()
    }

    /// Says something in the name of an agent.
    pub fn say(&self, code: Code, agent: &'static str, path: &str, text: String) {
        let path = path.to_owned();
        self.message(Message { code, agent, path, text, time_us: now_us() });
    }

    pub fn progress(&self, progress: &Progress) {
        self.observer.progress(progress);
    }

    /// Says that the session was stopped by its user.
    pub fn stopped(&self, name: &str) {
        self.say(Code::Stopped, "cell", name, "stopped before its end".to_owned());
    }

    /// Errors so far.
    pub fn error_count(&self) -> u64 {
        self.errors().0
    }

    /// Takes over what was said elsewhere, as said here too.
    pub fn also(&self, other: &SessionLog<'_>) {
        let (count, said) = other.errors().clone();
        let mut errors = self.errors();
        errors.0 += count;
        let room = ERRORS_LISTED.saturating_sub(errors.1.len());
        errors.1.extend(said.into_iter().take(room));
    }

    /// Moves the errors into the report, how long tapes were waited for, and which planned faults struck.
    pub fn fill(&self, devices: &dyn DeviceHost, report: &mut Report) {
        report.tape_wait_s += devices.operator().take_waited().as_secs_f64();
        report.faults.append(&mut devices.take_struck());
        let mut errors = self.errors();
        report.error_count = errors.0;
        report.errors = std::mem::take(&mut errors.1);
        // A session has errors also by what is lost of its media, for which others stand in: then that is what there is to count.
        if report.error_count == 0 && report.status == Status::CompletedWithErrors.to_string() {
            let of_media = report.errors.iter().filter(|e| OF_MEDIA.contains(&e.code)).count();
            report.error_count = if of_media > 0 { of_media } else { report.errors.len() } as u64;
        }
    }
}

impl Listener for SessionLog<'_> {
    fn message(&self, message: Message) {
        // Files in use and files that changed are for the reader of the report, though they are no errors.
        if message.code.row().2 >= Severity::Warning {
            let mut errors = self.errors();
            errors.0 += u64::from(message.code.row().2 == Severity::Error);
            if errors.1.len() < ERRORS_LISTED {
                errors.1.push(ReportError {
                    path: message.path.clone(),
                    error: message.text.clone(),
                    code: message.code.name(),
                    refused: None,
                });
            }
        }
        self.observer.message(message);
    }
}

/// A time in the machine's time zone, by the minute.
pub(crate) fn local(us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(us);
    let zoned = time.map(|t| t.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map_or_else(
        |_| format!("{us} µs since 1970"),
        |z| z.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// Kind of the sessions that make synthetic fulls.
pub(crate) const CONSOLIDATE: &str = "consolidate";

/// Whether a session of that kind adds much to the home: the names of what it writes, or finds.
pub(crate) fn adds_much(kind: &str) -> bool {
    kind == "backup" || kind == "import" || kind == CONSOLIDATE
}

/// Whether a version was made by a consolidation.
pub(crate) fn is_consolidation(
    cell: &crate::Cell,
    version: &capstan_idb::Version,
) -> crate::error::Result<bool> {
    Ok(cell.idb.sessions_of_version(version.id)?.iter().any(|s| s.kind == CONSOLIDATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_123_000), "2000-02-29T00:00:00.123Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_lead_back() {
        let last = AtomicI64::new(0);
        let times = [500, 700, 100, 100, 702, 900].map(|clock| later(&last, clock));
        assert_eq!(times, [500, 700, 701, 702, 703, 900]);
        assert!(now_us() < now_us());
    }

    #[test]
    fn this_process_has_memory() {
        assert!(peak_rss() > 1 << 20);
    }
}
