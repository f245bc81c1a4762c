//! Versions as they are named.

use capstan_cell::request::VersionName;
use capstan_engine::problem::Problem;

/// Reads `NAME` or `NAME@SESSION`.
pub(in crate::args) fn parse_version(text: &str) -> Result<VersionName, Problem> {
    let version = VersionName::parse(text);
    if version.name.is_empty() {
        return Err(Problem::new("it has no name")
            .hint("write NAME or NAME@SESSION, `capstan sessions` lists them"));
    }
    Ok(version)
}
