//! Decoding log records: one after the other, and which fields and variable parts the body of each
//! type has.

use super::record::{
    AclBody, Create, EXTENDED_ATTRIBUTES_SIZE, ExtendedAttributes, HEADER_SIZE, NewObject, Record,
    RecordBody, STRUCTURE, SetAttributes, TYPE_CASE_INSENSITIVE, Whiteout, WriteData,
    record_type as of,
};
use crate::block_pointer::BLOCK_POINTER_SIZE;
use crate::byteswap::{swap_aces, swap_array, swap_old_aces};
use crate::wire;
use crate::{BlockPointer, DecodeError};
use cenote_base::{ObjectId, Txg};

const REMOVE_NAME: usize = 40;
const LINK_NAME: usize = 48;
const RENAME_NAMES: usize = 48;
const WHITEOUT_NAMES: usize = 112;
const BLOCK_POINTER_OFFSET: usize = 64;
pub(super) const WRITE_DATA: usize = 192;
const CREATE_DATA: usize = 104;
const CREATE_ACL_DATA: usize = 144;
const TRUNCATE_END: usize = 56;
const SETATTR_DATA: usize = 112;
const ACL_V0_DATA: usize = 48;
const ACL_DATA: usize = 80;
const SAXATTR_NAME: usize = 48;
const CLONE_POINTERS: usize = 72;
const OLD_ACE_SIZE: u64 = 12;
/// Bits of setattr's mask that say that extended attributes follow: on Linux, elsewhere.
const XVATTR_LINUX: u64 = 1 << 31;
const XVATTR_OTHER: u64 = 1 << 16;
/// What an extended attribute block starts with: the number of words in its bitmap.
pub(super) const XVATTR_WORDS: u32 = 3;

/// A record with a position for its variable parts.
struct Fields<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Fields<'a> {
    fn word(&self, offset: usize) -> Result<u64, DecodeError> {
        wire::u64_le(self.bytes, offset, STRUCTURE)
    }

    fn object(&self, offset: usize) -> Result<ObjectId, DecodeError> {
        self.word(offset).map(ObjectId)
    }

    /// Two words: of times, seconds and nanoseconds.
    fn pair(&self, offset: usize) -> Result<(u64, u64), DecodeError> {
        Ok((self.word(offset)?, self.word(offset + 8)?))
    }

    /// The next `length` bytes.
    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = wire::slice(self.bytes, self.position, length, STRUCTURE)?;
        self.position += length;
        Ok(bytes)
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or(&[])
    }

    /// The bytes up to the next NUL, which is skipped.
    fn name(&mut self) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            return bad("name without NUL at", self.position as u64);
        };
        self.position += length + 1;
        Ok(&rest[..length])
    }

    /// `count` NUL-terminated strings, with their NULs.
    fn strings(&mut self, count: u64) -> Result<&'a [u8], DecodeError> {
        let start = self.position;
        if count > self.rest().len() as u64 {
            return bad("number of domains", count);
        }
        for _ in 0..count {
            self.name()?;
        }
        wire::slice(self.bytes, start, self.position - start, STRUCTURE)
    }

    fn attributes(&mut self) -> Result<ExtendedAttributes, DecodeError> {
        let bytes = self.take(EXTENDED_ATTRIBUTES_SIZE as u64)?;
        let words = wire::u32_le(bytes, 0, STRUCTURE)?;
        if words != XVATTR_WORDS {
            return bad("words of the attribute bitmap", u64::from(words));
        }
        Ok(ExtendedAttributes {
            requested: wire::u32_le(bytes, 4, STRUCTURE)?,
            values: wire::u64_le(bytes, 16, STRUCTURE)?,
            crtime: (
                wire::u64_le(bytes, 24, STRUCTURE)?,
                wire::u64_le(bytes, 32, STRUCTURE)?,
            ),
            scanstamp: wire::array(bytes, 40, STRUCTURE)?,
        })
    }

    /// Entries and ids whose counts stand in five words at `counts`; also the domain count.
    fn acl(&mut self, counts: usize) -> Result<(AclBody<'a>, u64), DecodeError> {
        let (count, domains) = self.pair(counts)?;
        let (ids, acl_bytes) = self.pair(counts + 16)?;
        let entries = self.take(acl_bytes)?;
        self.position = self.position.next_multiple_of(super::RECORD_ALIGNMENT);
        let body = AclBody {
            count,
            flags: self.word(counts + 32)?,
            entries,
            ids: self.take(ids.saturating_mul(8))?,
        };
        Ok((body, domains))
    }
}

/// Decodes the body of a record of this type; `bytes` is the whole record.
pub(super) fn decode(bytes: &[u8], record_type: u64) -> Result<RecordBody<'_>, DecodeError> {
    let position = HEADER_SIZE;
    let mut fields = Fields { bytes, position };
    match record_type {
        of::CREATE..=of::SYMLINK | of::CREATE_ACL..=of::MKDIR_ACL_ATTR => {
            create(fields, record_type).map(RecordBody::Create)
        }
        of::REMOVE | of::RMDIR => {
            fields.position = REMOVE_NAME;
            Ok(RecordBody::Remove {
                directory: fields.object(32)?,
                name: fields.name()?,
            })
        }
        of::LINK => {
            fields.position = LINK_NAME;
            Ok(RecordBody::Link {
                directory: fields.object(32)?,
                object: fields.object(40)?,
                name: fields.name()?,
            })
        }
        of::RENAME | of::RENAME_EXCHANGE | of::RENAME_WHITEOUT => rename(fields, record_type),
        of::WRITE | of::WRITE2 => write(fields, record_type),
        of::TRUNCATE => Ok(RecordBody::Truncate {
            object: fields.object(32)?,
            offset: fields.word(40)?,
            length: fields.word(48)?,
        }),
        of::SETATTR => set_attributes(fields).map(RecordBody::SetAttributes),
        of::ACL_V0 | of::ACL => acl(fields, record_type),
        of::SETSAXATTR => set_xattr(fields),
        of::CLONE_RANGE => clone_range(fields),
        _ => bad("type", record_type),
    }
}

/// How many domain strings a record has for its ids: one for each index other than 0.
fn domain_count(uid: u64, gid: u64) -> u64 {
    match (uid >> 32, gid >> 32) {
        (0, 0) => 0,
        (uid, gid) if uid == 0 || gid == 0 || uid == gid => 1,
        _ => 2,
    }
}

pub(super) fn has_acl(record_type: u64) -> bool {
    matches!(
        record_type,
        of::CREATE_ACL | of::CREATE_ACL_ATTR | of::MKDIR_ACL | of::MKDIR_ACL_ATTR
    )
}

pub(super) fn has_attributes(record_type: u64) -> bool {
    matches!(
        record_type,
        of::CREATE_ATTR | of::CREATE_ACL_ATTR | of::MKDIR_ATTR | of::MKDIR_ACL_ATTR
    )
}

fn create(mut fields: Fields<'_>, record_type: u64) -> Result<Create<'_>, DecodeError> {
    let (uid, gid) = fields.pair(56)?;
    fields.position = match has_acl(record_type) {
        true => CREATE_ACL_DATA,
        false => CREATE_DATA,
    };
    let attributes = match has_attributes(record_type) {
        true => Some(fields.attributes()?),
        false => None,
    };
    let (acl, domains) = match has_acl(record_type) {
        true => fields
            .acl(CREATE_DATA)
            .map(|(acl, count)| (Some(acl), count))?,
        false => (None, domain_count(uid, gid)),
    };
    let domains = fields.strings(domains)?;
    Ok(Create {
        directory: fields.object(32)?,
        new: NewObject::decode(fields.word(40)?),
        mode: fields.word(48)?,
        uid,
        gid,
        generation: fields.word(72)?,
        crtime: fields.pair(80)?,
        device: fields.word(96)?,
        attributes,
        acl,
        domains,
        name: match record_type {
            of::MKXATTR => &[],
            _ => fields.name()?,
        },
        target: match record_type {
            of::SYMLINK => Some(fields.name()?),
            _ => None,
        },
    })
}

fn rename(mut fields: Fields<'_>, record_type: u64) -> Result<RecordBody<'_>, DecodeError> {
    fields.position = RENAME_NAMES;
    let whiteout = match record_type {
        of::RENAME_WHITEOUT => {
            fields.position = WHITEOUT_NAMES;
            let (uid, gid) = fields.pair(64)?;
            Some(Whiteout {
                new: NewObject::decode(fields.word(48)?),
                mode: fields.word(56)?,
                uid,
                gid,
                generation: fields.word(80)?,
                crtime: fields.pair(88)?,
                device: fields.word(104)?,
            })
        }
        _ => None,
    };
    Ok(RecordBody::Rename {
        source_directory: fields.object(32)?,
        target_directory: fields.object(40)?,
        source: fields.name()?,
        target: fields.name()?,
        whiteout,
    })
}

fn write(mut fields: Fields<'_>, record_type: u64) -> Result<RecordBody<'_>, DecodeError> {
    let length = fields.word(48)?;
    let pointer = wire::slice(
        fields.bytes,
        BLOCK_POINTER_OFFSET,
        BLOCK_POINTER_SIZE,
        STRUCTURE,
    )?;
    fields.position = WRITE_DATA;
    let data = if record_type == of::WRITE2 {
        WriteData::SizeOnly
    } else if fields.bytes.len() == WRITE_DATA && length > 0 {
        WriteData::Indirect(BlockPointer::decode(pointer)?)
    } else {
        WriteData::Immediate(fields.take(length)?)
    };
    Ok(RecordBody::Write {
        object: fields.object(32)?,
        offset: fields.word(40)?,
        length,
        data,
    })
}

fn set_attributes(mut fields: Fields<'_>) -> Result<SetAttributes<'_>, DecodeError> {
    let (object, mask) = (fields.object(32)?, fields.word(40)?);
    let (uid, gid) = fields.pair(56)?;
    fields.position = SETATTR_DATA;
    let attributes = match mask & (XVATTR_LINUX | XVATTR_OTHER) != 0 {
        true => Some(fields.attributes()?),
        false => None,
    };
    Ok(SetAttributes {
        object,
        mask,
        mode: fields.word(48)?,
        uid,
        gid,
        size: fields.word(72)?,
        atime: fields.pair(80)?,
        mtime: fields.pair(96)?,
        attributes,
        domains: fields.strings(domain_count(uid, gid))?,
    })
}

fn acl(mut fields: Fields<'_>, record_type: u64) -> Result<RecordBody<'_>, DecodeError> {
    let object = fields.object(32)?;
    if record_type == of::ACL_V0 {
        let count = fields.word(40)?;
        fields.position = ACL_V0_DATA;
        let acl = AclBody {
            count,
            flags: 0,
            entries: fields.take(count.saturating_mul(OLD_ACE_SIZE))?,
            ids: &[],
        };
        return Ok(RecordBody::Acl {
            object,
            acl,
            is_old: true,
            domains: &[],
        });
    }
    fields.position = ACL_DATA;
    let (acl, domains) = fields.acl(40)?;
    Ok(RecordBody::Acl {
        object,
        acl,
        is_old: false,
        domains: fields.strings(domains)?,
    })
}

fn set_xattr(mut fields: Fields<'_>) -> Result<RecordBody<'_>, DecodeError> {
    let length = fields.word(40)?;
    fields.position = SAXATTR_NAME;
    Ok(RecordBody::SetXattr {
        object: fields.object(32)?,
        name: fields.name()?,
        value: match length {
            0 => None,
            length => Some(fields.take(length)?),
        },
    })
}

fn clone_range(mut fields: Fields<'_>) -> Result<RecordBody<'_>, DecodeError> {
    let count = fields.word(64)?;
    fields.position = CLONE_POINTERS;
    Ok(RecordBody::CloneRange {
        object: fields.object(32)?,
        offset: fields.word(40)?,
        length: fields.word(48)?,
        block_size: fields.word(56)?,
        pointers: fields.take(count.saturating_mul(BLOCK_POINTER_SIZE as u64))?,
    })
}

/// Swaps every record in `bytes`, big-endian to little-endian.
pub fn swap(mut bytes: &mut [u8]) -> Result<(), DecodeError> {
    while !bytes.is_empty() {
        if bytes.len() < HEADER_SIZE {
            return bad("length of the last record", bytes.len() as u64);
        }
        swap_array::<8>(&mut bytes[..HEADER_SIZE]);
        let length = record_length(bytes)?;
        let (record, rest) = bytes.split_at_mut(length);
        swap_body(record)?;
        bytes = rest;
    }
    Ok(())
}

/// Swaps what follows the header, by the type, which is swapped already.
fn swap_body(record: &mut [u8]) -> Result<(), DecodeError> {
    let record_type = wire::u64_le(record, 0, STRUCTURE)? & !TYPE_CASE_INSENSITIVE;
    let end = match record_type {
        of::CREATE..=of::SYMLINK | of::CREATE_ATTR | of::MKDIR_ATTR => CREATE_DATA,
        of::CREATE_ACL | of::CREATE_ACL_ATTR | of::MKDIR_ACL | of::MKDIR_ACL_ATTR => {
            CREATE_ACL_DATA
        }
        of::REMOVE | of::RMDIR => REMOVE_NAME,
        of::LINK | of::RENAME | of::RENAME_EXCHANGE => LINK_NAME,
        of::RENAME_WHITEOUT => WHITEOUT_NAMES,
        of::WRITE | of::WRITE2 => WRITE_DATA,
        of::TRUNCATE => TRUNCATE_END,
        of::SETATTR => SETATTR_DATA,
        of::ACL_V0 => ACL_V0_DATA,
        of::ACL => ACL_DATA,
        of::SETSAXATTR => SAXATTR_NAME,
        of::CLONE_RANGE => record.len(),
        _ => return bad("type", record_type),
    };
    let Some(fixed) = record.get_mut(HEADER_SIZE..end) else {
        return bad("length", record.len() as u64);
    };
    swap_array::<8>(fixed);
    let mut position = end;
    let mask = match record_type {
        of::SETATTR => wire::u64_le(record, 40, STRUCTURE)?,
        _ => 0,
    };
    if has_attributes(record_type) || mask & (XVATTR_LINUX | XVATTR_OTHER) != 0 {
        swap_attributes(record, position);
        position += EXTENDED_ATTRIBUTES_SIZE;
    }
    let counts = match record_type {
        of::ACL => 40,
        of::ACL_V0 => {
            swap_old_aces(&mut record[position..]);
            return Ok(());
        }
        record_type if has_acl(record_type) => CREATE_DATA,
        _ => return Ok(()),
    };
    swap_acl(record, counts, position)
}

fn swap_attributes(record: &mut [u8], position: usize) {
    if let Some(bytes) = record.get_mut(position..position + EXTENDED_ATTRIBUTES_SIZE) {
        swap_array::<4>(&mut bytes[..16]);
        swap_array::<8>(&mut bytes[16..40]);
    }
}

fn swap_acl(record: &mut [u8], counts: usize, position: usize) -> Result<(), DecodeError> {
    let mut fields = Fields {
        bytes: record,
        position,
    };
    let (acl, _) = fields.acl(counts)?;
    let (entries, ids) = (acl.entries.len(), acl.ids.len());
    let ids_start = fields.position - ids;
    swap_aces(&mut record[position..position + entries]);
    swap_array::<8>(&mut record[ids_start..ids_start + ids]);
    Ok(())
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;

/// The length of the record at the start of `bytes`, which it does not exceed.
pub(super) fn record_length(bytes: &[u8]) -> Result<usize, DecodeError> {
    let length = wire::u64_le(bytes, 8, STRUCTURE)?;
    let fits = usize::try_from(length).ok().filter(|length| {
        (HEADER_SIZE..=bytes.len()).contains(length)
            && length.is_multiple_of(super::RECORD_ALIGNMENT)
    });
    match fits {
        Some(length) => Ok(length),
        None => bad("length", length),
    }
}

impl<'a> Record<'a> {
    /// Decodes a record that is exactly `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let bytes = &bytes[..record_length(bytes)?];
        let type_word = wire::u64_le(bytes, 0, STRUCTURE)?;
        let record_type = type_word & !TYPE_CASE_INSENSITIVE;
        Ok(Self {
            record_type,
            case_insensitive: type_word & TYPE_CASE_INSENSITIVE != 0,
            txg: Txg(wire::u64_le(bytes, 16, STRUCTURE)?),
            sequence: wire::u64_le(bytes, 24, STRUCTURE)?,
            body: decode(bytes, record_type)?,
        })
    }

    /// Whether the record may stand out of order and is skipped if its object is gone.
    pub fn is_out_of_order(&self) -> bool {
        matches!(self.record_type, 9..=13 | 20 | 21 | 24)
    }
}

pub(super) fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

/// Iterates over the records of a log block: `bytes` is what
/// [`LogBlock::records`](super::LogBlock) names. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let record = record_length(self.bytes).and_then(|length| {
            let (record, rest) = self.bytes.split_at(length);
            self.bytes = rest;
            Record::decode(record)
        });
        if record.is_err() {
            self.bytes = &[];
        }
        Some(record)
    }
}
