//! Waiting for input, or for room for output, for a while.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Whether there is something to read, or the end, within that time. A file always has one or the other.
pub fn readable(input: &impl AsFd, within: Duration) -> io::Result<bool> {
    is_ready(input, libc::POLLIN, within)
}

/// Whether something can be written, or nobody reads it any more, within that time. A file always takes something.
pub fn writable(output: &impl AsFd, within: Duration) -> io::Result<bool> {
    is_ready(output, libc::POLLOUT, within)
}

fn is_ready(of: &impl AsFd, events: libc::c_short, within: Duration) -> io::Result<bool> {
    let fd = of.as_fd().as_raw_fd();
    let mut asked = libc::pollfd { fd, events, revents: 0 };
    let limit = libc::c_int::try_from(within.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: it is one descriptor, which is borrowed meanwhile.
    let ready = unsafe { libc::poll(&mut asked, 1, limit) };
    match ready {
        0 => Ok(false),
        1.. => Ok(true),
        _ => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => Ok(false),
            e => Err(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_pipe_has_something_when_it_was_written_to_or_closed() {
        let (out, mut into) = io::pipe().unwrap();
        assert!(!readable(&out, Duration::from_millis(1)).unwrap());
        into.write_all(b"x").unwrap();
        assert!(readable(&out, Duration::from_secs(60)).unwrap());
        drop(into);
        assert!(readable(&out, Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn a_pipe_that_nobody_reads_fills_and_one_without_a_reader_says_so() {
        let (out, mut into) = io::pipe().unwrap();
        let mut written = 0;
        while writable(&into, Duration::from_millis(1)).unwrap() {
            written += into.write(&[0; 4096]).unwrap();
        }
        assert!((4096..=16 << 20).contains(&written), "{written}");
        drop(out);
        assert!(writable(&into, Duration::from_secs(60)).unwrap());
    }
}
