//! The few functions of libiscsi that are needed, looked up at run time, and its tasks.
//!
//! With [`crate::transport::iscsi::session`] the part of this transport that has unsafe code. The invariant: a [`Library`] exists only if
//! all functions were found, and [`Library::check_layout`] found the one struct that is read where it is thought to be; the
//! library is never closed, so its functions stay.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::transport::{CHECK_CONDITION, Outcome, TransportError};

/// Sonames: 7 in Debian and Ubuntu, 8 and later elsewhere; without number only where it is developed with.
const NAMES: [&CStr; 7] = [
    c"libiscsi.so.7",
    c"libiscsi.so.8",
    c"libiscsi.so.9",
    c"libiscsi.so.10",
    c"libiscsi.so.11",
    c"libiscsi.so.12",
    c"libiscsi.so",
];

/// The library's own; only ever behind a pointer.
#[repr(C)]
pub struct Context([u8; 0]);

/// The begin of `struct scsi_task` of `<iscsi/scsi-lowlevel.h>`; it is only ever read, and made by the library.
#[repr(C)]
pub struct Task {
    status: c_int,
    cdb_size: c_int,
    xfer_dir: c_int,
    expxferlen: c_int,
    cdb: [u8; 16],
    residual_status: c_int,
    residual: usize,
    sense: Sense,
    datain: DataIn,
    mem: *mut c_void,
    ptr: *mut c_void,
}

/// `struct scsi_sense`: the three flags share a word with what follows them. Not used, but it takes its room.
#[repr(C)]
struct Sense {
    error_type: u8,
    key: c_int,
    ascq: c_int,
    flags: u8,
    bit_pointer: u8,
    field_pointer: u16,
}

/// `struct scsi_data`
#[repr(C)]
struct DataIn {
    size: c_int,
    data: *const u8,
}

const _: () = assert!(size_of::<Sense>() == 16);
#[cfg(target_pointer_width = "64")]
const _: () = assert!(std::mem::offset_of!(Task, datain) == 64);

/// What is called when a command has ended.
pub type Callback = unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut c_void);

macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) $(-> $out:ty)?;)*) => {
        /// The library's functions, as its headers declare them.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $out)?,)*
        }

        impl Functions {
            /// # Safety
            /// `handle` is an open libiscsi.
            unsafe fn find(handle: *mut c_void) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the handle is open, the name ends with NUL.
                        let at = unsafe { libc::dlsym(handle, name.as_ptr().cast()) };
                        if at.is_null() {
                            return Err(format!("libiscsi has no function {}", stringify!($name)));
                        }
                        // SAFETY: a function of that name has that type, by libiscsi's headers since 1.18.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $out)?>(at) }
                    },)*
                })
            }
        }
    };
}

functions! {
    iscsi_create_context: fn(*const c_char) -> *mut Context;
    iscsi_destroy_context: fn(*mut Context) -> c_int;
    iscsi_set_noautoreconnect: fn(*mut Context, c_int);
    iscsi_set_session_type: fn(*mut Context, c_int) -> c_int;
    iscsi_set_targetname: fn(*mut Context, *const c_char) -> c_int;
    iscsi_set_initiator_username_pwd: fn(*mut Context, *const c_char, *const c_char) -> c_int;
    iscsi_set_tcp_user_timeout: fn(*mut Context, c_int);
    iscsi_connect_async: fn(*mut Context, *const c_char, Callback, *mut c_void) -> c_int;
    iscsi_login_async: fn(*mut Context, Callback, *mut c_void) -> c_int;
    iscsi_get_target_address: fn(*mut Context) -> *const c_char;
    iscsi_discovery_async: fn(*mut Context, Callback, *mut c_void) -> c_int;
    iscsi_logout_async: fn(*mut Context, Callback, *mut c_void) -> c_int;
    iscsi_get_error: fn(*mut Context) -> *const c_char;
    iscsi_get_fd: fn(*mut Context) -> c_int;
    iscsi_which_events: fn(*mut Context) -> c_int;
    iscsi_service: fn(*mut Context, c_int) -> c_int;
    iscsi_scsi_command_async: fn(*mut Context, c_int, *mut Task, Callback, *mut c_void, *mut c_void) -> c_int;
    scsi_create_task: fn(c_int, *mut u8, c_int, c_int) -> *mut Task;
    scsi_free_scsi_task: fn(*mut Task);
    scsi_set_task_private_ptr: fn(*mut Task, *mut c_void);
    scsi_task_add_data_in_buffer: fn(*mut Task, c_int, *mut u8) -> c_int;
    scsi_task_add_data_out_buffer: fn(*mut Task, c_int, *mut u8) -> c_int;
}

/// libiscsi, loaded and found usable.
pub struct Library(pub Functions);

/// The system's libiscsi.
pub fn get() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::load(&NAMES)).as_ref().map_err(String::as_str)
}

impl Library {
    fn load(names: &[&CStr]) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers; it is the system's own.
        let open = |name: &&CStr| unsafe {
            libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL)
        };
        let handle = names.iter().map(open).find(|handle| !handle.is_null());
        let handle = handle.ok_or("this machine has no libiscsi")?;
        // SAFETY: the handle is open and stays so.
        let library = Self(unsafe { Functions::find(handle)? });
        library.check_layout()?;
        Ok(library)
    }

    /// Makes a task and looks whether its parts are where [`Task`] has them. A struct that were off by a few bytes would
    /// give empty sense data, and no error.
    fn check_layout(&self) -> Result<(), String> {
        let cdb = *b"0123456789abcdef";
        let task = self.task(&cdb, 1, 0x0123_4567).map_err(|e| e.to_string())?;
        let mark = (&raw const cdb).cast_mut().cast::<c_void>();
        // SAFETY: the task is the library's own; the mark is only compared.
        let same = unsafe {
            (self.0.scsi_set_task_private_ptr)(task.at, mark);
            let read = &*task.at;
            (read.cdb_size, read.xfer_dir, read.expxferlen) == (16, 1, 0x0123_4567)
                && read.cdb == cdb
                && read.ptr == mark
                && read.datain.size == 0
                && read.datain.data.is_null()
        };
        if same {
            Ok(())
        } else {
            Err("this machine's libiscsi is of a version that is not known".to_owned())
        }
    }

    /// A task with that command.
    pub fn task(
        &self,
        cdb: &[u8],
        direction: c_int,
        len: usize,
    ) -> Result<OwnedTask<'_>, TransportError> {
        let refused = || TransportError::NotSent("the command or its data are too long".to_owned());
        let mut bytes = [0; 16];
        bytes.get_mut(..cdb.len()).ok_or_else(refused)?.copy_from_slice(cdb);
        let len = c_int::try_from(len).map_err(|_| refused())?;
        // SAFETY: the library copies the bytes, of which there are at least as many as it is told.
        let at = unsafe {
            (self.0.scsi_create_task)(cdb.len() as c_int, bytes.as_mut_ptr(), direction, len)
        };
        if at.is_null() {
            Err(TransportError::NotSent("there is no memory".to_owned()))
        } else {
            Ok(OwnedTask { library: self, at })
        }
    }
}

/// A task, freed on drop.
pub struct OwnedTask<'a> {
    library: &'a Library,
    /// Where it is.
    pub at: *mut Task,
}

impl Drop for OwnedTask<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `task`, freed once; no command uses it any more (see the module's invariants).
        unsafe { (self.library.0.scsi_free_scsi_task)(self.at) };
    }
}

impl OwnedTask<'_> {
    /// What the target answered; the task is done.
    pub fn outcome(&self, status: c_int, len: usize) -> Outcome {
        const UNDERFLOW: c_int = 1;
        // SAFETY: the task is alive and done, so nobody writes to it; its layout was checked.
        let task = unsafe { &*self.at };
        let status = status as u8;
        let residual = if task.residual_status == UNDERFLOW { task.residual.min(len) } else { 0 };
        let sense = if status == CHECK_CONDITION { self.sense() } else { Vec::new() };
        Outcome { status, sense, residual }
    }

    /// Sense data as they came, behind their length of two bytes.
    fn sense(&self) -> Vec<u8> {
        // SAFETY: as above; `datain` is a block of the stated size, or null.
        let bytes = unsafe {
            let datain = &(*self.at).datain;
            match usize::try_from(datain.size) {
                Ok(size) if !datain.data.is_null() => std::slice::from_raw_parts(datain.data, size),
                _ => &[],
            }
        };
        let len = usize::from(crate::bytes::u16_at(bytes, 0));
        crate::bytes::part(bytes, 2, len).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_it_is_said_what_to_install() {
        let why = Library::load(&[c"libiscsi-that-is-nowhere.so.0"]).err().unwrap();
        let text = crate::Error::NoLibiscsi(why).to_string();
        assert!(text.contains("apt-get install libiscsi7"), "{text}");
    }

    #[test]
    fn another_library_is_not_taken_for_it() {
        let why = Library::load(&[c"libc.so.6"]).err().unwrap();
        assert!(why.contains("has no function iscsi_create_context"), "{why}");
    }
}
