//! Asking a host which targets it has: SendTargets in a session of its own kind.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null;
use std::time::{Duration, Instant};

use super::{Ended, Pending, Session};
use crate::patience::Watch;
use crate::transport::iscsi::library::{Context, Library};
use capstan_address::iscsi::Target;

/// Nobody has more targets than this; a list without an end is left.
const TARGETS_MAX: usize = 65_536;

/// The begin of `struct iscsi_discovery_address` of `<iscsi/iscsi.h>`.
#[repr(C)]
struct Address {
    next: *const Address,
    target_name: *const c_char,
}

/// Where the callback leaves status and names.
#[derive(Default)]
struct Answer {
    pending: Pending,
    names: RefCell<Vec<String>>,
}

/// # Safety
/// `answer` is an [`Answer`] that is alive, used by this thread only; `list` is null or a list of addresses.
unsafe extern "C" fn take(_: *mut Context, status: c_int, list: *mut c_void, answer: *mut c_void) {
    // SAFETY: by the contract above.
    let answer = unsafe { &*answer.cast::<Answer>() };
    let mut at: *const Address = if status == 0 { list.cast_const().cast() } else { null() };
    let mut names = answer.names.borrow_mut();
    while !at.is_null() && names.len() < TARGETS_MAX {
        // SAFETY: the list is valid while this function runs; names are strings with an end, or null.
        unsafe {
            if !(*at).target_name.is_null() {
                names.push(CStr::from_ptr((*at).target_name).to_string_lossy().into_owned());
            }
            at = (*at).next;
        }
    }
    answer.pending.0.set(Some(status));
}

impl Session {
    /// The names of a host's targets; `portal` is one without a name. An error is in the library's words.
    pub fn targets(
        library: &'static Library,
        portal: &Target,
        initiator: &str,
        timeout: Duration,
    ) -> Result<Vec<String>, String> {
        let end = Instant::now() + timeout;
        let mut session = Self::connect(library, portal, initiator, timeout)?;
        let answer = Answer::default();
        let at: *const Answer = &answer;
        // SAFETY: the context is alive; the answer outlives it: the session is dropped or destroyed before it.
        let sent = unsafe {
            (library.0.iscsi_discovery_async)(session.context, take, at.cast_mut().cast())
        };
        let ended = if sent == 0 {
            let left = end.saturating_duration_since(Instant::now());
            session.wait(&raw const answer.pending, left, Watch::of(&[]))
        } else {
            Ended::Broken
        };
        let error = session.error();
        // A callback that is left comes now, while the answer is there.
        drop(session);
        match ended {
            Ended::Done(0) => Ok(answer.names.take()),
            Ended::TimedOut | Ended::Left => Err("no answer in time".to_owned()),
            Ended::Done(_) | Ended::Broken => Err(error),
        }
    }
}
