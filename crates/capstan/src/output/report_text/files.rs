//! What became of files: how many were taken, left alone or moved, and which could not be read.

use std::fmt::Write as _;

use capstan_engine::message::path_text;

use crate::exit::one_line;
use crate::output::report_text::{Lines, View};
use crate::text::sizes::{bytes_text, grouped};

/// Errors that are listed.
const ERRORS_SHOWN: usize = 100;

impl View {
    /// What became of files.
    pub(super) fn write_files(&self, out: &mut Lines) {
        out.line("Files", &grouped(self.files));
        out.line("Directories", &grouped(self.dirs));
        match self.method.as_str() {
            _ if self.restores() => {
                out.line("Left alone", &format!("{} that existed", grouped(self.skipped)));
                if self.put_right > 0 {
                    let text = "of these: owner, mode or attributes were not as in the backup";
                    out.line("Put right", &format!("{} {text}", grouped(self.put_right)));
                }
            }
            _ => out.line("Skipped", &grouped(self.skipped)),
        }
        out.line("In use", &grouped(self.in_use));
        out.line("Corrupt", &grouped(self.corrupt));
        if self.away > 0 {
            let (files, bytes) = (grouped(self.away), bytes_text(self.away_bytes));
            out.line("Away", &format!("{files}, {bytes}, on media that are not at hand"));
        }
        out.line("Errors", &grouped(self.error_count));
        if self.kept > 0 {
            out.line("Unchanged", &format!("{}: they are in earlier backups", grouped(self.kept)));
        }
        if self.moved > 0 {
            let (files, bytes) = (grouped(self.moved), bytes_text(self.moved_bytes));
            out.line("Moved", &format!("{files} or touched: {bytes} of contents not stored again"));
        }
    }

    pub(super) fn write_errors(&self, out: &mut String) {
        if self.errors.is_empty() {
            return;
        }
        out.push_str("\nErrors and warnings\n");
        for e in self.errors.iter().take(ERRORS_SHOWN) {
            let path = path_text(e.path.as_bytes());
            let _ = writeln!(out, "  {}: {path}: {}", e.code, one_line(&e.error));
        }
        let more = self.errors.len().saturating_sub(ERRORS_SHOWN);
        if more > 0 {
            let _ = writeln!(out, "  … and {} more", grouped(more as u64));
        }
    }
}
