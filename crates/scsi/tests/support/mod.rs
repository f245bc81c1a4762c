//! Tape libraries and drives made of software, not ours, started for one test each. Tests of other crates use this too.
#![allow(dead_code, reason = "not every test that has this module uses all of it")]

pub mod istgt;
pub mod tgt;
pub mod uml;

use std::path::PathBuf;

/// A program of the system's, also where the path lacks what is for root.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(sbin).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// The files by which processes took turns with a device that is no more.
fn remove_locks(serial: &str) {
    for kind in ["drive", "changer", "claim"] {
        let name = format!("capstan-{kind}-{serial}.lock");
        let _ = std::fs::remove_file(std::path::Path::new("/run/lock").join(&name));
        let _ = std::fs::remove_file(std::env::temp_dir().join(name));
    }
}

/// Bytes that differ from block to block and do not repeat.
pub fn block(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
