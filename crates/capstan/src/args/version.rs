//! Versions as they are named.

use capstan_cell::request::VersionName;

/// Reads `NAME` or `NAME@SESSION`.
pub(in crate::args) fn parse_version(text: &str) -> Result<VersionName, String> {
    let version = VersionName::parse(text);
    if version.name.is_empty() {
        return Err(
            "it has no name; write NAME or NAME@SESSION, `capstan sessions` lists them".to_owned()
        );
    }
    Ok(version)
}
