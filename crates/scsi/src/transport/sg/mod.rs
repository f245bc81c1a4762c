//! Commands through Linux's generic SCSI driver: one ioctl, `SG_IO`, on `/dev/sgN`.
//!
//! The device is held exclusively: the generic node with `O_EXCL`, and the tape driver's node too, which lets only one
//! program in. All signals are blocked while a command runs: a signal would break the wait off, and the kernel then
//! starts the ioctl again, which either sends the command, and writes the block, a second time, or fails while the first
//! one is still at work.
//!
//! One of the two modules of this crate with unsafe code. Its invariant: every pointer in a [`Header`] is to memory that
//! outlives the ioctl, and the lengths beside it are those of that memory.

use std::ffi::{c_int, c_uint, c_void};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node::{self, Nodes};
use super::{Data, Left, Outcome, Transport, TransportError};
use crate::patience::{self, Apart, AtWork, Watch};
use crate::{Error, holders};

const SG_IO: c_uint = 0x2285;
const SG_SET_RESERVED_SIZE: c_uint = 0x2275;
/// On a generic node: the most bytes of one command.
const BLKSECTGET: c_uint = 0x1267;
const TO_DEVICE: c_int = -2;
const FROM_DEVICE: c_int = -3;
const NO_DATA: c_int = -1;
const SENSE_LEN: usize = 252;
/// Where the host adapter does not say what it takes.
const TRANSFER_DEFAULT: usize = 256 * 1024;

/// `struct sg_io_hdr` of `<scsi/sg.h>`.
#[repr(C)]
struct Header {
    interface_id: c_int,
    dxfer_direction: c_int,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: c_uint,
    dxferp: *mut c_void,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout: c_uint,
    flags: c_uint,
    pack_id: c_int,
    usr_ptr: *mut c_void,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: c_int,
    duration: c_uint,
    info: c_uint,
}

const _: () = assert!(size_of::<*const u8>() != 8 || size_of::<Header>() == 88);
const _: () = assert!(size_of::<*const u8>() != 4 || size_of::<Header>() == 64);

/// A device of this machine, held exclusively.
pub struct Sg {
    name: String,
    path: PathBuf,
    /// `None` after a reconnect that failed.
    open: Option<Open>,
    /// The command that was left at work: until it ends it holds the device.
    left: Option<AtWork<Answer>>,
}

type Answer = Result<Outcome, TransportError>;

struct Open {
    generic: File,
    /// Held so that nobody comes in through the tape driver.
    _tape: Option<File>,
    max_transfer: usize,
}

impl Sg {
    /// Opens the device that a node belongs to: `/dev/sgN`, `/dev/nstN`, `/dev/stN`, `/dev/schN`, or a link to one.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open = Some(open(path)?);
        Ok(Self { name: path.display().to_string(), path: path.to_owned(), open, left: None })
    }
}

impl Transport for Sg {
    fn execute(
        &mut self,
        cdb: &[u8],
        data: Data<'_>,
        timeout: Duration,
    ) -> Result<Outcome, TransportError> {
        let Some(open) = &self.open else {
            return Err(TransportError::Lost("the device is not open".to_owned()));
        };
        let watch = Watch::of(cdb);
        if !watch.may_leave() || !data.is_empty() {
            return execute(&open.generic, cdb, data, timeout);
        }
        let generic =
            open.generic.try_clone().map_err(|e| TransportError::NotSent(e.to_string()))?;
        let own = cdb.to_vec();
        let done = patience::beside(watch, move || execute(&generic, &own, Data::None, timeout));
        match done {
            Ok(answer) => answer,
            // Then it is waited for.
            Err(Apart::NoThread) => execute(&open.generic, cdb, Data::None, timeout),
            Err(Apart::Left(at_work)) => {
                (self.open, self.left) = (None, Some(at_work));
                Err(TransportError::Lost(patience::LEFT.to_owned()))
            }
        }
    }

    fn left(&mut self, patience: Duration) -> Left {
        match &self.left {
            None => Left::No,
            Some(at_work) if at_work.ends_within(patience) => Left::Over,
            Some(_) => Left::AtWork,
        }
    }

    fn reconnect(&mut self) -> Result<(), Error> {
        if self.left(Duration::ZERO) == Left::AtWork {
            let (device, doing) = (self.name.clone(), "opening it again");
            return Err(Error::Lost { device, doing, why: patience::LEFT.to_owned() });
        }
        // Closed first: it is held exclusively, against ourselves too.
        self.open = None;
        self.open = Some(open(&self.path)?);
        self.left = None;
        Ok(())
    }

    fn max_transfer(&self) -> usize {
        self.open.as_ref().map_or(TRANSFER_DEFAULT, |open| open.max_transfer)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn open(path: &Path) -> Result<Open, Error> {
    let nodes = node::resolve(path)?;
    let generic = hold(&nodes, &nodes.generic, true)?;
    let tape = nodes.tape.as_deref().map(|tape| hold(&nodes, tape, false)).transpose()?;
    let max_transfer = max_transfer(&generic);
    Ok(Open { generic, _tape: tape, max_transfer })
}

/// Opens a node so that no other can. Whoever is in the way may be one that only looks in now and then, so it is
/// tried for a while; who it was is found meanwhile.
fn hold(nodes: &Nodes, node: &Path, generic: bool) -> Result<File, Error> {
    const TRIES: usize = 20;
    const PAUSE: Duration = Duration::from_millis(150);
    let mut seen = Vec::new();
    for attempt in 1..=TRIES {
        // Not waiting: a tape node without a tape could not be opened otherwise.
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | if generic { libc::O_EXCL } else { 0 };
        let source =
            match OpenOptions::new().read(true).write(generic).custom_flags(flags).open(node) {
                Ok(file) => return Ok(file),
                Err(e) => e,
            };
        if source.raw_os_error() != Some(libc::EBUSY) {
            return Err(Error::Io { action: "open", path: node.display().to_string(), source });
        }
        if attempt < TRIES {
            let found = holders::watch(&nodes.numbers, PAUSE);
            if !found.is_empty() {
                seen = found;
                std::thread::sleep(PAUSE);
            }
        }
    }
    let others = seen.into_iter().filter(|h| generic || h.pid != std::process::id()).collect();
    Err(Error::Busy { device: node.display().to_string(), holders: others })
}

fn max_transfer(generic: &File) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: the ioctl writes one int to where the pointer points.
    let got = unsafe { libc::ioctl(generic.as_raw_fd(), BLKSECTGET as _, &raw mut bytes) };
    let max = if got == 0 && bytes > 0 { bytes as usize } else { TRANSFER_DEFAULT };
    // A buffer of the driver's own of the longest block, so that none has to be found while writing. Only a wish.
    let wish = max.min(crate::BLOCK_MAX) as c_int;
    // SAFETY: the ioctl reads one int from where the pointer points.
    unsafe { libc::ioctl(generic.as_raw_fd(), SG_SET_RESERVED_SIZE as _, &raw const wish) };
    max
}

fn execute(
    generic: &File,
    cdb: &[u8],
    data: Data<'_>,
    timeout: Duration,
) -> Result<Outcome, TransportError> {
    let mut sense = [0u8; SENSE_LEN];
    let len = data.len();
    let (dxfer_direction, dxferp): (c_int, *mut c_void) = match data {
        Data::In(bytes) if !bytes.is_empty() => (FROM_DEVICE, bytes.as_mut_ptr().cast()),
        // The driver only reads from it when the direction is to the device.
        Data::Out(bytes) if !bytes.is_empty() => (TO_DEVICE, bytes.as_ptr().cast_mut().cast()),
        _ => (NO_DATA, std::ptr::null_mut()),
    };
    let too_long = || TransportError::NotSent("the command or its data are too long".to_owned());
    let mut header = Header {
        interface_id: c_int::from(b'S'),
        dxfer_direction,
        cmd_len: u8::try_from(cdb.len()).map_err(|_| too_long())?,
        mx_sb_len: SENSE_LEN as u8,
        iovec_count: 0,
        dxfer_len: c_uint::try_from(len).map_err(|_| too_long())?,
        dxferp,
        cmdp: cdb.as_ptr(),
        sbp: sense.as_mut_ptr(),
        timeout: c_uint::try_from(timeout.as_millis()).unwrap_or(c_uint::MAX),
        flags: 0,
        pack_id: 0,
        usr_ptr: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        msg_status: 0,
        sb_len_wr: 0,
        host_status: 0,
        driver_status: 0,
        resid: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: `header` points to `cdb`, `sense` and the data, which live until this function ends, with their lengths;
    // the driver writes to the data only where the direction is from the device, and then they are mutable.
    let done = without_signals(|| unsafe {
        libc::ioctl(generic.as_raw_fd(), SG_IO as _, &raw mut header)
    });
    done.map_err(not_done)?;
    let end = usize::from(header.sb_len_wr).min(SENSE_LEN);
    outcome(&header, sense[..end].to_vec(), len)
}

fn outcome(header: &Header, sense: Vec<u8>, len: usize) -> Result<Outcome, TransportError> {
    const HOST_TIMED_OUT: u16 = 0x03;
    const DRIVER_TIMED_OUT: u16 = 0x06;
    if header.host_status == HOST_TIMED_OUT || header.driver_status & 0x0f == DRIVER_TIMED_OUT {
        return Err(TransportError::TimedOut);
    }
    if header.host_status != 0 {
        return Err(TransportError::Lost(host_status(header.host_status)));
    }
    let residual = usize::try_from(header.resid).unwrap_or(0).min(len);
    Ok(Outcome { status: header.status, sense, residual })
}

/// The kernel's words for what became of the way to the device.
fn host_status(status: u16) -> String {
    let what = match status {
        0x01 => "the device does not answer; check its cable and power",
        0x02 => "the bus stayed busy",
        0x05 => "the command was broken off",
        0x06 => "the bus had a parity error; check cables",
        0x07 => "the host adapter failed",
        0x08 => "the bus was reset",
        0x0b => "the host adapter gave up",
        0x0e => "the link was disturbed; check cables and switches",
        0x0f => "the link is down; check cables and switches",
        _ => "the host adapter reports an error",
    };
    format!("{what} (host status {status:#04x})")
}

fn not_done(error: io::Error) -> TransportError {
    match error.raw_os_error() {
        Some(libc::ENOMEM) => TransportError::NotSent(
            "the kernel has no memory for blocks of this size; use a smaller block size".to_owned(),
        ),
        Some(libc::EINVAL | libc::EPERM | libc::EACCES | libc::EFAULT | libc::ENOTTY) => {
            TransportError::NotSent(format!("the kernel refused the command: {error}"))
        }
        _ => TransportError::Lost(error.to_string()),
    }
}

/// Runs an ioctl with all signals blocked in this thread.
fn without_signals(ioctl: impl FnOnce() -> c_int) -> io::Result<()> {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets are written by the calls before they are read; a mask of this thread is changed and put back.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = match ioctl() {
        n if n < 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

#[cfg(test)]
mod tests;
