//! Signals that end a session in order: SIGINT, SIGTERM, and SIGHUP, which comes when a terminal or a connection goes away.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{io, ptr};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::exit::INTERRUPTED;

/// A second one of these ends the process at once. A second SIGHUP does not: kernel and shell each send one for the same terminal.
const AT_ONCE: [c_int; 2] = [SIGINT, SIGTERM];

/// Has a second SIGINT or SIGTERM end the process, and returns all signals that end a session in order.
pub fn watched() -> io::Result<Vec<c_int>> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in AT_ONCE {
        // In this order: the first signal passes the first and sets what the second one meets.
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&seen))?;
        flag::register(signal, Arc::clone(&seen))?;
    }
    let mut all = AT_ONCE.to_vec();
    // `nohup` asks for a process that outlives its terminal.
    if !is_ignored(SIGHUP)? {
        all.push(SIGHUP);
    }
    Ok(all)
}

/// Has a write beyond the limit on file sizes (ulimit -f) fail, as on a full disk: its signal would end the process without a word.
/// Programs that this one begins have the signal as it was, since it is not ignored.
pub fn let_writes_fail() {
    // Without that the kernel does as before.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Set by the first of them.
pub fn told() -> io::Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in watched()? {
        flag::register(signal, Arc::clone(&told))?;
    }
    Ok(told)
}

/// Whether the process was begun with that signal ignored.
fn is_ignored(signal: c_int) -> io::Result<bool> {
    // SAFETY: all bytes zero are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call changes nothing, and writes the one structure that it is given.
    match unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } {
        0 => Ok(action.sa_sigaction == libc::SIG_IGN),
        _ => Err(io::Error::last_os_error()),
    }
}
