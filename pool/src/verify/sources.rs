//! Where blocks and space come from: object sets, clones, logs, and lists of what is to be freed.

use super::claims::Claims;
use super::report::VerifyReport;
use super::segment_map::SegmentMap;
use crate::error::ImportError;
use crate::mos::{self, directory_object, for_each_record};
use crate::pool::Pool;
use crate::space;
use cenote_base::{ObjectId, ObjsetId, VdevId};
use cenote_dmu::traverse::{Event, Order, Ordered, Root, Since, Start, Walk};
use cenote_dmu::{DmuError, ObjectSet, Retention};
use cenote_dsl::Dsl;
use cenote_intent_log::IntentLog;
use cenote_ondisk::bpobj::{self, BpobjHeader};
use cenote_ondisk::bptree::{self, BptreeEntry, BptreeHeader};
use cenote_ondisk::brt::{self, BrtVdev};
use cenote_ondisk::device_removal::MappingEntry;
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::space_map::Action;
use cenote_ondisk::{BlockPointer, ObjectType, VdevKind};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Sub-objects of block pointer lists followed at most; a list that names itself ends there.
const LISTS_MAX: usize = 1 << 20;

/// Every object set of the pool: the MOS, which has no name, and each dataset and snapshot with the
/// blocks that are its own to visit.
pub fn roots(pool: &Pool) -> Result<Vec<(String, Root)>, ImportError> {
    let mos = pool.mos();
    let mut roots = vec![(String::new(), Root::of_set(mos, Since::EVER))];
    for found in mos.objects(ObjectId(1)) {
        // A damaged block of dnodes is met again by the walk, and reported there.
        let Ok((id, dnode)) = found else { continue };
        if dnode.bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let Ok(dataset) = DslDataset::decode(&dnode.bonus) else {
            continue;
        };
        let root = Root {
            objset: ObjsetId(id.0),
            start: Start::Objset(dataset.block_pointer),
            since: Since::accounting(dataset.previous_snapshot_txg),
            keys: keys_of(pool.dsl(), id, &dataset.block_pointer),
        };
        roots.push((name_of(pool.dsl(), id), root));
    }
    Ok(roots)
}

fn name_of(dsl: &Arc<Dsl>, id: ObjectId) -> String {
    let dataset = dsl.dataset_of(id);
    dataset.map_or_else(
        |_| format!("dataset {id}"),
        |dataset| dataset.name().to_string(),
    )
}

fn keys_of(
    dsl: &Arc<Dsl>,
    id: ObjectId,
    pointer: &BlockPointer,
) -> Option<Arc<cenote_io::ObjsetKeys>> {
    if !pointer.uses_crypt() {
        return None;
    }
    dsl.dataset_of(id).ok()?.object_set().ok()?.keys().cloned()
}

/// Further references by vdev and offset, from the block reference tables.
pub fn clones(pool: &Pool) -> Result<HashMap<(u64, u64), u64>, ImportError> {
    let mos = pool.mos();
    let mut clones = HashMap::new();
    for top in &pool.vdev_tree().children {
        let vdev = top.id.unwrap_or_default().0;
        let key = format!("com.fudosecurity:brt:vdev:{vdev}");
        let Some(object) = directory_object(mos, &key)? else {
            continue;
        };
        let object = mos.object(object)?;
        let table = BrtVdev::decode(&object.dnode().bonus);
        let table = table.map_err(|source| object.malformed(source))?;
        let zap = mos.zap(table.entries)?;
        for entry in zap.entries() {
            let entry = entry?;
            let offset = entry
                .key
                .as_words()
                .and_then(|words| words.first().copied());
            let count = brt::count(&entry.value).map_err(|source| object.malformed(source))?;
            if let Some(offset) = offset {
                clones.insert((vdev, offset), count);
            }
        }
    }
    Ok(clones)
}

/// Claims one kind of space.
type ClaimSource = fn(&Pool, &mut Claims) -> Result<(), DmuError>;

/// Claims what no block tree holds: intent logs, lists of blocks to free, the checkpoint's
/// blocks, and the places where removed vdevs' blocks are now.
pub(crate) fn claim_other_space(pool: &Pool, claims: &mut Claims, notes: &mut Vec<String>) {
    let parts: [(&str, ClaimSource); 4] = [
        ("intent logs", claim_intent_logs),
        ("blocks to be freed", claim_deferred),
        ("checkpoint", claim_checkpoint),
        ("removed vdevs", claim_indirect),
    ];
    for (name, claim) in parts {
        if let Err(error) = claim(pool, claims) {
            notes.push(format!("the space of the {name} is not known: {error}"));
        }
    }
}

/// Claims a block that has no other owner, and ignores claims that exist already.
fn claim_loose(claims: &mut Claims, pointer: &BlockPointer) {
    if pointer.is_embedded() || pointer.is_hole() {
        return;
    }
    for dva in pointer.dvas() {
        claims.claim_range(dva.vdev(), dva.offset(), dva.asize());
    }
}

fn claim_intent_logs(pool: &Pool, claims: &mut Claims) -> Result<(), DmuError> {
    log_blocks(pool, &mut |pointer| claim_loose(claims, pointer))
}

/// Calls `each` for every block that an intent log owns.
pub fn log_blocks(pool: &Pool, each: &mut dyn FnMut(&BlockPointer)) -> Result<(), DmuError> {
    for found in pool.mos().objects(ObjectId(1)) {
        let (id, dnode) = found?;
        if dnode.bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let Ok(dataset) = DslDataset::decode(&dnode.bonus) else {
            continue;
        };
        if dataset.is_snapshot() || dataset.block_pointer.is_hole() {
            continue;
        }
        let cache = Arc::clone(pool.cache());
        let Ok(set) = ObjectSet::open(cache, ObjsetId(id.0), dataset.block_pointer, None) else {
            continue;
        };
        let Ok(Some(log)) = IntentLog::open(&set) else {
            continue;
        };
        // Blocks of later txgs are not in the space maps before the log is claimed, as those of
        // all logs are when a pool is opened for writing. A log that is being written has blocks
        // of groups that are still open.
        if log.is_claimed() {
            // Blocks that claimed records point to are allocated until the log is replayed. Later
            // blocks may be readable by now, because a device is back, but they belong to no log.
            let owned = log.known_blocks().0;
            let blocks = owned.chain.iter().chain(&owned.writes);
            blocks.for_each(&mut *each);
            continue;
        }
        let mut chain = log.chain();
        let mut pointers = Vec::new();
        for block in chain.by_ref().map_while(Result::ok) {
            pointers.push(block.pointer);
        }
        // The block after the last written one is allocated, too.
        pointers.push(*chain.end());
        let head = pool.dsl().open_head(id);
        let is_growing = head.is_some_and(|head| head.has_log());
        let all_count = pool.is_writable() && !is_growing;
        let counts = |pointer: &&BlockPointer| all_count || pointer.physical_birth() <= pool.txg();
        for pointer in pointers.iter().filter(counts) {
            each(pointer);
        }
    }
    Ok(())
}

/// Calls `each` for every block in the pool's lists of what is to be freed.
pub fn deferred(pool: &Pool, each: &mut dyn FnMut(&BlockPointer)) -> Result<(), DmuError> {
    let mos = pool.mos();
    for key in [keys::SYNC_BPLIST, keys::FREE_BPOBJ, keys::OBSOLETE_BPOBJ] {
        if let Some(object) = directory_object(mos, key)? {
            for_each_listed(mos, object, each)?;
        }
    }
    Ok(())
}

fn claim_deferred(pool: &Pool, claims: &mut Claims) -> Result<(), DmuError> {
    let mos = pool.mos();
    deferred(pool, &mut |pointer| claim_loose(claims, pointer))?;
    if let Some(object) = directory_object(mos, keys::BPTREE)? {
        claim_bptree(pool, object, claims)?;
    }
    if let Some(zap) = directory_object(mos, keys::DELETED_CLONES)? {
        for entry in mos.zap(zap)?.entries() {
            if let Some(livelist) = entry?.value.as_u64() {
                claim_livelist(mos, ObjectId(livelist), claims)?;
            }
        }
    }
    Ok(())
}

/// Calls `each` for every block in a list and the lists below it.
fn for_each_listed(
    mos: &Arc<ObjectSet>,
    list: ObjectId,
    each: &mut dyn FnMut(&BlockPointer),
) -> Result<(), DmuError> {
    let mut seen = HashSet::new();
    let mut stack = vec![list];
    while let Some(id) = stack.pop() {
        if seen.len() == LISTS_MAX || !seen.insert(id) {
            continue;
        }
        let object = mos.object(id)?;
        let header = BpobjHeader::decode(&object.dnode().bonus);
        let header = header.map_err(|source| object.malformed(source))?;
        let size = cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
        for_each_record(&object, header.entries.saturating_mul(128), size, |bytes| {
            bpobj::entries(bytes).for_each(|pointer| each(&pointer));
            Ok::<(), DmuError>(())
        })?;
        if let Some(subobjects) = header.subobjects {
            let object = mos.object(subobjects)?;
            for_each_record(
                &object,
                header.subobject_count.saturating_mul(8),
                8,
                |bytes| {
                    stack.extend(bpobj::subobjects(bytes));
                    Ok::<(), DmuError>(())
                },
            )?;
        }
    }
    Ok(())
}

/// Blocks of datasets being destroyed: trees of which everything young enough is to be freed.
fn claim_bptree(pool: &Pool, object: ObjectId, claims: &mut Claims) -> Result<(), DmuError> {
    let object = pool.mos().object(object)?;
    let header = BptreeHeader::decode(&object.dnode().bonus);
    let header = header.map_err(|source| object.malformed(source))?;
    for index in header.begin
        ..header
            .end
            .min(header.begin.saturating_add(LISTS_MAX as u64))
    {
        let mut bytes = [0; bptree::ENTRY_SIZE];
        object.read(index.saturating_mul(bptree::ENTRY_SIZE as u64), &mut bytes)?;
        let entry = BptreeEntry::decode(&bytes).map_err(|source| object.malformed(source))?;
        claim_tree(pool, &entry, claims)?;
    }
    Ok(())
}

/// Claims what of a destroyed dataset was not freed yet.
fn claim_tree(pool: &Pool, entry: &BptreeEntry, claims: &mut Claims) -> Result<(), DmuError> {
    let root = Root {
        objset: bptree::OBJSET_DESTROYED,
        start: Start::Objset(entry.block_pointer),
        since: Since::accounting(entry.birth_txg),
        keys: None,
    };
    let walk = Walk {
        order: Order::Post,
        resume: entry.resume,
        retention: Retention::Pass,
        ..Walk::default()
    };
    for event in Ordered::new(Arc::clone(pool.cache()), root, walk) {
        match event {
            Event::Block(visit) => claim_loose(claims, &visit.pointer),
            Event::Damage(damage) => return Err(damage.error),
            Event::Object(..) | Event::Hole(_) | Event::FreeSlots { .. } => {}
        }
    }
    Ok(())
}

/// Blocks of a destroyed clone: those allocated in its livelist and not freed there.
fn claim_livelist(
    mos: &Arc<ObjectSet>,
    livelist: ObjectId,
    claims: &mut Claims,
) -> Result<(), DmuError> {
    let mut live: BTreeMap<[u64; 2], (i64, BlockPointer)> = BTreeMap::new();
    for entry in mos.zap(livelist)?.entries() {
        let Some(list) = entry?.value.as_u64() else {
            continue;
        };
        for_each_listed(mos, ObjectId(list), &mut |pointer| {
            let place = [pointer.words[0], pointer.words[1]];
            let count = &mut live.entry(place).or_insert((0, *pointer)).0;
            *count += if bpobj::is_free(pointer) { -1 } else { 1 };
        })?;
    }
    let kept = live.into_values().filter(|(count, _)| *count > 0);
    kept.for_each(|(_, pointer)| claim_loose(claims, &pointer));
    Ok(())
}

fn claim_checkpoint(pool: &Pool, claims: &mut Claims) -> Result<(), DmuError> {
    for top in &pool.vdev_tree().children {
        for entry in space::checkpoint_frees(pool.mos(), top)? {
            claims.claim_range(top.id.unwrap_or_default(), entry.offset, entry.length);
        }
    }
    Ok(())
}

/// Claims where the blocks of removed vdevs are now.
///
/// A target may itself be a removed vdev, so this goes round as often as there are removed
/// vdevs, each time with what was claimed since: vdevs are removed one after another.
fn claim_indirect(pool: &Pool, claims: &mut Claims) -> Result<(), DmuError> {
    let mut removed = Vec::new();
    for top in &pool.vdev_tree().children {
        if top.kind == VdevKind::Indirect {
            let mapping = mos::indirect_mapping(pool.mos(), top)?;
            removed.push((top.id.unwrap_or_default(), mapping, SegmentMap::default()));
        }
    }
    for _ in 0..removed.len() {
        for (vdev, mapping, done) in &mut removed {
            let Some(claimed) = claims.vdevs.get(&vdev.0).cloned() else {
                continue;
            };
            for (start, count) in claimed.map.runs_without(done) {
                let range = start << claimed.ashift..(start + count) << claimed.ashift;
                claim_targets(mapping, range, claims);
            }
            *done = claimed.map;
        }
    }
    Ok(())
}

/// Claims where a range of a removed vdev is now.
fn claim_targets(mapping: &[MappingEntry], range: Range<u64>, claims: &mut Claims) {
    let first = mapping.partition_point(|entry| entry.end() <= range.start);
    for entry in mapping[first..]
        .iter()
        .take_while(|entry| entry.source < range.end)
    {
        let from = range.start.max(entry.source);
        let to = range.end.min(entry.end());
        let target = entry.destination;
        let offset = target.offset().saturating_add(from - entry.source);
        claims.claim_range(target.vdev(), offset, to - from);
    }
}

/// Compares what is claimed with what the space maps say is allocated.
pub(crate) fn compare_space(pool: &Pool, claims: &Claims, report: &mut VerifyReport) {
    let mut maps: BTreeMap<u64, SegmentMap> = BTreeMap::new();
    let mut contradictions = 0_u64;
    let ashifts: HashMap<VdevId, u32> = pool
        .metaslabs()
        .iter()
        .map(|vdev| (vdev.vdev, vdev.ashift))
        .collect();
    let replayed = space::replay(pool.mos(), pool.metaslabs(), |vdev, entry| {
        let ashift = ashifts.get(&vdev).copied().unwrap_or(9);
        let map = maps.entry(vdev.0).or_default();
        let (start, count) = (entry.offset >> ashift, entry.length >> ashift);
        contradictions += match entry.action {
            Action::Alloc => map.add(start, count),
            Action::Free => map.remove(start, count),
        };
    });
    if let Err(error) = replayed {
        return report.push_space(format!("the space maps cannot be read: {error}"));
    }
    if contradictions > 0 {
        report.push_space(format!(
            "the space maps allocate what is allocated or free what is free in {contradictions} \
             units"
        ));
    }
    for vdev in pool.metaslabs() {
        let empty = SegmentMap::default();
        let map = maps.get(&vdev.vdev.0).unwrap_or(&empty);
        let claimed = claims
            .vdevs
            .get(&vdev.vdev.0)
            .map_or(&empty, |vdev| &vdev.map);
        let place = |(start, count): (u64, u64)| {
            let (offset, bytes) = (start << vdev.ashift, count << vdev.ashift);
            format!("vdev {} offset {offset:#x}: {bytes} bytes", vdev.vdev)
        };
        if report.damaged.is_empty() {
            // With blocks unread it is not known what they would have led to.
            for run in map.runs_without(claimed) {
                report.push_space(format!("{} are allocated but not referenced", place(run)));
            }
        }
        for run in claimed.runs_without(map) {
            report.push_space(format!("{} are referenced but not allocated", place(run)));
        }
    }
    if !report.damaged.is_empty() {
        report
            .notes
            .push("leaks were not looked for, since blocks could not be read".into());
    }
}
