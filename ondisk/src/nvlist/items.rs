//! What the two encodings share: type codes, and the way from items to nested lists.
//!
//! An encoding is a [`Source`] of items. [`decode_items`] keeps an explicit stack of the lists that
//! are open, so that nesting never becomes recursion.

use super::list::{NvList, NvValue};
use crate::DecodeError;

/// Lists may nest this deep. Vdev trees, the deepest in practice, need 5.
pub const DEPTH_MAX: usize = 20;

pub(crate) const STRUCTURE: &str = "name-value list";

/// Type codes, numbered as on disk.
pub(crate) mod code {
    pub const BOOLEAN: u32 = 1;
    pub const BYTE: u32 = 2;
    pub const INT16: u32 = 3;
    pub const UINT16: u32 = 4;
    pub const INT32: u32 = 5;
    pub const UINT32: u32 = 6;
    pub const INT64: u32 = 7;
    pub const UINT64: u32 = 8;
    pub const STRING: u32 = 9;
    pub const BYTE_ARRAY: u32 = 10;
    pub const INT16_ARRAY: u32 = 11;
    pub const UINT16_ARRAY: u32 = 12;
    pub const INT32_ARRAY: u32 = 13;
    pub const UINT32_ARRAY: u32 = 14;
    pub const INT64_ARRAY: u32 = 15;
    pub const UINT64_ARRAY: u32 = 16;
    pub const STRING_ARRAY: u32 = 17;
    pub const HRTIME: u32 = 18;
    pub const NVLIST: u32 = 19;
    pub const NVLIST_ARRAY: u32 = 20;
    pub const BOOLEAN_VALUE: u32 = 21;
    pub const INT8: u32 = 22;
    pub const UINT8: u32 = 23;
    pub const BOOLEAN_ARRAY: u32 = 24;
    pub const INT8_ARRAY: u32 = 25;
    pub const UINT8_ARRAY: u32 = 26;
    pub const DOUBLE: u32 = 27;
}

/// What a decoder found at its position.
pub(super) enum Item {
    /// A complete pair.
    Pair(Vec<u8>, NvValue),
    /// A pair whose value is `count` embedded lists; `array` tells one list from an array of one.
    /// `end` is where the pair ends, when the encoding says so.
    Nested {
        name: Vec<u8>,
        array: bool,
        count: usize,
        end: Option<usize>,
    },
    /// The list's terminator.
    End,
}

/// A source of items: the part of decoding that the two encodings do differently.
pub(super) trait Source {
    /// Reads what stands before the pairs of an embedded list; the list's flags.
    fn begin_list(&mut self) -> Result<u32, DecodeError>;
    /// Reads the next pair or terminator.
    fn next_item(&mut self) -> Result<Item, DecodeError>;
    /// Where the next item will be read.
    fn position(&self) -> usize;
}

/// A list being filled, and what to do with it once it ends.
struct Frame {
    list: NvList,
    name: Vec<u8>,
    array: bool,
    /// Finished lists of the same array.
    siblings: Vec<NvList>,
    /// Lists of the array that follow this one.
    remaining: usize,
    end: Option<usize>,
}

/// Drives `source` to the end of the outermost list, whose flags are given.
pub(super) fn decode_items(source: &mut impl Source, flags: u32) -> Result<NvList, DecodeError> {
    let mut list = NvList::with_flags(flags);
    let mut outer: Vec<Frame> = Vec::new();
    loop {
        match source.next_item()? {
            Item::Pair(name, value) => list.push(name, value),
            Item::Nested {
                name,
                array,
                count: 0,
                ..
            } if array => {
                list.push(name, NvValue::ListArray(Vec::new()));
            }
            Item::Nested {
                name,
                array,
                count,
                end,
            } => {
                if outer.len() + 1 >= DEPTH_MAX {
                    return bad("depth", outer.len() as u64 + 1);
                }
                if count == 0 || (!array && count != 1) {
                    return bad("number of elements", count as u64);
                }
                let inner = NvList::with_flags(source.begin_list()?);
                outer.push(Frame {
                    list: std::mem::replace(&mut list, inner),
                    name,
                    array,
                    siblings: Vec::new(),
                    remaining: count - 1,
                    end,
                });
            }
            Item::End => {
                let Some(frame) = outer.last_mut() else {
                    return Ok(list);
                };
                if frame.remaining > 0 {
                    frame.remaining -= 1;
                    let inner = NvList::with_flags(source.begin_list()?);
                    let done = std::mem::replace(&mut list, inner);
                    frame.siblings.push(done);
                } else {
                    let frame = outer.pop().expect("last_mut found it");
                    list = close_frame(frame, list, source.position())?;
                }
            }
        }
    }
}

/// The outer list with the finished `inner` list or array added.
fn close_frame(frame: Frame, inner: NvList, position: usize) -> Result<NvList, DecodeError> {
    if frame.end.is_some_and(|end| end != position) {
        return Err(DecodeError::Inconsistent {
            structure: STRUCTURE,
            problem: "an embedded list's length differs from its pair's size",
        });
    }
    let Frame {
        mut list,
        name,
        array,
        mut siblings,
        ..
    } = frame;
    if array {
        siblings.push(inner);
        list.push(name, NvValue::ListArray(siblings));
    } else {
        list.push(name, NvValue::List(inner));
    }
    Ok(list)
}

pub(crate) fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}
