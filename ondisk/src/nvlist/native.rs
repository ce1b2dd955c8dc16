//! The native encoding of name-value lists (format/1a 1, "Native list").
//!
//! ```text
//! list: version (i32)  flags (u32)  pairs  terminator (4 zero bytes)
//! pair:  0 size of the pair (i32)   4 name length with NUL (i16)   6 zero (i16)
//!        8 elements (i32)          12 type (i32)   16 name, NUL, padding to 8, value, padding
//! ```
//!
//! An embedded list leaves a 24-byte stub {version, flags, 8 bytes, flag, 4 bytes} as its pair's
//! value; its own pairs and terminator follow the pair. Integers have the writer's byte order,
//! which the packed header tells.

use super::items::{Item, STRUCTURE, Source, bad, code, decode_items};
use super::list::{NvList, NvValue};
use crate::DecodeError;
use crate::wire;

const PAIR_HEADER_SIZE: usize = 16;
const STUB_SIZE: usize = 24;

/// The writer's byte order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// Decodes a list without its 4-byte header.
pub(super) fn decode(bytes: &[u8], order: Order) -> Result<NvList, DecodeError> {
    let reader = Reader { bytes, order };
    let (version, flags) = (reader.u32(0)?, reader.u32(4)?);
    if version != 0 {
        return bad("version", u64::from(version));
    }
    let mut source = Native {
        reader,
        position: 8,
        nested_flags: 0,
    };
    decode_items(&mut source, flags)
}

/// Reads in the writer's byte order.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    order: Order,
}

impl<'a> Reader<'a> {
    fn u16(&self, offset: usize) -> Result<u16, DecodeError> {
        let bytes = wire::array(self.bytes, offset, STRUCTURE)?;
        Ok(match self.order {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        })
    }

    fn u32(&self, offset: usize) -> Result<u32, DecodeError> {
        let bytes = wire::array(self.bytes, offset, STRUCTURE)?;
        Ok(match self.order {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        })
    }

    fn u64(&self, offset: usize) -> Result<u64, DecodeError> {
        let bytes = wire::array(self.bytes, offset, STRUCTURE)?;
        Ok(match self.order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }

    fn u8(&self, offset: usize) -> Result<u8, DecodeError> {
        let [byte] = wire::array(self.bytes, offset, STRUCTURE)?;
        Ok(byte)
    }

    /// The bytes from `offset` to the next NUL, which must be there.
    fn string(&self, offset: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.bytes.get(offset..).unwrap_or(&[]);
        match rest.iter().position(|byte| *byte == 0) {
            Some(length) => Ok(&rest[..length]),
            None => bad("string without NUL at", offset as u64),
        }
    }

    /// `count` elements of `width` bytes from the start.
    fn array<T>(
        &self,
        count: usize,
        width: usize,
        read: impl Fn(&Self, usize) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        if count > self.bytes.len() / width {
            return bad("number of elements", count as u64);
        }
        (0..count).map(|i| read(self, i * width)).collect()
    }

    fn strings(&self, count: usize) -> Result<Vec<Vec<u8>>, DecodeError> {
        if count > self.bytes.len() / 9 {
            return bad("number of elements", count as u64);
        }
        let mut offset = count * 8;
        let mut strings = Vec::with_capacity(count);
        for _ in 0..count {
            let string = self.string(offset)?;
            offset += string.len() + 1;
            strings.push(string.to_vec());
        }
        Ok(strings)
    }

    /// The value that these bytes are.
    fn value(&self, type_code: u32, count: usize) -> Result<NvValue, DecodeError> {
        Ok(match type_code {
            code::BOOLEAN => NvValue::Boolean,
            code::BYTE => NvValue::Byte(self.u8(0)?),
            code::INT16 => NvValue::Int16(self.u16(0)? as i16),
            code::UINT16 => NvValue::Uint16(self.u16(0)?),
            code::INT32 => NvValue::Int32(self.u32(0)? as i32),
            code::UINT32 => NvValue::Uint32(self.u32(0)?),
            code::INT64 => NvValue::Int64(self.u64(0)? as i64),
            code::UINT64 => NvValue::Uint64(self.u64(0)?),
            code::STRING => NvValue::String(self.string(0)?.to_vec()),
            code::HRTIME => NvValue::HrTime(self.u64(0)? as i64),
            code::BOOLEAN_VALUE => NvValue::BooleanValue(self.u32(0)? != 0),
            code::INT8 => NvValue::Int8(self.u8(0)? as i8),
            code::UINT8 => NvValue::Uint8(self.u8(0)?),
            code::DOUBLE => NvValue::Double(self.u64(0)?),
            _ => return self.array_value(type_code, count),
        })
    }

    fn array_value(&self, type_code: u32, count: usize) -> Result<NvValue, DecodeError> {
        let bytes = || wire::slice(self.bytes, 0, count, STRUCTURE).map(<[u8]>::to_vec);
        Ok(match type_code {
            code::BYTE_ARRAY => NvValue::ByteArray(bytes()?),
            code::UINT8_ARRAY => NvValue::Uint8Array(bytes()?),
            code::INT8_ARRAY => {
                NvValue::Int8Array(self.array(count, 1, |r, at| Ok(r.u8(at)? as _))?)
            }
            code::INT16_ARRAY => {
                NvValue::Int16Array(self.array(count, 2, |r, at| Ok(r.u16(at)? as _))?)
            }
            code::UINT16_ARRAY => NvValue::Uint16Array(self.array(count, 2, Self::u16)?),
            code::INT32_ARRAY => {
                NvValue::Int32Array(self.array(count, 4, |r, at| Ok(r.u32(at)? as _))?)
            }
            code::UINT32_ARRAY => NvValue::Uint32Array(self.array(count, 4, Self::u32)?),
            code::INT64_ARRAY => {
                NvValue::Int64Array(self.array(count, 8, |r, at| Ok(r.u64(at)? as _))?)
            }
            code::UINT64_ARRAY => NvValue::Uint64Array(self.array(count, 8, Self::u64)?),
            code::STRING_ARRAY => NvValue::StringArray(self.strings(count)?),
            code::BOOLEAN_ARRAY => {
                NvValue::BooleanArray(self.array(count, 4, |r, at| Ok(r.u32(at)? != 0))?)
            }
            _ => return bad("type", u64::from(type_code)),
        })
    }
}

struct Native<'a> {
    reader: Reader<'a>,
    position: usize,
    /// The flags in the stub of the pair read last.
    nested_flags: u32,
}

impl Source for Native<'_> {
    fn begin_list(&mut self) -> Result<u32, DecodeError> {
        Ok(self.nested_flags)
    }

    fn next_item(&mut self) -> Result<Item, DecodeError> {
        let start = self.position;
        let size = self.reader.u32(start)? as usize;
        if size == 0 {
            self.position += 4;
            return Ok(Item::End);
        }
        let pair = Reader {
            bytes: wire::slice(self.reader.bytes, start, size, STRUCTURE)?,
            order: self.reader.order,
        };
        let name_length = usize::from(pair.u16(4)?);
        let (count, type_code) = (pair.u32(8)? as usize, pair.u32(12)?);
        let name = wire::slice(pair.bytes, PAIR_HEADER_SIZE, name_length, STRUCTURE)?;
        let Some((0, name)) = name.split_last() else {
            return bad("name length", name_length as u64);
        };
        let value_start = (PAIR_HEADER_SIZE + name_length).next_multiple_of(8);
        let value = Reader {
            bytes: pair.bytes.get(value_start..).unwrap_or(&[]),
            order: self.reader.order,
        };
        self.position += size;
        let name = name.to_vec();
        if !matches!(type_code, code::NVLIST | code::NVLIST_ARRAY) {
            return Ok(Item::Pair(name, value.value(type_code, count)?));
        }
        let array = type_code == code::NVLIST_ARRAY;
        let stubs_start = if array { count.saturating_mul(8) } else { 0 };
        let stubs = count.saturating_mul(STUB_SIZE);
        wire::slice(value.bytes, stubs_start, stubs, STRUCTURE)?;
        if count > 0 {
            self.nested_flags = value.u32(stubs_start + 4)?;
        }
        Ok(Item::Nested {
            name,
            array,
            count,
            end: None,
        })
    }

    fn position(&self) -> usize {
        self.position
    }
}
