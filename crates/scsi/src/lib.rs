//! Tape drives and libraries: stream (SSC) and changer (SMC) commands over Linux SG_IO and iSCSI.
//!
//! [`Drive`] is a tape drive, [`Changer`] the robot of a library; both speak through a [`transport::Transport`]: [`sg`]
//! (devices of this machine) or [`iscsi`] (through the system's libiscsi, opened when it is first needed). [`open`] finds
//! the right one by the device's name, and [`find`] which devices there are. [`cdb`] has the commands, [`answers`] decodes what comes back.
//!
//! Devices differ in what they have and in what they get wrong. What a device lacks is found out, never assumed; where it
//! contradicts itself it is not believed; and where nobody knows the tape's position, nothing is written.

pub mod answers;
pub mod bytes;
pub mod cdb;
mod changer;
mod device;
mod drive;
mod error;
pub mod find;
pub mod holders;
pub mod patience;
pub mod transport;

pub use answers::{alerts, element, encryption, inquiry, log, mode, opcodes, position, sense};
pub use transport::{iscsi, sg};

pub use answers::position::Position;
pub use changer::{Changer, Inventory};
pub use device::{Device, Reply};
pub use drive::{BlockLimits, Drive, Medium, Read, Written};
pub use error::Error;

use capstan_address::iscsi::Target;
use std::path::Path;

use transport::Transport;

/// The longest block on a tape of ours.
pub const BLOCK_MAX: usize = 8 * 1024 * 1024;

/// Opens the way to a device by its name: a node below `/dev`, or `iscsi://[user[%secret]@]host[:port]/target-iqn/lun`.
pub fn open(name: &str) -> Result<Box<dyn Transport>, Error> {
    match name.split_once("://") {
        Some(_) => Ok(Box::new(iscsi::Iscsi::open(Target::parse(name)?)?)),
        None => Ok(Box::new(sg::Sg::open(Path::new(name))?)),
    }
}
