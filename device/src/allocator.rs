//! Making the allocator of glibc return large buffers to the system.
//!
//! glibc keeps an arena for each thread. After the first large buffer was freed, it takes further
//! ones of that size from the arenas, where they stay when they are freed. Sixteen threads that
//! decode blocks of 16 MiB then hold half a gigabyte of unused memory. With a fixed threshold each
//! large buffer is mapped and unmapped separately. Other C libraries do that anyway.

/// Buffers from this size on are mapped for themselves: above the usual block of 128 KiB with what
/// is read around it, below the large records that fill memory.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: i32 = 1 << 20;

/// Free memory at the end of an arena that it may keep.
#[cfg(target_env = "gnu")]
const KEPT_MAX: i32 = 4 << 20;

/// Makes freed buffers leave the process. To be called once, before threads are started.
#[cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "the C library's parameters have no safe door")
)]
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers and may be called at any time; it changes nothing but
    // parameters of the allocator, under the allocator's lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_MAX);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn buffers_of_every_size_are_still_to_be_had() {
        super::return_large_buffers();
        for size in [1, 100 << 10, 1 << 20, 16 << 20] {
            assert_eq!(vec![7_u8; size].len(), size);
        }
    }
}
