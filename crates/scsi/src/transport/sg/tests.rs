//! What can be said of the ioctl without a device; with one it is tested inside user-mode-linux (`tests/uml.rs`).

use super::*;

fn null() -> File {
    OpenOptions::new().read(true).write(true).open("/dev/null").unwrap()
}

fn header(status: u8, host_status: u16, driver_status: u16, resid: c_int) -> Header {
    // SAFETY: all fields are numbers or pointers that may be null.
    let zero: Header = unsafe { MaybeUninit::zeroed().assume_init() };
    Header { status, host_status, driver_status, resid, ..zero }
}

#[test]
fn a_file_that_knows_no_commands_is_refused() {
    let mut data = [7; 36];
    let error =
        execute(&null(), &[0x12, 0, 0, 0, 36, 0], Data::In(&mut data), Duration::from_secs(1))
            .unwrap_err();
    assert!(matches!(&error, TransportError::NotSent(why) if why.contains("refused")), "{error:?}");
    assert_eq!(data, [7; 36]);
    assert_eq!(max_transfer(&null()), TRANSFER_DEFAULT);
}

#[test]
fn what_the_driver_reports() {
    let good = outcome(&header(2, 0, 8, 100), vec![0x70], 512).unwrap();
    assert_eq!((good.status, good.residual), (2, 100));
    // A residual beyond what was asked for, or below zero, is none.
    assert_eq!(outcome(&header(0, 0, 0, 600), vec![], 512).unwrap().residual, 512);
    assert_eq!(outcome(&header(0, 0, 0, -1), vec![], 512).unwrap().residual, 0);
    assert_eq!(outcome(&header(0, 3, 0, 0), vec![], 0), Err(TransportError::TimedOut));
    assert_eq!(outcome(&header(0, 0, 0x16, 0), vec![], 0), Err(TransportError::TimedOut));
    let lost = outcome(&header(0, 1, 0, 0), vec![], 0).unwrap_err();
    assert!(lost.to_string().contains("cable and power"), "{lost}");
}

#[test]
fn signals_are_as_before_afterwards() {
    let blocked = || {
        let mut now = MaybeUninit::uninit();
        // SAFETY: the call writes the set that is read after it.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), libc::SIGTERM) == 1
        }
    };
    assert!(!blocked());
    let mut inside = false;
    let failed = without_signals(|| {
        inside = blocked();
        -1
    });
    assert!(inside && failed.is_err() && !blocked());
}

#[test]
fn a_device_that_is_not_there() {
    let error = Sg::open(Path::new("/dev/sg4711")).err().unwrap();
    assert!(error.to_string().contains("/dev/sg4711"), "{error}");
}
