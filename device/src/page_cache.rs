//! Asking whether the kernel already caches a range of a file.
//!
//! Direct I/O keeps the kernel from holding every block twice, but an image that was just
//! written, copied or read by another program is in memory already, and reading it from the
//! disk again would be slower. `cachestat` (Linux 6.5) counts the cached pages of a range
//! without reading any. Where the kernel does not have it, or does not let us ask, nothing counts
//! as cached.

#![allow(
    unsafe_code,
    reason = "the system call has no safe wrapper in rustix or libc"
)]

use rustix::fd::{AsRawFd, BorrowedFd};

/// The same number on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

const PAGE: u64 = 4096;

/// `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat`: counts of pages.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether all of `[offset, offset + length)` is in the page cache; `None` if that is unknown.
///
/// A page cache with pages larger than 4 KiB counts fewer of them and is taken for cold.
pub(crate) fn is_cached(file: BorrowedFd<'_>, offset: u64, length: u64) -> Option<bool> {
    let range = Range { offset, length };
    let mut counts = Counts::default();
    // SAFETY: the descriptor is open for as long as it is borrowed; both pointers are to live
    // structures of the layout that the system call documents, and it writes only to the second.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut counts,
            0,
        )
    };
    if result != 0 {
        return None;
    }
    let first = offset / PAGE;
    let last = offset.saturating_add(length).div_ceil(PAGE);
    Some(length > 0 && counts.cached >= last - first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_just_written_is_cached_and_a_hole_is_not() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(1 << 20).expect("sparse");
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 65_536], 0).expect("writable");
        let Some(written) = is_cached(file.as_fd(), 100, 65_436) else {
            cenote_tests::skip!("this kernel has no cachestat");
            return;
        };
        assert!(written);
        assert_eq!(is_cached(file.as_fd(), 1 << 19, 4096), Some(false));
        assert_eq!(
            is_cached(file.as_fd(), 65_535, 2),
            Some(false),
            "half of it"
        );
    }
}
