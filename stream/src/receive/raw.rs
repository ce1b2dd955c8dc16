//! Records of raw streams: blocks as the sender stores them, with their salts, IVs and MACs.
//!
//! Everything that a MAC covers must equal the sender's: the shape of each tree, the encrypted
//! bonus areas of dnodes, and the sizes of compressed blocks. Only a reader with the key can verify
//! it.

use super::apply::Applier;
use crate::error::StreamError;
use cenote_base::BlockId;
use cenote_dmu::{BlockBuffer, NewObject, Object, StoredForm, TreeShape};
use cenote_ondisk::stream::{
    ByteOrder, Object as ObjectRecord, ObjectRange, Spill, Write, record_flags,
};
use cenote_ondisk::{ChecksumKind, CompressionKind, ObjectType};
use std::sync::Arc;

impl Applier<'_> {
    /// Notes how the next dnodes are protected.
    pub(super) fn range(&mut self, range: &ObjectRange) -> Result<(), StreamError> {
        self.check_order(range.flags)?;
        let form = StoredForm {
            salt: range.crypt.salt,
            iv: range.crypt.iv,
            mac: range.crypt.mac,
            ..StoredForm::default()
        };
        self.change(0, |tx| self.set().set_raw_range(tx, range.first, form))
    }

    /// What an OBJECT asks for.
    pub(super) fn new_raw_object(
        &self,
        record: &ObjectRecord,
        payload: &[u8],
    ) -> Result<NewObject, StreamError> {
        self.check_order(record.flags)?;
        let bonus_type = match record.bonus_type {
            0 => ObjectType::NONE,
            number => self.type_of(number)?,
        };
        let bonus = payload.get(..record.bonus_length as usize);
        let bonus = bonus.ok_or_else(|| self.field("bonus length", record.bonus_length.into()))?;
        let is_known = ChecksumKind::from_number(record.checksum)
            .is_some_and(|kind| !kind.is_embedded())
            && CompressionKind::from_number(record.compression).is_some();
        if !is_known {
            return Err(self.field("functions", record.checksum.into()));
        }
        let area = self.set().set_raw_area(record.object, payload.to_vec());
        area.map_err(|source| self.failed(source))?;
        let raw = &record.raw;
        Ok(NewObject {
            object_type: self.type_of(record.object_type)?,
            bonus_type,
            bonus: bonus.to_vec(),
            data_block_size: u64::from(record.block_size),
            indirect_shift: match raw.indirect_shift {
                0 => cenote_dmu::INDIRECT_SHIFT,
                shift => shift,
            },
            slots: usize::try_from(record.slot_count()).expect("at most 32"),
            checksum: record.checksum,
            compression: record.compression,
            shape: Some(TreeShape {
                pointers: raw.block_pointers,
                levels: raw.levels,
                block_id_max: BlockId(raw.block_id_max),
            }),
        })
    }

    pub(super) fn write_raw(
        &mut self,
        object: &Object,
        write: &Write,
        payload: &[u8],
    ) -> Result<(), StreamError> {
        self.check_order(write.flags)?;
        let size = object.block_size();
        if write.logical_size != size || !write.offset.is_multiple_of(size) {
            return Err(self.field("offset", write.offset));
        }
        let form = StoredForm {
            logical_size: size,
            compression: self.stored_by(write.compression, payload, size)?,
            salt: write.crypt.salt,
            iv: write.crypt.iv,
            mac: write.crypt.mac,
        };
        let bytes = Arc::new(BlockBuffer::copy_of(payload));
        let block = BlockId(write.offset / size);
        // OBJECT gave the number of the last block.
        if block > object.dnode().block_id_max {
            return Err(self.field("offset", write.offset));
        }
        self.advance(payload.len() as u64, (object.id(), write.offset), |tx| {
            object.write_stored(tx, block, (bytes, form))
        })
    }

    pub(super) fn spill_raw(
        &mut self,
        object: &Object,
        spill: &Spill,
        payload: &[u8],
    ) -> Result<(), StreamError> {
        self.check_order(spill.flags)?;
        let form = StoredForm {
            logical_size: spill.length,
            compression: self.stored_by(spill.compression, payload, spill.length)?,
            salt: spill.crypt.salt,
            iv: spill.crypt.iv,
            mac: spill.crypt.mac,
        };
        let bytes = Arc::new(BlockBuffer::copy_of(payload));
        self.change(payload.len() as u64, |tx| {
            object.set_stored_spill(tx, (bytes, form))
        })
    }

    /// The compression of a stored block, which a pointer can say.
    fn stored_by(&self, number: u8, payload: &[u8], size: u64) -> Result<u8, StreamError> {
        let number = match number {
            0 => CompressionKind::Off.number(),
            number => number,
        };
        let length = payload.len() as u64;
        let is_whole = length > 0 && length.is_multiple_of(cenote_base::SECTOR_SIZE);
        if !is_whole || length > size {
            return Err(self.field("compressed size", length));
        }
        match CompressionKind::from_number(number) {
            Some(CompressionKind::Off) if length != size => {
                Err(self.field("compressed size", length))
            }
            Some(CompressionKind::Inherit | CompressionKind::On | CompressionKind::Empty)
            | None => Err(self.field("compression", number.into())),
            Some(_) => Ok(number),
        }
    }

    /// Blocks of the other byte order would have to be stored so, which nothing here does yet.
    fn check_order(&self, flags: u8) -> Result<(), StreamError> {
        match flags & record_flags::RAW_BYTESWAP != 0 || self.order == ByteOrder::Big {
            true => Err(self.field("flags", flags.into())),
            false => Ok(()),
        }
    }
}
