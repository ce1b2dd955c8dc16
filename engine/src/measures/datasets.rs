//! Space of file systems and volumes, and what their readers find in the cache.
//!
//! Snapshots have no figures of space here, and figures of the cache only if files were read from
//! them: a pool may have a million of which listings read the head.

use super::cache;
use super::table::{
    DATASET_AVAILABLE, DATASET_COMPRESSION, DATASET_LOGICAL_REFERENCED, DATASET_LOGICAL_USED,
    DATASET_QUOTA, DATASET_REFERENCED, DATASET_USED, DATASET_USED_BY_CHILDREN,
    DATASET_USED_BY_DATASET, DATASET_USED_BY_RESERVATION, DATASET_USED_BY_SNAPSHOTS,
    DATASET_WRITTEN,
};
use crate::context::Context;
use crate::datasets::list::dataset_list;
use crate::mounts::table::Mounts;
use cenote_base::metrics::{Measure, Sample, Sink};
use cenote_base::{ObjectId, ObjsetId};
use cenote_cache::DatasetFigures;
use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection,
};
use cenote_control::protocol::Reply;
use cenote_dsl::Dsl;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Properties in bytes.
static SPACES: [(&str, &Measure); 11] = [
    ("used", &DATASET_USED),
    ("available", &DATASET_AVAILABLE),
    ("referenced", &DATASET_REFERENCED),
    ("written", &DATASET_WRITTEN),
    ("logicalused", &DATASET_LOGICAL_USED),
    ("logicalreferenced", &DATASET_LOGICAL_REFERENCED),
    ("quota", &DATASET_QUOTA),
    ("usedbydataset", &DATASET_USED_BY_DATASET),
    ("usedbysnapshots", &DATASET_USED_BY_SNAPSHOTS),
    ("usedbychildren", &DATASET_USED_BY_CHILDREN),
    ("usedbyrefreservation", &DATASET_USED_BY_RESERVATION),
];
const COMPRESSION: &str = "compressratio";
const OBJECT_SET: &str = "objsetid";

/// Snapshots of a pool that are shown: those that were read most. Each name costs a search.
const SNAPSHOTS_MAX: usize = 64;

/// Takes listed datasets.
struct Rows<'a> {
    sink: &'a mut dyn Sink,
    /// By pool: what its datasets did with the cache, without those that were taken.
    cached: HashMap<String, HashMap<ObjsetId, DatasetFigures>>,
}

impl Reply for Rows<'_> {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        if let Part::Datasets(rows) = part {
            rows.iter().for_each(|row| self.dataset(row));
        }
        Ok(())
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn take_descriptor(&mut self, _index: usize) -> Option<OwnedFd> {
        None
    }
}

/// All file systems and volumes of all pools. One that cannot be read has no series.
pub(super) fn datasets(
    context: &Context,
    mounts: &Mounts,
    sink: &mut dyn Sink,
) -> Result<(), ControlError> {
    let names = SPACES.iter().map(|(name, _)| *name);
    let names = names.chain([COMPRESSION, OBJECT_SET]);
    let selection = PropertySelection::Named(names.map(str::to_owned).collect());
    let (depth, kinds) = (Depth::All, KindSet::HEADS);
    let pools = context.registry.all();
    let cached = pools.iter().map(|imported| {
        let figures = imported.pool.cache().datasets();
        (imported.name().to_owned(), figures)
    });
    let mut rows = Rows {
        cached: cached.collect(),
        sink,
    };
    dataset_list(context, mounts, &[], depth, kinds, selection, &mut rows)?;
    for imported in &pools {
        let name = imported.name();
        if let Some(left) = rows.cached.remove(name) {
            snapshots(name, imported.dsl(), left, rows.sink);
        }
    }
    Ok(())
}

impl Rows<'_> {
    fn dataset(&mut self, row: &Dataset) {
        let kind = match row.kind {
            DatasetKind::Volume => "volume",
            _ => "filesystem",
        };
        let labels = [row.pool(), row.name.as_str(), kind];
        let number = |name: &str| row.property(name)?.value.number();
        for (name, measure) in SPACES {
            if let Some(bytes) = number(name) {
                self.sink.number(measure, &labels, bytes);
            }
        }
        if let Some(hundredths) = number(COMPRESSION) {
            let ratio = Sample::Billionths(hundredths.saturating_mul(10_000_000));
            self.sink.put(&DATASET_COMPRESSION, &labels, ratio);
        }
        let cached = self.cached.get_mut(row.pool());
        let own = cached.zip(number(OBJECT_SET));
        if let Some(figures) = own.and_then(|(cached, id)| cached.remove(&ObjsetId(id))) {
            cache::dataset(labels, &figures, self.sink);
        }
    }
}

/// The snapshots among what is left when the heads are taken.
fn snapshots(
    pool: &str,
    dsl: &Arc<Dsl>,
    left: HashMap<ObjsetId, DatasetFigures>,
    sink: &mut dyn Sink,
) {
    let read = left.into_iter();
    let mut read: Vec<(ObjsetId, DatasetFigures)> = read
        .filter(|(_, figures)| figures.data_lookups() > 0)
        .collect();
    read.sort_by_key(|(id, figures)| (Reverse(figures.data_lookups()), *id));
    for (id, figures) in read.iter().take(SNAPSHOTS_MAX) {
        // A dataset that is not found was destroyed meanwhile, or is the hidden head of a receive.
        if let Ok(snapshot) = dsl.dataset_of(ObjectId(id.0))
            && snapshot.is_snapshot()
        {
            let name = snapshot.name().to_string();
            cache::dataset([pool, &name, "snapshot"], figures, sink);
        }
    }
}
