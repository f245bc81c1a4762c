//! Arrays of devices (RAIT): blocks striped over several media, with parity, or the same on all of them.
//!
//! An array is a device and a storage like any other: [`device`] writes to its members, each of which is a device with a
//! thread of its own, [`storage`] reads what is on them as if it were one medium, and makes up for members and blocks that
//! are lost. So arrays can be members of arrays. [`open`] opens them by name, [`make`] makes them, [`half_made`] ends what a
//! kill left of that, [`drives`] counts what they need of tape drives, [`enough`] waits for tapes that lack. [`rebuild`] writes a lost
//! member anew, [`unfinished`] marks it until that is done. [`writable`] is one that is written. What lies where is in
//! `capstan_format::array`.

pub mod device;
pub mod drives;
mod enough;
pub mod half_made;
pub mod make;
pub mod open;
pub mod rebuild;
pub mod storage;
#[cfg(test)]
mod tests;
mod unfinished;
pub mod writable;
