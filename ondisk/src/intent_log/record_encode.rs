//! Encoding log records: the counterpart of decoding, byte for byte as OpenZFS writes them.

use super::record::{
    AclBody, Create, ExtendedAttributes, HEADER_SIZE, NewObject, Record, RecordBody, SetAttributes,
    TYPE_CASE_INSENSITIVE, Whiteout, WriteData, record_type as of,
};
use super::record_body::{WRITE_DATA, XVATTR_WORDS, has_acl, has_attributes};
use crate::BlockPointer;
use crate::block_pointer::BLOCK_POINTER_SIZE;

/// Where a record's length stands.
const LENGTH: std::ops::Range<usize> = 8..16;
/// Where its number stands.
const SEQUENCE: std::ops::Range<usize> = 24..32;

/// A record that grows.
struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, word: u64) {
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    fn words(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.word(*word));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn name(&mut self, name: &[u8]) {
        assert!(!name.contains(&0), "a name ends at its first NUL");
        self.bytes(name);
        self.bytes(&[0]);
    }

    fn align(&mut self) {
        let length = self.0.len().next_multiple_of(super::RECORD_ALIGNMENT);
        self.0.resize(length, 0);
    }

    fn attributes(&mut self, attributes: &ExtendedAttributes) {
        for word in [XVATTR_WORDS, attributes.requested, 0, 0] {
            self.bytes(&word.to_le_bytes());
        }
        self.words(&[attributes.values, attributes.crtime.0, attributes.crtime.1]);
        self.bytes(&attributes.scanstamp);
    }

    fn acl_counts(&mut self, acl: &AclBody<'_>, domains: &[u8]) {
        let domains = domains.iter().filter(|byte| **byte == 0).count();
        let ids = acl.ids.len() / 8;
        self.words(&[
            acl.count,
            domains as u64,
            ids as u64,
            acl.entries.len() as u64,
            acl.flags,
        ]);
    }

    fn acl(&mut self, acl: &AclBody<'_>) {
        self.bytes(acl.entries);
        self.align();
        self.bytes(acl.ids);
    }

    fn create(&mut self, record_type: u64, create: &Create<'_>) {
        assert_eq!(create.acl.is_some(), has_acl(record_type));
        assert_eq!(create.attributes.is_some(), has_attributes(record_type));
        assert_eq!(create.target.is_some(), record_type == of::SYMLINK);
        self.words(&[
            create.directory.0,
            create.new.encode(),
            create.mode,
            create.uid,
            create.gid,
            create.generation,
            create.crtime.0,
            create.crtime.1,
            create.device,
        ]);
        if let Some(acl) = &create.acl {
            self.acl_counts(acl, create.domains);
        }
        if let Some(attributes) = &create.attributes {
            self.attributes(attributes);
        }
        if let Some(acl) = &create.acl {
            self.acl(acl);
        }
        self.bytes(create.domains);
        self.name(create.name);
        if let Some(target) = create.target {
            self.name(target);
        }
    }

    fn whiteout(&mut self, whiteout: &Whiteout) {
        self.words(&[
            whiteout.new.encode(),
            whiteout.mode,
            whiteout.uid,
            whiteout.gid,
            whiteout.generation,
            whiteout.crtime.0,
            whiteout.crtime.1,
            whiteout.device,
        ]);
    }

    fn set_attributes(&mut self, set: &SetAttributes<'_>) {
        self.words(&[
            set.object.0,
            set.mask,
            set.mode,
            set.uid,
            set.gid,
            set.size,
            set.atime.0,
            set.atime.1,
            set.mtime.0,
            set.mtime.1,
        ]);
        if let Some(attributes) = &set.attributes {
            self.attributes(attributes);
        }
        self.bytes(set.domains);
    }

    fn write(&mut self, words: [u64; 3], data: &WriteData<'_>) {
        self.words(&words);
        // The offset of the data in its block: the data is the whole block.
        self.word(0);
        let (pointer, data): (_, &[u8]) = match data {
            WriteData::Immediate(data) => (BlockPointer::HOLE, data),
            WriteData::Indirect(pointer) => (*pointer, &[]),
            WriteData::SizeOnly => (BlockPointer::HOLE, &[]),
        };
        self.bytes(&pointer.encode());
        assert_eq!(self.0.len(), WRITE_DATA);
        self.bytes(data);
    }

    fn rename(&mut self, record_type: u64, body: &RecordBody<'_>) {
        let RecordBody::Rename {
            source_directory,
            target_directory,
            source,
            target,
            whiteout,
        } = body
        else {
            unreachable!("only renames come here");
        };
        assert_eq!(whiteout.is_some(), record_type == of::RENAME_WHITEOUT);
        self.words(&[source_directory.0, target_directory.0]);
        if let Some(whiteout) = whiteout {
            self.whiteout(whiteout);
        }
        self.name(source);
        self.name(target);
    }

    fn body(&mut self, record_type: u64, body: &RecordBody<'_>) {
        match body {
            RecordBody::Create(create) => self.create(record_type, create),
            RecordBody::Remove { directory, name } => {
                self.word(directory.0);
                self.name(name);
            }
            RecordBody::Link {
                directory,
                object,
                name,
            } => {
                self.words(&[directory.0, object.0]);
                self.name(name);
            }
            RecordBody::Rename { .. } => self.rename(record_type, body),
            RecordBody::Write {
                object,
                offset,
                length,
                data,
            } => self.write([object.0, *offset, *length], data),
            RecordBody::Truncate {
                object,
                offset,
                length,
            } => self.words(&[object.0, *offset, *length]),
            RecordBody::SetAttributes(set) => self.set_attributes(set),
            RecordBody::Acl {
                object,
                acl,
                is_old,
                domains,
            } => {
                self.word(object.0);
                match is_old {
                    true => self.word(acl.count),
                    false => self.acl_counts(acl, domains),
                }
                self.acl(acl);
                self.bytes(domains);
            }
            RecordBody::SetXattr {
                object,
                name,
                value,
            } => {
                let value = value.unwrap_or(&[]);
                self.words(&[object.0, value.len() as u64]);
                self.name(name);
                self.bytes(value);
            }
            RecordBody::CloneRange {
                object,
                offset,
                length,
                block_size,
                pointers,
            } => {
                let count = (pointers.len() / BLOCK_POINTER_SIZE) as u64;
                self.words(&[object.0, *offset, *length, *block_size, count]);
                self.bytes(pointers);
            }
        }
    }
}

impl NewObject {
    /// `| slots - 1 : 8 | 0 : 8 | object : 48 |`
    fn encode(self) -> u64 {
        assert!(self.object.0 >> 48 == 0, "object numbers have 48 bits");
        u64::from(self.dnode_slots.max(1) - 1) << 56 | self.object.0
    }
}

impl Record<'_> {
    /// The record's bytes. Its type has to be one that its body goes with.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(Vec::with_capacity(WRITE_DATA));
        let case = match self.case_insensitive {
            true => TYPE_CASE_INSENSITIVE,
            false => 0,
        };
        writer.words(&[self.record_type | case, 0, self.txg.0, self.sequence]);
        assert_eq!(writer.0.len(), HEADER_SIZE);
        writer.body(self.record_type, &self.body);
        writer.align();
        let length = writer.0.len() as u64;
        writer.0[LENGTH].copy_from_slice(&length.to_le_bytes());
        writer.0
    }
}

/// Gives an encoded record its number, which is known when it is put into a block.
pub fn set_sequence(record: &mut [u8], sequence: u64) {
    record[SEQUENCE].copy_from_slice(&sequence.to_le_bytes());
}

#[cfg(test)]
#[path = "record_encode_tests.rs"]
mod tests;
