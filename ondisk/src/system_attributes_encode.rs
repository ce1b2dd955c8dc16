//! Writing system attributes: the way back of [`crate::system_attributes`] (format/3b 2).
//!
//! A file's attributes have an order, in which they fill the bonus buffer and, from the first
//! that no longer fits, the spill block; each part is a buffer whose header names the layout of
//! exactly its sequence. A value that keeps its length is replaced in place ([`patch`]). Any other
//! change decodes the values, changes the list ([`SaValues`]), and lays it out again. The caller
//! registers a layout that does not exist yet, since it owns the tables' ZAPs.

use crate::DecodeError;
use crate::system_attributes::{
    Attribute, AttributeDefinition, LAYOUT_EMPTY, LAYOUT_MAX, MAGIC, SaHeader, SaTables,
    ValueByteswap,
};
use std::ops::Range;

/// Bytes that a spill block's pointer takes from the bonus buffer.
pub const SPILL_POINTER_SIZE: usize = 128;
/// The most bytes of a spill block.
pub const SPILL_SIZE_MAX: usize = 128 << 10;

/// The longest value: lengths are stored in 16 bits.
pub const VALUE_LENGTH_MAX: usize = u16::MAX as usize;

const HEADER_SIZE_MAX: usize = 63 * 8;
const LENGTHS_OFFSET: usize = 6;

impl Attribute {
    /// The definition that a new file system registers.
    pub fn standard_definition(self) -> AttributeDefinition {
        let (length, byteswap) = match self {
            Self::Atime | Self::Mtime | Self::Ctime | Self::Crtime => (16, ValueByteswap::U64),
            Self::Pad => (32, ValueByteswap::U64),
            Self::ZnodeAcl => (88, ValueByteswap::U8),
            Self::Symlink | Self::Dxattr => (0, ValueByteswap::U8),
            Self::Scanstamp => (32, ValueByteswap::U8),
            Self::DaclAces => (0, ValueByteswap::Acl),
            _ => (8, ValueByteswap::U64),
        };
        let position = Self::ALL.iter().position(|each| *each == self);
        AttributeDefinition {
            number: position.expect("all are listed") as u16,
            length,
            byteswap,
        }
    }

    /// The attributes that a new file system registers: all but the counter of OpenZFS 2.4.
    pub fn registered() -> &'static [Self] {
        &Self::ALL[..Self::ALL.len() - 1]
    }
}

impl SaTables {
    /// The tables of a new file system: every attribute registered, no layout yet.
    pub fn standard() -> Self {
        let mut tables = Self::default();
        for attribute in Attribute::registered() {
            let definition = attribute.standard_definition().encode();
            let added = tables.add_attribute(attribute.name(), definition);
            added.expect("the standard definitions are valid");
        }
        tables
    }

    /// The number of the layout of exactly these attributes.
    pub fn layout_number(&self, attributes: &[u16]) -> Option<u16> {
        if attributes.is_empty() {
            return Some(LAYOUT_EMPTY);
        }
        let mut layouts = self.layouts();
        let found = layouts.find(|(_, layout)| *layout == attributes);
        found.map(|(number, _)| number)
    }

    /// The number for a layout that is yet to be added; `None` when all are in use.
    pub fn next_layout_number(&self) -> Option<u16> {
        let last = self.layouts().map(|(number, _)| number).max();
        let next = last.unwrap_or(LAYOUT_EMPTY).max(LAYOUT_EMPTY) + 1;
        (next <= LAYOUT_MAX).then_some(next)
    }
}

/// A file's attributes in their order, taken out of their buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaValues {
    values: Vec<(u16, Vec<u8>)>,
}

impl SaValues {
    /// No attribute.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the values of a bonus buffer or spill block.
    pub fn take_buffer(&mut self, tables: &SaTables, buffer: &[u8]) -> Result<(), DecodeError> {
        for value in tables.values(buffer)? {
            self.values.push((value.number, value.bytes().into_owned()));
        }
        Ok(())
    }

    /// The attributes' numbers in order.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = u16> {
        self.values.iter().map(|(number, _)| *number)
    }

    /// The value of an attribute.
    pub fn get(&self, number: u16) -> Option<&[u8]> {
        let found = self.values.iter().find(|(each, _)| *each == number);
        found.map(|(_, bytes)| bytes.as_slice())
    }

    /// Sets a value: in its place if it is there, else at the end.
    pub fn set(&mut self, number: u16, bytes: &[u8]) {
        match self.values.iter_mut().find(|(each, _)| *each == number) {
            Some((_, value)) => {
                value.clear();
                value.extend_from_slice(bytes);
            }
            None => self.values.push((number, bytes.to_vec())),
        }
    }

    /// Sets a value right behind attribute `before`, which must be there.
    pub fn insert_behind(&mut self, before: u16, number: u16, bytes: &[u8]) {
        let position = self.values.iter().position(|(each, _)| *each == before);
        let at = position.map_or(self.values.len(), |position| position + 1);
        self.values.insert(at, (number, bytes.to_vec()));
    }

    /// Removes an attribute; whether it was there.
    pub fn remove(&mut self, number: u16) -> bool {
        let before = self.values.len();
        self.values.retain(|(each, _)| *each != number);
        self.values.len() < before
    }

    /// How many of the attributes stand in the bonus buffer, which has `space` bytes when there
    /// is no spill block; the others go to the spill block.
    pub fn split(&self, tables: &SaTables, space: usize) -> usize {
        let (mut size, mut variable) = (0, 0);
        let mut fit_beside_pointer = 0;
        for (index, (number, bytes)) in self.values.iter().enumerate() {
            variable += usize::from(is_variable(tables, *number));
            size += bytes.len().next_multiple_of(8);
            let end = size + header_size(variable);
            if end > space {
                return fit_beside_pointer;
            }
            if end <= space.saturating_sub(SPILL_POINTER_SIZE) && fit_beside_pointer == index {
                fit_beside_pointer = index + 1;
            }
        }
        self.values.len()
    }

    /// The buffer of the attributes `range` under the number of their layout; `None` if it would
    /// be larger than any buffer can be.
    pub fn encode(&self, tables: &SaTables, layout: u16, range: Range<usize>) -> Option<Vec<u8>> {
        let values = &self.values[range];
        let variable = |(number, _): &&(u16, Vec<u8>)| is_variable(tables, *number);
        let header = header_size(values.iter().filter(variable).count());
        let size: usize = values
            .iter()
            .map(|(_, bytes)| bytes.len().next_multiple_of(8))
            .sum();
        let too_long = values.iter().any(|(_, b)| b.len() > VALUE_LENGTH_MAX);
        if header > HEADER_SIZE_MAX || size + header > SPILL_SIZE_MAX || too_long {
            return None;
        }
        let mut buffer = Vec::with_capacity(header + size);
        buffer.extend(MAGIC.to_le_bytes());
        buffer.extend((layout | ((header / 8) as u16) << 10).to_le_bytes());
        for (_, bytes) in values.iter().filter(variable) {
            buffer.extend((bytes.len() as u16).to_le_bytes());
        }
        buffer.resize(header, 0);
        for (_, bytes) in values {
            buffer.extend_from_slice(bytes);
            buffer.resize(buffer.len().next_multiple_of(8), 0);
        }
        Some(buffer)
    }
}

fn is_variable(tables: &SaTables, number: u16) -> bool {
    tables
        .definition(number)
        .is_some_and(|definition| definition.length == 0)
}

/// Bytes of the header before so many attributes of variable length.
fn header_size(variable: usize) -> usize {
    (LENGTHS_OFFSET + 2 * variable.max(1)).next_multiple_of(8)
}

/// Replaces a value in place. False, and nothing is changed, if the buffer does not have the
/// attribute, has it in another length, or is of the other byte order.
pub fn patch(
    tables: &SaTables,
    buffer: &mut [u8],
    attribute: Attribute,
    bytes: &[u8],
) -> Result<bool, DecodeError> {
    let Some(number) = tables.number(attribute) else {
        return Ok(false);
    };
    match place(tables, buffer, number)? {
        Some(range) if range.len() == bytes.len() => {
            buffer[range].copy_from_slice(bytes);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Where an attribute's value stands in a little-endian buffer.
fn place(
    tables: &SaTables,
    buffer: &[u8],
    wanted: u16,
) -> Result<Option<Range<usize>>, DecodeError> {
    let header = SaHeader::decode(buffer)?;
    let Some(layout) = tables.layout(header.layout) else {
        return Ok(None);
    };
    if header.big_endian {
        return Ok(None);
    }
    let (mut offset, mut variable) = (header.size, 0);
    for number in layout {
        let length = match tables.definition(*number).map(|each| each.length) {
            None => return Ok(None),
            Some(0) => {
                variable += 1;
                header.variable_length(buffer, variable - 1)?
            }
            Some(length) => usize::from(length),
        };
        if *number == wanted {
            let end = offset + length;
            return Ok((end <= buffer.len()).then_some(offset..end));
        }
        offset += length.next_multiple_of(8);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(attribute: Attribute) -> u16 {
        attribute.standard_definition().number
    }

    fn tables() -> SaTables {
        let mut tables = SaTables::standard();
        let layout = [Attribute::Mode, Attribute::DaclAces, Attribute::Size].map(number);
        tables.add_layout("2", layout.to_vec()).expect("valid");
        tables.add_layout("3", vec![19, 17]).expect("valid");
        tables
    }

    fn values() -> SaValues {
        let mut values = SaValues::new();
        values.set(5, &0o100_644_u64.to_le_bytes());
        values.set(19, &[7; 20]);
        values.set(6, &9_u64.to_le_bytes());
        values
    }

    #[test]
    fn standard_definitions_are_the_usual_numbers() {
        assert_eq!(number(Attribute::Atime), 0);
        assert_eq!(number(Attribute::ProjectId), 21);
        assert_eq!(Attribute::registered().len(), 22);
        let aces = Attribute::DaclAces.standard_definition();
        assert_eq!(aces.encode(), 4 << 16 | 19);
        assert_eq!(
            Attribute::Mtime.standard_definition().encode(),
            16 << 24 | 1
        );
    }

    #[test]
    fn encoding_is_inverse() {
        let (tables, values) = (tables(), values());
        let layout: Vec<u16> = values.numbers().collect();
        assert_eq!(tables.layout_number(&layout), Some(2));
        let buffer = values.encode(&tables, 2, 0..3).expect("small");
        assert_eq!(buffer.len(), 8 + 8 + 24 + 8);
        assert_eq!(buffer[..8], [0x5a, 0x50, 0x2f, 0, 2, 4, 20, 0]);
        let mut again = SaValues::new();
        again.take_buffer(&tables, &buffer).expect("valid");
        assert_eq!(again, values);
        let mut two = SaValues::new();
        two.set(19, &[1; 8]);
        two.set(17, b"target");
        let buffer = two.encode(&tables, 3, 0..2).expect("small");
        assert_eq!(buffer.len(), 16 + 8 + 8, "two lengths need a larger header");
        assert_eq!(tables.next_layout_number(), Some(4));
        assert_eq!(SaTables::standard().next_layout_number(), Some(2));
    }

    #[test]
    fn values_are_replaced_in_place() {
        let (tables, mut values) = (tables(), values());
        let mut buffer = values.encode(&tables, 2, 0..3).expect("small");
        let size = 1000_u64.to_le_bytes();
        assert_eq!(
            patch(&tables, &mut buffer, Attribute::Size, &size),
            Ok(true)
        );
        values.set(6, &size);
        assert_eq!(values.encode(&tables, 2, 0..3), Some(buffer.clone()));
        let aces = patch(&tables, &mut buffer, Attribute::DaclAces, &[1; 21]);
        assert_eq!(aces, Ok(false), "another length");
        assert_eq!(
            patch(&tables, &mut buffer, Attribute::Uid, &size),
            Ok(false)
        );
        assert!(patch(&tables, &mut buffer[..7], Attribute::Uid, &size).is_err());
    }

    #[test]
    fn what_does_not_fit_spills() {
        let tables = tables();
        let mut values = SaValues::new();
        for number in [5, 6, 4, 12, 13, 7, 11] {
            values.set(number, &[0; 8]);
        }
        for (space, expected) in [(64, 7), (320, 7), (63, 0), (192, 7), (60 + 128, 7)] {
            assert_eq!(values.split(&tables, space), expected, "{space}");
        }
        values.set(20, &[0; 300]);
        assert_eq!(values.split(&tables, 320), 7);
        assert_eq!(values.split(&tables, 64 + 304), 8);
        values.set(17, &[0; 16]);
        assert_eq!(
            values.split(&tables, 320),
            7,
            "what follows a spilled one spills"
        );
        assert!(values.encode(&tables, 2, 7..9).is_some());
        values.set(20, &[0; VALUE_LENGTH_MAX + 1]);
        assert_eq!(values.encode(&tables, 2, 7..9), None);
    }
}
