//! A session with a logical unit, made of libiscsi's functions.
//!
//! With [`crate::transport::iscsi::library`] the part of this transport that has unsafe code. The invariants:
//! - A context is used by one thread at a time (all methods need `&mut self`), and destroyed once.
//! - Buffers and [`Pending`] of a command outlive it: `execute` returns only after its callback came or after the
//!   context, which then calls the callbacks of all that is left, is destroyed.

mod discovery;

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::Target;
use super::library::{Context, Library};
use crate::patience::{LEFT, SLICE, Watch};
use crate::transport::{Data, Outcome, TransportError};

/// Where a callback leaves its status.
#[derive(Default)]
struct Pending(Cell<Option<c_int>>);

/// # Safety
/// `pending` is a [`Pending`] that is alive, used by this thread only.
unsafe extern "C" fn done(_: *mut Context, status: c_int, _: *mut c_void, pending: *mut c_void) {
    // SAFETY: by the contract above.
    let pending = unsafe { &*pending.cast::<Pending>() };
    pending.0.set(Some(status));
}

/// How a wait ended.
enum Ended {
    Done(c_int),
    Broken,
    TimedOut,
    /// It is at work, and nobody waits for it any more.
    Left,
}

/// A session with a logical unit.
pub struct Session {
    library: &'static Library,
    context: *mut Context,
    lun: c_int,
    /// From a box. The library calls back a second time when the connection is torn down, so this outlives the context.
    login: *const Pending,
    has_left: bool,
}

// SAFETY: a context is bound to no thread; only one at a time uses it, since all methods take `&mut self`.
unsafe impl Send for Session {}

impl Session {
    /// Connects and logs in, also where the target sends us to another of its addresses. An error is in the library's
    /// words.
    ///
    /// Not with the library's `iscsi_full_connect`: that asks whether the device is ready, and fails where a medium is just
    /// being loaded.
    pub fn connect(
        library: &'static Library,
        target: &Target,
        initiator: &str,
        timeout: Duration,
    ) -> Result<Self, String> {
        const ADDRESSES_MAX: usize = 4;
        let end = Instant::now() + timeout;
        let mut portal = target.portal();
        for _ in 0..ADDRESSES_MAX {
            let mut session = Self::new(library, target, initiator)?;
            match session.log_in(&portal, end)? {
                None => return Ok(session),
                Some(elsewhere) => portal = elsewhere,
            }
        }
        Err("the target sends us from one address to the next".to_owned())
    }

    fn new(library: &'static Library, target: &Target, initiator: &str) -> Result<Self, String> {
        let initiator = text(initiator)?;
        // SAFETY: the name is copied.
        let context = unsafe { (library.0.iscsi_create_context)(initiator.as_ptr()) };
        if context.is_null() {
            return Err("there is no memory".to_owned());
        }
        // From here on the context is destroyed on drop.
        let login = Box::into_raw(Box::<Pending>::default()).cast_const();
        let mut session = Self { library, context, lun: target.lun.into(), login, has_left: false };
        match session.set_up(target)? {
            true => Ok(session),
            false => Err(session.error()),
        }
    }

    /// Connects and logs in. Returns the address to which the target sends us, where it does.
    fn log_in(&mut self, portal: &str, end: Instant) -> Result<Option<String>, String> {
        const REDIRECTED: c_int = 0x101;
        let (f, portal) = (&self.library.0, text(portal)?);
        let at = self.login.cast_mut().cast();
        // SAFETY: context and `login` are alive as long as the session; the portal is copied.
        let sent = unsafe { (f.iscsi_connect_async)(self.context, portal.as_ptr(), done, at) };
        match self.step(sent, end)? {
            0 => {}
            _ => return Err(self.error()),
        }
        // SAFETY: as above.
        let sent = unsafe {
            (*self.login).0.set(None);
            (self.library.0.iscsi_login_async)(self.context, done, at)
        };
        match self.step(sent, end)? {
            0 => Ok(None),
            REDIRECTED => {
                // SAFETY: the context is alive; the address is a string with an end inside it.
                let address = unsafe {
                    CStr::from_ptr((self.library.0.iscsi_get_target_address)(self.context))
                };
                Ok(Some(address.to_string_lossy().into_owned()))
            }
            _ => Err(self.error()),
        }
    }

    /// Waits for a step of logging in, and returns its status.
    fn step(&mut self, sent: c_int, end: Instant) -> Result<c_int, String> {
        if sent != 0 {
            return Err(self.error());
        }
        match self.wait(self.login, end.saturating_duration_since(Instant::now()), Watch::of(&[])) {
            Ended::Done(status) => Ok(status),
            Ended::Broken => Err(self.error()),
            Ended::TimedOut | Ended::Left => Err("no answer in time".to_owned()),
        }
    }

    /// Says everything that must be said before connecting. False where the library refuses any of it.
    fn set_up(&mut self, target: &Target) -> Result<bool, String> {
        const DISCOVERY: c_int = 1;
        const NORMAL: c_int = 2;
        /// Unacknowledged data: after this the peer is gone.
        const SILENCE_MS: c_int = 60_000;
        let f = &self.library.0;
        let name = text(&target.name)?;
        let login = match (&target.user, target.secret()) {
            (Some(user), secret) => Some((text(user)?, secret_text(secret.unwrap_or_default())?)),
            _ => None,
        };
        // SAFETY: the context is alive, all names are copied.
        unsafe {
            (f.iscsi_set_noautoreconnect)(self.context, 1);
            (f.iscsi_set_tcp_user_timeout)(self.context, SILENCE_MS);
            let kind = if target.name.is_empty() { DISCOVERY } else { NORMAL };
            let mut taken = (f.iscsi_set_session_type)(self.context, kind) == 0;
            if kind == NORMAL {
                taken &= (f.iscsi_set_targetname)(self.context, name.as_ptr()) == 0;
            }
            if let Some((user, secret)) = &login {
                taken &= (f.iscsi_set_initiator_username_pwd)(
                    self.context,
                    user.as_ptr(),
                    secret.as_ptr().cast(),
                ) == 0;
            }
            Ok(taken)
        }
    }

    /// Sends a command and waits for its end. After any error but [`TransportError::NotSent`] the session must go.
    pub fn execute(
        &mut self,
        cdb: &[u8],
        data: Data<'_>,
        timeout: Duration,
    ) -> Result<Outcome, TransportError> {
        /// The library's status of what was outstanding when the connection broke.
        const CANCELLED: c_int = 0x0f00_0000;
        const DIRECTION_NONE: c_int = 0;
        const DIRECTION_IN: c_int = 1;
        const DIRECTION_OUT: c_int = 2;
        let (f, len) = (&self.library.0, data.len());
        let direction = match &data {
            _ if len == 0 => DIRECTION_NONE,
            Data::Out(_) => DIRECTION_OUT,
            _ => DIRECTION_IN,
        };
        let task = self.library.task(cdb, direction, len)?;
        // SAFETY: the buffer outlives the command (see the module's invariants); `task` refused lengths beyond c_int. What
        // goes out is only read.
        let added = unsafe {
            match data {
                Data::In(bytes) if len > 0 => {
                    (f.scsi_task_add_data_in_buffer)(task.at, len as c_int, bytes.as_mut_ptr())
                }
                Data::Out(bytes) if len > 0 => (f.scsi_task_add_data_out_buffer)(
                    task.at,
                    len as c_int,
                    bytes.as_ptr().cast_mut(),
                ),
                _ => 0,
            }
        };
        if added != 0 {
            return Err(TransportError::NotSent("there is no memory".to_owned()));
        }
        let pending = Pending::default();
        let at: *const Pending = &pending;
        // SAFETY: context, task and pending are alive until the command has ended.
        let sent = unsafe {
            (f.iscsi_scsi_command_async)(
                self.context,
                self.lun,
                task.at,
                done,
                null_mut(),
                at.cast_mut().cast(),
            )
        };
        if sent != 0 {
            return Err(self.lost(self.error()));
        }
        match self.wait(at, timeout, Watch::of(cdb)) {
            Ended::Left => {
                self.has_left = true;
                Err(self.lost(LEFT.to_owned()))
            }
            // Statuses beyond a byte are the library's own: cancelled, failed.
            Ended::Done(status @ 0..=0xff) => Ok(task.outcome(status, len)),
            Ended::TimedOut => {
                self.destroy();
                Err(TransportError::TimedOut)
            }
            Ended::Done(CANCELLED) => Err(self.lost(String::new())),
            Ended::Done(_) | Ended::Broken => Err(self.lost(self.error())),
        }
    }

    /// Whether a command was left at work.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Closes what is left of the connection. The library's last word may still be about an earlier command's sense data.
    fn lost(&mut self, why: String) -> TransportError {
        self.destroy();
        let useful = !why.is_empty() && !why.starts_with("SENSE KEY");
        TransportError::Lost(if useful { why } else { "the connection broke".to_owned() })
    }

    /// Serves the connection until the callback came. Signals do not end it.
    fn wait(&mut self, pending: *const Pending, timeout: Duration, mut watch: Watch) -> Ended {
        const TICK_MS: u128 = 1000;
        let tick_ms = if watch.may_leave() { SLICE.as_millis() } else { TICK_MS };
        let f = &self.library.0;
        let end = Instant::now() + timeout;
        loop {
            // SAFETY: the caller's pending outlives this call; only callbacks from within `iscsi_service` change it.
            if let Some(status) = unsafe { (*pending).0.get() } {
                return Ended::Done(status);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ended::TimedOut;
            }
            if watch.leaves() {
                return Ended::Left;
            }
            // SAFETY: the context is alive; poll gets one entry.
            let served = unsafe {
                let fd = (f.iscsi_get_fd)(self.context);
                if fd < 0 {
                    return Ended::Broken;
                }
                let events = (f.iscsi_which_events)(self.context) as i16;
                let mut poll = libc::pollfd { fd, events, revents: 0 };
                let wait_ms = (left.as_millis() + 1).min(tick_ms) as c_int;
                if libc::poll(&raw mut poll, 1, wait_ms) < 0 {
                    continue;
                }
                (f.iscsi_service)(self.context, poll.revents.into())
            };
            // SAFETY: as above.
            if served < 0 && unsafe { (*pending).0.get() }.is_none() {
                return Ended::Broken;
            }
        }
    }

    /// The library's words for the last error.
    fn error(&self) -> String {
        // SAFETY: the context is alive; its error is a string with an end, or null.
        let at = unsafe { (self.library.0.iscsi_get_error)(self.context) };
        if at.is_null() {
            return String::new();
        }
        // SAFETY: as above.
        let words = unsafe { CStr::from_ptr(at) }.to_string_lossy();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Closes the connection; all callbacks that are left come now.
    fn destroy(&mut self) {
        if !self.context.is_null() {
            // SAFETY: made by `iscsi_create_context`, destroyed once.
            unsafe { (self.library.0.iscsi_destroy_context)(self.context) };
            self.context = null_mut();
        }
    }
}

impl Drop for Session {
    /// Logs out where there is somebody to hear it, so that the target does not wait for us.
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let pending = Pending::default();
        let at: *const Pending = &pending;
        // SAFETY: `login` is alive until the end of this function, pending until after the context is destroyed.
        let sent = !self.context.is_null()
            && unsafe {
                (*self.login).0.get() == Some(0)
                    && (self.library.0.iscsi_logout_async)(self.context, done, at.cast_mut().cast())
                        == 0
            };
        if sent {
            self.wait(at, PATIENCE, Watch::of(&[]));
        }
        self.destroy();
        // SAFETY: made from a box in `connect`, and the context that knew it is gone.
        drop(unsafe { Box::from_raw(self.login.cast_mut()) });
    }
}

fn text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a name has a NUL in it".to_owned())
}

/// A string for C that is wiped after use.
fn secret_text(secret: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    if secret.contains('\0') {
        return Err("the secret has a NUL in it".to_owned());
    }
    // Room from the start: a vector that grows leaves its old bytes behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(secret.len() + 1));
    bytes.extend_from_slice(secret.as_bytes());
    bytes.push(0);
    Ok(bytes)
}
