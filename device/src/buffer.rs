//! Buffers that direct I/O accepts, kept for reuse.
//!
//! The kernel wants memory, offset and length of a direct transfer aligned to the device's
//! block size; 4 KiB satisfies every device and file system we know. A buffer is an ordinary
//! vector, a little too long, used from its first aligned byte on: that needs no unsafe code.
//! Fresh memory costs a page fault per 4 KiB, so dropped buffers wait in a small global pool,
//! one list per power of two, bounded in bytes.

use cenote_base::rt::{Mutex, ranks};
use std::ops::{Deref, DerefMut};

/// Alignment in bytes of memory, offset and length of direct transfers.
pub const DIRECT_ALIGNMENT: usize = 4096;

/// Size classes: 4 KiB (2^12) to 4 MiB (2^22).
const CLASSES: usize = 11;
const CLASS_BYTES_MIN: usize = DIRECT_ALIGNMENT;
const CLASS_BYTES_MAX: usize = CLASS_BYTES_MIN << (CLASSES - 1);

/// Bytes that one class keeps at most, and buffers: some 40 MiB if all classes are in use.
const KEPT_BYTES_MAX: usize = 8 << 20;
const KEPT_BUFFERS_MAX: usize = 16;

static POOL: [Mutex<Vec<Vec<u8>>, ranks::BufferPool>; CLASSES] =
    [const { Mutex::new(Vec::new()) }; CLASSES];

/// A byte buffer whose first byte is aligned to [`DIRECT_ALIGNMENT`].
#[derive(Debug)]
pub struct AlignedBuf {
    storage: Vec<u8>,
    start: usize,
    length: usize,
    class: Option<usize>,
}

/// The class whose buffers hold `length` bytes; `None` when it is too long to keep.
fn class_of(length: usize) -> Option<usize> {
    if length > CLASS_BYTES_MAX {
        return None;
    }
    let rounded = length.max(CLASS_BYTES_MIN).next_power_of_two();
    Some((rounded.trailing_zeros() - CLASS_BYTES_MIN.trailing_zeros()) as usize)
}

impl AlignedBuf {
    /// A buffer of `length` bytes with unspecified contents.
    pub fn take(length: usize) -> Self {
        let class = class_of(length);
        let kept = class.and_then(|class| {
            let mut list = POOL[class].lock();
            list.pop()
        });
        let capacity = class.map_or(length, |class| CLASS_BYTES_MIN << class);
        let storage = kept.unwrap_or_else(|| vec![0; capacity + DIRECT_ALIGNMENT]);
        let start = storage.as_ptr().align_offset(DIRECT_ALIGNMENT);
        assert!(start < DIRECT_ALIGNMENT && start + length <= storage.len());
        Self {
            storage,
            start,
            length,
            class,
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.length]
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        let Some(class) = self.class else { return };
        let kept_max = (KEPT_BYTES_MAX / (CLASS_BYTES_MIN << class)).clamp(1, KEPT_BUFFERS_MAX);
        let mut list = POOL[class].lock();
        if list.len() < kept_max {
            list.push(std::mem::take(&mut self.storage));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_aligned_and_long_enough() {
        for length in [0, 1, 511, 4096, 4097, 1 << 20, (4 << 20) + 1] {
            let mut buffer = AlignedBuf::take(length);
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr().align_offset(DIRECT_ALIGNMENT), 0);
            buffer.fill(7);
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn classes_cover_their_sizes() {
        assert_eq!(class_of(1), Some(0));
        assert_eq!(class_of(4096), Some(0));
        assert_eq!(class_of(4097), Some(1));
        assert_eq!(class_of(CLASS_BYTES_MAX), Some(CLASSES - 1));
        assert_eq!(class_of(CLASS_BYTES_MAX + 1), None);
    }
}
