//! What a receiver would refuse of a stream's records (format/4 7.6).
//!
//! A sender goes through objects in the order of their numbers and through an object in the order
//! of offsets; a receiver relies on it for resuming. Sizes, types and compression have to be such
//! that blocks can be made of them, and whatever is not in the oldest streams has to be announced
//! by a feature in BEGIN. Left to the receiver is all that depends on what it has already, such
//! as whether an object that is written to is there.

use crate::error::Problem;
use cenote_base::{BLOCK_SIZE_MAX, Guid, ObjectId, SECTOR_SIZE};
use cenote_ondisk::block_pointer::EMBEDDED_PAYLOAD_MAX;
use cenote_ondisk::stream::{
    Begin, Feature, Object, ObjectRange, Record, Spill, StreamFeatures, TO_THE_END, Write,
    WriteEmbedded, flags,
};
use cenote_ondisk::{CompressionKind, ObjectType};

/// Blocks that need no feature are at most this large.
const OLD_BLOCK_SIZE_MAX: u64 = 128 << 10;
/// Objects have smaller numbers.
const OBJECT_LIMIT: u64 = 1 << 48;
/// Slots in a block of dnodes.
const RANGE_SLOTS: u64 = 32;
/// Levels that a dnode may have: enough for 2^64 bytes.
const LEVELS_MAX: u8 = 12;

/// What is known of the stream under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grammar {
    features: StreamFeatures,
    to_guid: Guid,
    /// The last OBJECT.
    object: ObjectId,
    /// The last WRITE.
    written: (ObjectId, u64),
    /// The last OBJECT_RANGE.
    range: Option<ObjectId>,
}

impl Grammar {
    /// Checks the next record of the stream.
    pub(crate) fn check(&mut self, record: &Record) -> Result<(), Problem> {
        if let Record::Begin(begin) = record {
            return self.begin(begin);
        }
        if to_guid(record) != self.to_guid {
            return Err(Problem::Snapshot);
        }
        match record {
            Record::Begin(_) | Record::End(_) => Ok(()),
            Record::Object(object) => self.object(object),
            Record::ObjectRange(range) => self.object_range(range),
            Record::FreeObjects(range) => match range.first.0.checked_add(range.count) {
                Some(_) => Ok(()),
                None => field("number of objects", range.count),
            },
            Record::Write(write) => self.write(write),
            Record::WriteEmbedded(write) => self.write_embedded(write),
            Record::WriteByReference(write) => {
                self.need(Feature::Dedup)?;
                self.block_size("length", write.length)?;
                self.advance(write.object, write.offset)
            }
            Record::Spill(spill) => self.spill(spill),
            Record::Free(free) => range(free.object, free.offset, free.length),
            Record::Redact(redact) => {
                self.need(Feature::Redacted)?;
                range(redact.object, redact.offset, redact.length)
            }
        }
    }

    fn begin(&mut self, begin: &Begin) -> Result<(), Problem> {
        *self = Self {
            features: begin.features,
            to_guid: begin.to_guid,
            ..Self::default()
        };
        // Receivers refuse deduplicated streams, too, but these can be repaired.
        let dedup = StreamFeatures::default()
            .with(Feature::Dedup)
            .with(Feature::DedupProperties);
        match begin.features.unreceivable() & !dedup.0 {
            0 => {}
            unknown => return Err(Problem::Features(unknown)),
        }
        if !begin.to_name.contains(&b'@') {
            return field("name", 0);
        }
        if self.features.has(Feature::Raw) {
            if self.features.has(Feature::EmbedData) {
                return Err(Problem::Features(1 << Feature::EmbedData.bit()));
            }
            if begin.flags & flags::SPILL_BLOCKS == 0 {
                return field("flags", u64::from(begin.flags));
            }
        }
        if self.features.has(Feature::LargeMicrozap) {
            self.need(Feature::LargeBlocks)?;
        }
        Ok(())
    }

    fn object(&mut self, object: &Object) -> Result<(), Problem> {
        number(object.object)?;
        if object.object < self.object {
            return Err(Problem::Order(object.object.0));
        }
        self.object = object.object;
        object_type(object.object_type)?;
        if object.bonus_type != 0 {
            object_type(object.bonus_type)?;
        }
        self.block_size("block size", u64::from(object.block_size))?;
        let slots = object.slot_count();
        if slots > RANGE_SLOTS {
            return field("number of slots", slots);
        }
        if slots > 1 {
            self.need(Feature::LargeDnode)?;
        }
        let area = slots * SECTOR_SIZE - 192;
        if u64::from(object.bonus_length) > area {
            return field("bonus length", u64::from(object.bonus_length));
        }
        if self.features.has(Feature::Raw) {
            return self.raw_object(object, area);
        }
        if object.raw_bonus_length != 0 {
            return field("raw bonus length", u64::from(object.raw_bonus_length));
        }
        Ok(())
    }

    fn raw_object(&self, object: &Object, area: u64) -> Result<(), Problem> {
        let raw = &object.raw;
        let length = object.raw_bonus_length;
        if u64::from(length) > area || (length != 0 && length < object.bonus_length) {
            return field("raw bonus length", u64::from(length));
        }
        if !(1..=LEVELS_MAX).contains(&raw.levels) {
            return field("levels", u64::from(raw.levels));
        }
        if !(1..=3).contains(&raw.block_pointers) {
            return field("block pointers", u64::from(raw.block_pointers));
        }
        if raw.indirect_shift != 0 && !(12..=17).contains(&raw.indirect_shift) {
            return field("indirect shift", u64::from(raw.indirect_shift));
        }
        let block = ObjectId(object.object.0 / RANGE_SLOTS * RANGE_SLOTS);
        match self.range == Some(block) {
            true => Ok(()),
            false => Err(Problem::Order(object.object.0)),
        }
    }

    fn object_range(&mut self, range: &ObjectRange) -> Result<(), Problem> {
        self.need(Feature::Raw)?;
        if range.slots != RANGE_SLOTS {
            return field("number of slots", range.slots);
        }
        if !range.first.0.is_multiple_of(RANGE_SLOTS) || range.first.0 >= OBJECT_LIMIT {
            return field("first object", range.first.0);
        }
        self.range = Some(range.first);
        Ok(())
    }

    fn write(&mut self, write: &Write) -> Result<(), Problem> {
        self.advance(write.object, write.offset)?;
        object_type(write.object_type)?;
        self.block_size("logical size", write.logical_size)?;
        if write.offset.checked_add(write.logical_size).is_none() {
            return field("offset", write.offset);
        }
        if write.compression == 0 {
            return Ok(());
        }
        self.compression(write.compression)?;
        if write.compressed_size == 0 || write.compressed_size > write.logical_size {
            return field("compressed size", write.compressed_size);
        }
        Ok(())
    }

    fn write_embedded(&mut self, write: &WriteEmbedded) -> Result<(), Problem> {
        self.need(Feature::EmbedData)?;
        // The offset may be near 2^64: OpenZFS up to 2.3 sends embedded spill blocks as such.
        self.advance(write.object, write.offset)?;
        if u64::from(write.physical_size) > EMBEDDED_PAYLOAD_MAX as u64 {
            return field("physical size", u64::from(write.physical_size));
        }
        if write.logical_size == 0 || u64::from(write.logical_size) > BLOCK_SIZE_MAX {
            return field("logical size", u64::from(write.logical_size));
        }
        if write.embedded_type != 0 {
            return field("embedded type", u64::from(write.embedded_type));
        }
        self.compression(write.compression)
    }

    fn spill(&self, spill: &Spill) -> Result<(), Problem> {
        number(spill.object)?;
        self.block_size("length", spill.length)?;
        if spill.compressed_size > spill.length {
            return field("compressed size", spill.compressed_size);
        }
        match spill.compression {
            0 => Ok(()),
            number => self.compression(number),
        }
    }

    /// Blocks are never written before one that came earlier.
    fn advance(&mut self, object: ObjectId, offset: u64) -> Result<(), Problem> {
        number(object)?;
        if (object, offset) < self.written {
            return Err(Problem::Order(object.0));
        }
        self.written = (object, offset);
        Ok(())
    }

    fn block_size(&self, name: &'static str, size: u64) -> Result<(), Problem> {
        if size == 0 || size > BLOCK_SIZE_MAX || !size.is_multiple_of(SECTOR_SIZE) {
            return field(name, size);
        }
        match size > OLD_BLOCK_SIZE_MAX {
            true => self.need(Feature::LargeBlocks),
            false => Ok(()),
        }
    }

    fn compression(&self, number: u8) -> Result<(), Problem> {
        use CompressionKind::{Empty, Inherit, Lz4, On, Zstd};
        match CompressionKind::from_number(number) {
            None | Some(Inherit | On | Empty) => field("compression", u64::from(number)),
            Some(Lz4) => self.need(Feature::Lz4),
            Some(Zstd) => self.need(Feature::Zstd),
            Some(_) => Ok(()),
        }
    }

    fn need(&self, feature: Feature) -> Result<(), Problem> {
        match self.features.has(feature) {
            true => Ok(()),
            false => Err(Problem::Needs(feature.name())),
        }
    }
}

fn field(field: &'static str, value: u64) -> Result<(), Problem> {
    Err(Problem::Field { field, value })
}

fn number(object: ObjectId) -> Result<(), Problem> {
    match object.0 {
        0 | OBJECT_LIMIT.. => field("object", object.0),
        _ => Ok(()),
    }
}

fn object_type(number: u32) -> Result<(), Problem> {
    let kind = u8::try_from(number).ok().map(ObjectType);
    match kind.is_some_and(|kind| kind != ObjectType::NONE && kind.is_valid()) {
        true => Ok(()),
        false => field("type", u64::from(number)),
    }
}

fn range(object: ObjectId, offset: u64, length: u64) -> Result<(), Problem> {
    number(object)?;
    if length != TO_THE_END && offset.checked_add(length).is_none() {
        return field("length", length);
    }
    Ok(())
}

/// The snapshot that a record says it belongs to.
fn to_guid(record: &Record) -> Guid {
    match record {
        Record::Begin(begin) => begin.to_guid,
        Record::Object(object) => object.to_guid,
        Record::FreeObjects(range) => range.to_guid,
        Record::Write(write) => write.to_guid,
        Record::Free(free) => free.to_guid,
        Record::End(end) => end.to_guid,
        Record::WriteByReference(write) => write.to_guid,
        Record::Spill(spill) => spill.to_guid,
        Record::WriteEmbedded(write) => write.to_guid,
        Record::ObjectRange(range) => range.to_guid,
        Record::Redact(redact) => redact.to_guid,
    }
}
