//! Name-value lists: the self-describing container of labels, configurations and history.
//!
//! Source: format/1a 1. A packed list is a 4-byte header and the list itself:
//!
//! ```text
//! 0 encoding: 0 native, 1 XDR   1 byte order of the packer: 1 little, 0 big   2 zero (2)
//! 4 the list: version (i32, 0), flags (u32), pairs, terminator
//! ```
//!
//! Labels and the MOS use XDR ([`xdr`]), always big-endian; history records and the cache file
//! are native ([`native`]), in the byte order of their writer. Lists nest in lists; decoding
//! keeps an explicit stack, bounded by [`DEPTH_MAX`], and never allocates more than a small
//! multiple of the input. Names and strings are bytes: extended attributes have names that are
//! not UTF-8. A repeated name hides the earlier pair, as in OpenZFS.

mod native;
mod native_encode;
mod xdr;

use crate::DecodeError;
use std::fmt;

/// Lists may nest this deep. Vdev trees, the deepest in practice, need 5.
pub const DEPTH_MAX: usize = 20;

/// The largest packed list that decodes.
pub const PACKED_SIZE_MAX: usize = 16 << 20;

/// A repeated name replaces the earlier pair (`NV_UNIQUE_NAME`).
pub const FLAG_UNIQUE_NAME: u32 = 1;

pub(crate) const STRUCTURE: &str = "name-value list";

/// The value of a pair, by its type code (format/1a 1, "Data types").
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the format's own types")]
pub enum NvValue {
    /// Present or absent, without a value.
    Boolean,
    Byte(u8),
    Int16(i16),
    Uint16(u16),
    Int32(i32),
    Uint32(u32),
    Int64(i64),
    Uint64(u64),
    /// Bytes without the terminating NUL.
    String(Vec<u8>),
    ByteArray(Vec<u8>),
    Int16Array(Vec<i16>),
    Uint16Array(Vec<u16>),
    Int32Array(Vec<i32>),
    Uint32Array(Vec<u32>),
    Int64Array(Vec<i64>),
    Uint64Array(Vec<u64>),
    StringArray(Vec<Vec<u8>>),
    /// Nanoseconds.
    HrTime(i64),
    List(NvList),
    ListArray(Vec<NvList>),
    BooleanValue(bool),
    Int8(i8),
    Uint8(u8),
    BooleanArray(Vec<bool>),
    Int8Array(Vec<i8>),
    Uint8Array(Vec<u8>),
    /// The bits of an IEEE 754 double.
    Double(u64),
}

/// A named value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvPair {
    /// The name, without the terminating NUL.
    pub name: Vec<u8>,
    /// The value.
    pub value: NvValue,
}

/// An ordered list of named values.
#[derive(Clone, PartialEq, Eq)]
pub struct NvList {
    /// `FLAG_*`.
    pub flags: u32,
    pairs: Vec<NvPair>,
}

impl Default for NvList {
    fn default() -> Self {
        Self::new()
    }
}

impl NvList {
    /// An empty list with unique names.
    pub fn new() -> Self {
        Self {
            flags: FLAG_UNIQUE_NAME,
            pairs: Vec::new(),
        }
    }

    /// Decodes a packed list, XDR or native, with its 4-byte header.
    ///
    /// Bytes after the terminator are ignored: lists stand in zero-padded areas.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_up_to(bytes, PACKED_SIZE_MAX)
    }

    /// As [`Self::decode`], of a list that may be larger than others: up to `size_max` bytes.
    pub fn decode_up_to(bytes: &[u8], size_max: usize) -> Result<Self, DecodeError> {
        let [encoding, order, zero1, zero2] = crate::wire::array(bytes, 0, STRUCTURE)?;
        if zero1 != 0 || zero2 != 0 {
            return bad("header", u64::from(zero1) << 8 | u64::from(zero2));
        }
        let body = &bytes[4..bytes.len().min(size_max)];
        match (encoding, order) {
            (0, 0) => native::decode(body, native::Order::Big),
            (0, 1) => native::decode(body, native::Order::Little),
            (1, 0 | 1) => Self::decode_xdr_body(body),
            (0 | 1, _) => bad("byte order", u64::from(order)),
            _ => bad("encoding", u64::from(encoding)),
        }
    }

    /// Decodes an XDR list that has no 4-byte header.
    pub fn decode_xdr_body(bytes: &[u8]) -> Result<Self, DecodeError> {
        xdr::decode(bytes)
    }

    /// The packed XDR form with its 4-byte header.
    pub fn encode_xdr(&self) -> Vec<u8> {
        xdr::encode(self)
    }

    /// The packed native form, little-endian, with its 4-byte header: of numbers, text, flags,
    /// arrays of numbers and bytes, and lists of those, which is what history records, resume
    /// tokens and send streams have.
    pub fn encode_native(&self) -> Vec<u8> {
        native_encode::encode(self)
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &NvValue)> + ExactSizeIterator {
        self.pairs
            .iter()
            .map(|pair| (pair.name.as_slice(), &pair.value))
    }

    /// How many pairs the list has.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether the list has no pair.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The value of `name`: the last, if a careless writer repeated it.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&NvValue> {
        let name = name.as_ref();
        let pair = self.pairs.iter().rev().find(|pair| pair.name == name);
        pair.map(|pair| &pair.value)
    }

    /// Whether there is a value of any type.
    pub fn contains(&self, name: impl AsRef<[u8]>) -> bool {
        self.get(name).is_some()
    }

    /// A `UINT64`; `None` when absent or of another type, as with all getters.
    pub fn get_u64(&self, name: impl AsRef<[u8]>) -> Option<u64> {
        match self.get(name)? {
            NvValue::Uint64(value) => Some(*value),
            _ => None,
        }
    }

    /// A `STRING` that is UTF-8.
    pub fn get_str(&self, name: impl AsRef<[u8]>) -> Option<&str> {
        std::str::from_utf8(self.get_bytes(name)?).ok()
    }

    /// A `STRING`'s bytes, without the NUL.
    pub fn get_bytes(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        match self.get(name)? {
            NvValue::String(value) => Some(value),
            _ => None,
        }
    }

    /// A truth value: a `BOOLEAN` that is present, or a `BOOLEAN_VALUE`; false otherwise.
    pub fn get_bool(&self, name: impl AsRef<[u8]>) -> bool {
        matches!(
            self.get(name),
            Some(NvValue::Boolean | NvValue::BooleanValue(true))
        )
    }

    /// An `NVLIST`.
    pub fn get_list(&self, name: impl AsRef<[u8]>) -> Option<&NvList> {
        match self.get(name)? {
            NvValue::List(list) => Some(list),
            _ => None,
        }
    }

    /// An `NVLIST_ARRAY`.
    pub fn get_list_array(&self, name: impl AsRef<[u8]>) -> Option<&[NvList]> {
        match self.get(name)? {
            NvValue::ListArray(lists) => Some(lists),
            _ => None,
        }
    }

    /// A `UINT64_ARRAY`.
    pub fn get_u64_array(&self, name: impl AsRef<[u8]>) -> Option<&[u64]> {
        match self.get(name)? {
            NvValue::Uint64Array(values) => Some(values),
            _ => None,
        }
    }

    /// A `BYTE_ARRAY` or `UINT8_ARRAY`.
    pub fn get_byte_array(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        match self.get(name)? {
            NvValue::ByteArray(bytes) | NvValue::Uint8Array(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// As [`Self::get_u64`], or an error that names the missing key of `structure`.
    pub fn require_u64(
        &self,
        structure: &'static str,
        key: &'static str,
    ) -> Result<u64, DecodeError> {
        self.get_u64(key)
            .ok_or(DecodeError::Missing { structure, key })
    }

    /// As [`Self::get_list`], or an error that names the missing key of `structure`.
    pub fn require_list(
        &self,
        structure: &'static str,
        key: &'static str,
    ) -> Result<&NvList, DecodeError> {
        self.get_list(key)
            .ok_or(DecodeError::Missing { structure, key })
    }

    /// Sets `name`, in place if it is there, else at the end.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: NvValue) {
        let name = name.as_ref();
        match self.pairs.iter_mut().rev().find(|pair| pair.name == name) {
            Some(pair) => pair.value = value,
            None => self.push(name.to_vec(), value),
        }
    }

    /// Sets `name` to a `UINT64`.
    pub fn set_u64(&mut self, name: impl AsRef<[u8]>, value: u64) {
        self.set(name, NvValue::Uint64(value));
    }

    /// Sets `name` to a `STRING`.
    pub fn set_str(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.set(name, NvValue::String(value.as_ref().to_vec()));
    }

    /// Removes every pair called `name`; whether there was one.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let before = self.pairs.len();
        self.pairs.retain(|pair| pair.name != name.as_ref());
        self.pairs.len() < before
    }

    /// Adds a pair at the end, without looking whether there is one of the name.
    pub(crate) fn push(&mut self, name: Vec<u8>, value: NvValue) {
        self.pairs.push(NvPair { name, value });
    }
}

impl fmt::Debug for NvList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.iter();
        f.debug_map()
            .entries(pairs.map(|(name, value)| (String::from_utf8_lossy(name), value)))
            .finish()
    }
}

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
enum Item {
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
trait Source {
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
fn decode_items(source: &mut impl Source, flags: u32) -> Result<NvList, DecodeError> {
    let pairs = Vec::new();
    let mut list = NvList { flags, pairs };
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
                let (flags, pairs) = (source.begin_list()?, Vec::new());
                outer.push(Frame {
                    list: std::mem::replace(&mut list, NvList { flags, pairs }),
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
                    let (flags, pairs) = (source.begin_list()?, Vec::new());
                    let done = std::mem::replace(&mut list, NvList { flags, pairs });
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

#[cfg(test)]
mod tests;
