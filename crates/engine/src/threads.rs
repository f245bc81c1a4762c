//! Starting threads. The kernel may have none left, and the standard library's own ways of starting one panic then.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use parking_lot::Mutex;

use crate::problem::Explain;

/// What to do where there are no more threads.
const TOO_MANY: &str = "end other programs, or raise the limit of processes (`ulimit -u`, TasksMax= of a systemd unit)";

/// The kernel has no more threads for this process.
#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("cannot start a thread for {what}: {source}; {TOO_MANY}")]
pub struct NoThread {
    /// What it was to do.
    pub what: Cow<'static, str>,
    /// Why there is none.
    #[source]
    #[serde(with = "crate::os_error")]
    pub source: io::Error,
}

impl Explain for NoThread {
    fn hint(&self) -> Option<String> {
        Some(TOO_MANY.to_owned())
    }
}

/// Starts a thread. `what` it does is its name too.
pub fn start<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NoThread> {
    let started = may_start().and_then(|()| named(what).spawn(work));
    started.map_err(|source| NoThread { what: what.into(), source })
}

/// Starts a thread that ends before the scope does.
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, NoThread> {
    let started = may_start().and_then(|()| named(what).spawn_scoped(scope, work));
    started.map_err(|source| NoThread { what: what.into(), source })
}

/// Work that is done beside other work, or was done at once, as there was no thread for it.
pub enum Beside<'scope, T> {
    /// It has a thread.
    Running(ScopedJoinHandle<'scope, Option<T>>),
    /// It is done.
    Done(Option<T>),
}

impl<T> Beside<'_, T> {
    /// Waits until it is done. Nothing, where it panicked in its thread.
    pub fn join(self) -> Option<T> {
        match self {
            Self::Running(thread) => thread.join().ok().flatten(),
            Self::Done(result) => result,
        }
    }
}

/// Does something in a thread of its own, and at once where there is none: only for what waits for nothing that comes later.
pub fn beside<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Beside<'scope, T> {
    // What a thread that cannot be started was to do is dropped. So it gets no more than the way to it.
    let kept = Arc::new(Mutex::new(Some(work)));
    let taken = kept.clone();
    let run = move || {
        let work = taken.lock().take();
        work.map(|work| work())
    };
    start_in(scope, what, run).map_or_else(
        |_| {
            let work = kept.lock().take();
            Beside::Done(work.map(|work| work()))
        },
        Beside::Running,
    )
}

fn named(what: &'static str) -> Builder {
    Builder::new().name(what.to_owned())
}

/// The variable that says how many threads a program under test may start.
pub const TEST_THREADS: &str = "CAPSTAN_TEST_THREADS";

/// Where the program is built with debug assertions, [`TEST_THREADS`] says how many threads there are. In a program that is delivered
/// it does nothing.
fn may_start() -> io::Result<()> {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    let most = std::env::var(TEST_THREADS).ok().and_then(|text| text.parse::<u64>().ok());
    match most {
        Some(most) if STARTED.fetch_add(1, Relaxed) >= most => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_beside_is_done_once() {
        let results: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|n| beside(scope, "test", move || n)).collect();
            all.into_iter().map(Beside::join).collect()
        });
        assert_eq!(results, [Some(0), Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn an_error_says_what_for_and_what_to_do() {
        let error = NoThread { what: "a stream".into(), source: io::ErrorKind::WouldBlock.into() };
        let text = error.to_string();
        assert!(text.starts_with("cannot start a thread for a stream: "), "{text}");
        assert!(text.contains("ulimit -u"), "{text}");
    }
}
