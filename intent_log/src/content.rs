//! Contents of an object with pieces that a log wrote over them, in memory.
//!
//! Both files and volumes are replayed onto this when the pool itself must not change.
//! The pieces never overlap: a new one cuts or replaces those it covers. Where there is none the
//! object's own blocks show, up to the lowest size that the log ever truncated it to; behind that
//! are zeros, since what was cut off does not come back when the file grows again.

use cenote_base::{BlockId, Bookmark, MemoryBudget, MemoryExceeded, MemoryLease, ObjectId};
use cenote_dmu::{Block, DmuError, Object, ObjectSet, Segment};
use cenote_io::ReadContext;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::intent_log::record::WriteData;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a piece beside its data, with the slack of the map.
const PIECE_SIZE: u64 = 256;

/// Where the bytes of a piece are.
#[derive(Clone, Debug)]
pub enum Source {
    /// In memory.
    Bytes(Block),
    /// In a block in the pool that the log points to.
    Pointer(Box<BlockPointer>),
    /// Nowhere: zeros.
    Zeros,
}

/// The object below the pieces.
#[derive(Clone, Copy, Debug)]
pub struct Below<'o> {
    /// The object set that it belongs to.
    pub set: &'o Arc<ObjectSet>,
    /// Its number.
    pub id: ObjectId,
    /// What is on disk; `None` if the log made the object.
    pub object: Option<&'o Object>,
}

#[derive(Clone, Debug)]
struct Piece {
    length: u64,
    source: Source,
    /// Where the piece begins in its source, in bytes.
    start: u64,
}

/// Changes to the contents of one object.
#[derive(Clone, Debug)]
pub struct Content {
    pieces: BTreeMap<u64, Piece>,
    /// Bytes of the object on disk that still count, from its start.
    stored_limit: u64,
}

/// A stretch of a range: a piece, or what is on disk.
enum Stretch<'c> {
    Piece(&'c Piece, u64),
    Stored,
}

impl Content {
    /// Contents of which the first `stored_limit` bytes are as on disk, the rest zeros.
    pub fn new(stored_limit: u64) -> Self {
        Self {
            pieces: BTreeMap::new(),
            stored_limit,
        }
    }

    /// Puts `length` bytes of `source`, from `start` of it on, at `offset`.
    ///
    /// `offset + length` must not overflow.
    pub fn write(&mut self, offset: u64, length: u64, source: Source, start: u64) {
        assert!(
            offset.checked_add(length).is_some(),
            "the caller bounds writes"
        );
        if length == 0 {
            return;
        }
        self.cut(offset, offset + length);
        self.pieces.insert(
            offset,
            Piece {
                length,
                source,
                start,
            },
        );
    }

    /// Makes `[offset, offset + length)` zeros.
    pub fn punch(&mut self, offset: u64, length: u64) {
        self.write(offset, length, Source::Zeros, 0);
    }

    /// Forgets everything from `size` on.
    pub fn truncate(&mut self, size: u64) {
        self.cut(size, u64::MAX);
        self.stored_limit = self.stored_limit.min(size);
    }

    /// Removes pieces, and parts of pieces, within `[from, to)`.
    fn cut(&mut self, from: u64, to: u64) {
        // A piece that begins before the range may reach into it, or beyond it.
        if let Some((&begin, piece)) = self.pieces.range_mut(..from).next_back() {
            let end = begin + piece.length;
            if end > from {
                piece.length = from - begin;
                if end > to {
                    let rest = Piece {
                        length: end - to,
                        source: piece.source.clone(),
                        start: piece.start + (to - begin),
                    };
                    self.pieces.insert(to, rest);
                }
            }
        }
        while let Some((&begin, _)) = self.pieces.range(from..to).next() {
            let mut piece = self.pieces.remove(&begin).expect("just found");
            let end = begin + piece.length;
            if end > to {
                piece.start += to - begin;
                piece.length = end - to;
                self.pieces.insert(to, piece);
            }
        }
    }

    /// The stretch at `offset` and where it ends, at most at `end`.
    fn stretch(&self, offset: u64, end: u64) -> (Stretch<'_>, u64) {
        if let Some((&begin, piece)) = self.pieces.range(..=offset).next_back()
            && begin + piece.length > offset
        {
            let piece_end = (begin + piece.length).min(end);
            return (Stretch::Piece(piece, offset - begin), piece_end);
        }
        let next = self.pieces.range(offset..).next();
        (
            Stretch::Stored,
            next.map_or(end, |(begin, _)| (*begin).min(end)),
        )
    }

    /// The contents of `[offset, offset + length)`.
    pub fn segments(
        &self,
        below: Below<'_>,
        offset: u64,
        length: usize,
    ) -> Result<Vec<Segment>, DmuError> {
        let end = offset.saturating_add(length as u64);
        let mut segments = Vec::new();
        let mut at = offset;
        while at < end {
            let (stretch, next) = self.stretch(at, end);
            let count = usize::try_from(next - at).expect("within a length that is a usize");
            match stretch {
                Stretch::Piece(piece, inside) => {
                    let start = piece.start + inside;
                    segments.push(read_piece(below, &piece.source, start, count)?);
                }
                Stretch::Stored => self.push_stored(below, at, count, &mut segments)?,
            }
            at = next;
        }
        Ok(segments)
    }

    fn push_stored(
        &self,
        below: Below<'_>,
        offset: u64,
        length: usize,
        segments: &mut Vec<Segment>,
    ) -> Result<(), DmuError> {
        let left = self.stored_limit.saturating_sub(offset);
        let stored = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        match below.object {
            Some(object) => segments.extend(object.segments(offset, stored)?),
            None => segments.extend(zeros(stored)),
        }
        segments.extend(zeros(length - stored));
        Ok(())
    }

    /// The first byte at or behind `offset` that is stored anywhere.
    pub fn next_data(&self, object: Option<&Object>, offset: u64) -> Result<Option<u64>, DmuError> {
        let mut at = offset;
        loop {
            let (stretch, next) = self.stretch(at, u64::MAX);
            match stretch {
                Stretch::Piece(
                    Piece {
                        source: Source::Zeros,
                        ..
                    },
                    _,
                ) => {}
                Stretch::Piece(..) => return Ok(Some(at)),
                Stretch::Stored => {
                    let found = match object {
                        Some(object) if at < self.stored_limit => stored_data(object, at)?,
                        _ => None,
                    };
                    let limit = next.min(self.stored_limit);
                    if let Some(found) = found.filter(|found| *found < limit) {
                        return Ok(Some(found));
                    }
                }
            }
            if next == u64::MAX {
                return Ok(None);
            }
            at = next;
        }
    }

    /// The first byte at or behind `offset` that is stored nowhere.
    pub fn next_hole(&self, object: Option<&Object>, offset: u64) -> Result<u64, DmuError> {
        let mut at = offset;
        loop {
            let (stretch, next) = self.stretch(at, u64::MAX);
            match stretch {
                Stretch::Piece(
                    Piece {
                        source: Source::Zeros,
                        ..
                    },
                    _,
                ) => return Ok(at),
                Stretch::Piece(..) => {}
                Stretch::Stored => {
                    let Some(object) = object.filter(|_| at < self.stored_limit) else {
                        return Ok(at);
                    };
                    let found = stored_hole(object, at)?.min(self.stored_limit);
                    if found < next {
                        return Ok(found);
                    }
                }
            }
            if next == u64::MAX {
                return Ok(next);
            }
            at = next;
        }
    }
}

fn zeros(length: usize) -> Option<Segment> {
    (length > 0).then_some(Segment {
        block: None,
        start: 0,
        length,
    })
}

/// A block that a record points to belongs to no tree yet; its place is that of the object's
/// first block.
fn place_of(set: &Arc<ObjectSet>, object: ObjectId) -> Bookmark {
    Bookmark::data(set.id(), object, BlockId(0))
}

/// The contents of a block that a record about `object` points to.
///
/// # Errors
/// If the block cannot be read, or its key is not loaded.
pub fn read_pointed(
    set: &Arc<ObjectSet>,
    object: ObjectId,
    pointer: &BlockPointer,
) -> Result<Block, DmuError> {
    let context = ReadContext {
        bookmark: place_of(set, object),
        keys: set.keys().map(AsRef::as_ref),
    };
    Ok(set.cache().read(pointer, context)?)
}

fn read_piece(
    below: Below<'_>,
    source: &Source,
    start: u64,
    length: usize,
) -> Result<Segment, DmuError> {
    let bookmark = place_of(below.set, below.id);
    let block = match source {
        Source::Zeros => {
            return Ok(Segment {
                block: None,
                start: 0,
                length,
            });
        }
        Source::Bytes(bytes) => Block::clone(bytes),
        Source::Pointer(pointer) => read_pointed(below.set, below.id, pointer)?,
    };
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    if start
        .checked_add(length)
        .is_none_or(|end| end > block.len())
    {
        let problem = "a block that the intent log points to is too short";
        return Err(DmuError::BadTree { bookmark, problem });
    }
    Ok(Segment {
        block: Some(block),
        start,
        length,
    })
}

/// The first byte at or behind `offset` that lies in a block of `object`.
pub fn stored_data(object: &Object, offset: u64) -> Result<Option<u64>, DmuError> {
    let size = object.dnode().data_block_size;
    let block = object.next_data_block(BlockId(offset / size))?;
    Ok(block.map(|block| block.0.saturating_mul(size).max(offset)))
}

/// The first byte at or behind `offset` that lies in none.
pub fn stored_hole(object: &Object, offset: u64) -> Result<u64, DmuError> {
    let size = object.dnode().data_block_size;
    let block = object.next_hole_block(BlockId(offset / size))?;
    Ok(block.0.saturating_mul(size).max(offset))
}

/// The memory that a replay takes, leased from the pool's budget in steps.
#[derive(Debug)]
pub struct ReplayMemory {
    budget: Arc<MemoryBudget>,
    leases: Vec<MemoryLease>,
    left: u64,
}

impl ReplayMemory {
    const STEP: u64 = 256 << 10;

    /// No memory yet, to be leased from `budget`.
    pub fn new(budget: Arc<MemoryBudget>) -> Self {
        Self {
            budget,
            leases: Vec::new(),
            left: 0,
        }
    }

    /// Pays for `bytes` that are about to be kept.
    pub fn pay(&mut self, bytes: u64) -> Result<(), MemoryExceeded> {
        if bytes > self.left {
            let step = (bytes - self.left).max(Self::STEP);
            self.leases.push(self.budget.lease(step)?);
            self.left += step;
        }
        self.left -= bytes;
        Ok(())
    }
}

/// Why a record's data could not be taken.
#[derive(Debug)]
pub enum ApplyError {
    /// The record contradicts itself.
    Nonsense(&'static str),
    /// More memory would be needed than is allowed.
    Memory(MemoryExceeded),
}

impl From<MemoryExceeded> for ApplyError {
    fn from(error: MemoryExceeded) -> Self {
        Self::Memory(error)
    }
}

/// The end of a range, within what an object can hold.
fn end_of(offset: u64, length: u64) -> Result<u64, ApplyError> {
    let end = offset
        .checked_add(length)
        .filter(|end| *end <= i64::MAX.cast_unsigned());
    end.ok_or(ApplyError::Nonsense("a range reaches beyond 2^63"))
}

impl Content {
    /// Takes the data of a write record; the end of the write, which the object then reaches at
    /// least.
    ///
    /// A block that the record points to is a whole one of the file, of which the write was a
    /// part; what lies behind the write is kept, too, for a later record may only tell that
    /// the file grew over it (format/2e 3).
    pub fn apply_write(
        &mut self,
        offset: u64,
        length: u64,
        data: WriteData<'_>,
        memory: &mut ReplayMemory,
    ) -> Result<u64, ApplyError> {
        let end = end_of(offset, length)?;
        match data {
            WriteData::SizeOnly => {}
            WriteData::Immediate(bytes) => {
                memory.pay(PIECE_SIZE + length)?;
                self.write(
                    offset,
                    length,
                    Source::Bytes(Arc::new(bytes.to_vec().into())),
                    0,
                );
            }
            WriteData::Indirect(pointer) => {
                memory.pay(PIECE_SIZE + BLOCK_POINTER_SIZE as u64)?;
                let block_size = pointer.logical_size();
                let (start, whole) = match length < block_size {
                    true => (offset - offset % block_size, block_size),
                    false => (offset, length),
                };
                let source = match pointer.is_hole() {
                    true => Source::Zeros,
                    false if whole > block_size => {
                        return Err(ApplyError::Nonsense("a block smaller than the write"));
                    }
                    false => Source::Pointer(Box::new(pointer)),
                };
                end_of(start, whole)?;
                self.write(start, whole, source, 0);
            }
        }
        Ok(end)
    }

    /// Takes the blocks of a clone record; the end of the range.
    pub fn apply_clone(
        &mut self,
        offset: u64,
        length: u64,
        block_size: u64,
        pointers: &[u8],
        memory: &mut ReplayMemory,
    ) -> Result<u64, ApplyError> {
        let end = end_of(offset, length)?;
        let count = (pointers.len() / BLOCK_POINTER_SIZE) as u64;
        if block_size == 0 || count != length.div_ceil(block_size) {
            return Err(ApplyError::Nonsense("a clone of another number of blocks"));
        }
        memory.pay((PIECE_SIZE + BLOCK_POINTER_SIZE as u64).saturating_mul(count))?;
        let mut at = offset;
        for bytes in pointers.chunks_exact(BLOCK_POINTER_SIZE) {
            let pointer = BlockPointer::decode(bytes).expect("a chunk of a pointer's size");
            let piece = block_size.min(end - at);
            let source = match pointer.is_hole() {
                true => Source::Zeros,
                false => Source::Pointer(Box::new(pointer)),
            };
            self.write(at, piece, source, 0);
            at += piece;
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader would see of an object without blocks, by a plain array.
    #[test]
    fn pieces_behave_like_an_array_of_bytes() {
        let mut model = vec![0_u8; 300];
        let mut content = Content::new(0);
        let mut random = 12_345_u64;
        for round in 1..400_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(round);
            let (from, length) = ((random >> 33) % 250, (random >> 20) % 50);
            let range = from as usize..(from + length) as usize;
            match random % 7 {
                0 => {
                    content.truncate(from);
                    model[from as usize..].fill(0);
                }
                1 => {
                    content.punch(from, length);
                    model[range].fill(0);
                }
                _ => {
                    let bytes: Vec<u8> = (0..length + 3).map(|i| (round + i) as u8 | 1).collect();
                    model[range].copy_from_slice(&bytes[3..]);
                    content.write(from, length, Source::Bytes(Arc::new(bytes.into())), 3);
                }
            }
            assert_eq!(flatten(&content, 300), model, "round {round}");
        }
    }

    fn flatten(content: &Content, end: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut at = 0;
        while at < end {
            let (stretch, next) = content.stretch(at, end);
            let count = (next - at) as usize;
            match stretch {
                Stretch::Piece(
                    Piece {
                        source: Source::Bytes(block),
                        start,
                        ..
                    },
                    inside,
                ) => {
                    let start = (start + inside) as usize;
                    bytes.extend_from_slice(&block[start..start + count]);
                }
                _ => bytes.resize(bytes.len() + count, 0),
            }
            at = next;
        }
        bytes
    }

    #[test]
    fn data_and_holes_are_found() {
        let mut content = Content::new(0);
        content.write(100, 50, Source::Bytes(Arc::new(vec![1; 50].into())), 0);
        content.punch(120, 10);
        assert_eq!(
            content.next_data(None, 0).expect("nothing is read"),
            Some(100)
        );
        assert_eq!(content.next_hole(None, 100).expect("nothing is read"), 120);
        assert_eq!(
            content.next_data(None, 120).expect("nothing is read"),
            Some(130)
        );
        assert_eq!(content.next_hole(None, 131).expect("nothing is read"), 150);
        assert_eq!(content.next_data(None, 150).expect("nothing is read"), None);
    }
}
