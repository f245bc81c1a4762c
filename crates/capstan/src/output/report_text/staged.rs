//! What was staged, and what stays where it is.

use capstan_cell::report::Staged;

use crate::output::report_text::time;
use crate::text::count;
use crate::text::sizes::bytes_text;

/// What was staged, and what stays and why: names and texts of lines.
pub(super) fn staged_lines(staged: &Staged) -> Vec<(&'static str, String)> {
    let versions = |n: u64| count(n, "version");
    let done = format!(
        "{}: {} copied, {} verified, {} given back",
        versions(staged.staged_versions),
        bytes_text(staged.copied_bytes),
        bytes_text(staged.verified_bytes),
        bytes_text(staged.freed_bytes)
    );
    let mut lines = match staged.dry_run {
        true => vec![("Would stage", versions(staged.staged_versions))],
        false => vec![("Staged", done)],
    };
    for v in &staged.versions {
        let id: String = v.session.chars().take(8).collect();
        let of = format!("{}@{id} of {} with {}", v.name, time(&v.start), bytes_text(v.bytes));
        match &v.why {
            Some(why) => lines.push(("Stays", format!("{of}: {why}"))),
            None if staged.dry_run => lines.push(("Would go", of)),
            None => {}
        }
    }
    lines
}
