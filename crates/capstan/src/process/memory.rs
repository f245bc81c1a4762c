//! How the allocator gives memory back.

/// Bytes from which an allocation is a mapping of its own: buffers are long lived or larger.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: libc::c_int = 1 << 20;

/// Lets what is allocated in large pieces go back to the system as soon as it is freed. Left alone, glibc raises the size from which it
/// does with each such piece (mallopt(3), `M_MMAP_THRESHOLD`), and keeps what is freed below: 11 to 24 of 84 MiB of a session to two
/// drives. To be called before any thread begins.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn settle() {
    // SAFETY: it takes two numbers, and no thread allocates meanwhile.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED) };
}

/// Other allocators have no such habit.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn settle() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    #[test]
    fn large_pieces_are_mappings_of_their_own() {
        super::settle();
        // What would raise the threshold.
        drop(std::hint::black_box(vec![1u8; 16 << 20]));
        let piece = std::hint::black_box(vec![1u8; 2 << 20]);
        // A mapping begins with 16 bytes of the allocator's, on a page.
        assert_eq!(piece.as_ptr() as usize % 4096, 16);
    }
}
