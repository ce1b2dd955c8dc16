//! What a turn walks: the datasets that are next.

use crate::mos::directory_words;
use cenote_base::{ObjectId, ObjsetId, Txg};
use cenote_dmu::traverse::{Root, Since, Start};
use cenote_dmu::{DmuError, ObjectSet};
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::scan::{FLAG_VISIT_DATASET_AGAIN, SCAN_NOWHERE, Scan, ScanState};
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Datasets that one turn begins at most: their blocks are in memory together.
const DATASETS_MAX: usize = 1024;

/// The number that the meta object set has in the place where a scan is.
pub(super) const META: ObjectId = ObjectId(0);

/// A dataset to be walked, or the meta object set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub dataset: ObjectId,
    /// Its own blocks are born after this.
    pub min: Txg,
}

/// What a turn walks.
#[derive(Debug)]
pub(super) struct Plan {
    pub datasets: Vec<Planned>,
    pub roots: Vec<Root>,
    /// Where the first of them is resumed: object, level, block.
    pub resume: Option<[u64; 3]>,
}

/// The state of the scan that is under way, if one is.
pub(super) fn running(mos: &Arc<ObjectSet>) -> Result<Option<Scan>, DmuError> {
    let Some(words) = directory_words(mos, keys::SCAN)? else {
        return Ok(None);
    };
    // A layout of old releases, which cannot be resumed.
    let scan = Scan::from_words(&words).ok();
    Ok(scan.filter(|scan| scan.state == ScanState::Scanning))
}

/// Decodes a dataset; `None` if the object is none.
pub(super) fn dataset(mos: &Arc<ObjectSet>, id: ObjectId) -> Result<Option<DslDataset>, DmuError> {
    let object = match mos.object(id) {
        Ok(object) => object,
        Err(DmuError::NoSuchObject { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if object.dnode().bonus_type != ObjectType::DSL_DATASET {
        return Ok(None);
    }
    let dataset = DslDataset::decode(&object.dnode().bonus);
    dataset.map(Some).map_err(|source| object.malformed(source))
}

/// The same; `None` for one that is damaged, too.
fn sound_dataset(mos: &Arc<ObjectSet>, id: ObjectId) -> Result<Option<DslDataset>, DmuError> {
    match dataset(mos, id) {
        Err(error) if error.is_damage() => Ok(None),
        read => read,
    }
}

/// The datasets that come after one, which are the next in its chain and the oldest of its clones;
/// and whether all of them are known.
///
/// Each of them says that it comes after this one. Were that not asked for, tables that are wrong
/// could lead a scan in a circle, and it would never end.
pub(super) fn successors(
    mos: &Arc<ObjectSet>,
    id: ObjectId,
) -> Result<(Vec<Planned>, bool), DmuError> {
    let (mut successors, mut are_all) = (Vec::new(), true);
    let Some(found) = sound_dataset(mos, id)?.filter(DslDataset::is_snapshot) else {
        return Ok((successors, are_all));
    };
    let min = found.creation_txg;
    let mut next: Vec<ObjectId> = found.next_snapshot.into_iter().collect();
    match found.next_clones.map(|clones| values(mos, clones)) {
        Some(Err(error)) if error.is_damage() => are_all = false,
        Some(clones) => next.extend(clones?),
        None => {}
    }
    next.sort_unstable();
    next.dedup();
    for dataset in next {
        let follows = |next: DslDataset| next.previous_snapshot == Some(id);
        match sound_dataset(mos, dataset)?.is_some_and(follows) {
            true => successors.push(Planned { dataset, min }),
            false => are_all = false,
        }
    }
    Ok((successors, are_all))
}

/// The objects that a table names.
fn values(mos: &Arc<ObjectSet>, table: ObjectId) -> Result<Vec<ObjectId>, DmuError> {
    let mut values = Vec::new();
    for entry in mos.zap(table)?.entries() {
        values.extend(entry?.value.as_u64().map(ObjectId));
    }
    Ok(values)
}

/// The datasets that come after no other, and whether all of them are known.
pub(super) fn firsts(mos: &Arc<ObjectSet>) -> Result<(Vec<Planned>, bool), DmuError> {
    let (mut firsts, mut are_all) = (Vec::new(), true);
    for found in mos.objects(ObjectId(1)) {
        // A damaged block of dnodes is met by the walk, and counted there.
        let Ok((id, dnode)) = found else {
            are_all = false;
            continue;
        };
        if dnode.bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let Ok(dataset) = DslDataset::decode(&dnode.bonus) else {
            are_all = false;
            continue;
        };
        if dataset.previous_snapshot.is_none() {
            let (dataset, min) = (id, Txg(0));
            firsts.push(Planned { dataset, min });
        }
    }
    Ok((firsts, are_all))
}

/// The datasets in a scan's queue.
pub(super) fn queued(
    mos: &Arc<ObjectSet>,
    scan: &Scan,
) -> Result<BTreeMap<ObjectId, Txg>, DmuError> {
    let mut queue = BTreeMap::new();
    let Some(object) = scan.queue else {
        return Ok(queue);
    };
    for entry in mos.zap(object)?.entries() {
        let entry = entry?;
        let id = entry.key.as_str().map(|key| u64::from_str_radix(key, 16));
        if let (Some(Ok(id)), Some(txg)) = (id, entry.value.as_u64()) {
            queue.insert(ObjectId(id), Txg(txg));
        }
    }
    Ok(queue)
}

/// What comes next of a scan, as `mos` has it.
pub(super) fn plan(mos: &Arc<ObjectSet>, scan: &Scan) -> Result<Plan, DmuError> {
    let mut queue = queued(mos, scan)?;
    let mut datasets: Vec<Planned> = Vec::new();
    let mut resume = None;
    let current = ObjectId(scan.position[0]);
    if current == META {
        let min = Txg(0);
        datasets.push(Planned { dataset: META, min });
        resume = Some([scan.position[1], scan.position[2], scan.position[3]]);
        queue.extend(
            firsts(mos)?
                .0
                .iter()
                .map(|first| (first.dataset, first.min)),
        );
    } else if current.0 != SCAN_NOWHERE[0]
        && let Some(found) = sound_dataset(mos, current)?
    {
        let min = found.previous_snapshot_txg;
        let dataset = current;
        datasets.push(Planned { dataset, min });
        // It took the place of one that is lost, whose blocks before the place it has, too.
        if scan.flags & FLAG_VISIT_DATASET_AGAIN == 0 {
            resume = Some([scan.position[1], scan.position[2], scan.position[3]]);
        }
        let (next, _) = successors(mos, current)?;
        queue.extend(next.iter().map(|next| (next.dataset, next.min)));
    }
    while datasets.len() < DATASETS_MAX
        && let Some((dataset, min)) = queue.pop_first()
    {
        datasets.push(Planned { dataset, min });
        let (next, _) = successors(mos, dataset)?;
        queue.extend(next.iter().map(|next| (next.dataset, next.min)));
    }
    let roots = roots(mos, scan, &datasets)?;
    Ok(Plan {
        datasets,
        roots,
        resume,
    })
}

/// Where the walks of datasets begin.
fn roots(mos: &Arc<ObjectSet>, scan: &Scan, datasets: &[Planned]) -> Result<Vec<Root>, DmuError> {
    let mut roots = Vec::with_capacity(datasets.len());
    for planned in datasets {
        let since = Since::accounting(planned.min.max(scan.txg_min));
        if planned.dataset == META {
            roots.push(Root::of_set(mos, since));
            continue;
        }
        // What is no dataset any more has no blocks.
        let pointer = sound_dataset(mos, planned.dataset)?.map(|found| found.block_pointer);
        roots.push(Root {
            objset: ObjsetId(planned.dataset.0),
            start: Start::Objset(pointer.unwrap_or(BlockPointer::HOLE)),
            since,
            keys: None,
        });
    }
    Ok(roots)
}
