//! How much it was, how long it took, what limited it, and how long a restore would take.

use std::fmt::Write as _;

use crate::output::report_text::view::{BottleneckView, StageView};
use crate::output::report_text::{DRY_RUN, Lines, View};
use crate::text::sizes::{bytes_text, grouped, seconds_text};

impl View {
    /// How much it was, how long it took, and what was waited for.
    pub(super) fn write_pace(&self, out: &mut Lines) {
        out.line("Size", &self.size());
        out.line("Elapsed", &seconds_text(self.elapsed_s));
        let mut rates = format!("{:.1} MB/s average", self.rate_mb_s);
        // A session that was over before a sample was taken has none, and one that hardly read anything none of use.
        if self.rate_sustained_mb_s >= 0.05 {
            let _ = write!(rates, ", {:.1} MB/s sustained", self.rate_sustained_mb_s);
        }
        if self.method != "import" {
            out.line("Rate", &rates);
        }
        if self.media_change_s > 0.0 {
            out.line("Media change", &format!(" {}", seconds_text(self.media_change_s)));
        }
        if self.tape_wait_s > 0.0 {
            out.line("Tape wait", &format!(" {}", seconds_text(self.tape_wait_s)));
        }
    }

    /// How long a restore would take.
    pub(super) fn write_expected_restore(&self, out: &mut Lines) {
        let Some(e) = &self.expected_restore else { return };
        let id: String = e.session.chars().take(8).collect();
        let rests_on = match e.sessions {
            2.. => {
                let way = if e.rests_on == "backup" { "to" } else { "from" };
                format!("{} {}s {way} {}", grouped(e.sessions), e.rests_on, e.medium)
            }
            _ if e.session == self.session => "this backup".to_owned(),
            _ => format!("{} {id}", e.rests_on),
        };
        out.line(
            "To restore",
            &format!("about {}, by the pace of {rests_on}", seconds_text(e.seconds)),
        );
    }

    fn size(&self) -> String {
        let (read, written) = (bytes_text(self.bytes_read), bytes_text(self.bytes_written));
        match self.method.as_str() {
            DRY_RUN if self.restores() => format!("{written} would be restored"),
            "restore" | "drill" => format!("{read} from the media, {written} restored"),
            "copy" | "stage" | "retire" | "repair" | "synthetic full" => {
                format!("{read} from the media, {written} on the medium")
            }
            "verify" => format!("{read} read from the media"),
            // Of most of it only the catalogs.
            "import" => format!("{read} found on the media"),
            _ if self.bytes_written == 0 => format!("{read} on disk, {written} on the medium"),
            _ => format!(
                "{read} on disk, {written} on the medium ({:.2}:1)",
                self.bytes_read as f64 / self.bytes_written as f64
            ),
        }
    }

    /// A table of the stages that did something, in percent of the elapsed time: several threads may give more than 100.
    pub(super) fn write_stages(&self, out: &mut String) {
        let worked = |s: &&StageView| s.busy_s + s.wait_in_s + s.wait_out_s > 0.0 || s.bytes > 0;
        let mut stages = self.stages.iter().filter(worked).peekable();
        if stages.peek().is_none() {
            return;
        }
        let share = |seconds: f64| format!("{:.0} %", seconds / self.elapsed_s.max(1e-9) * 100.0);
        let _ = writeln!(
            out,
            "\n{:<14}{:>9}{:>9}{:>9}{:>11}",
            "Stage", "busy", "wait in", "wait out", "data"
        );
        for s in stages {
            let _ = writeln!(
                out,
                "{:<14}{:>9}{:>9}{:>9}{:>11}",
                s.name,
                share(s.busy_s),
                share(s.wait_in_s),
                share(s.wait_out_s),
                bytes_text(s.bytes)
            );
        }
    }
}

/// What limited, for how long, and what would help.
pub(super) fn limit_text(b: &BottleneckView) -> String {
    let percent = |share: f64| format!("{:.0} % of the time", share * 100.0);
    match &b.backhitches {
        Some(h) => {
            let lowest = h.lowest_mb_s.map(|rate| format!(", below {rate:.1} MB/s"));
            format!(
                "{} and backhitches of the drive{}, {}; the {} backhitches took {}, {}: {}",
                b.stage,
                lowest.unwrap_or_default(),
                percent(b.share),
                grouped(h.count),
                seconds_text(h.seconds),
                percent(h.share),
                b.advice
            )
        }
        // Too short a session has none.
        None if b.share == 0.0 => format!("{}: {}", b.stage, b.advice),
        None => format!("{}, {}: {}", b.stage, percent(b.share), b.advice),
    }
}
