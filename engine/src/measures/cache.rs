//! Figures of a pool's cache, and of what its datasets do with it.

use super::table::{
    ARC_BLOCKS, ARC_BYTES, ARC_EVICTED_BLOCKS, ARC_EVICTED_BYTES, ARC_LIMIT, ARC_LIST_HITS,
    ARC_LOOKUPS, ARC_READ_AHEAD, ARC_SEQUENTIAL_READS, ARC_TARGET, DATASET_CACHE_BYTES,
    DATASET_CACHE_LOOKUPS,
};
use crate::registry::imported::Imported;
use cenote_base::metrics::Sink;
use cenote_cache::{DatasetFigures, Outcome, Retention};

/// The lists in the order of the figures.
const LISTS: [&str; 4] = ["recent", "frequent", "recent_ghost", "frequent_ghost"];
const KINDS: [&str; 2] = ["data", "metadata"];
const OUTCOMES: [(&str, Outcome); 3] = [
    ("hit", Outcome::Hit),
    ("wait", Outcome::Wait),
    ("miss", Outcome::Miss),
];

/// The cache of one pool.
pub(super) fn cache(imported: &Imported, sink: &mut dyn Sink) {
    let (pool, cache) = (imported.name(), imported.pool.cache());
    let figures = cache.figures();
    let passing = cache.decoded_limit(Retention::Pass);
    let limits = cache.limits();
    let parts = [
        ("stored", figures.stored, limits.stored),
        (
            "decoded",
            figures.decoded,
            limits.decoded.saturating_sub(passing),
        ),
        ("passing", figures.passing, passing),
    ];
    for (part, figures, limit) in parts {
        sink.number(&ARC_LIMIT, &[pool, part], limit);
        sink.number(&ARC_TARGET, &[pool, part], figures.recent_target);
        sink.number(&ARC_BLOCKS, &[pool, part], figures.blocks);
        sink.number(&ARC_EVICTED_BLOCKS, &[pool, part], figures.evicted_blocks);
        sink.number(&ARC_EVICTED_BYTES, &[pool, part], figures.evicted_bytes);
        for (list, figures) in LISTS.iter().zip(figures.lists) {
            let data = figures.bytes - figures.metadata_bytes;
            sink.number(&ARC_BYTES, &[pool, part, list, "data"], data);
            let metadata = figures.metadata_bytes;
            sink.number(&ARC_BYTES, &[pool, part, list, "metadata"], metadata);
            sink.number(&ARC_LIST_HITS, &[pool, part, list], figures.hits);
        }
    }
    let lookups = cache.lookups();
    for (wanted_for, kinds) in [("demand", &lookups.demand), ("prefetch", &lookups.prefetch)] {
        for (kind, outcomes) in KINDS.iter().zip(kinds) {
            for (word, outcome) in OUTCOMES {
                let labels = [pool, wanted_for, kind, word];
                sink.number(&ARC_LOOKUPS, &labels, outcomes.get(outcome));
            }
        }
    }
    let ahead = cache.read_ahead();
    for (word, reads) in [("hit", &ahead.continued), ("miss", &ahead.begun)] {
        sink.number(&ARC_SEQUENTIAL_READS, &[pool, word], reads.get());
    }
    sink.number(&ARC_READ_AHEAD, &[pool], ahead.blocks.get());
}

/// What a dataset did with the cache and has in it. The labels are its pool, name and type.
pub(super) fn dataset(labels: [&str; 3], figures: &DatasetFigures, sink: &mut dyn Sink) {
    let [pool, name, kind_of] = labels;
    let purposes = [("demand", &figures.demand), ("prefetch", &figures.prefetch)];
    for (wanted_for, kinds) in purposes {
        for (kind, counts) in KINDS.iter().zip(kinds) {
            for (word, outcome) in OUTCOMES {
                let labels = [pool, name, kind_of, wanted_for, kind, word];
                sink.number(&DATASET_CACHE_LOOKUPS, &labels, counts[outcome as usize]);
            }
        }
    }
    for (kind, bytes) in KINDS.iter().zip(figures.bytes.iter().flatten()) {
        sink.number(&DATASET_CACHE_BYTES, &[pool, name, kind_of, kind], *bytes);
    }
}
