//! The XDR encoding of name-value lists (format/1a 1, "XDR list").
//!
//! ```text
//! list: version (i32)  flags (u32)  pairs  terminator (8 zero bytes)
//! pair: encoded size (u32)  decoded size (u32)  name (string)  type (u32)  elements (u32)  value
//! ```
//!
//! All integers are big-endian and at least 4 bytes; strings are a length and bytes padded to a
//! multiple of 4. The decoded size is that of the pair in the native encoding: OpenZFS allocates
//! by it, so that the encoder must get it right. The decoder has no use for it.

use super::items::{DEPTH_MAX, Item, STRUCTURE, Source, bad, code, decode_items};
use super::list::{NvList, NvValue};
use crate::DecodeError;
use crate::wire;

/// The smallest embedded list: version, flags and terminator.
const LIST_SIZE_MIN: usize = 16;

/// Decodes a list without its 4-byte header.
pub(super) fn decode(bytes: &[u8]) -> Result<NvList, DecodeError> {
    let mut source = Xdr { bytes, position: 0 };
    let flags = source.begin_list()?;
    decode_items(&mut source, flags)
}

struct Xdr<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Xdr<'_> {
    fn u32(&mut self) -> Result<u32, DecodeError> {
        let word = wire::array(self.bytes, self.position, STRUCTURE)?;
        self.position += 4;
        Ok(u32::from_be_bytes(word))
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        let word = wire::array(self.bytes, self.position, STRUCTURE)?;
        self.position += 8;
        Ok(u64::from_be_bytes(word))
    }

    /// `length` bytes and their padding.
    fn padded(&mut self, length: usize) -> Result<Vec<u8>, DecodeError> {
        let bytes = wire::slice(self.bytes, self.position, length, STRUCTURE)?.to_vec();
        self.position += length.next_multiple_of(4);
        Ok(bytes)
    }

    fn string(&mut self) -> Result<Vec<u8>, DecodeError> {
        let length = self.u32()? as usize;
        self.padded(length)
    }

    /// An array of `count` elements of `width` bytes each, preceded by its count again.
    fn array<T>(
        &mut self,
        count: usize,
        width: usize,
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let again = self.u32()?;
        if again as usize != count {
            return bad("array length", u64::from(again));
        }
        self.need(count, width)?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Refuses counts that cannot fit what is left, before anything is allocated for them.
    fn need(&self, count: usize, width: usize) -> Result<(), DecodeError> {
        let left = self.bytes.len().saturating_sub(self.position);
        if count > left / width {
            return bad("number of elements", count as u64);
        }
        Ok(())
    }

    fn value(&mut self, type_code: u32, count: usize) -> Result<NvValue, DecodeError> {
        if is_scalar(type_code) && count != 1 {
            return bad("number of elements", count as u64);
        }
        Ok(match type_code {
            code::BOOLEAN if count == 0 => NvValue::Boolean,
            code::BYTE => NvValue::Byte(self.u32()? as u8),
            code::INT16 => NvValue::Int16(self.u32()? as i16),
            code::UINT16 => NvValue::Uint16(self.u32()? as u16),
            code::INT32 => NvValue::Int32(self.u32()? as i32),
            code::UINT32 => NvValue::Uint32(self.u32()?),
            code::INT64 => NvValue::Int64(self.u64()? as i64),
            code::UINT64 => NvValue::Uint64(self.u64()?),
            code::STRING => NvValue::String(self.string()?),
            code::HRTIME => NvValue::HrTime(self.u64()? as i64),
            code::BOOLEAN_VALUE => NvValue::BooleanValue(self.u32()? != 0),
            code::INT8 => NvValue::Int8(self.u32()? as i8),
            code::UINT8 => NvValue::Uint8(self.u32()? as u8),
            code::DOUBLE => NvValue::Double(self.u64()?),
            _ => return self.array_value(type_code, count),
        })
    }

    fn array_value(&mut self, type_code: u32, count: usize) -> Result<NvValue, DecodeError> {
        Ok(match type_code {
            code::BYTE_ARRAY => NvValue::ByteArray(self.padded(count)?),
            code::INT16_ARRAY => {
                NvValue::Int16Array(self.array(count, 4, |x| Ok(x.u32()? as _))?)
            }
            code::UINT16_ARRAY => {
                NvValue::Uint16Array(self.array(count, 4, |x| Ok(x.u32()? as _))?)
            }
            code::INT32_ARRAY => {
                NvValue::Int32Array(self.array(count, 4, |x| Ok(x.u32()? as _))?)
            }
            code::UINT32_ARRAY => NvValue::Uint32Array(self.array(count, 4, Self::u32)?),
            code::INT64_ARRAY => {
                NvValue::Int64Array(self.array(count, 8, |x| Ok(x.u64()? as _))?)
            }
            code::UINT64_ARRAY => NvValue::Uint64Array(self.array(count, 8, Self::u64)?),
            code::STRING_ARRAY => {
                self.need(count, 4)?;
                let strings = (0..count).map(|_| self.string());
                NvValue::StringArray(strings.collect::<Result<_, _>>()?)
            }
            code::BOOLEAN_ARRAY => {
                NvValue::BooleanArray(self.array(count, 4, |x| Ok(x.u32()? != 0))?)
            }
            code::INT8_ARRAY => NvValue::Int8Array(self.array(count, 4, |x| Ok(x.u32()? as _))?),
            code::UINT8_ARRAY => {
                NvValue::Uint8Array(self.array(count, 4, |x| Ok(x.u32()? as _))?)
            }
            _ => return bad("type", u64::from(type_code)),
        })
    }
}

/// Whether values of the type are one element each.
fn is_scalar(type_code: u32) -> bool {
    matches!(
        type_code,
        code::BYTE
            ..=code::STRING
                | code::HRTIME
                | code::BOOLEAN_VALUE
                | code::INT8
                | code::UINT8
                | code::DOUBLE
    )
}

impl Source for Xdr<'_> {
    fn begin_list(&mut self) -> Result<u32, DecodeError> {
        match self.u32()? {
            0 => self.u32(),
            version => bad("version", u64::from(version)),
        }
    }

    fn next_item(&mut self) -> Result<Item, DecodeError> {
        let start = self.position;
        let (encoded_size, decoded_size) = (self.u32()?, self.u32()?);
        if encoded_size == 0 && decoded_size == 0 {
            return Ok(Item::End);
        }
        let end = start + encoded_size as usize;
        let name = self.string()?;
        let (type_code, count) = (self.u32()?, self.u32()? as usize);
        if matches!(type_code, code::NVLIST | code::NVLIST_ARRAY) {
            self.need(count, LIST_SIZE_MIN)?;
            return Ok(Item::Nested {
                name,
                array: type_code == code::NVLIST_ARRAY,
                count,
                end: Some(end),
            });
        }
        let value = self.value(type_code, count)?;
        if self.position != end {
            return bad("encoded size", u64::from(encoded_size));
        }
        Ok(Item::Pair(name, value))
    }

    fn position(&self) -> usize {
        self.position
    }
}

/// Encodes a list with its 4-byte header.
pub(super) fn encode(list: &NvList) -> Vec<u8> {
    let mut out = vec![1, 1, 0, 0];
    begin(&mut out, list);
    // Each frame is a list being written: its pairs to come, the later lists of the same array,
    // and the position of the pair in the outer list whose size is filled in at the end.
    let mut frames = vec![(list.pairs.iter(), [].as_slice(), None)];
    while let Some((pairs, later, pair_start)) = frames.last_mut() {
        if let Some(pair) = pairs.next() {
            let start = out.len();
            begin_pair(&mut out, &pair.name, &pair.value);
            match &pair.value {
                NvValue::List(list) => {
                    begin(&mut out, list);
                    frames.push((list.pairs.iter(), &[], Some(start)));
                }
                NvValue::ListArray(lists) if !lists.is_empty() => {
                    begin(&mut out, &lists[0]);
                    frames.push((lists[0].pairs.iter(), &lists[1..], Some(start)));
                }
                value => {
                    encode_value(&mut out, value);
                    end_pair(&mut out, start);
                }
            }
            assert!(frames.len() <= DEPTH_MAX, "our lists are shallow");
            continue;
        }
        out.extend([0; 8]);
        if let Some((next, rest)) = later.split_first() {
            begin(&mut out, next);
            (*pairs, *later) = (next.pairs.iter(), rest);
        } else {
            if let Some(start) = *pair_start {
                end_pair(&mut out, start);
            }
            frames.pop();
        }
    }
    out
}

fn begin(out: &mut Vec<u8>, list: &NvList) {
    put(out, 0);
    put(out, list.flags);
}

fn put(out: &mut Vec<u8>, word: u32) {
    out.extend(word.to_be_bytes());
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes);
    out.resize(out.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, length(bytes.len()));
    put_padded(out, bytes);
}

fn length(length: usize) -> u32 {
    u32::try_from(length).expect("our lists are far smaller than 4 GiB")
}

/// Everything before the value; the encoded size is left for [`end_pair`].
fn begin_pair(out: &mut Vec<u8>, name: &[u8], value: &NvValue) {
    let (type_code, count, native_size) = shape(value);
    let header = (16 + name.len() + 1).next_multiple_of(8);
    let decoded = header + native_size.next_multiple_of(8);
    put(out, 0);
    put(out, length(decoded.next_multiple_of(8)));
    put_string(out, name);
    put(out, type_code);
    put(out, length(count));
}

fn end_pair(out: &mut [u8], start: usize) {
    let size = length(out.len() - start);
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// A value's type code, number of elements and size in the native encoding.
pub(super) fn shape(value: &NvValue) -> (u32, usize, usize) {
    let array = |code, count: usize, width: usize| (code, count, count * width);
    match value {
        NvValue::Boolean => (code::BOOLEAN, 0, 0),
        NvValue::Byte(_) => (code::BYTE, 1, 1),
        NvValue::Int16(_) => (code::INT16, 1, 2),
        NvValue::Uint16(_) => (code::UINT16, 1, 2),
        NvValue::Int32(_) => (code::INT32, 1, 4),
        NvValue::Uint32(_) => (code::UINT32, 1, 4),
        NvValue::Int64(_) => (code::INT64, 1, 8),
        NvValue::Uint64(_) => (code::UINT64, 1, 8),
        NvValue::String(bytes) => (code::STRING, 1, bytes.len() + 1),
        NvValue::ByteArray(values) => array(code::BYTE_ARRAY, values.len(), 1),
        NvValue::Int16Array(values) => array(code::INT16_ARRAY, values.len(), 2),
        NvValue::Uint16Array(values) => array(code::UINT16_ARRAY, values.len(), 2),
        NvValue::Int32Array(values) => array(code::INT32_ARRAY, values.len(), 4),
        NvValue::Uint32Array(values) => array(code::UINT32_ARRAY, values.len(), 4),
        NvValue::Int64Array(values) => array(code::INT64_ARRAY, values.len(), 8),
        NvValue::Uint64Array(values) => array(code::UINT64_ARRAY, values.len(), 8),
        NvValue::StringArray(strings) => {
            let bytes: usize = strings.iter().map(|string| string.len() + 1).sum();
            (code::STRING_ARRAY, strings.len(), 8 * strings.len() + bytes)
        }
        NvValue::HrTime(_) => (code::HRTIME, 1, 8),
        NvValue::List(_) => (code::NVLIST, 1, 24),
        NvValue::ListArray(lists) => array(code::NVLIST_ARRAY, lists.len(), 8 + 24),
        NvValue::BooleanValue(_) => (code::BOOLEAN_VALUE, 1, 4),
        NvValue::Int8(_) => (code::INT8, 1, 1),
        NvValue::Uint8(_) => (code::UINT8, 1, 1),
        NvValue::BooleanArray(values) => array(code::BOOLEAN_ARRAY, values.len(), 4),
        NvValue::Int8Array(values) => array(code::INT8_ARRAY, values.len(), 1),
        NvValue::Uint8Array(values) => array(code::UINT8_ARRAY, values.len(), 1),
        NvValue::Double(_) => (code::DOUBLE, 1, 8),
    }
}

fn encode_value(out: &mut Vec<u8>, value: &NvValue) {
    match value {
        NvValue::Boolean | NvValue::List(_) | NvValue::ListArray(_) => {}
        NvValue::Byte(value) | NvValue::Uint8(value) => put(out, u32::from(*value)),
        NvValue::Int8(value) => put(out, *value as u32),
        NvValue::Int16(value) => put(out, *value as u32),
        NvValue::Uint16(value) => put(out, u32::from(*value)),
        NvValue::Int32(value) => put(out, *value as u32),
        NvValue::Uint32(value) => put(out, *value),
        NvValue::Int64(value) | NvValue::HrTime(value) => out.extend(value.to_be_bytes()),
        NvValue::Uint64(value) | NvValue::Double(value) => out.extend(value.to_be_bytes()),
        NvValue::BooleanValue(value) => put(out, u32::from(*value)),
        NvValue::String(bytes) => put_string(out, bytes),
        NvValue::ByteArray(bytes) => put_padded(out, bytes),
        NvValue::StringArray(strings) => strings.iter().for_each(|bytes| put_string(out, bytes)),
        NvValue::Int8Array(values) => put_words(out, values.iter().map(|v| *v as u32)),
        NvValue::Uint8Array(values) => put_words(out, values.iter().map(|v| u32::from(*v))),
        NvValue::BooleanArray(values) => put_words(out, values.iter().map(|v| u32::from(*v))),
        NvValue::Int16Array(values) => put_words(out, values.iter().map(|v| *v as u32)),
        NvValue::Uint16Array(values) => put_words(out, values.iter().map(|v| u32::from(*v))),
        NvValue::Int32Array(values) => put_words(out, values.iter().map(|v| *v as u32)),
        NvValue::Uint32Array(values) => put_words(out, values.iter().copied()),
        NvValue::Int64Array(values) => put_long_words(out, values.iter().map(|v| *v as u64)),
        NvValue::Uint64Array(values) => put_long_words(out, values.iter().copied()),
    }
}

/// A counted array of 4-byte words; an empty one has no bytes at all, not even the count.
fn put_words(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = u32>) {
    if words.len() > 0 {
        put(out, length(words.len()));
        words.for_each(|word| put(out, word));
    }
}

/// A counted array of 8-byte words.
fn put_long_words(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = u64>) {
    if words.len() > 0 {
        put(out, length(words.len()));
        words.for_each(|word| out.extend(word.to_be_bytes()));
    }
}
