//! Contents of files: reading, and finding data and holes.
//!
//! Blocks are lent out as they are in the cache. Bytes behind the end of the file are never
//! returned, even if the last block has some.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::znode::Znode;
use cenote_dmu::{DirectIo, Segment};

/// What `direct=always` asks of a request: whole pages.
const PAGE: u64 = 4096;

/// How the caller opened a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// As usual: what is read and written may be wanted again.
    #[default]
    Buffered,
    /// With `O_DIRECT`: the program has a cache of its own.
    Direct,
}

/// What a seek looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not; the end of the file counts as one.
    Hole,
}

impl FileSystem {
    /// The contents of `[offset, offset + length)` of a regular file, up to its end.
    ///
    /// The pieces are in order and without gaps; fewer bytes mean the end of the file. Callers
    /// bound `length` by what they can hold: 1 MiB is usual.
    pub fn read_segments(
        &self,
        file: &Znode,
        offset: u64,
        length: usize,
    ) -> Result<Vec<Segment>, PosixError> {
        self.read_segments_as(file, offset, length, Access::Buffered)
    }

    /// As [`Self::read_segments`], for a file that is open in the given way.
    pub fn read_segments_as(
        &self,
        file: &Znode,
        offset: u64,
        length: usize,
        access: Access,
    ) -> Result<Vec<Segment>, PosixError> {
        match file.kind() {
            FileKind::Regular => {}
            FileKind::Directory => return Err(PosixError::IsDirectory { object: file.id() }),
            _ => return Err(file.wrong_kind("a regular file")),
        }
        let is_passing = self.is_in_passing(access, offset, length as u64);
        self.pieces(file, offset, length, is_passing)
    }

    /// As [`Self::read_segments`], from `offset` on as far as memory has it without a gap: nothing
    /// is waited for.
    pub fn segments_at_hand(&self, file: &Znode, offset: u64, length: usize) -> Vec<Segment> {
        let left = file.attributes().size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        match file.object() {
            Some(object) if file.kind() == FileKind::Regular => {
                object.segments_at_hand(offset, length)
            }
            _ => Vec::new(),
        }
    }

    /// Whether a request's data is not to stay in the cache, by the property `direct`.
    pub(crate) fn is_in_passing(&self, access: Access, offset: u64, length: u64) -> bool {
        match self.set().caching().direct {
            DirectIo::Disabled => false,
            DirectIo::Standard => access == Access::Direct,
            DirectIo::Always => {
                access == Access::Direct
                    || (offset.is_multiple_of(PAGE) && length.is_multiple_of(PAGE))
            }
        }
    }

    /// As [`Self::read_segments`], of any kind of object.
    pub(crate) fn content_segments(
        &self,
        file: &Znode,
        offset: u64,
        length: usize,
    ) -> Result<Vec<Segment>, PosixError> {
        self.pieces(file, offset, length, false)
    }

    fn pieces(
        &self,
        file: &Znode,
        offset: u64,
        length: usize,
        is_passing: bool,
    ) -> Result<Vec<Segment>, PosixError> {
        let left = file.attributes().size.saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        if length == 0 {
            return Ok(Vec::new());
        }
        match file.object() {
            Some(object) if is_passing => Ok(object.in_passing().segments(offset, length)?),
            Some(object) => Ok(object.segments(offset, length)?),
            None => Ok(vec![Segment {
                block: None,
                start: 0,
                length,
            }]),
        }
    }

    /// Fills `buffer` from `offset` on and returns how many bytes there were.
    pub fn read(&self, file: &Znode, offset: u64, buffer: &mut [u8]) -> Result<usize, PosixError> {
        let mut at = 0;
        for segment in self.read_segments(file, offset, buffer.len())? {
            let target = &mut buffer[at..at + segment.length];
            match segment.bytes() {
                Some(bytes) => target.copy_from_slice(bytes),
                None => target.fill(0),
            }
            at += segment.length;
        }
        Ok(at)
    }

    /// The whole contents of an object of at most `limit` bytes.
    pub(crate) fn read_all(&self, file: &Znode, limit: u64) -> Result<Vec<u8>, PosixError> {
        let size = file.attributes().size;
        if size > limit {
            return Err(file.inconsistent("it is larger than its use allows"));
        }
        let size = usize::try_from(size).expect("limits are small");
        let mut bytes = Vec::with_capacity(size);
        for segment in self.content_segments(file, 0, size)? {
            match segment.bytes() {
                Some(piece) => bytes.extend_from_slice(piece),
                None => bytes.resize(bytes.len() + segment.length, 0),
            }
        }
        Ok(bytes)
    }

    /// The next data or hole at or behind `offset`, as `lseek(2)` finds them (format/3b 5).
    ///
    /// Holes are whole blocks; the end of the file is a hole, too. [`PosixError::SeekBeyondEnd`]
    /// at or behind the end, or if no data follow.
    pub fn seek(&self, file: &Znode, offset: u64, target: SeekTarget) -> Result<u64, PosixError> {
        let size = file.attributes().size;
        let beyond = || PosixError::SeekBeyondEnd {
            object: file.id(),
            offset,
        };
        if offset >= size {
            return Err(beyond());
        }
        let found = match (file.object(), target) {
            (Some(object), SeekTarget::Data) => object.next_data(offset)?,
            (Some(object), SeekTarget::Hole) => Some(object.next_hole(offset)?),
            (None, SeekTarget::Data) => None,
            (None, SeekTarget::Hole) => Some(offset),
        };
        match found {
            Some(found) if target == SeekTarget::Hole => Ok(found.min(size)),
            Some(found) if found < size => Ok(found),
            _ => Err(beyond()),
        }
    }
}
