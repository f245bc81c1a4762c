//! The local user database: numbers of users and groups by name.

use std::ffi::CString;

/// The largest record that is read; groups with very many members have large ones.
const RECORD_BYTES_MAX: usize = 16 << 20;

/// The number of the user of that name, if there is one.
pub fn uid_of(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_buffer(|buffer| {
        // SAFETY: an all-zero `passwd` is valid (null pointers, zero numbers).
        let mut record: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: `name` ends with NUL; record, buffer (with its true length) and `found` are
        // ours and outlive the call, and nothing of what it points to is kept.
        let rc = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                &raw mut record,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        (rc, (!found.is_null()).then_some(record.pw_uid))
    })
}

/// The number of the group of that name, if there is one.
pub fn gid_of(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    with_buffer(|buffer| {
        // SAFETY: an all-zero `group` is valid (null pointers, zero numbers).
        let mut record: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: as in `uid_of`.
        let rc = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                &raw mut record,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        (rc, (!found.is_null()).then_some(record.gr_gid))
    })
}

/// Calls with a larger and larger buffer until the record fits.
fn with_buffer(look: impl Fn(&mut [u8]) -> (i32, Option<u32>)) -> Option<u32> {
    let mut len = 4096;
    loop {
        match look(&mut vec![0; len]) {
            (libc::ERANGE, _) if len < RECORD_BYTES_MAX => len *= 4,
            (libc::EINTR, _) => {}
            (0, found) => return found,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_root_and_nobody_else() {
        assert_eq!(uid_of(b"root"), Some(0));
        assert_eq!(gid_of(b"root"), Some(0));
        assert_eq!(uid_of(b"no-such-user-here"), None);
        assert_eq!(gid_of(b"ro\0ot"), None);
    }
}
