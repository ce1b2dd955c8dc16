//! Space maps: which ranges of each vdev are allocated (format/1d).
//!
//! The set is the replay of each metaslab's own map, then of the pool-wide logs of the txgs since
//! that map was last brought up to date. Checkpoint and dirty-time maps use the same entries in
//! other units.

use crate::mos::{OBJECT_DIRECTORY, directory_object};
use cenote_base::{ObjectId, Txg, VdevId};
use cenote_dmu::{DmuError, Object, ObjectSet};
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::space_map::{Action, SpaceMapEntry, SpaceMapHeader, SpaceMapItems};
use cenote_ondisk::vdev_config::VdevConfig;
use cenote_ondisk::vdev_zap;
use cenote_ondisk::{DecodeError, wire};
use cenote_vdev::Shape;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Units of a log space map: 512 bytes.
const LOG_SHIFT: u32 = 9;
/// Bytes of the words that entries consist of.
const ENTRY_SIZE: u64 = 8;
/// A vdev has at most 131072 metaslabs by OpenZFS's rules; older software made more.
const METASLABS_MAX: u64 = 1 << 24;

/// Calls `each` for every entry of the space map in `object`.
///
/// Two-word entries do not straddle blocks, so the map is read block by block.
pub(crate) fn for_each_entry(
    object: &Object,
    start: u64,
    shift: u32,
    mut each: impl FnMut(SpaceMapEntry),
) -> Result<SpaceMapHeader, DmuError> {
    let header = SpaceMapHeader::decode(&object.dnode().bonus);
    let header = header.map_err(|source| object.malformed(source))?;
    check_length(object, header.length)?;
    let size = object.dnode().data_block_size;
    let mut at = 0;
    while at < header.length {
        let length = usize::try_from(size.min(header.length - at)).expect("at most a block");
        for segment in object.segments(at, length)? {
            let bytes = segment.bytes().ok_or_else(|| {
                let (structure, problem) = ("space map", "a block below its length is a hole");
                object.malformed(DecodeError::Inconsistent { structure, problem })
            })?;
            for entry in SpaceMapItems::new(bytes, start, shift).entries() {
                each(entry.map_err(|source| object.malformed(source))?);
            }
        }
        at += size;
    }
    Ok(header)
}

/// Refuses a map that claims to be longer than its object is, or to end within an entry.
fn check_length(object: &Object, length: u64) -> Result<(), DmuError> {
    let dnode = object.dnode();
    let blocks = dnode.block_id_max.0.saturating_add(1);
    let is_there = length <= blocks.saturating_mul(dnode.data_block_size);
    if is_there && length.is_multiple_of(ENTRY_SIZE) {
        return Ok(());
    }
    let (structure, field) = ("space map", "length");
    let source = DecodeError::BadValue {
        structure,
        field,
        value: length,
    };
    Err(object.malformed(source))
}

/// Where the metaslabs of a top-level vdev are and what their maps say.
#[derive(Clone, Debug)]
pub(crate) struct Metaslabs {
    pub(crate) vdev: VdevId,
    /// The object that lists the maps.
    pub(crate) array: ObjectId,
    pub(crate) ashift: u32,
    pub(crate) shift: u32,
    /// Where each metaslab's space begins, in bytes: not at a power of two in a draid vdev.
    pub(crate) starts: Vec<u64>,
    /// The space map of each metaslab; `None` where nothing was ever allocated.
    pub(crate) maps: Vec<Option<ObjectId>>,
    /// The txg since which each metaslab's changes are only in the logs; 0 for never.
    pub(crate) unflushed: Vec<u64>,
}

/// The objects that describe the space of a top-level vdev.
#[derive(Clone, Debug)]
pub(crate) struct SpaceObjects {
    /// Lists the space maps.
    pub(crate) array: ObjectId,
    /// The space map of each metaslab; `None` where nothing was ever allocated.
    pub(crate) maps: Vec<Option<ObjectId>>,
    /// Since which txg each metaslab's changes are only in the logs.
    pub(crate) unflushed: Option<ObjectId>,
}

/// The objects that describe the space of a top-level vdev, unless nothing was allocated there.
///
/// # Errors
/// If the pool's metadata cannot be read.
pub(crate) fn space_objects(
    mos: &Arc<ObjectSet>,
    config: &VdevConfig,
) -> Result<Option<SpaceObjects>, DmuError> {
    let is_mapped = config.kind.is_concrete() && config.metaslab_shift != 0;
    let Some(array) = config.metaslab_array.filter(|_| is_mapped) else {
        return Ok(None);
    };
    let count = config.asize >> config.metaslab_shift;
    let array = mos.object(array)?;
    if count > METASLABS_MAX {
        let (structure, field) = ("vdev configuration", "number of metaslabs");
        return Err(array.malformed(DecodeError::BadValue {
            structure,
            field,
            value: count,
        }));
    }
    let maps = read_words(&array, count)?.into_iter();
    let unflushed = match config.top_zap {
        Some(zap) => mos.zap(zap)?.lookup_u64(vdev_zap::top::UNFLUSHED_TXGS)?,
        None => None,
    };
    Ok(Some(SpaceObjects {
        array: array.id(),
        maps: maps.map(|id| (id != 0).then_some(ObjectId(id))).collect(),
        unflushed: unflushed.map(ObjectId),
    }))
}

fn read_words(object: &Object, count: u64) -> Result<Vec<u64>, DmuError> {
    let mut bytes = vec![0; usize::try_from(count * 8).expect("bounded by the caller")];
    object.read(0, &mut bytes)?;
    let words = bytes.chunks_exact(8);
    Ok(words
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect())
}

/// The metaslabs of a top-level vdev; `None` for one that has none.
pub(crate) fn metaslabs(
    mos: &Arc<ObjectSet>,
    vdevs: &Shape,
    config: &VdevConfig,
) -> Result<Option<Metaslabs>, DmuError> {
    let (Some(ashift), Some(objects)) = (config.ashift, space_objects(mos, config)?) else {
        return Ok(None);
    };
    let count = objects.maps.len() as u64;
    let unflushed = match objects.unflushed {
        Some(object) => read_words(&mos.object(object)?, count)?,
        None => vec![0; objects.maps.len()],
    };
    let vdev = config.id.unwrap_or_default();
    let plain = |index: u64| index << config.metaslab_shift;
    let start = |index| {
        vdevs
            .metaslab(vdev, index)
            .map_or(plain(index), |(start, _)| start)
    };
    Ok(Some(Metaslabs {
        array: objects.array,
        vdev,
        ashift,
        shift: config.metaslab_shift,
        starts: (0..count).map(start).collect(),
        maps: objects.maps,
        unflushed,
    }))
}

/// Reads the last block of each space map of a vdev, which what changes next is added to.
///
/// What lies before is read when something is to be allocated there, and if it is damaged nothing
/// is.
pub(crate) fn check_ends(
    mos: &Arc<ObjectSet>,
    vdevs: &Shape,
    config: &VdevConfig,
) -> Result<(), DmuError> {
    let found = metaslabs(mos, vdevs, config)?;
    let maps = found.map_or(Vec::new(), |found| found.maps);
    let checkpoint = match config.top_zap {
        Some(zap) => mos
            .zap(zap)?
            .lookup_u64(vdev_zap::top::CHECKPOINT_SPACE_MAP)?,
        None => None,
    };
    let checkpoint = checkpoint.map(ObjectId);
    for map in maps.into_iter().flatten().chain(checkpoint) {
        let object = mos.object(map)?;
        let header = SpaceMapHeader::decode(&object.dnode().bonus);
        let header = header.map_err(|source| object.malformed(source))?;
        check_length(&object, header.length)?;
        if let Some(last) = header.length.checked_sub(1) {
            object.read(last, &mut [0])?;
        }
    }
    Ok(())
}

/// The log space maps by txg.
pub(crate) fn logs(mos: &Arc<ObjectSet>) -> Result<BTreeMap<Txg, ObjectId>, DmuError> {
    let mut logs = BTreeMap::new();
    let Some(zap) = directory_object(mos, keys::LOG_SPACE_MAPS)? else {
        return Ok(logs);
    };
    let zap = mos.zap(zap)?;
    for entry in zap.entries() {
        let entry = entry?;
        let txg = entry
            .key
            .as_str()
            .and_then(|key| u64::from_str_radix(key, 16).ok());
        match (txg, entry.value.as_u64()) {
            (Some(txg), Some(object)) => logs.insert(Txg(txg), ObjectId(object)),
            _ => {
                let (structure, problem) = ("log space map list", "an entry is not txg to object");
                let source = DecodeError::Inconsistent { structure, problem };
                return Err(zap.object().malformed(source));
            }
        };
    }
    Ok(logs)
}

/// Calls `each` with every allocation and free of a pool, in an order in which replaying them
/// gives the allocated set: each metaslab's map, then the logs that go beyond it.
pub(crate) fn replay(
    mos: &Arc<ObjectSet>,
    vdevs: &[Metaslabs],
    mut each: impl FnMut(VdevId, SpaceMapEntry),
) -> Result<(), DmuError> {
    for vdev in vdevs {
        for (map, start) in vdev.maps.iter().zip(&vdev.starts) {
            let Some(map) = map else { continue };
            let end = start.saturating_add(1 << vdev.shift);
            let object = mos.object(*map)?;
            let mut outside = None;
            for_each_entry(&object, *start, vdev.ashift, |entry| {
                match is_within(&entry, *start, end) {
                    true => each(vdev.vdev, entry),
                    false => outside = Some(entry.offset),
                }
            })?;
            refuse_outside(&object, outside)?;
        }
    }
    for (txg, log) in logs(mos)? {
        let object = mos.object(log)?;
        let mut outside = None;
        for_each_entry(&object, 0, LOG_SHIFT, |entry| {
            let Some(vdev) = vdevs.iter().find(|vdev| vdev.vdev == entry.vdev) else {
                return;
            };
            let index = usize::try_from(entry.offset >> vdev.shift).unwrap_or(usize::MAX);
            let since = vdev.unflushed.get(index);
            if since.is_none_or(|since| txg.0 < *since) {
                return;
            }
            let last = vdev.starts.last().copied().unwrap_or(0);
            match is_within(&entry, 0, last.saturating_add(1 << vdev.shift)) {
                true => each(entry.vdev, entry),
                false => outside = Some(entry.offset),
            }
        })?;
        refuse_outside(&object, outside)?;
    }
    Ok(())
}

/// Whether an entry is within the space from `start` to `end`. Replaying an entry takes memory for
/// each unit, so an unlimited entry would take unlimited memory.
fn is_within(entry: &SpaceMapEntry, start: u64, end: u64) -> bool {
    entry.offset >= start && entry.offset.saturating_add(entry.length) <= end
}

fn refuse_outside(object: &Object, outside: Option<u64>) -> Result<(), DmuError> {
    match outside {
        None => Ok(()),
        Some(value) => Err(object.malformed(DecodeError::BadValue {
            structure: "space map",
            field: "an entry outside of its metaslab, at offset",
            value,
        })),
    }
}

/// Allocated bytes by vdev, from the totals that the maps keep and the logs beyond them.
pub(crate) fn allocated(
    mos: &Arc<ObjectSet>,
    vdevs: &[Metaslabs],
) -> Result<BTreeMap<VdevId, u64>, DmuError> {
    let mut totals: BTreeMap<VdevId, i64> = vdevs.iter().map(|vdev| (vdev.vdev, 0)).collect();
    for vdev in vdevs {
        for map in vdev.maps.iter().flatten() {
            let object = mos.object(*map)?;
            let header = SpaceMapHeader::decode(&object.dnode().bonus);
            let header = header.map_err(|source| object.malformed(source))?;
            let total = totals.entry(vdev.vdev).or_default();
            *total = total.saturating_add(header.allocated);
        }
    }
    let no_maps: Vec<Metaslabs> = vdevs
        .iter()
        .map(|vdev| Metaslabs {
            maps: vec![None; vdev.maps.len()],
            ..vdev.clone()
        })
        .collect();
    replay(mos, &no_maps, |vdev, entry| {
        let length = i64::try_from(entry.length).unwrap_or(i64::MAX);
        let total = totals.entry(vdev).or_default();
        *total = match entry.action {
            Action::Alloc => total.saturating_add(length),
            Action::Free => total.saturating_sub(length),
        };
    })?;
    let positive = |(vdev, total): (VdevId, i64)| (vdev, u64::try_from(total).unwrap_or(0));
    Ok(totals.into_iter().map(positive).collect())
}

/// The ranges of txgs in the dirty time log of a leaf: what the device missed.
pub(crate) fn dirty_time_log(
    mos: &Arc<ObjectSet>,
    object: ObjectId,
) -> Result<Vec<Range<Txg>>, DmuError> {
    let mut ranges = Vec::new();
    for_each_entry(&mos.object(object)?, 0, 0, |entry| {
        if entry.action == Action::Alloc {
            ranges.push(Txg(entry.offset)..Txg(entry.offset.saturating_add(entry.length)));
        }
    })?;
    Ok(ranges)
}

/// The free entries of a checkpoint space map: blocks that only the checkpoint still needs.
pub(crate) fn checkpoint_frees(
    mos: &Arc<ObjectSet>,
    config: &VdevConfig,
) -> Result<Vec<SpaceMapEntry>, DmuError> {
    let (Some(zap), Some(ashift)) = (config.top_zap, config.ashift) else {
        return Ok(Vec::new());
    };
    let map = mos
        .zap(zap)?
        .lookup_u64(vdev_zap::top::CHECKPOINT_SPACE_MAP)?;
    let Some(map) = map else {
        return Ok(Vec::new());
    };
    let mut frees = Vec::new();
    for_each_entry(&mos.object(ObjectId(map))?, 0, ashift, |entry| {
        if entry.action == Action::Free {
            frees.push(entry);
        }
    })?;
    Ok(frees)
}

/// The entries of the last block of a map that is `length` bytes long, and where that block
/// begins.
pub(crate) fn last_entries(
    object: &Object,
    length: u64,
    shift: u32,
) -> Result<(u64, Vec<SpaceMapEntry>), DmuError> {
    check_length(object, length)?;
    let size = object.dnode().data_block_size;
    let at = length.saturating_sub(1) / size * size;
    let mut bytes = vec![0; usize::try_from(length - at).expect("at most a block")];
    object.read(at, &mut bytes)?;
    let entries = SpaceMapItems::new(&bytes, 0, shift).entries();
    let entries = entries.collect::<Result<Vec<_>, _>>();
    Ok((at, entries.map_err(|source| object.malformed(source))?))
}

/// Bytes of each top-level vdev that only the checkpoint still needs, by the totals of their maps.
pub(crate) fn checkpoint_bytes(
    mos: &Arc<ObjectSet>,
    root: Option<&VdevConfig>,
) -> Result<BTreeMap<VdevId, u64>, DmuError> {
    let mut bytes = BTreeMap::new();
    for top in root.iter().flat_map(|root| &root.children) {
        let (Some(zap), Some(id)) = (top.top_zap, top.id) else {
            continue;
        };
        let Some(map) = mos
            .zap(zap)?
            .lookup_u64(vdev_zap::top::CHECKPOINT_SPACE_MAP)?
        else {
            continue;
        };
        let object = mos.object(ObjectId(map))?;
        let header = SpaceMapHeader::decode(&object.dnode().bonus);
        let header = header.map_err(|source| object.malformed(source))?;
        // The map holds frees only, so its sum is negative.
        bytes.insert(id, header.allocated.min(0).unsigned_abs());
    }
    Ok(bytes)
}

/// Bytes of a vdev's metaslabs, which in a draid vdev are a little smaller than they are apart.
pub(crate) fn size(vdevs: &Shape, metaslabs: &Metaslabs) -> u64 {
    let indices = 0..metaslabs.maps.len() as u64;
    let lengths = indices.map(|index| match vdevs.metaslab(metaslabs.vdev, index) {
        Some((_, length)) => length,
        None => 1 << metaslabs.shift,
    });
    lengths.sum()
}

/// The checksum salt, if the pool has one.
pub(crate) fn checksum_salt(mos: &Arc<ObjectSet>) -> Result<Option<[u8; 32]>, DmuError> {
    let value = mos
        .zap(OBJECT_DIRECTORY)?
        .lookup(keys::CHECKSUM_SALT.as_bytes())?;
    let bytes = value.as_ref().and_then(|value| value.as_bytes());
    Ok(bytes.and_then(|bytes| wire::array(bytes, 0, "checksum salt").ok()))
}
