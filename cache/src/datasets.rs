//! What the readers of each dataset did, and what they have in the cache.
//!
//! A [handle](crate::BlockCache) for a dataset has that dataset's cells, so that a lookup counts
//! without a search. The cells are made when an object set of the dataset is first opened. They
//! stay when it is closed, so counters only grow until the dataset is destroyed or the pool is
//! exported. A new dataset with the number of a destroyed one begins with new cells.
//!
//! Each cached block has the tag of the cells by which it came, and each shard of the cache keeps
//! the sum for each tag under its lock. So the bytes of a dataset are exact. A block that several
//! datasets share counts for the one that brought it. Tags are never used twice: the blocks that a
//! destroyed dataset leaves in the cache count for no dataset.
//!
//! The number of cells is bounded. At the bound, the idle half with the fewest lookups goes: most
//! often snapshots of which only a listing read the head.
//!
//! Deliberately absent: names, which only `dsl` knows, and what is read for no dataset: the pool's
//! own metadata, and scans.

use crate::arc::NOBODY;
use crate::lookups::{Lookup, Outcome};
use cenote_base::ObjsetId;
use cenote_base::metrics::{Count, Counter};
use cenote_base::rt::{Mutex, ranks};
use std::collections::HashMap;
use std::sync::Arc;

/// Datasets with cells of their own: 1.2 KiB each, so at most 10 MiB.
const DATASETS_MAX: usize = 8192;

/// What one dataset's readers did, and have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetFigures {
    /// Lookups that a caller waited for: of data and of metadata, each by its [`Outcome`].
    pub demand: [[u64; 3]; 2],
    /// Lookups ahead of need, in the same order.
    pub prefetch: [[u64; 3]; 2],
    /// Bytes of the cached blocks that they brought: data, metadata. `None` if that is not known.
    pub bytes: Option<[u64; 2]>,
}

impl DatasetFigures {
    /// All lookups of files' contents.
    pub fn data_lookups(&self) -> u64 {
        let counts = self.demand[0].iter().chain(&self.prefetch[0]);
        counts.sum()
    }
}

/// The cells of a dataset.
#[derive(Debug, Default)]
pub(crate) struct DatasetCells {
    tag: u32,
    /// Hits that a caller waits for, data and metadata: all threads of a busy mount count them.
    hits: [Counter; 2],
    /// The other lookups, each with a device, another reader or a job behind it: by purpose, kind
    /// and outcome.
    others: [[[Count; 3]; 2]; 2],
}

impl DatasetCells {
    /// The tag of the blocks that this dataset's readers bring.
    pub(crate) fn tag(&self) -> u32 {
        self.tag
    }

    /// Counts a lookup.
    pub(crate) fn note(&self, lookup: Lookup) {
        let kind = usize::from(lookup.is_metadata);
        match (lookup.is_ahead, lookup.outcome) {
            (false, Outcome::Hit) => self.hits[kind].add(1),
            (ahead, outcome) => self.others[usize::from(ahead)][kind][outcome as usize].add(1),
        }
    }

    fn figures(&self) -> DatasetFigures {
        let of = |ahead: usize| {
            let kinds = self.others[ahead].each_ref();
            kinds.map(|outcomes| outcomes.each_ref().map(Count::get))
        };
        let mut demand = of(0);
        for (outcomes, hits) in demand.iter_mut().zip(&self.hits) {
            outcomes[Outcome::Hit as usize] = hits.get();
        }
        DatasetFigures {
            demand,
            prefetch: of(1),
            bytes: None,
        }
    }

    fn total(&self) -> u64 {
        let figures = self.figures();
        let counts = figures.demand.iter().chain(&figures.prefetch).flatten();
        counts.sum()
    }
}

#[derive(Debug, Default)]
struct Kept {
    cells: HashMap<ObjsetId, Arc<DatasetCells>>,
    tag_last: u32,
}

impl Kept {
    /// Makes room: drops the cells that no handle has and that counted least.
    fn drop_idle(&mut self) {
        let idle = self.cells.iter();
        let idle = idle.filter(|(_, cells)| Arc::strong_count(cells) == 1);
        let mut idle: Vec<(u64, ObjsetId)> = idle.map(|(id, cells)| (cells.total(), *id)).collect();
        idle.sort_unstable();
        for (_, id) in &idle[..idle.len().div_ceil(2)] {
            self.cells.remove(id);
        }
    }
}

/// The cells of all datasets of a pool.
#[derive(Debug, Default)]
pub(crate) struct Datasets {
    kept: Mutex<Kept, ranks::CachedDatasets>,
}

impl Datasets {
    /// The cells of a dataset; new ones if it has none.
    pub(crate) fn cells(&self, id: ObjsetId) -> Arc<DatasetCells> {
        let mut kept = self.kept.lock();
        if let Some(cells) = kept.cells.get(&id) {
            return Arc::clone(cells);
        }
        if kept.cells.len() >= DATASETS_MAX {
            kept.drop_idle();
        }
        // After the last tag, bytes are not known: a tag for two would be a wrong sum.
        let tag = kept.tag_last.checked_add(1).unwrap_or(NOBODY);
        kept.tag_last = kept.tag_last.max(tag);
        let cells = Arc::new(DatasetCells {
            tag,
            ..DatasetCells::default()
        });
        kept.cells.insert(id, Arc::clone(&cells));
        cells
    }

    /// Drops the cells of a dataset that is new or no more.
    pub(crate) fn forget(&self, id: ObjsetId) {
        self.kept.lock().cells.remove(&id);
    }

    /// The figures of all, with the bytes for each tag.
    pub(crate) fn figures(
        &self,
        tagged: &HashMap<u32, [u64; 2]>,
    ) -> HashMap<ObjsetId, DatasetFigures> {
        let kept = self.kept.lock();
        let of = |cells: &DatasetCells| DatasetFigures {
            bytes: (cells.tag != NOBODY)
                .then(|| tagged.get(&cells.tag).copied().unwrap_or_default()),
            ..cells.figures()
        };
        let all = kept.cells.iter();
        all.map(|(id, cells)| (*id, of(cells))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit() -> Lookup {
        Lookup {
            is_metadata: false,
            is_ahead: false,
            outcome: Outcome::Hit,
        }
    }

    #[test]
    fn each_lookup_is_in_one_place() {
        let cells = DatasetCells::default();
        let mut count = 0;
        for is_ahead in [false, true] {
            for is_metadata in [false, true] {
                for outcome in [Outcome::Hit, Outcome::Wait, Outcome::Miss] {
                    count += 1;
                    (0..count).for_each(|_| {
                        cells.note(Lookup {
                            is_metadata,
                            is_ahead,
                            outcome,
                        });
                    });
                }
            }
        }
        let figures = cells.figures();
        assert_eq!(figures.demand, [[1, 2, 3], [4, 5, 6]]);
        assert_eq!(figures.prefetch, [[7, 8, 9], [10, 11, 12]]);
        assert_eq!(figures.data_lookups(), 30);
        assert_eq!(cells.total(), 78);
    }

    /// Object numbers are used again: a new dataset had the counters of a destroyed one.
    #[test]
    fn a_number_that_is_used_again_begins_at_zero() {
        let datasets = Datasets::default();
        let old = datasets.cells(ObjsetId(7));
        old.note(hit());
        assert_eq!(datasets.cells(ObjsetId(7)).tag(), old.tag());
        datasets.forget(ObjsetId(7));
        let new = datasets.cells(ObjsetId(7));
        // Lookups of a reader that still has the old dataset open count for no dataset.
        old.note(hit());
        assert_ne!(new.tag(), old.tag());
        let tagged = HashMap::from([(old.tag(), [5, 5])]);
        let figures = datasets.figures(&tagged)[&ObjsetId(7)];
        assert_eq!(figures.demand[0][0], 0);
        assert_eq!(figures.bytes, Some([0, 0]));
    }

    #[test]
    fn a_full_table_keeps_what_is_open_and_what_was_read_much() {
        let datasets = Datasets::default();
        let open = datasets.cells(ObjsetId(1));
        datasets.cells(ObjsetId(2)).note(hit());
        for id in 3..=DATASETS_MAX as u64 {
            datasets.cells(ObjsetId(id));
        }
        let count = || datasets.figures(&HashMap::new()).len();
        assert_eq!(count(), DATASETS_MAX);
        datasets.cells(ObjsetId(1 << 40));
        assert_eq!(count(), DATASETS_MAX / 2 + 1);
        assert_eq!(datasets.cells(ObjsetId(1)).tag(), open.tag());
        assert_eq!(
            datasets.figures(&HashMap::new())[&ObjsetId(2)].demand[0][0],
            1
        );
    }

    #[test]
    fn after_the_last_tag_bytes_are_not_known() {
        let datasets = Datasets::default();
        datasets.kept.lock().tag_last = u32::MAX - 1;
        let tags = [1, 2, 3].map(|id| datasets.cells(ObjsetId(id)).tag());
        assert_eq!(tags, [u32::MAX, NOBODY, NOBODY]);
        let figures = datasets.figures(&HashMap::new());
        assert_eq!(figures[&ObjsetId(1)].bytes, Some([0, 0]));
        assert_eq!(figures[&ObjsetId(2)].bytes, None);
    }
}
