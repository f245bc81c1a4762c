//! Signals while something is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Does something while this thread gets a signal about every millisecond, with a handler that asks for interrupted
/// calls to be started again.
pub fn under_signals<T>(what: impl FnOnce() -> T) -> T {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing; the action is written before it is used.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    // SAFETY: of this thread, which outlives the scope.
    let target = unsafe { libc::pthread_self() };
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                // SAFETY: the target waits for this thread before it ends.
                unsafe { libc::pthread_kill(target, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let result = what();
        end.store(true, Ordering::Relaxed);
        result
    })
}
