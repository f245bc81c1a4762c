//! What leases have in common: the thread that puts one off as long as its process has it, and a name that no other one has.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use capstan_engine::threads;

use crate::process::boot_id;

/// Does something again and again until it is dropped, which waits until it is done with.
pub(crate) struct Keeper(Option<(Sender<()>, JoinHandle<()>)>);

impl Keeper {
    /// Without the thread a lease ends by itself, as that of a dead process would.
    pub fn begin(name: &'static str, every: Duration, again: impl Fn() + Send + 'static) -> Self {
        let (end, ended) = mpsc::channel::<()>();
        let keep = move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                again();
            }
        };
        let keeper = threads::start(name, keep);
        Self(keeper.ok().map(|keeper| (end, keeper)))
    }

    /// Does it no more.
    pub fn end(&mut self) {
        if let Some((end, keeper)) = self.0.take() {
            drop(end);
            let _ = keeper.join();
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// The name of a lease that this process takes at a time. No process has two at one time: no two calls of `now_us` give the same.
pub(crate) fn lease_name(now_us: i64) -> String {
    format!("{}-{}-{now_us}", boot_id(), std::process::id())
}
