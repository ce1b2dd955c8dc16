//! The list in memory: its pairs, the types of their values, and what a reader asks for.

use crate::DecodeError;
use std::fmt;

/// A repeated name replaces the earlier pair (`NV_UNIQUE_NAME`).
pub const FLAG_UNIQUE_NAME: u32 = 1;

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
    pub(super) pairs: Vec<NvPair>,
}

impl Default for NvList {
    fn default() -> Self {
        Self::new()
    }
}

impl NvList {
    /// An empty list with unique names.
    pub fn new() -> Self {
        Self::with_flags(FLAG_UNIQUE_NAME)
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

    /// An empty list with these flags.
    pub(super) fn with_flags(flags: u32) -> Self {
        Self {
            flags,
            pairs: Vec::new(),
        }
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
