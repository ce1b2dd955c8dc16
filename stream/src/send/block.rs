//! The form of a data block in a stream (format/4 4).
//!
//! If the stream allows it, a block is sent as it is stored: within its pointer, compressed, or
//! raw. Otherwise it is decompressed, and split into several records if it is too large for a
//! stream without large blocks. The record's key has the checksum of the pointer. For pieces of a
//! block there is none: the checksum function is "off" and the key zero.

use super::ahead::{Ahead, Shape};
use super::sending::{OLD_BLOCK_SIZE_MAX, Sending};
use crate::error::StreamError;
use cenote_base::{ObjectId, SECTOR_SIZE};
use cenote_dmu::traverse::Visit;
use cenote_ondisk::stream::{
    BlockKey, Crypt, Feature, Record, Spill, Write as WriteRecord, WriteEmbedded, record_flags,
};
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dnode};
use std::io::Write;

impl Sending<'_> {
    /// A block of data.
    pub(super) fn data(
        &self,
        visit: &Visit,
        dnode: &Dnode,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let pointer = &visit.pointer;
        let object = visit.bookmark.object;
        let Some(offset) = visit.bookmark.block.0.checked_mul(dnode.data_block_size) else {
            return Ok(());
        };
        if let Some(payload) = self.embeddable(pointer) {
            return self.embedded(object, offset, pointer, payload, out);
        }
        let mut record = WriteRecord {
            object,
            object_type: u32::from(dnode.object_type.0),
            offset,
            logical_size: pointer.logical_size(),
            to_guid: self.snapshot.guid,
            ..WriteRecord::default()
        };
        if self.is_cut(record.logical_size) {
            // The block pointer's checksum does not apply to the pieces.
            record.checksum = ChecksumKind::Off as u8;
            let shape = Shape::Pieces(Box::new(record), OLD_BLOCK_SIZE_MAX as usize);
            return out.block(shape, visit);
        }
        self.identify(&mut record, pointer);
        if self.goes_stored(pointer, dnode) {
            record.compression = pointer.compression_number();
            if self.is_raw() {
                (record.crypt, record.flags) = protect(pointer, record.flags);
            }
            return out.block(Shape::Stored(Record::Write(record)), visit);
        }
        out.block(Shape::Contents(Record::Write(record)), visit)
    }

    /// Puts into a record what the block's pointer knows it by.
    fn identify(&self, record: &mut WriteRecord, pointer: &BlockPointer) {
        // What an encrypted block's checksum is of is not what a receiver gets, unless it is raw.
        let is_opened = pointer.uses_crypt() && !self.is_raw();
        if pointer.is_embedded() || is_opened {
            record.checksum = ChecksumKind::Off as u8;
            return;
        }
        record.checksum = pointer.checksum_number();
        if pointer
            .checksum_kind()
            .is_some_and(ChecksumKind::is_dedup_strong)
        {
            record.flags |= record_flags::DEDUP_CAPABLE;
        }
        let sectors = |size: u64| (size / SECTOR_SIZE).wrapping_sub(1) & 0xffff;
        record.key = BlockKey {
            checksum: pointer.checksum(),
            properties: sectors(pointer.logical_size())
                | sectors(pointer.physical_size()) << 16
                | u64::from(pointer.compression_number()) << 32
                | u64::from(pointer.uses_crypt()) << 39,
        };
    }

    /// Whether a block of this size goes in pieces.
    pub(super) fn is_cut(&self, size: u64) -> bool {
        size > OLD_BLOCK_SIZE_MAX && !self.features.has(Feature::LargeBlocks)
    }

    /// The payload of a pointer that the stream may have as such.
    fn embeddable(&self, pointer: &BlockPointer) -> Option<Vec<u8>> {
        if !self.features.has(Feature::EmbedData) {
            return None;
        }
        let is_known = match pointer.compression()? {
            CompressionKind::Lz4 => self.features.has(Feature::Lz4),
            CompressionKind::Zstd => self.features.has(Feature::Zstd),
            _ => true,
        };
        pointer.embedded_payload().filter(|_| is_known)
    }

    fn embedded(
        &self,
        object: ObjectId,
        offset: u64,
        pointer: &BlockPointer,
        mut payload: Vec<u8>,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let record = WriteEmbedded {
            object,
            offset,
            length: pointer.logical_size(),
            to_guid: self.snapshot.guid,
            compression: pointer.compression_number(),
            embedded_type: 0,
            logical_size: u32::try_from(pointer.logical_size()).unwrap_or(u32::MAX),
            physical_size: u32::try_from(payload.len()).unwrap_or(u32::MAX),
        };
        payload.resize(payload.len().next_multiple_of(8), 0);
        out.record(&Record::WriteEmbedded(record), &payload)
    }

    /// Whether a block goes as it is stored.
    fn goes_stored(&self, pointer: &BlockPointer, dnode: &Dnode) -> bool {
        if pointer.is_embedded() {
            return false;
        }
        if self.is_raw() {
            return true;
        }
        let is_compressed = pointer.compression() != Some(CompressionKind::Off);
        // Blocks of an encrypted dataset are stored encrypted: they go expanded.
        self.features.has(Feature::Compressed)
            && is_compressed
            && pointer.is_little_endian()
            && !dnode.object_type.is_metadata()
            && !pointer.uses_crypt()
    }

    /// A spill block; `is_unmodified` if the receiver has it.
    pub(super) fn spill(
        &self,
        visit: &Visit,
        is_unmodified: bool,
        out: &mut Ahead<'_, impl Write>,
    ) -> Result<(), StreamError> {
        let pointer = &visit.pointer;
        let mut record = Spill {
            object: visit.bookmark.object,
            length: pointer.logical_size(),
            to_guid: self.snapshot.guid,
            flags: match is_unmodified {
                true => record_flags::SPILL_UNMODIFIED,
                false => 0,
            },
            ..Spill::default()
        };
        if !self.is_raw() {
            return out.block(Shape::Contents(Record::Spill(record)), visit);
        }
        record.compression = pointer.compression_number();
        (record.crypt, record.flags) = protect(pointer, record.flags);
        out.block(Shape::Stored(Record::Spill(record)), visit)
    }
}

/// How a raw block is protected, and the flags of its record.
fn protect(pointer: &BlockPointer, flags: u8) -> (Crypt, u8) {
    let mut crypt = Crypt {
        mac: pointer.mac(),
        ..Crypt::default()
    };
    if pointer.has_crypt_parameters() {
        (crypt.salt, crypt.iv) = (pointer.salt(), pointer.iv());
    }
    let swapped = match pointer.is_little_endian() {
        true => 0,
        false => record_flags::RAW_BYTESWAP,
    };
    (crypt, flags | swapped)
}
