//! Virtual tape libraries: they behave, fail and take their time as real ones do.
//!
//! [`library`] is a directory with slots, drives and a robot. [`drive`] is a drive, and a [`cartridge`] a tape in a file. [`mechanics`] works
//! out from a model when a drive has done what, and whether its tape streams; [`clock`] is the time in which it does: real, scaled, or
//! virtual. [`faults`] is what goes wrong, and when.

pub mod cartridge;
pub mod clock;
pub mod drive;
pub mod faults;
pub mod library;
pub mod mechanics;
mod small_file;
