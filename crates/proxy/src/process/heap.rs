//! What the allocator does with large buffers.

/// Large buffers get pages of their own, which go back to the kernel when the buffer is freed. By default glibc does so only until the
/// first large buffer was freed, and takes later ones from heaps that it seldom shrinks. A process would then keep the memory of its
/// busiest moment for ever, and the limit on buffers would bound something else than memory.
pub(crate) fn give_large_buffers_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt takes two integers, and may be called at any time by any thread.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}

/// glibc's own default, before it adapts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 128 << 10;
