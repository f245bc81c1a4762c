//! Block buffers: memory aligned for direct I/O.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Alignment of every buffer in bytes: what O_DIRECT asks of memory on every common device.
pub const BUFFER_ALIGN: usize = 4096;

/// A fixed, zeroed piece of memory aligned to [`BUFFER_ALIGN`].
pub struct Buffer {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: a Buffer owns its memory alone, like a Box<[u8]>.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` zero bytes; `len` is rounded up to the alignment.
    pub fn new(len: usize) -> Self {
        let len = len.max(1).next_multiple_of(BUFFER_ALIGN);
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero.
        let at = unsafe { alloc_zeroed(layout) };
        match NonNull::new(at) {
            Some(at) => Self { at, len },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        match Layout::from_size_align(len, BUFFER_ALIGN) {
            Ok(layout) => layout,
            Err(_) => handle_alloc_error(Layout::new::<u8>()),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout.
        unsafe { dealloc(self.at.as_ptr(), Self::layout(self.len)) }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `at` points to `len` initialised bytes that this Buffer owns.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_its_own() {
        let mut a = Buffer::new(5000);
        let b = Buffer::new(5000);
        assert_eq!(a.len(), 8192);
        assert_eq!(a.as_ptr() as usize % BUFFER_ALIGN, 0);
        assert!(a.iter().all(|x| *x == 0));
        a.fill(1);
        assert!(b.iter().all(|x| *x == 0));
    }
}
