//! The memory of one block: what a device fills, a cache keeps and a frontend sends.
//!
//! A block is written once, by the device or a decoder, and then shared. From 16 KiB on it lies on
//! recycled pages, which direct I/O can fill in place; smaller ones are vectors.

use crate::pages::PageRun;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Blocks from this size on lie on pages of their own: at most a fifth of the last page is lost.
const PAGES_FROM: usize = 16 << 10;

enum Memory {
    Vector(Vec<u8>),
    Pages(PageRun),
}

/// Bytes of a block.
pub struct BlockBuffer {
    memory: Memory,
    length: usize,
}

impl BlockBuffer {
    /// A buffer of `length` bytes with unspecified contents.
    pub fn take(length: usize) -> Self {
        let pages = match length >= PAGES_FROM {
            true => PageRun::take(length),
            false => None,
        };
        let memory = pages.map_or_else(|| Memory::Vector(vec![0; length]), Memory::Pages);
        Self { memory, length }
    }

    /// A buffer of `length` zeros.
    pub fn zeroed(length: usize) -> Self {
        if length < PAGES_FROM {
            return vec![0; length].into();
        }
        let mut buffer = Self::take(length);
        buffer.fill(0);
        buffer
    }

    /// A buffer with these contents.
    pub fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() < PAGES_FROM {
            return bytes.to_vec().into();
        }
        let mut buffer = Self::take(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Bytes of memory that the buffer takes.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Vector(vector) => vector.capacity(),
            Memory::Pages(pages) => pages.len(),
        }
    }
}

impl Default for BlockBuffer {
    /// No bytes, which take no memory.
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<u8>> for BlockBuffer {
    fn from(vector: Vec<u8>) -> Self {
        let length = vector.len();
        let memory = Memory::Vector(vector);
        Self { memory, length }
    }
}

impl From<BlockBuffer> for Vec<u8> {
    fn from(buffer: BlockBuffer) -> Self {
        match buffer.memory {
            Memory::Vector(vector) => vector,
            Memory::Pages(pages) => pages[..buffer.length].to_vec(),
        }
    }
}

impl Deref for BlockBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Vector(vector) => vector,
            Memory::Pages(pages) => &pages[..self.length],
        }
    }
}

impl DerefMut for BlockBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Vector(vector) => vector,
            Memory::Pages(pages) => &mut pages[..self.length],
        }
    }
}

impl AsRef<[u8]> for BlockBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Clone for BlockBuffer {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl PartialEq for BlockBuffer {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for BlockBuffer {}

impl PartialEq<[u8]> for BlockBuffer {
    fn eq(&self, other: &[u8]) -> bool {
        self[..] == *other
    }
}

impl PartialEq<Vec<u8>> for BlockBuffer {
    fn eq(&self, other: &Vec<u8>) -> bool {
        self[..] == other[..]
    }
}

impl fmt::Debug for BlockBuffer {
    /// As a vector shows itself, so that failed comparisons say what they saw.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_memory_hold_the_same() {
        for length in [
            0,
            1,
            PAGES_FROM - 1,
            PAGES_FROM,
            131_072,
            (1 << 20) + 1,
            5 << 20,
        ] {
            let bytes: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let (copy, moved) = (
                BlockBuffer::copy_of(&bytes),
                BlockBuffer::from(bytes.clone()),
            );
            assert_eq!(copy.len(), length);
            assert!(copy == moved && copy == bytes && copy.clone() == copy);
            assert!(copy.capacity() >= length && moved.capacity() >= length);
            let vector = Vec::from(copy);
            assert!(vector == bytes);
            let mut filled = BlockBuffer::take(length);
            filled.fill(3);
            assert!(filled.iter().all(|byte| *byte == 3));
            drop(filled);
            let zeroed = BlockBuffer::zeroed(length);
            assert!(zeroed.len() == length && zeroed.iter().all(|byte| *byte == 0));
        }
    }
}
