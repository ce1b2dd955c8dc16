//! A disk in memory, for tests and measurements.

use crate::device::{BlockDevice, BlockError, Extent, ZeroMode, unknown_context};
use crate::read_data::ReadData;
use cenote_base::rt::{RwLock, ranks};
use cenote_nbd_client::protocol::{BASE_ALLOCATION, allocation};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block. Blocks that were never written take no memory.
const BLOCK: u64 = 64 << 10;

type Blocks = BTreeMap<u64, Arc<Vec<u8>>>;

/// A disk in memory.
#[derive(Debug)]
pub struct MemoryDisk {
    size: AtomicU64,
    blocks: RwLock<Blocks, ranks::MemoryDevice>,
    contexts: Vec<String>,
    is_read_only: bool,
    flushes: AtomicU64,
}

/// A block, and the part of it that a range covers.
fn parts(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let first = range.start / BLOCK;
    (first..range.end.div_ceil(BLOCK)).map(move |block| {
        let start = range.start.saturating_sub(block * BLOCK);
        let end = (range.end - block * BLOCK).min(BLOCK);
        (block, start as usize..end as usize)
    })
}

impl MemoryDisk {
    /// A disk of `size` bytes, all of them holes.
    pub fn new(size: u64) -> Self {
        Self {
            size: AtomicU64::new(size),
            blocks: RwLock::new(BTreeMap::new()),
            contexts: Vec::new(),
            is_read_only: false,
            flushes: AtomicU64::new(0),
        }
    }

    /// The same with a metadata context, in which blocks that were written have flag 1.
    #[must_use]
    pub fn with_context(mut self, name: &str) -> Self {
        self.contexts.push(name.to_owned());
        self
    }

    /// The same for reading only.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self {
            is_read_only: true,
            ..self
        }
    }

    /// Makes it larger or smaller.
    pub fn resize(&self, size: u64) {
        self.size.store(size, Ordering::Release);
    }

    /// How often it was flushed.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Writes `bytes`, or zeros where there are none.
    fn put(blocks: &mut Blocks, offset: u64, bytes: &[u8]) {
        let mut left = bytes;
        for (block, part) in parts(offset..offset + bytes.len() as u64) {
            let new = || Arc::new(vec![0; BLOCK as usize]);
            let target = Arc::make_mut(blocks.entry(block).or_insert_with(new));
            let (piece, rest) = left.split_at(part.len());
            target[part].copy_from_slice(piece);
            left = rest;
        }
    }
}

impl BlockDevice for MemoryDisk {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn knows_fast_zero(&self) -> bool {
        true
    }

    fn description(&self) -> Option<String> {
        Some("a disk in memory".to_owned())
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        let blocks = self.blocks.read();
        for (block, part) in parts(offset..offset + length as u64) {
            match blocks.get(&block) {
                Some(bytes) => data.push_shared(Arc::clone(bytes) as _, part),
                None => data.push_zeros(part.len()),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], _is_durable: bool) -> Result<(), BlockError> {
        Self::put(&mut self.blocks.write(), offset, bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.zero(range, ZeroMode::default())
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        let mut blocks = self.blocks.write();
        for (block, part) in parts(range) {
            if part.len() as u64 == BLOCK && !mode.keeps_space {
                blocks.remove(&block);
            } else if mode.keeps_space || blocks.contains_key(&block) {
                let zeros = vec![0; part.len()];
                Self::put(&mut blocks, block * BLOCK + part.start as u64, &zeros);
            }
        }
        Ok(())
    }

    fn contexts(&self) -> Vec<String> {
        self.contexts.clone()
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        let (absent, present) = match context {
            BASE_ALLOCATION => (allocation::HOLE | allocation::ZERO, 0),
            other if self.contexts.iter().any(|known| known == other) => (0, 1),
            other => return Err(unknown_context(other)),
        };
        let blocks = self.blocks.read();
        let mut extents: Vec<Extent> = Vec::new();
        for (block, part) in parts(range) {
            let is_present = blocks.contains_key(&block);
            let flags = if is_present { present } else { absent };
            let length = part.len() as u64;
            let is_full = extents.len() == most;
            match extents.last_mut() {
                Some(last) if last.flags == flags => last.length += length,
                _ if is_full => break,
                _ => extents.push(Extent { length, flags }),
            }
        }
        Ok(extents)
    }
}
