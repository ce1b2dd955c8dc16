//! Reads contents in order: the stored pieces, and the lengths of the holes between them.
//!
//! Files and volumes have the same interface. Pieces are as large as a block, but at least a
//! mebibyte. So several blocks are read at once and none is decoded twice.

use cenote_posix::{FileSystem, PosixError, SeekTarget, Segment, Znode};
use cenote_volume::{Volume, VolumeError};
use sha2::{Digest, Sha256};

/// Bytes read at once, unless a block is larger.
const CHUNK: u64 = 1 << 20;

/// Something with bytes and holes.
pub trait Content {
    /// Why it cannot be read.
    type Error;

    /// Its length in bytes.
    fn size(&self) -> u64;

    /// Bytes of a block.
    fn block_size(&self) -> u64;

    /// The next stored byte at or after `offset`; `None` if there is none.
    fn next_data(&self, offset: u64) -> Result<Option<u64>, Self::Error>;

    /// The next byte at or after `offset` that is not stored; the end at the latest.
    fn next_hole(&self, offset: u64) -> Result<u64, Self::Error>;

    /// The contents of a range within the size.
    fn segments(&self, offset: u64, length: usize) -> Result<Vec<Segment>, Self::Error>;
}

/// A regular file's content.
#[derive(Clone, Copy, Debug)]
pub struct FileContent<'a> {
    /// The file system.
    pub files: &'a FileSystem,
    /// The file.
    pub znode: &'a Znode,
}

impl FileContent<'_> {
    fn seek(&self, offset: u64, target: SeekTarget) -> Result<Option<u64>, PosixError> {
        match self.files.seek(self.znode, offset, target) {
            Ok(found) => Ok(Some(found)),
            Err(PosixError::SeekBeyondEnd { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Content for FileContent<'_> {
    type Error = PosixError;

    fn size(&self) -> u64 {
        self.znode.attributes().size
    }

    fn block_size(&self) -> u64 {
        let object = self.znode.object();
        object.map_or(CHUNK, |object| object.dnode().data_block_size)
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>, PosixError> {
        self.seek(offset, SeekTarget::Data)
    }

    fn next_hole(&self, offset: u64) -> Result<u64, PosixError> {
        Ok(self.seek(offset, SeekTarget::Hole)?.unwrap_or(self.size()))
    }

    fn segments(&self, offset: u64, length: usize) -> Result<Vec<Segment>, PosixError> {
        self.files.read_segments(self.znode, offset, length)
    }
}

impl Content for Volume {
    type Error = VolumeError;

    fn size(&self) -> u64 {
        Volume::size(self)
    }

    fn block_size(&self) -> u64 {
        Volume::block_size(self)
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>, VolumeError> {
        match offset < Volume::size(self) {
            true => Volume::next_data(self, offset),
            false => Ok(None),
        }
    }

    fn next_hole(&self, offset: u64) -> Result<u64, VolumeError> {
        Volume::next_hole(self, offset)
    }

    fn segments(&self, offset: u64, length: usize) -> Result<Vec<Segment>, VolumeError> {
        Volume::segments(self, offset, length)
    }
}

/// A stretch of stored bytes: `[start, end)`.
pub fn next_stretch<C: Content>(content: &C, from: u64) -> Result<Option<(u64, u64)>, C::Error> {
    let Some(start) = content.next_data(from)? else {
        return Ok(None);
    };
    let end = content.next_hole(start)?.min(content.size());
    Ok((end > start).then_some((start, end)))
}

/// How many bytes to read at `offset` in a stretch that ends at `end`: up to a block boundary.
pub fn piece_length<C: Content>(content: &C, offset: u64, end: u64) -> usize {
    let unit = content.block_size().max(CHUNK);
    let border = (offset / unit + 1).saturating_mul(unit).min(end);
    usize::try_from(border - offset).expect("at most 16 MiB")
}

/// A hash in progress.
#[derive(Debug, Default)]
pub struct Hash(Sha256);

impl Hash {
    /// Adds the segments' bytes.
    pub fn add(&mut self, segments: &[Segment]) {
        for segment in segments {
            match segment.bytes() {
                Some(bytes) => self.0.update(bytes),
                None => self.add_zeros(segment.length as u64),
            }
        }
    }

    /// Adds `count` zeros.
    pub fn add_zeros(&mut self, mut count: u64) {
        static ZEROS: [u8; 65536] = [0; 65536];
        while count > 0 {
            let length = count.min(ZEROS.len() as u64);
            self.0
                .update(&ZEROS[..usize::try_from(length).expect("64 KiB")]);
            count -= length;
        }
    }

    /// The hash in hex.
    pub fn finish(self) -> String {
        crate::reading::output::hex(&self.0.finalize())
    }
}

/// The sha256 of `[start, end)`, all of which is stored.
pub fn hash_range<C: Content>(
    content: &C,
    start: u64,
    end: u64,
    hash: &mut Hash,
) -> Result<(), C::Error> {
    let mut at = start;
    while at < end {
        let length = piece_length(content, at, end);
        hash.add(&content.segments(at, length)?);
        at += length as u64;
    }
    Ok(())
}

/// The sha256 of everything, holes as zeros.
pub fn hash_all<C: Content>(content: &C) -> Result<String, C::Error> {
    let mut hash = Hash::default();
    let mut at = 0;
    while let Some((start, end)) = next_stretch(content, at)? {
        hash.add_zeros(start - at);
        hash_range(content, start, end, &mut hash)?;
        at = end;
    }
    hash.add_zeros(content.size() - at);
    Ok(hash.finish())
}
