//! Files whose data lie on media that are away: they are not damaged, and come when the media do. A line is said of each medium.

use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use parking_lot::Mutex;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::exported;
use crate::report::AwayReport;
use crate::report::Report;
use crate::session::SessionLog;

/// What lies on media that are away, while it is found.
#[derive(Default)]
pub(crate) struct AwayFiles(Mutex<Vec<Found>>);

struct Found {
    medium: MediumId,
    why: String,
    files: u64,
    bytes: u64,
}

impl AwayFiles {
    /// Takes a file that has data on a medium which is away, with its whole size.
    pub fn add(&self, medium: MediumId, why: &str, bytes: u64) {
        let mut found = self.0.lock();
        let of = match found.iter().position(|of| of.medium == medium) {
            Some(n) => &mut found[n],
            None => {
                let why = why.to_owned();
                found.push(Found { medium, why, files: 0, bytes: 0 });
                let last = found.len() - 1;
                &mut found[last]
            }
        };
        of.files += 1;
        of.bytes = of.bytes.saturating_add(bytes);
    }

    /// Says a line of each medium.
    pub fn say(&self, cell: &Cell, log: &SessionLog<'_>) -> Result<Vec<AwayReport>> {
        let mut all = Vec::new();
        for Found { medium, why, files, bytes } in self.0.lock().iter() {
            let named = named(cell, *medium, why)?;
            let s = if *files == 1 { "" } else { "s" };
            let text =
                format!("{} file{s}, {}: on {}", grouped(*files), size_text(*bytes), named.text);
            log.say(Code::Away, "media agent", &named.report.label, text);
            all.push(AwayReport { files: *files, bytes: *bytes, ..named.report });
        }
        Ok(all)
    }
}

/// Segments on media that are away, while they are found.
#[derive(Default)]
pub(crate) struct AwaySegments(Vec<(MediumId, String, u64, u64)>);

impl AwaySegments {
    /// Takes a segment that cannot be had, if that is because its medium is away.
    pub fn take(&mut self, e: &CellError, bytes: u64) -> bool {
        let Some((medium, why)) = e.away() else { return false };
        let at = self.0.iter().position(|of| of.0 == medium).unwrap_or_else(|| {
            self.0.push((medium, why.to_owned(), 0, 0));
            self.0.len() - 1
        });
        self.0[at].2 += 1;
        self.0[at].3 = self.0[at].3.saturating_add(bytes);
        true
    }

    /// Says a line of each medium.
    pub fn say(&self, cell: &Cell, log: &SessionLog<'_>) -> Result<Vec<AwayReport>> {
        let mut all = Vec::new();
        for (medium, why, segments, bytes) in &self.0 {
            let named = named(cell, *medium, why)?;
            let s = if *segments == 1 { "" } else { "s" };
            let (n, size) = (grouped(*segments), size_text(*bytes));
            let text = format!("{n} segment{s}, {size}: on {}", named.text);
            log.say(Code::Away, "media agent", &named.report.label, text);
            all.push(AwayReport { bytes: *bytes, ..named.report });
        }
        Ok(all)
    }
}

/// A medium that is away, with its barcode and place.
struct Named {
    report: AwayReport,
    /// `tape V00001L9, which was exported on 2026-11-20 to bank, box 7`
    text: String,
}

fn named(cell: &Cell, medium: MediumId, why: &str) -> Result<Named> {
    let row = cell.idb.medium(medium)?;
    let label = row.as_ref().map_or_else(|| medium.short(), |row| row.label.clone());
    let tapes = row.map(|row| row.device.tapes()).unwrap_or_default();
    let barcode = match &tapes[..] {
        [tape] => tape.tape.clone(),
        _ => None,
    };
    let place = exported(&cell.idb, medium)?.map(|to| format!("which {to}"));
    let mut place = place.unwrap_or_else(|| why.to_owned());
    // Of an array those that it needs.
    let to_bring = if tapes.len() > 1 { cell.tapes_away(medium)? } else { Vec::new() };
    if !to_bring.is_empty() {
        let named = cell.to_bring(medium, &to_bring)?;
        let named: Vec<String> = named.into_iter().map(|of| of.name).collect();
        place = format!("which needs {}", named.join("; "));
    }
    let named = match (&barcode, tapes.is_empty()) {
        (Some(barcode), _) if *barcode == label => format!("tape {barcode}"),
        (Some(barcode), _) => format!("tape {barcode} ('{label}')"),
        (None, false) if tapes.len() > 1 => format!("array '{label}'"),
        (None, false) => format!("tape '{label}'"),
        (None, true) => format!("medium '{label}'"),
    };
    let text = format!("{named}, {place}");
    let place = place.trim_start_matches("which ").to_owned();
    let medium = medium.to_string();
    Ok(Named { report: AwayReport { medium, label, barcode, place, files: 0, bytes: 0 }, text })
}

impl Report {
    /// Takes over what is away.
    pub(crate) fn set_away(&mut self, away: Vec<AwayReport>) {
        self.away = away.iter().map(|of| of.files).sum();
        self.away_bytes = away.iter().map(|of| of.bytes).sum();
        self.away_media = away;
    }
}

impl CellError {
    /// The medium that is away, and why or where, if that is all.
    pub(crate) fn away(&self) -> Option<(MediumId, &str)> {
        match self {
            Self::Away { medium, why, .. } => Some((*medium, why)),
            _ => None,
        }
    }
}

/// A number as people read it: `3,214`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes as people read them: `12.1 GB`.
pub(crate) fn size_text(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let bytes = bytes as f64;
    let unit = units.iter().find(|(size, _)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes:.0} B"),
        |(size, name)| format!("{:.1} {name}", bytes / size),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_people_read_them() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let sizes = [0, 999, 12_100_000_000, 1_000_000].map(size_text);
        assert_eq!(sizes, ["0 B", "999 B", "12.1 GB", "1.0 MB"]);
    }

    #[test]
    fn files_are_counted_by_medium() {
        let away = AwayFiles::default();
        for (n, bytes) in [(1, 5), (2, 7), (1, 8)] {
            away.add(MediumId([n; 16]), "gone", bytes);
        }
        let found = away.0.lock();
        let counts: Vec<_> = found.iter().map(|of| (of.medium.0[0], of.files, of.bytes)).collect();
        assert_eq!(counts, [(1, 2, 13), (2, 1, 7)]);
    }
}
