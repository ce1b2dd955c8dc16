//! Recording what was allocated and freed, so that the next import knows (format/1d.2 and 1d.4).
//!
//! Without the feature `log_spacemap` each metaslab's changes are appended to its own map. With
//! it, all changes of a txg go to one log, and a few metaslabs in each txg are *flushed*: what
//! the logs say about them is appended to their maps, so that the oldest logs can go.
//!
//! Recording writes to objects of the pool, which allocates and frees in its turn. The sync
//! calls until nothing is left to record; from the second pass on blocks are rewritten in place,
//! so that comes soon.
//!
//! Only the syncing thread records. It takes what there is to record under a vdev's lock, and in
//! the same moment notes it where loading a metaslab looks for it; reading and writing objects
//! comes after, without the lock.

use super::error::SyncError;
use crate::allocation::{Metaslab, SharedTop, Space, TopSpace, count_range};
use cenote_base::{ObjectId, Txg, VdevId};
use cenote_dmu::zap::ZapValue;
use cenote_dmu::{NewObject, Object};
use cenote_dsl::DslError;
use cenote_dsl::write::SyncContext;
use cenote_io::{Delta, RangeConflict};
use cenote_ondisk::ObjectType;
use cenote_ondisk::features;
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::space_map::{
    Action, HEADER_SIZE_HISTOGRAM, HISTOGRAM_BUCKETS, LOG_SHIFT, SpaceMapHeader,
};
use cenote_ondisk::space_map_writer::SpaceMapWriter;
use cenote_ondisk::vdev_zap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Blocks of logs, and of maps in pools with logs.
const LARGE_BLOCK: u64 = 128 << 10;
/// Blocks of maps in pools without logs.
const SMALL_BLOCK: u64 = 16 << 10;
const MAP_INDIRECT_SHIFT: u8 = 14;
/// Each metaslab is flushed once in about so many txgs, which bounds the number of logs.
const FLUSH_PERIOD: usize = 64;
/// Maps that are longer than this many blocks may be rewritten.
const CONDENSE_BLOCKS: u64 = 4;

/// The logs of a pool.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    logs: BTreeMap<Txg, ObjectId>,
    /// The next group is to leave no log of the groups before it.
    flushes_all: bool,
}

/// A vdev got its table of metaslabs: its configuration must say so.
pub(crate) type NewArray = (VdevId, ObjectId);

/// What one call recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// Vdevs that got a table of metaslabs.
    pub arrays: Vec<NewArray>,
}

pub(super) fn map_object(
    context: &SyncContext<'_>,
    block_size: u64,
) -> Result<(Object, SpaceMapHeader), SyncError> {
    let has_histogram = context
        .dsl
        .features()
        .get(features::SPACEMAP_HISTOGRAM)
        .is_some();
    let header = SpaceMapHeader {
        object: ObjectId(0),
        length: 0,
        allocated: 0,
        histogram: has_histogram.then_some([0; HISTOGRAM_BUCKETS]),
    };
    let new = NewObject {
        indirect_shift: MAP_INDIRECT_SHIFT,
        ..NewObject::new(ObjectType::SPACE_MAP, block_size)
            .with_bonus(ObjectType::SPACE_MAP_HEADER, header.encode())
    };
    let object = context.mos().allocate(context.tx, new)?;
    if has_histogram {
        context.feature_changed(features::SPACEMAP_HISTOGRAM, 1)?;
    }
    Ok((object, header))
}

pub(super) fn append(
    context: &SyncContext<'_>,
    object: &Object,
    header: &SpaceMapHeader,
    at: u64,
    bytes: &[u8],
) -> Result<(), SyncError> {
    if !bytes.is_empty() {
        object.write(context.tx, at, bytes)?;
    }
    object.set_bonus(context.tx, ObjectType::SPACE_MAP_HEADER, header.encode())?;
    Ok(())
}

fn write_word(
    context: &SyncContext<'_>,
    object: ObjectId,
    index: usize,
    word: u64,
) -> Result<(), SyncError> {
    let object = context.mos().object(object)?;
    object.write(context.tx, 8 * index as u64, &word.to_le_bytes())?;
    Ok(())
}

fn append_delta(
    writer: &mut SpaceMapWriter,
    delta: &Delta,
    pass: u32,
    txg: Txg,
    mut range: impl FnMut(&mut SpaceMapWriter, Action, Range<u64>),
) {
    for (action, set) in [
        (Action::Alloc, &delta.allocated),
        (Action::Free, &delta.freed),
    ] {
        if set.is_empty() {
            continue;
        }
        writer.debug(action, u64::from(pass), txg);
        for part in set.iter() {
            range(writer, action, part);
        }
    }
}

impl Recorder {
    /// The recorder of a pool with these logs.
    pub fn new(logs: BTreeMap<Txg, ObjectId>) -> Self {
        Self {
            logs,
            flushes_all: false,
        }
    }

    /// Brings all maps up to date with the group that is being written, so that no older log is
    /// left. Logs know vdevs by their numbers: a number must not be another vdev's meanwhile.
    pub fn flush_all(&mut self) {
        self.flushes_all = true;
    }

    /// Records everything that changed since the last call.
    ///
    /// # Errors
    /// If the maps cannot be changed, or what is freed was never allocated.
    pub fn record(
        &mut self,
        context: &SyncContext<'_>,
        space: &Space,
        pass: u32,
    ) -> Result<Recorded, SyncError> {
        let mut recorded = Recorded::default();
        if let Some((vdev, conflict)) = space.conflict() {
            return Err(SyncError::Space { vdev, conflict });
        }
        for top in space.tops() {
            record_checkpointed(context, &top, pass)?;
        }
        if context.dsl.features().get(features::LOG_SPACEMAP).is_none() {
            for top in space.tops() {
                record_direct(context, &top, pass, space, &mut recorded)?;
            }
            return Ok(recorded);
        }
        if !self.logs.contains_key(&context.txg()) {
            self.begin(context)?;
            self.flush_some(context, space, pass)?;
        }
        self.append_to_log(context, space, pass, &mut recorded)?;
        Ok(recorded)
    }

    /// Begins the txg's log.
    fn begin(&mut self, context: &SyncContext<'_>) -> Result<(), SyncError> {
        let directory = context.dsl.object_directory();
        let table = match directory.object(keys::LOG_SPACE_MAPS)? {
            Some(table) => context.mos().zap(table)?,
            None => {
                let table = context.create_table(ObjectType::ZAP_METADATA)?;
                context.set_directory_number(keys::LOG_SPACE_MAPS, table.0)?;
                context.feature_changed(features::LOG_SPACEMAP, 1)?;
                context.mos().zap(table)?
            }
        };
        let (log, _) = map_object(context, LARGE_BLOCK)?;
        let key = format!("{:x}", context.txg().0);
        table.update(context.tx, key.as_bytes(), &ZapValue::from_u64(log.id().0))?;
        self.logs.insert(context.txg(), log.id());
        Ok(())
    }

    /// Flushes the metaslabs that waited longest, and frees logs that are not needed any more.
    fn flush_some(
        &mut self,
        context: &SyncContext<'_>,
        space: &Space,
        pass: u32,
    ) -> Result<(), SyncError> {
        let mut waiting = Vec::new();
        space.for_each(|top| {
            let metaslabs = top.metaslabs.iter().enumerate();
            let logged = metaslabs.filter(|(_, m)| m.unflushed_txg != Txg(0));
            waiting.extend(logged.map(|(index, m)| (m.unflushed_txg, top.vdev, index)));
            Ok::<(), SyncError>(())
        })?;
        waiting.sort_unstable();
        let count = match std::mem::take(&mut self.flushes_all) {
            true => waiting.len(),
            false => waiting.len().div_ceil(FLUSH_PERIOD),
        };
        for (since, vdev, index) in waiting.drain(..count) {
            if let Some(top) = space.top(vdev)
                && since < context.txg()
            {
                flush(context, &top, index, pass)?;
            }
        }
        let oldest = waiting
            .first()
            .map_or(context.txg(), |(since, _, _)| *since);
        self.forget_before(context, oldest)
    }

    fn forget_before(&mut self, context: &SyncContext<'_>, txg: Txg) -> Result<(), SyncError> {
        // The log of this group is needed, whatever the state of metaslabs.
        let needed = self.logs.split_off(&txg.min(context.txg()));
        let old = std::mem::replace(&mut self.logs, needed);
        let Some(table) = context
            .dsl
            .object_directory()
            .object(keys::LOG_SPACE_MAPS)?
        else {
            return Ok(());
        };
        let table = context.mos().zap(table)?;
        for (txg, log) in old {
            free_map(context, log)?;
            table.remove(context.tx, format!("{:x}", txg.0).as_bytes())?;
        }
        Ok(())
    }

    fn append_to_log(
        &self,
        context: &SyncContext<'_>,
        space: &Space,
        pass: u32,
        recorded: &mut Recorded,
    ) -> Result<(), SyncError> {
        let log = context.mos().object(self.logs[&context.txg()])?;
        let mut header = SpaceMapHeader::decode(&log.dnode().bonus)?;
        let at = header.length;
        let mut writer = SpaceMapWriter::new(0, LOG_SHIFT, log.dnode().data_block_size, at, true);
        for shared in space.tops() {
            let (vdev, dirty) = take_dirty(&shared);
            let conflict = |conflict| SyncError::Space { vdev, conflict };
            for index in dirty {
                touch(context, &shared, index, true, recorded)?;
                let logged = log_changes(&mut shared.lock(), index).map_err(conflict)?;
                write_header(context, &logged)?;
                let each = |writer: &mut SpaceMapWriter, action, r: Range<u64>| {
                    writer.log_range(action, vdev, r.start, r.end - r.start);
                };
                append_delta(&mut writer, &logged.delta, pass, context.txg(), each);
                header.allocated = header.allocated.saturating_add(logged.delta.balance());
            }
        }
        header.length = writer.length();
        if header.length > at {
            append(context, &log, &header, at, &writer.into_bytes())?;
        }
        Ok(())
    }
}

/// Frees a space map's object.
pub(crate) fn free_map(context: &SyncContext<'_>, map: ObjectId) -> Result<(), DslError> {
    let has_histogram = {
        let object = context.mos().object(map)?;
        object.dnode().bonus.len() >= HEADER_SIZE_HISTOGRAM
    };
    context.mos().free(context.tx, map)?;
    if has_histogram {
        context.feature_changed(features::SPACEMAP_HISTOGRAM, -1)?;
    }
    Ok(())
}

/// The metaslabs of a vdev with changes to record, and its number.
fn take_dirty(shared: &SharedTop) -> (VdevId, Vec<usize>) {
    let mut top = shared.lock();
    let mut dirty: Vec<usize> = std::mem::take(&mut top.dirty).into_iter().collect();
    dirty.retain(|index| top.metaslabs[*index].is_dirty());
    (top.vdev, dirty)
}

/// Changes of a metaslab that go to the log, and its map with the header that knows them.
struct Logged {
    delta: Delta,
    map: ObjectId,
    header: SpaceMapHeader,
}

/// Takes a metaslab's changes for the log.
fn log_changes(top: &mut TopSpace, index: usize) -> Result<Logged, RangeConflict> {
    let ashift = top.ashift;
    let metaslab = &mut top.metaslabs[index];
    let delta = metaslab.take_pending()?;
    update_histogram(metaslab, ashift, &delta);
    for range in delta.allocated.iter() {
        metaslab.delta.allocate(range)?;
    }
    for range in delta.freed.iter() {
        metaslab.delta.free(range)?;
    }
    let logged = Logged {
        delta,
        map: map_of(metaslab),
        header: metaslab.header.clone(),
    };
    top.waiting.insert(index);
    Ok(logged)
}

fn map_of(metaslab: &Metaslab) -> ObjectId {
    metaslab
        .map
        .expect("a metaslab is touched before it is written")
}

/// Makes what a metaslab needs before its first change is recorded.
fn touch(
    context: &SyncContext<'_>,
    shared: &SharedTop,
    index: usize,
    with_log: bool,
    recorded: &mut Recorded,
) -> Result<(), SyncError> {
    let (vdev, array, map, unflushed) = {
        let top = shared.lock();
        let metaslab = &top.metaslabs[index];
        (top.vdev, top.array, metaslab.map, metaslab.unflushed_txg)
    };
    let array = match array {
        Some(array) => array,
        None => {
            let new = NewObject::new(ObjectType::OBJECT_ARRAY, 512);
            let array = context.mos().allocate(context.tx, new)?.id();
            shared.lock().array = Some(array);
            recorded.arrays.push((vdev, array));
            array
        }
    };
    if map.is_none() {
        let block_size = if with_log { LARGE_BLOCK } else { SMALL_BLOCK };
        let (object, header) = map_object(context, block_size)?;
        write_word(context, array, index, object.id().0)?;
        let mut top = shared.lock();
        top.metaslabs[index].map = Some(object.id());
        top.metaslabs[index].header = header;
        top.waiting.insert(index);
    }
    if with_log && unflushed == Txg(0) {
        set_unflushed(context, shared, index)?;
    }
    Ok(())
}

/// Notes that a metaslab's map has everything before this txg.
fn set_unflushed(
    context: &SyncContext<'_>,
    shared: &SharedTop,
    index: usize,
) -> Result<(), SyncError> {
    let (vdev, unflushed, zap) = {
        let top = shared.lock();
        (top.vdev, top.unflushed, top.top_zap)
    };
    let table = match unflushed {
        Some(table) => table,
        None => {
            let zap = zap.ok_or(SyncError::NoVdevZap { vdev })?;
            let new = NewObject::new(ObjectType::UINT64_METADATA, LARGE_BLOCK);
            let table = context.mos().allocate(context.tx, new)?.id();
            let zap = context.mos().zap(zap)?;
            zap.update(
                context.tx,
                vdev_zap::top::UNFLUSHED_TXGS.as_bytes(),
                &ZapValue::from_u64(table.0),
            )?;
            shared.lock().unflushed = Some(table);
            table
        }
    };
    write_word(context, table, index, context.txg().0)?;
    shared.lock().metaslabs[index].unflushed_txg = context.txg();
    Ok(())
}

/// Brings a metaslab's map up to date with the logs before this txg's.
fn flush(
    context: &SyncContext<'_>,
    shared: &SharedTop,
    index: usize,
    pass: u32,
) -> Result<(), SyncError> {
    let map = MapObject::open(context, shared, index)?;
    let addition = {
        let mut top = shared.lock();
        let ashift = top.ashift;
        let metaslab = &mut top.metaslabs[index];
        // The histogram has these changes since they were logged.
        let delta = std::mem::take(&mut metaslab.delta);
        let addition = map.addition(metaslab, ashift, &delta, (pass, context.txg()));
        metaslab.flushed = delta;
        top.waiting.insert(index);
        addition
    };
    map.append(context, &addition)?;
    set_unflushed(context, shared, index)
}

/// A metaslab's own map, open for writing.
struct MapObject {
    object: Object,
    /// Whether entries may take two words.
    two_words: bool,
}

/// What is to be written to a map.
struct Addition {
    /// It replaces all that the map has.
    is_whole: bool,
    header: SpaceMapHeader,
    at: u64,
    bytes: Vec<u8>,
}

impl MapObject {
    fn open(
        context: &SyncContext<'_>,
        shared: &SharedTop,
        index: usize,
    ) -> Result<Self, SyncError> {
        let map = map_of(&shared.lock().metaslabs[index]);
        Ok(Self {
            object: context.mos().object(map)?,
            two_words: context.dsl.features().is_active(features::SPACEMAP_V2),
        })
    }

    /// Works out how changes are appended to a metaslab's map, or the map rewritten if it has grown
    /// too long for what it says. From now on its header has them.
    fn addition(
        &self,
        metaslab: &mut Metaslab,
        ashift: u32,
        delta: &Delta,
        (pass, txg): (u32, Txg),
    ) -> Addition {
        let block_size = self.object.dnode().data_block_size;
        let start = metaslab.range.start;
        let mut at = metaslab.header.length;
        let condensed = match pass {
            1 => worth_condensing(metaslab, block_size),
            _ => None,
        };
        let is_whole = condensed.is_some();
        let mut writer;
        let allocated = metaslab.header.allocated;
        metaslab.header.allocated = allocated.saturating_add(delta.balance());
        let range = |writer: &mut SpaceMapWriter, action, range: Range<u64>| {
            writer.range(action, VdevId(0), range.start, range.end - range.start);
        };
        if let Some(allocated) = condensed {
            assert_whole(metaslab, &allocated);
            at = 0;
            writer = SpaceMapWriter::new(start, ashift, block_size, 0, self.two_words);
            writer.debug(Action::Alloc, u64::from(pass), txg);
            for part in allocated {
                range(&mut writer, Action::Alloc, part);
            }
        } else {
            writer = SpaceMapWriter::new(start, ashift, block_size, at, self.two_words);
            append_delta(&mut writer, delta, pass, txg, range);
        }
        metaslab.header.length = writer.length();
        Addition {
            is_whole,
            header: metaslab.header.clone(),
            at,
            bytes: writer.into_bytes(),
        }
    }

    fn append(&self, context: &SyncContext<'_>, addition: &Addition) -> Result<(), SyncError> {
        if addition.is_whole {
            self.object.free_range(context.tx, 0, u64::MAX)?;
        }
        let Addition {
            header, at, bytes, ..
        } = addition;
        append(context, &self.object, header, *at, bytes)
    }
}

/// Asserts that a rewritten map says as much as its header. The pair of this is the check in
/// [`Metaslab::load`].
fn assert_whole(metaslab: &Metaslab, allocated: &[Range<u64>]) {
    let bytes: u64 = allocated.iter().map(|range| range.end - range.start).sum();
    assert_eq!(
        i64::try_from(bytes),
        Ok(metaslab.header.allocated),
        "the map at {:x} is rewritten",
        metaslab.range.start
    );
}

/// The allocated ranges that the map is to say, if rewriting it is worth it.
fn worth_condensing(metaslab: &Metaslab, block_size: u64) -> Option<Vec<Range<u64>>> {
    let length = metaslab.header.length;
    if length <= CONDENSE_BLOCKS * block_size {
        return None;
    }
    let allocated = metaslab.recorded_ranges()?;
    let optimal = 16 * (allocated.len() as u64 + 1);
    (length >= 2 * optimal).then_some(allocated)
}

/// Writes a map's header alone: its histogram knows logged changes, unlike the rest (format/1d.4).
///
/// OpenZFS weighs metaslabs by it before it loads them: a histogram that promises more than is
/// free sends it to full ones, and fails its assertions.
fn write_header(context: &SyncContext<'_>, logged: &Logged) -> Result<(), SyncError> {
    let object = context.mos().object(logged.map)?;
    append(context, &object, &logged.header, 0, &[])
}

fn update_histogram(metaslab: &mut Metaslab, ashift: u32, delta: &Delta) {
    let known = metaslab.histogram(ashift);
    let Some(histogram) = &mut metaslab.header.histogram else {
        return;
    };
    match known {
        Some(known) => *histogram = known,
        None => {
            for range in delta.freed.iter() {
                count_range(histogram, range.end - range.start, ashift);
            }
        }
    }
}

/// Records a vdev's changes in its metaslabs' own maps.
fn record_direct(
    context: &SyncContext<'_>,
    shared: &SharedTop,
    pass: u32,
    space: &Space,
    recorded: &mut Recorded,
) -> Result<(), SyncError> {
    let (vdev, dirty) = take_dirty(shared);
    let conflict = |conflict| SyncError::Space { vdev, conflict };
    for index in dirty {
        touch(context, shared, index, false, recorded)?;
        // Only with the free ranges known can the map be rewritten.
        let length = shared.lock().metaslabs[index].header.length;
        if pass == 1 && length > CONDENSE_BLOCKS * SMALL_BLOCK {
            drop(space.lock_loaded(shared, index));
        }
        let map = MapObject::open(context, shared, index)?;
        let addition = {
            let mut top = shared.lock();
            let ashift = top.ashift;
            let metaslab = &mut top.metaslabs[index];
            let delta = metaslab.take_pending().map_err(conflict)?;
            update_histogram(metaslab, ashift, &delta);
            let addition = map.addition(metaslab, ashift, &delta, (pass, context.txg()));
            for range in delta.allocated.iter() {
                metaslab.flushed.allocate(range).map_err(conflict)?;
            }
            for range in delta.freed.iter() {
                metaslab.flushed.free(range).map_err(conflict)?;
            }
            top.waiting.insert(index);
            addition
        };
        map.append(context, &addition)?;
    }
    Ok(())
}

/// Records blocks that only the checkpoint refers to from now on (format/1d.9).
fn record_checkpointed(
    context: &SyncContext<'_>,
    shared: &SharedTop,
    pass: u32,
) -> Result<(), SyncError> {
    let (ranges, vdev, zap, ashift) = {
        let mut top = shared.lock();
        let ranges = std::mem::take(&mut top.checkpointed);
        (ranges, top.vdev, top.top_zap, top.ashift)
    };
    if ranges.is_empty() {
        return Ok(());
    }
    let zap = zap.ok_or(SyncError::NoVdevZap { vdev })?;
    let zap = context.mos().zap(zap)?;
    let object = match zap.lookup_u64(vdev_zap::top::CHECKPOINT_SPACE_MAP)? {
        Some(map) => context.mos().object(ObjectId(map))?,
        None => {
            let (object, _) = map_object(context, LARGE_BLOCK)?;
            let value = ZapValue::from_u64(object.id().0);
            zap.update(
                context.tx,
                vdev_zap::top::CHECKPOINT_SPACE_MAP.as_bytes(),
                &value,
            )?;
            object
        }
    };
    let mut header = SpaceMapHeader::decode(&object.dnode().bonus)?;
    let at = header.length;
    let block_size = object.dnode().data_block_size;
    let two_words = context.dsl.features().is_active(features::SPACEMAP_V2);
    let mut writer = SpaceMapWriter::new(0, ashift, block_size, at, two_words);
    writer.debug(Action::Free, u64::from(pass), context.txg());
    let mut bytes = 0_u64;
    for range in ranges {
        let length = range.end - range.start;
        writer.range(Action::Free, VdevId(0), range.start, length);
        let freed = i64::try_from(length).unwrap_or(i64::MAX);
        header.allocated = header.allocated.saturating_sub(freed);
        bytes = bytes.saturating_add(length);
    }
    {
        let mut top = shared.lock();
        top.checkpoint_bytes = top.checkpoint_bytes.saturating_add(bytes);
    }
    header.length = writer.length();
    append(context, &object, &header, at, &writer.into_bytes())
}
