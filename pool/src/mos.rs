//! Reading the pool's own objects: the directory, packed lists, and tables of integers.

use cenote_base::{BlockId, ObjectId};
use cenote_dmu::{DmuError, Object, ObjectSet};
use cenote_ondisk::device_removal::{
    BIRTH_ENTRY_SIZE, BirthEntry, MAPPING_ENTRY_SIZE, MappingEntry, MappingHeader, birth_count,
};
use cenote_ondisk::nvlist::NvList;
pub use cenote_ondisk::object_directory::OBJECT_DIRECTORY;
use cenote_ondisk::{DecodeError, VdevConfig, wire};
use std::sync::Arc;

/// A configuration of 65536 vdevs with long paths is below this.
const PACKED_LIST_BYTES_MAX: u64 = 64 << 20;

/// The object that directory entry `key` names.
pub(crate) fn directory_object(
    mos: &Arc<ObjectSet>,
    key: &str,
) -> Result<Option<ObjectId>, DmuError> {
    Ok(mos
        .zap(OBJECT_DIRECTORY)?
        .lookup_u64(key)?
        .filter(|id| *id != 0)
        .map(ObjectId))
}

/// The integers of directory entry `key`.
pub(crate) fn directory_words(
    mos: &Arc<ObjectSet>,
    key: &str,
) -> Result<Option<Vec<u64>>, DmuError> {
    let value = mos.zap(OBJECT_DIRECTORY)?.lookup(key.as_bytes())?;
    Ok(value.and_then(|value| value.as_u64s()))
}

/// The name-value list packed in an object; its length is in the bonus buffer.
pub(crate) fn packed_list(mos: &Arc<ObjectSet>, id: ObjectId) -> Result<NvList, DmuError> {
    let object = mos.object(id)?;
    let structure = "packed nvlist object";
    let length = wire::u64_le(&object.dnode().bonus, 0, structure)
        .map_err(|source| object.malformed(source))?;
    if length > PACKED_LIST_BYTES_MAX {
        let source = DecodeError::BadValue {
            structure,
            field: "length",
            value: length,
        };
        return Err(object.malformed(source));
    }
    let mut bytes = vec![0; usize::try_from(length).expect("at most 64 MiB")];
    object.read(0, &mut bytes)?;
    NvList::decode(&bytes).map_err(|source| object.malformed(source))
}

/// Where the space of a removed vdev is now, in order of its addresses.
pub(crate) fn indirect_mapping(
    mos: &Arc<ObjectSet>,
    top: &VdevConfig,
) -> Result<Vec<MappingEntry>, DmuError> {
    let mut entries = Vec::new();
    let Some(object) = top.indirect_object else {
        return Ok(entries);
    };
    let object = mos.object(object)?;
    let header = MappingHeader::decode(&object.dnode().bonus);
    let header = header.map_err(|source| object.malformed(source))?;
    let (count, size) = (header.entries, MAPPING_ENTRY_SIZE);
    let length = bounded_length(&object, "indirect mapping", count, size)?;
    for_each_record(&object, length, MAPPING_ENTRY_SIZE, |bytes| {
        entries.push(MappingEntry::decode(bytes).map_err(|source| object.malformed(source))?);
        Ok::<(), DmuError>(())
    })?;
    Ok(entries)
}

/// When the space of a removed vdev was copied, in order of its addresses.
pub(crate) fn indirect_births(
    mos: &Arc<ObjectSet>,
    top: &VdevConfig,
) -> Result<Vec<BirthEntry>, DmuError> {
    let mut births = Vec::new();
    let Some(object) = top.indirect_births else {
        return Ok(births);
    };
    let object = mos.object(object)?;
    let count = birth_count(&object.dnode().bonus);
    let count = count.map_err(|source| object.malformed(source))?;
    let length = bounded_length(&object, "births of moved space", count, BIRTH_ENTRY_SIZE)?;
    for_each_record(&object, length, BIRTH_ENTRY_SIZE, |bytes| {
        births.push(BirthEntry::decode(bytes).map_err(|source| object.malformed(source))?);
        Ok::<(), DmuError>(())
    })?;
    Ok(births)
}

/// The bytes of so many records, if the object can have as many.
fn bounded_length(
    object: &Object,
    structure: &'static str,
    records: u64,
    size: usize,
) -> Result<u64, DmuError> {
    let length = records.saturating_mul(size as u64);
    let stored = object.dnode().block_id_max.0.saturating_add(1);
    if length <= stored.saturating_mul(object.dnode().data_block_size) {
        return Ok(length);
    }
    Err(object.malformed(DecodeError::BadValue {
        structure,
        field: "number of entries",
        value: records,
    }))
}

/// Calls `each` with records of `record` bytes from the first `length` bytes of an object.
///
/// The object is read a mebibyte at a time. Holes are passed over, records in them too, so that a
/// length that the object does not have costs nothing.
pub(crate) fn for_each_record<E: From<DmuError>>(
    object: &Object,
    length: u64,
    record: usize,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    assert!(record > 0);
    let chunk = (1 << 20) / record * record;
    let mut buffer = vec![0; chunk];
    let mut at = 0;
    let block_size = object.dnode().data_block_size.max(1);
    while let Some(data) = object.next_data_block(BlockId(at / block_size))? {
        let start = data.0.saturating_mul(block_size);
        at = at.max(start / record as u64 * record as u64);
        if at >= length {
            break;
        }
        let wanted = usize::try_from(length - at).unwrap_or(chunk).min(chunk);
        let whole = wanted / record * record;
        if whole == 0 {
            break;
        }
        object.read(at, &mut buffer[..whole])?;
        for bytes in buffer[..whole].chunks_exact(record) {
            each(bytes)?;
        }
        at += whole as u64;
    }
    Ok(())
}
