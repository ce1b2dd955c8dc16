//! WRITE, WRITE_EMBEDDED, SPILL and FREE: contents of an object.

use super::apply::Applier;
use crate::error::{Problem, StreamError};
use cenote_base::{BlockId, Level, ObjectId, SECTOR_SIZE};
use cenote_codec::compress::{self, Compression};
use cenote_dmu::{BlockBuffer, CompressedForm, Object, TreeShape};
use cenote_ondisk::byteswap::swap_block;
use cenote_ondisk::stream::{ByteOrder, Spill, TO_THE_END, Write, WriteEmbedded, record_flags};
use cenote_ondisk::{CompressionKind, ObjectType};
use std::sync::Arc;

/// Offsets of files are signed numbers in all interfaces.
const OFFSET_MAX: u64 = i64::MAX as u64;

impl Applier<'_> {
    /// Writes a block, or a part of one.
    pub(super) fn write(&mut self, write: &Write, payload: &[u8]) -> Result<(), StreamError> {
        let object = self.existing(write.object)?;
        if self.is_raw {
            return self.write_raw(&object, write, payload);
        }
        let kind = self.type_of(write.object_type)?;
        let mut contents = match write.compression {
            0 => BlockBuffer::copy_of(payload),
            number => self.expanded(number, payload, write.logical_size)?,
        };
        let size = object.block_size();
        let is_block = write.logical_size == size && write.offset.is_multiple_of(size);
        let is_whole = (payload.len() as u64).is_multiple_of(SECTOR_SIZE);
        if let Some(compression) = packed_by(write.compression)
            && (is_block && is_whole && !kind.is_metadata() && self.order == ByteOrder::Little)
        {
            let bytes = Arc::new(BlockBuffer::copy_of(payload));
            let form = CompressedForm { bytes, compression };
            return self.put_compressed(&object, write.offset, contents, form);
        }
        self.to_little_endian(&mut contents, kind)?;
        self.put(&object, write.offset, contents)
    }

    /// Puts a compressed block into an object as it is. It is decompressed as well: invalid data is
    /// refused while its place in the stream is known, and readers get the contents before the
    /// block is on disk.
    fn put_compressed(
        &mut self,
        object: &Object,
        offset: u64,
        contents: BlockBuffer,
        form: CompressedForm,
    ) -> Result<(), StreamError> {
        let length = contents.len() as u64;
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > OFFSET_MAX) {
            return Err(self.field("offset", offset));
        }
        let block = BlockId(offset / length);
        let bytes = length + form.bytes.len() as u64;
        self.advance(bytes, (object.id(), offset), |tx| {
            object.write_compressed(tx, block, (Arc::new(contents), form))
        })
    }

    /// Writes a block that came in its pointer.
    pub(super) fn write_embedded(
        &mut self,
        write: &WriteEmbedded,
        payload: &[u8],
    ) -> Result<(), StreamError> {
        let object = self.existing(write.object)?;
        let kind = object.dnode().object_type;
        let psize = write.physical_size as usize;
        let payload = payload.get(..psize).unwrap_or(payload);
        let size = u64::from(write.logical_size);
        let mut contents = self.expanded(write.compression, payload, size)?;
        // OpenZFS up to 2.3 sends a spill block that is in its pointer as the block of the data
        // whose number is -1.
        if write.offset > OFFSET_MAX {
            let spill = contents.to_vec();
            return self.change(size, |tx| object.set_spill(tx, Some(spill)));
        }
        self.to_little_endian(&mut contents, kind)?;
        self.put(&object, write.offset, contents)
    }

    /// Sets a spill block.
    pub(super) fn spill(&mut self, spill: &Spill, payload: &[u8]) -> Result<(), StreamError> {
        let object = self.existing(spill.object)?;
        let is_unmodified = spill.flags & record_flags::SPILL_UNMODIFIED != 0;
        // If its object had to be created again here, it may not exist.
        if self.has_spill_flags && is_unmodified && object.dnode().spill.is_some() {
            return Ok(());
        }
        if self.is_raw {
            return self.spill_raw(&object, spill, payload);
        }
        let mut contents = match (spill.compressed_size, spill.compression) {
            (0, _) | (_, 0) => BlockBuffer::copy_of(payload),
            (_, number) => self.expanded(number, payload, spill.length)?,
        };
        let kind = object.dnode().bonus_type;
        if kind == ObjectType::NONE {
            return Err(self.field("type", u64::from(spill.object_type)));
        }
        self.to_little_endian(&mut contents, kind)?;
        let bytes = contents.to_vec();
        self.change(spill.length, |tx| object.set_spill(tx, Some(bytes)))
    }

    /// Makes a part of an object a hole.
    pub(super) fn free(
        &mut self,
        id: ObjectId,
        offset: u64,
        length: u64,
    ) -> Result<(), StreamError> {
        let object = self.existing(id)?;
        let length = match length {
            TO_THE_END => u64::MAX,
            length => length,
        };
        // A part of a block cannot be made zero without its key.
        let size = object.block_size();
        let is_whole =
            offset.is_multiple_of(size) && (length == u64::MAX || length.is_multiple_of(size));
        if self.is_raw && !is_whole {
            return Err(self.field("offset", offset));
        }
        let (levels, block_id_max) = (object.dnode().levels, object.dnode().block_id_max);
        if offset == 0 && length == u64::MAX {
            while self.change(0, |tx| object.free_some(tx))? {}
        }
        self.change(0, |tx| {
            object.free_range(tx, offset, length)?;
            if !self.is_raw {
                return Ok(());
            }
            // A hole at the end cuts the object off. The MAC runs over where it ends elsewhere.
            let shape = TreeShape {
                pointers: 0,
                levels,
                block_id_max,
            };
            object.set_shape(tx, shape)
        })
    }

    /// Puts contents into an object: as a block where they are one.
    fn put(
        &mut self,
        object: &Object,
        offset: u64,
        contents: BlockBuffer,
    ) -> Result<(), StreamError> {
        let (size, length) = (object.block_size(), contents.len() as u64);
        let end = offset.checked_add(length);
        let end = end.filter(|end| *end <= OFFSET_MAX);
        let end = end.ok_or_else(|| self.field("offset", offset))?;
        // Only an object with one block has blocks of such a size.
        if !size.is_power_of_two() && end > size {
            return Err(self.field("offset", offset));
        }
        let point = (object.id(), offset);
        self.advance(length, point, |tx| {
            match offset.is_multiple_of(size) && length == size {
                true => object.write_block(tx, BlockId(offset / size), Arc::new(contents)),
                false => object.write(tx, offset, &contents),
            }
        })
    }

    /// A payload expanded to `size` bytes.
    fn expanded(&self, number: u8, payload: &[u8], size: u64) -> Result<BlockBuffer, StreamError> {
        let size = usize::try_from(size).expect("checked when the record was read");
        let mut block = BlockBuffer::zeroed(size);
        match CompressionKind::from_number(number) {
            Some(CompressionKind::Off) if payload.len() >= size => {
                block.copy_from_slice(&payload[..size]);
                return Ok(block);
            }
            kind => {
                let kind = kind.and_then(compression_of);
                let kind = kind.ok_or_else(|| self.field("compression", u64::from(number)))?;
                let expanded = compress::decompress(kind, payload, &mut block);
                expanded.map_err(|_| self.wrong(Problem::Payload))?;
            }
        }
        Ok(block)
    }

    fn to_little_endian(
        &self,
        contents: &mut BlockBuffer,
        kind: ObjectType,
    ) -> Result<(), StreamError> {
        match self.order {
            ByteOrder::Little => Ok(()),
            ByteOrder::Big => swap_block(contents, Level(0), kind)
                .map_err(|_| self.field("type", u64::from(kind.0))),
        }
    }
}

/// The function of a payload that can be stored as it is.
fn packed_by(number: u8) -> Option<CompressionKind> {
    CompressionKind::from_number(number).filter(|kind| compression_of(*kind).is_some())
}

pub(super) fn compression_of(kind: CompressionKind) -> Option<Compression> {
    Some(match kind {
        CompressionKind::Lzjb => Compression::Lzjb,
        CompressionKind::Gzip(level) => Compression::Gzip(level),
        CompressionKind::Zle => Compression::Zle,
        CompressionKind::Lz4 => Compression::Lz4,
        CompressionKind::Zstd => Compression::Zstd,
        _ => return None,
    })
}
