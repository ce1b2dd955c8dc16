//! OBJECT: creating an object, or changing it to match the sender's.
//!
//! An object is kept if its dnode can be changed to match the record without touching its contents.
//! The block size must be equal, because it cannot change with more than one block. Otherwise the
//! contents are freed and the stream brings all of them, with one exception: a sender may switch to
//! larger blocks (`zfs send -L` after one without). If the generation shows that it is the same
//! file, it then keeps its blocks.

use super::apply::Applier;
use crate::error::{Problem, StreamError};
use cenote_base::{BlockId, ObjectId};
use cenote_dmu::{DmuError, INDIRECT_SHIFT, NewObject, Object};
use cenote_ondisk::byteswap::swap_block;
use cenote_ondisk::stream::{ByteOrder, Object as ObjectRecord, record_flags};
use cenote_ondisk::{ChecksumKind, CompressionKind, Dnode, ObjectType, system_attributes};

/// Where a file's generation stands among its attributes, in every layout (format/3b 3).
const GENERATION_OFFSET: usize = 16;
/// Its offset in the bonus buffer of files before there were system attributes.
const ZNODE_GENERATION_OFFSET: usize = 80;

impl Applier<'_> {
    /// Makes an object what the record says.
    pub(super) fn object(
        &mut self,
        record: &ObjectRecord,
        payload: &[u8],
    ) -> Result<(), StreamError> {
        let id = record.object;
        let new = match self.is_raw {
            true => self.new_raw_object(record, payload)?,
            false => self.new_object(record, payload)?,
        };
        self.free_inner(id, new.slots)?;
        let has_spill = record.flags & record_flags::OBJECT_SPILL != 0;
        let keeps_spill = has_spill || !self.has_spill_flags;
        let object = match self.find(id)? {
            None => self.make(id, new)?,
            Some(object) if is_same_shape(&object, &new) => {
                self.adapt(object, &new, keeps_spill)?
            }
            Some(object) => {
                drop(object);
                self.free_object(id)?;
                self.make(id, new)?
            }
        };
        self.keep(&object);
        self.advance(0, (id, 0), |_| Ok(()))
    }

    /// What the record asks for, if that can be in a dataset.
    fn new_object(&self, record: &ObjectRecord, payload: &[u8]) -> Result<NewObject, StreamError> {
        let object_type = self.type_of(record.object_type)?;
        let bonus_type = match record.bonus_type {
            0 => ObjectType::NONE,
            number => self.type_of(number)?,
        };
        let length = record.bonus_length as usize;
        let bonus = payload.get(..length);
        let wrong = || self.field("bonus length", u64::from(record.bonus_length));
        let mut bonus = bonus.ok_or_else(wrong)?.to_vec();
        if (bonus_type == ObjectType::NONE) != bonus.is_empty() && bonus_type == ObjectType::NONE {
            return Err(wrong());
        }
        if self.order == ByteOrder::Big && bonus_type != ObjectType::NONE {
            let swapped = swap_block(&mut bonus, cenote_base::Level(0), bonus_type);
            swapped.map_err(|_| self.field("bonus type", u64::from(record.bonus_type)))?;
        }
        Ok(NewObject {
            object_type,
            bonus_type,
            bonus,
            data_block_size: u64::from(record.block_size),
            indirect_shift: INDIRECT_SHIFT,
            slots: usize::try_from(record.slot_count()).expect("at most 32"),
            checksum: self.checksum(record.checksum)?,
            compression: self.compression(record.compression)?,
            shape: None,
        })
    }

    /// A type that objects of a dataset may have.
    pub(super) fn type_of(&self, number: u32) -> Result<ObjectType, StreamError> {
        let kind = u8::try_from(number).ok().map(ObjectType);
        let is_in_datasets = |kind: &ObjectType| {
            kind.is_valid() && !matches!(*kind, ObjectType::DNODE | ObjectType::OBJSET)
        };
        kind.filter(is_in_datasets)
            .ok_or_else(|| self.field("type", u64::from(number)))
    }

    /// An object's own checksum function: one that every pool can store.
    fn checksum(&self, number: u8) -> Result<u8, StreamError> {
        use ChecksumKind::{Blake3, Edonr, Sha512, Skein};
        match ChecksumKind::from_number(number) {
            Some(kind) if !kind.is_embedded() => Ok(match kind {
                Sha512 | Skein | Edonr | Blake3 | ChecksumKind::On => 0,
                _ => number,
            }),
            _ => Err(self.field("checksum", u64::from(number))),
        }
    }

    /// An object's own compression function.
    fn compression(&self, number: u8) -> Result<u8, StreamError> {
        match CompressionKind::from_number(number) {
            Some(CompressionKind::On | CompressionKind::Zstd | CompressionKind::Lz4) => Ok(0),
            Some(_) => Ok(number),
            None => Err(self.field("compression", u64::from(number))),
        }
    }

    /// Frees what lies in the slots behind the first.
    fn free_inner(&mut self, id: ObjectId, slots: usize) -> Result<(), StreamError> {
        for inner in 1..slots as u64 {
            let inner = ObjectId(id.0 + inner);
            if self.find(inner)?.is_some() {
                self.free_object(inner)?;
            }
        }
        Ok(())
    }

    /// Creates an object in slots that are free, or will be once their old objects are freed on
    /// disk.
    fn make(&mut self, id: ObjectId, new: NewObject) -> Result<Object, StreamError> {
        let bytes = new.bonus.len() as u64;
        let made = self.change(bytes, |tx| {
            match self.set().allocate_at(tx, id, new.clone()) {
                Ok(object) => Ok(Some(object)),
                Err(DmuError::BadChange { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        if let Some(object) = made {
            return Ok(object);
        }
        let synced = self.target.dataset.sync();
        synced.map_err(|source| self.failed(source))?;
        self.change(bytes, |tx| self.set().allocate_at(tx, id, new))
    }

    /// Changes an object to match the record.
    fn adapt(
        &mut self,
        object: Object,
        new: &NewObject,
        keeps_spill: bool,
    ) -> Result<Object, StreamError> {
        let old = object.dnode();
        let has_other_blocks = old.data_block_size != new.data_block_size;
        let keeps_blocks = has_other_blocks
            && old.block_id_max > BlockId(0)
            && new.shape.is_none()
            && new.data_block_size > old.data_block_size
            && is_same_file(old, new);
        if has_other_blocks && !keeps_blocks {
            while self.change(0, |tx| object.free_some(tx))? {}
            self.change(0, |tx| {
                object.free_range(tx, 0, u64::MAX)?;
                object.set_block_size(tx, new.data_block_size)
            })?;
        }
        let drops_spill = old.spill.is_some() && !keeps_spill;
        let bytes = new.bonus.len() as u64;
        self.change(bytes, |tx| {
            object.set_type(tx, new.object_type)?;
            match drops_spill {
                true => {
                    let bonus = new.bonus.clone();
                    object.set_bonus_and_spill(tx, new.bonus_type, bonus, None)?;
                }
                false => object.set_bonus(tx, new.bonus_type, new.bonus.clone())?,
            }
            if let Some(shape) = new.shape {
                object.set_shape(tx, shape)?;
            }
            object.set_functions(tx, new.checksum, new.compression)
        })?;
        let id = object.id();
        drop(object);
        self.find(id)?
            .ok_or_else(|| self.wrong(Problem::NoObject(id.0)))
    }
}

/// Whether a dnode has the slots and the pointers that a new one would have.
fn is_same_shape(object: &Object, new: &NewObject) -> bool {
    let old = object.dnode();
    // The levels of a tree never become fewer.
    let has_levels = |levels| old.levels <= levels && old.indirect_shift == new.indirect_shift;
    old.slots() == new.slots
        && old.block_pointers.len() == new.pointers()
        && new.shape.is_none_or(|shape| has_levels(shape.levels))
}

/// Whether two dnodes are of one file, by its generation.
fn is_same_file(old: &Dnode, new: &NewObject) -> bool {
    let before = generation(old.bonus_type, &old.bonus);
    before.is_some() && before == generation(new.bonus_type, &new.bonus)
}

/// The generation of the file with this bonus buffer.
fn generation(bonus_type: ObjectType, bonus: &[u8]) -> Option<u64> {
    let word = |at: usize, big_endian: bool| {
        let bytes = bonus.get(at..at + 8)?.try_into().ok()?;
        Some(match big_endian {
            true => u64::from_be_bytes(bytes),
            false => u64::from_le_bytes(bytes),
        })
    };
    match bonus_type {
        ObjectType::SYSTEM_ATTRIBUTES => {
            let header = system_attributes::SaHeader::decode(bonus).ok()?;
            word(header.size + GENERATION_OFFSET, header.big_endian)
        }
        ObjectType::ZNODE => word(ZNODE_GENERATION_OFFSET, false),
        _ => None,
    }
}
