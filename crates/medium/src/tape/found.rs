//! What is found on tapes, and which drives and libraries are found.

use capstan_address::LibraryName;
use capstan_format::record::MediumHeader;
use serde::{Deserialize, Serialize};

use super::library::DriveInfo;

/// What is on a tape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OnTape {
    /// Nothing.
    Blank,
    /// What is not of Capstan, or cannot be read as that any more: what it seems to be, in a few words or none.
    Foreign(String),
    /// A medium, or a member of an array.
    Medium(Box<MediumHeader>),
}

/// A drive or changer that was found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FoundDevice {
    /// Its name as a device.
    #[serde(with = "crate::form::text")]
    pub name: LibraryName,
    /// Whether it is the robot of a library; else it is a drive.
    pub is_changer: bool,
    /// What it is, and who uses it.
    pub info: DriveInfo,
    /// The node of the tape driver, on this machine.
    pub tape_node: Option<String>,
}
