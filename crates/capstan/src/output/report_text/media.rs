//! Media and drives: which were used and how, and which a restore reads in what order.

use std::fmt::Write as _;

use capstan_cell::Pick;
use capstan_cell::report::DriveReport;
use capstan_engine::message::path_text;

use crate::output::report_text::{Lines, View};
use crate::text::sizes::{bytes_text, grouped, seconds_text};
use crate::text::table::{Align, columns};

impl View {
    /// Media and drives.
    pub(super) fn write_media(&self, out: &mut Lines) {
        out.line("Media", &self.media.join(", "));
        match self.encryption.as_deref() {
            Some("drive") => out.line("Encryption", "by the tape drive (AES-256)"),
            Some(by) => out.line("Encryption", &format!("by {by}")),
            None => {}
        }
        for d in &self.drives {
            // A drive without a robot does not know what its tape is called.
            let only =
                self.media.first().filter(|_| self.media.len() == 1 && self.drives.len() == 1);
            out.line("Tape drive", &drive_text(d, only.map(String::as_str)));
        }
    }
}

/// What a tape drive did, as far as it is known, with that tape, if it does not know it itself.
fn drive_text(d: &DriveReport, tape: Option<&str>) -> String {
    let hitches = |n: u64| if n == 1 { "backhitch" } else { "backhitches" };
    let locates = |n: u64| if n == 1 { "locate" } else { "locates" };
    let located = |n: u64| {
        let took = seconds_text(d.locate_s.unwrap_or(0.0));
        format!("{} {} in {took}", grouped(n), locates(n))
    };
    let parts = [
        d.streaming.map(|share| format!("streamed {:.0} %", share * 100.0)),
        d.backhitches.map(|n| format!("{} {}", grouped(n), hitches(n))),
        d.medium_mb_s.map(|rate| format!("{rate:.1} MB/s at the medium")),
        d.load_s.map(|s| format!("loaded in {}", seconds_text(s))),
        d.locates.filter(|n| *n > 0).map(located),
        d.passes.map(|n| format!("{n:.3} passes")),
        d.compression_ratio.map(|ratio| format!("compressed {ratio:.2}:1")),
        d.corrected_errors.filter(|n| *n > 0).map(|n| format!("{} errors corrected", grouped(n))),
        d.hard_errors.filter(|n| *n > 0).map(|n| format!("{} errors that stayed", grouped(n))),
        (d.read_again > 0).then(|| format!("{} blocks read again", grouped(d.read_again))),
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    let mut text = match d.tape.as_deref().or(tape) {
        Some(tape) => format!("{tape} in {}", d.name),
        None => d.name.clone(),
    };
    if !known.is_empty() {
        let _ = write!(text, ": {}", known.join(", "));
    }
    text
}

/// The media that a restore reads, in the order in which it does: a line each, of an array one for each of its tapes.
pub(super) fn pick_list(list: &[Pick]) -> String {
    use Align::{Left, Right};
    let head = [
        ("Medium", Left),
        ("Barcode", Left),
        ("Where", Left),
        ("Files", Right),
        ("Size", Right),
        ("For", Left),
        ("Device", Left),
    ];
    let row = |of: &Pick, barcode: &str, place: &str, device: &str, is_first: bool| {
        let once = |text: String| if is_first { text } else { String::new() };
        [
            path_text(of.label.as_bytes()),
            barcode.to_owned(),
            path_text(place.as_bytes()),
            once(grouped(of.files)),
            once(bytes_text(of.bytes)),
            once(path_text(of.versions.join(", ").as_bytes())),
            path_text(device.as_bytes()),
        ]
    };
    let rows = |of: &Pick| match &of.tapes[..] {
        [] => vec![row(of, "", &of.place, &of.device, true)],
        [one] => vec![row(of, &one.barcode, &of.place, &one.library, true)],
        tapes => tapes
            .iter()
            .enumerate()
            .map(|(n, tape)| row(of, &tape.barcode, &tape.place, &tape.library, n == 0))
            .collect(),
    };
    columns(head, list.iter().flat_map(rows).collect())
}
