//! Pieces written over an object's contents.
//!
//! The pieces never overlap: a new one cuts or replaces those it covers. Where there is none the
//! object's own blocks show, up to the lowest size that the log ever truncated it to; behind that
//! are zeros, since what was cut off does not come back when the file grows again.

use crate::error::PosixError;
use crate::file::{stored_data, stored_hole};
use crate::znode::Znode;
use cenote_base::{BlockId, Bookmark};
use cenote_dmu::{Block, ObjectSet, Segment};
use cenote_io::ReadContext;
use cenote_ondisk::BlockPointer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the bytes of a piece are.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In memory.
    Bytes(Block),
    /// In a block in the pool that the log points to.
    Pointer(Box<BlockPointer>),
    /// Nowhere: zeros.
    Zeros,
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
pub(crate) struct Content {
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
        set: &Arc<ObjectSet>,
        file: &Znode,
        offset: u64,
        length: usize,
    ) -> Result<Vec<Segment>, PosixError> {
        let end = offset.saturating_add(length as u64);
        let mut segments = Vec::new();
        let mut at = offset;
        while at < end {
            let (stretch, next) = self.stretch(at, end);
            let count = usize::try_from(next - at).expect("within a length that is a usize");
            match stretch {
                Stretch::Piece(piece, inside) => {
                    let start = piece.start + inside;
                    segments.push(read_piece(set, file, &piece.source, start, count)?);
                }
                Stretch::Stored => self.push_stored(file, at, count, &mut segments)?,
            }
            at = next;
        }
        Ok(segments)
    }

    fn push_stored(
        &self,
        file: &Znode,
        offset: u64,
        length: usize,
        segments: &mut Vec<Segment>,
    ) -> Result<(), PosixError> {
        let left = self.stored_limit.saturating_sub(offset);
        let stored = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        match file.object() {
            Some(object) => segments.extend(object.segments(offset, stored)?),
            None => segments.extend(zeros(stored)),
        }
        segments.extend(zeros(length - stored));
        Ok(())
    }

    /// The first byte at or behind `offset` that is stored anywhere.
    pub fn next_data(&self, file: &Znode, offset: u64) -> Result<Option<u64>, PosixError> {
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
                    let found = match file.object() {
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
    pub fn next_hole(&self, file: &Znode, offset: u64) -> Result<u64, PosixError> {
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
                    let Some(object) = file.object().filter(|_| at < self.stored_limit) else {
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

fn read_piece(
    set: &Arc<ObjectSet>,
    file: &Znode,
    source: &Source,
    start: u64,
    length: usize,
) -> Result<Segment, PosixError> {
    let block = match source {
        Source::Zeros => {
            return Ok(Segment {
                block: None,
                start: 0,
                length,
            });
        }
        Source::Bytes(bytes) => Block::clone(bytes),
        Source::Pointer(pointer) => {
            // The block belongs to no tree yet; its place is that of the object's first block.
            let bookmark = Bookmark::data(set.id(), file.id(), BlockId(0));
            let context = ReadContext {
                bookmark,
                keys: set.keys().map(AsRef::as_ref),
            };
            set.cache()
                .read(pointer, context)
                .map_err(cenote_dmu::DmuError::from)?
        }
    };
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    if start
        .checked_add(length)
        .is_none_or(|end| end > block.len())
    {
        return Err(file.inconsistent("a block that the intent log points to is too short"));
    }
    Ok(Segment {
        block: Some(block),
        start,
        length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::ObjectId;

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
                    content.write(from, length, Source::Bytes(Arc::new(bytes)), 3);
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
        let file = Znode::for_tests(ObjectId(9));
        let mut content = Content::new(0);
        content.write(100, 50, Source::Bytes(Arc::new(vec![1; 50])), 0);
        content.punch(120, 10);
        assert_eq!(content.next_data(&file, 0).unwrap(), Some(100));
        assert_eq!(content.next_hole(&file, 100).unwrap(), 120);
        assert_eq!(content.next_data(&file, 120).unwrap(), Some(130));
        assert_eq!(content.next_hole(&file, 131).unwrap(), 150);
        assert_eq!(content.next_data(&file, 150).unwrap(), None);
    }
}
