//! What is said of the further names of a file that is not whole. A restore, an archive and a verification say the same.

use capstan_engine::message::path_text;

/// What is wrong with a further name of a file of which data are lost.
pub fn of_link(first: &[u8]) -> String {
    format!("its contents are those of /{}, of which some are damaged", path_text(first))
}

/// What is wrong with a further name of a file of which data are away.
pub fn of_link_away(first: &[u8]) -> String {
    format!("its contents are those of /{}, which is away", path_text(first))
}

/// What reading `found` of a file, said of a further name of it.
pub fn of_link_found(first: &[u8], found: &str) -> String {
    format!("its contents are those of /{}: {found}", path_text(first))
}
