//! Deadlists, livelists and block pointer objects: totals against contents.

use super::checker::Checker;
use crate::dataset::Dataset;
use crate::deadlist::{Deadlist, SpaceTriple};
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_base::{ObjectId, Txg};
use cenote_dmu::Object;
use cenote_ondisk::BlockPointer;
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::bpobj::{self, BpobjHeader};
use std::collections::{HashMap, HashSet};

/// Block pointers or object numbers are read in pieces of this many bytes.
const PIECE: usize = 1 << 17;

/// Objects that one list may consist of.
const SUBOBJECTS_MAX: usize = 1 << 20;

/// A deadlist's header is the sum of its lists, and each list the sum of its blocks.
pub(super) fn check_deadlist(checker: &mut Checker<'_>, dataset: &Dataset) -> Result<(), DslError> {
    let dsl = checker.dsl;
    let deadlist = Deadlist::open(dsl, dataset.phys().deadlist)?;
    let name = dataset.name();
    let Some(entries) = deadlist.entries() else {
        return check_bpobj(checker, name.as_str(), deadlist.object().id());
    };
    let empty = dsl.object_directory().object(keys::EMPTY_BPOBJ)?;
    let mut sum = SpaceTriple::default();
    for entry in entries {
        sum = sum.plus(entry.space);
        if Some(entry.bpobj) != empty {
            check_bpobj(checker, name.as_str(), entry.bpobj)?;
        }
    }
    let totals = deadlist.totals();
    checker.expect(name, "the deadlist's space", sum.used, totals.used);
    checker.expect(
        name,
        "the deadlist's compressed size",
        sum.compressed,
        totals.compressed,
    );
    let what = "the deadlist's uncompressed size";
    checker.expect(name, what, sum.uncompressed, totals.uncompressed);
    Ok(())
}

/// A clone's livelist has what the clone has beyond its origin.
pub(super) fn check_livelist(checker: &mut Checker<'_>, head: &Dataset) -> Result<(), DslError> {
    let directory = head.directory();
    let Some(livelist) = directory.livelist()? else {
        return Ok(());
    };
    let dsl = checker.dsl;
    let list = Deadlist::open(dsl, livelist)?;
    let empty = dsl.object_directory().object(keys::EMPTY_BPOBJ)?;
    let mut sum = SpaceTriple::default();
    let mut live = HashMap::new();
    let mut after = None;
    for entry in list.entries().unwrap_or_default().iter().rev() {
        sum = sum.plus(entry.space);
        if Some(entry.bpobj) != empty {
            check_bpobj(checker, head.name().as_str(), entry.bpobj)?;
            check_births(checker, head, entry.bpobj, (entry.key, after), &mut live)?;
        }
        after = Some(entry.key);
    }
    let name = head.name();
    let totals = list.totals();
    checker.expect(name, "the livelist's space", sum.used, totals.used);
    let what = "the livelist's compressed size";
    checker.expect(name, what, sum.compressed, totals.compressed);
    let what = "the livelist's uncompressed size";
    checker.expect(name, what, sum.uncompressed, totals.uncompressed);
    let unborn = live.values().filter(|count| **count < 0).count() as u64;
    checker.expect(
        name,
        "blocks freed in the livelist and never born",
        0,
        unborn,
    );
    if let Some(origin) = directory.origin() {
        let origin = dsl.dataset_of(origin)?;
        if let Some(written) = head.written_since(&origin)? {
            let what = "what is written since the origin, by the livelist";
            checker.expect(name, what, written, totals.used);
        }
    }
    Ok(())
}

/// The blocks in one part of a livelist are born after its key and not after the next one's.
fn check_births(
    checker: &mut Checker<'_>,
    head: &Dataset,
    list: ObjectId,
    (after, last): (Txg, Option<Txg>),
    live: &mut HashMap<[u64; 2], i64>,
) -> Result<(), DslError> {
    let object = checker.dsl.mos().object(list)?;
    let header = header_of(&object)?;
    let (mut freed, mut astray) = (0_u64, 0_u64);
    each_entry(&object, &header, &mut |entry| {
        let birth = entry.accounting_birth();
        let is_here = birth > after && last.is_none_or(|last| birth <= last);
        astray += u64::from(!is_here);
        freed += u64::from(bpobj::is_free(entry));
        let place = [entry.dva(0).vdev().0, entry.dva(0).offset()];
        let count = live.entry(place).or_default();
        *count += if bpobj::is_free(entry) { -1 } else { 1 };
        if *count == 0 {
            live.remove(&place);
        }
        true
    })?;
    let name = head.name();
    checker.expect(name, "blocks in a wrong part of the livelist", 0, astray);
    if let Some(stated) = header.freed {
        checker.expect(name, "frees in a part of the livelist", freed, stated);
    }
    Ok(())
}

/// A list's totals are those of its blocks and of its sub-lists.
fn check_bpobj(checker: &mut Checker<'_>, place: &str, id: ObjectId) -> Result<(), DslError> {
    let dsl = checker.dsl;
    let mut stack = vec![id];
    let mut seen = HashSet::new();
    while let Some(id) = stack.pop() {
        if !seen.insert(id) || seen.len() > SUBOBJECTS_MAX {
            return Err(DslError::structure(id, "a list of blocks contains itself"));
        }
        let object = dsl.mos().object(id)?;
        let header = header_of(&object)?;
        let Some(mut sum) = sum_entries(dsl, &object, &header)? else {
            return Ok(());
        };
        for subobject in subobjects(dsl, &header)? {
            let header = header_of(&dsl.mos().object(subobject)?)?;
            sum = sum.plus(SpaceTriple::from(&header));
            stack.push(subobject);
        }
        checker.expect(
            place,
            "the space of a list of dead blocks",
            sum.used,
            header.bytes,
        );
        if let Some(found) = header.compressed_bytes {
            let what = "the compressed size of a list of dead blocks";
            checker.expect(place, what, sum.compressed, found);
        }
        if let Some(found) = header.uncompressed_bytes {
            let what = "the uncompressed size of a list of dead blocks";
            checker.expect(place, what, sum.uncompressed, found);
        }
    }
    Ok(())
}

fn header_of(object: &Object) -> Result<BpobjHeader, DslError> {
    let header = BpobjHeader::decode(&object.dnode().bonus);
    header.map_err(|source| DslError::decode(object.id(), source))
}

/// The sum over the blocks in the list itself; `None` if the vdevs' deflate ratios are unknown.
fn sum_entries(
    dsl: &Dsl,
    object: &Object,
    header: &BpobjHeader,
) -> Result<Option<SpaceTriple>, DslError> {
    let (mut sum, mut freed) = (SpaceTriple::default(), SpaceTriple::default());
    let all_known = each_entry(object, header, &mut |entry| {
        let Some(space) = space_of(dsl, entry) else {
            return false;
        };
        match header.freed.is_some() && bpobj::is_free(entry) {
            true => freed = freed.plus(space),
            false => sum = sum.plus(space),
        }
        true
    })?;
    Ok(all_known.then(|| sum.minus(freed)))
}

/// Calls `each` for the blocks in the list itself until it returns false. Returns whether it
/// reached the end.
fn each_entry(
    object: &Object,
    header: &BpobjHeader,
    each: &mut dyn FnMut(&BlockPointer) -> bool,
) -> Result<bool, DslError> {
    let mut at = 0;
    // The header's decoder saw to it that the product fits.
    let end = header.entries * BLOCK_POINTER_SIZE as u64;
    check_length(object, end)?;
    let mut piece = vec![0; PIECE];
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        object.read(at, &mut piece[..length])?;
        if !bpobj::entries(&piece[..length]).all(|entry| each(&entry)) {
            return Ok(false);
        }
        at += length as u64;
    }
    Ok(true)
}

/// Refuses a length that the object's blocks cannot have.
fn check_length(object: &Object, length: u64) -> Result<(), DslError> {
    let dnode = object.dnode();
    let blocks = dnode.block_id_max.0.saturating_add(1);
    match length <= blocks.saturating_mul(dnode.data_block_size) {
        true => Ok(()),
        false => Err(DslError::structure(
            object.id(),
            "it is shorter than its header says",
        )),
    }
}

fn subobjects(dsl: &Dsl, header: &BpobjHeader) -> Result<Vec<ObjectId>, DslError> {
    let Some(id) = header.subobjects.filter(|_| header.subobject_count > 0) else {
        return Ok(Vec::new());
    };
    let object = dsl.mos().object(id)?;
    let count = usize::try_from(header.subobject_count).unwrap_or(usize::MAX);
    if count > SUBOBJECTS_MAX {
        return Err(DslError::structure(
            id,
            "a list of blocks has too many parts",
        ));
    }
    check_length(&object, count as u64 * 8)?;
    let mut bytes = vec![0; count * 8];
    object.read(0, &mut bytes)?;
    Ok(bpobj::subobjects(&bytes).collect())
}

/// What a block counts for (format/3a, "Space unit names"). Of an embedded block only the logical
/// size counts, and of embedded metadata not even that.
fn space_of(dsl: &Dsl, pointer: &BlockPointer) -> Option<SpaceTriple> {
    if pointer.is_hole() {
        return Some(SpaceTriple::default());
    }
    let mut used = 0u64;
    if !pointer.is_embedded() {
        for dva in pointer.dvas() {
            let ratio = dsl.facts().deflate_ratios.get(&dva.vdev().0)?;
            used = used.saturating_add((dva.asize() >> 9).saturating_mul(*ratio));
        }
    }
    let metadata = pointer.level().0 > 0 || pointer.object_type().is_metadata();
    let compressed = match pointer.is_embedded() {
        true => 0,
        false => pointer.physical_size(),
    };
    let uncompressed = match metadata {
        true => compressed,
        false => pointer.logical_size(),
    };
    Some(SpaceTriple {
        used,
        compressed,
        uncompressed,
    })
}
