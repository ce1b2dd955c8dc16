//! Which record does what, and records that change contents.

use super::state::Replay;
use crate::error::PosixError;
use crate::kind::FileKind;
use cenote_base::ObjectId;
use cenote_intent_log::ApplyError;
use cenote_ondisk::intent_log::record::{Record, RecordBody};

/// The largest size of a file.
const SIZE_MAX: u64 = i64::MAX as u64;

impl Replay<'_> {
    /// Applies one record. After an error the state is to be used no more, except that a missing
    /// object (`NoSuchZnode`) of a record that may come out of order has changed nothing.
    pub(super) fn apply(&mut self, record: &Record<'_>) -> Result<(), PosixError> {
        self.sequence = record.sequence;
        let folds = record.case_insensitive;
        match &record.body {
            RecordBody::Create(create) => self.apply_create(record, create),
            RecordBody::Remove { directory, name } => self.apply_remove(*directory, name, folds),
            RecordBody::Link {
                directory,
                object,
                name,
            } => self.apply_link(*directory, *object, name, folds),
            RecordBody::Rename { .. } => self.apply_rename(record),
            RecordBody::Write {
                object,
                offset,
                length,
                data,
            } => {
                self.require_regular(*object)?;
                let end = self.change_content(*object, |content, memory| {
                    content.apply_write(*offset, *length, *data, memory)
                })?;
                self.wrote(*object, end)
            }
            RecordBody::CloneRange {
                object,
                offset,
                length,
                block_size,
                pointers,
            } => {
                self.require_regular(*object)?;
                let end = self.change_content(*object, |content, memory| {
                    content.apply_clone(*offset, *length, *block_size, pointers, memory)
                })?;
                self.wrote(*object, end)
            }
            RecordBody::Truncate {
                object,
                offset,
                length,
            } => self.free_range(*object, *offset, *length),
            RecordBody::SetAttributes(set) => self.apply_set_attributes(set),
            RecordBody::Acl {
                object,
                acl,
                is_old,
                ..
            } => self.set_acl(*object, acl, *is_old),
            RecordBody::SetXattr {
                object,
                name,
                value,
            } => self.apply_set_xattr(*object, name, *value),
        }
    }

    fn require_regular(&mut self, object: ObjectId) -> Result<(), PosixError> {
        match FileKind::from_mode(self.node(object)?.attributes.mode) {
            Some(FileKind::Regular) => Ok(()),
            _ => Err(self.bad("contents of an object that is not a regular file change")),
        }
    }

    /// The contents changed, and reach at least to `end`.
    fn wrote(&mut self, object: ObjectId, end: u64) -> Result<(), PosixError> {
        let now = self.now();
        let attributes = &mut self.node(object)?.attributes;
        attributes.size = attributes.size.max(end);
        (attributes.modified, attributes.changed) = (now, now);
        Ok(())
    }

    /// Cuts a file off, or makes it longer by a hole.
    pub(super) fn resize(&mut self, object: ObjectId, size: u64) -> Result<(), PosixError> {
        self.require_regular(object)?;
        if size > SIZE_MAX {
            return Err(self.bad("a size beyond 2^63"));
        }
        if size < self.node(object)?.attributes.size {
            self.change_content(object, |content, _| {
                content.truncate(size);
                Ok::<(), ApplyError>(())
            })?;
        }
        self.node(object)?.attributes.size = size;
        self.wrote(object, size)
    }

    /// Type 10: cuts off with length 0, otherwise a hole; either may make the file longer.
    fn free_range(&mut self, object: ObjectId, offset: u64, length: u64) -> Result<(), PosixError> {
        self.require_regular(object)?;
        let size = self.node(object)?.attributes.size;
        let end = offset.checked_add(length).filter(|end| *end <= SIZE_MAX);
        let end = end.ok_or_else(|| self.bad("a range beyond 2^63"))?;
        if length == 0 || offset > size {
            return self.resize(object, end);
        }
        self.change_content(object, |content, memory| {
            memory.pay(256)?;
            content.punch(offset, length);
            Ok::<(), ApplyError>(())
        })?;
        self.wrote(object, end)
    }
}
