//! Rows as they are shown.

use std::sync::Arc;

use capstan_format::acl::AclNames;
use capstan_format::entry::{Entry, OutcomeCode};

use crate::row::{Row, path_of};
use crate::version::Merged;

/// A row of a version, as it is shown.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The row.
    pub entry: Entry,
    /// The owner's name where it came from.
    pub user: Option<String>,
    /// The group's name where it came from.
    pub group: Option<String>,
    /// The names of whom its ACLs name, where it came from.
    pub acl: Option<Arc<AclNames>>,
    /// What is wrong with it, in a word.
    pub state: Option<String>,
}

/// A row as it is shown.
pub fn listed(merged: &Merged<'_>, row: &Row) -> Listed {
    let text =
        |name: &Option<Arc<[u8]>>| name.as_ref().map(|n| String::from_utf8_lossy(n).into_owned());
    Listed {
        entry: row.entry.clone(),
        user: text(&row.user),
        group: text(&row.group),
        acl: row.acl.clone(),
        state: state(merged, row).map(str::to_owned),
    }
}

/// What is wrong with a row, in a word.
pub fn state(merged: &Merged<'_>, row: &Row) -> Option<&'static str> {
    if merged.view.is_listed(row.ordinal.segment) {
        return Some(state_of(&row.entry));
    }
    if !merged.overview.is_whole(row) {
        return Some("incomplete");
    }
    merged.overview.outcome(&path_of(row), row.data).map(|o| match o.code {
        OutcomeCode::Changed => "changed",
        OutcomeCode::Short => "short",
        OutcomeCode::Unreadable => "unreadable",
        OutcomeCode::Replaced | OutcomeCode::Vanished => "gone",
        OutcomeCode::InUse => "in use",
    })
}

/// What to say of a row that comes from a listing.
fn state_of(entry: &Entry) -> &'static str {
    if entry.ino == 0 { "name only" } else { "files not listed" }
}
