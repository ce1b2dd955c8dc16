//! The bytes of a disk in memory, of which copies are cheap: they share what is the same in both.
//!
//! A test of power cuts makes hundreds of nearly equal copies of disks. Copied byte for byte, they
//! would cost more than the rest of the test.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const CHUNK: usize = 16 << 10;

/// Bytes in chunks; those that were never written are zeros, and take no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    chunks: Vec<Option<Arc<[u8; CHUNK]>>>,
    size: usize,
}

impl Image {
    /// Zeros.
    pub fn zeros(size: usize) -> Self {
        let chunks = vec![None; size.div_ceil(CHUNK)];
        Self { chunks, size }
    }

    /// These bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut image = Self::zeros(bytes.len());
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            if chunk.iter().any(|byte| *byte != 0) {
                image.write(index * CHUNK, chunk);
            }
        }
        image
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Adds zeros up to `size` bytes.
    pub fn grow(&mut self, size: usize) {
        assert!(size >= self.size, "a disk does not shrink");
        self.chunks.resize(size.div_ceil(CHUNK), None);
        self.size = size;
    }

    /// Reads a range, which must lie within it.
    pub fn read(&self, offset: usize, buffer: &mut [u8]) {
        assert!(offset + buffer.len() <= self.size, "within the disk");
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (start, length) = within_chunk(at, rest.len());
            let (piece, others) = rest.split_at_mut(length);
            match &self.chunks[at / CHUNK] {
                Some(chunk) => piece.copy_from_slice(&chunk[start..start + length]),
                None => piece.fill(0),
            }
            (at, rest) = (at + length, others);
        }
    }

    /// Writes to a range, which must lie within it.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.size, "within the disk");
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (start, length) = within_chunk(at, rest.len());
            let (piece, others) = rest.split_at(length);
            let chunk = self.chunks[at / CHUNK].get_or_insert_with(|| Arc::new([0; CHUNK]));
            Arc::make_mut(chunk)[start..start + length].copy_from_slice(piece);
            (at, rest) = (at + length, others);
        }
    }

    /// Makes a range that of another disk of this size. Chunks that lie in it are shared.
    pub fn copy(&mut self, other: &Self, range: Range<usize>) {
        assert!(
            range.end <= self.size && self.size == other.size,
            "within both"
        );
        let mut at = range.start;
        while at < range.end {
            let (start, length) = within_chunk(at, range.end - at);
            let index = at / CHUNK;
            if start == 0 && (length == CHUNK || at + length == self.size) {
                self.chunks[index] = other.chunks[index].clone();
            } else {
                let mut bytes = vec![0; length];
                other.read(at, &mut bytes);
                self.write(at, &bytes);
            }
            at += length;
        }
    }

    /// Writes a file with holes where nothing was written.
    ///
    /// # Errors
    /// If there is no room.
    pub fn save(&self, path: &Path) -> std::io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.size as u64)?;
        for (index, chunk) in self.chunks.iter().enumerate() {
            let start = index * CHUNK;
            if let Some(chunk) = chunk {
                let chunk = &chunk[..CHUNK.min(self.size - start)];
                file.write_all_at(chunk, start as u64)?;
            }
        }
        Ok(())
    }
}

/// Where in its chunk `at` is, and how many of `length` bytes are in the same chunk.
fn within_chunk(at: usize, length: usize) -> (usize, usize) {
    let start = at % CHUNK;
    (start, length.min(CHUNK - start))
}
