//! Which copy of a snapshot a stream means, where a pool has several.
//!
//! A stream knows snapshots by their guids, and all copies of one have the same. What is received
//! belongs to the copy in its own tree: a clone of the second copy of a tree would otherwise hang
//! on the first, and be destroyed with it. So the nearest one is taken: the one that shares most of
//! its name with the received one, and of those the one with the shortest name.

use crate::registry::walk::{is_within, walk_heads};
use cenote_base::Guid;
use cenote_dsl::{Dataset, DatasetName, Dsl, DslError};
use std::cmp::Reverse;
use std::sync::Arc;

/// How far a dataset is from another: what is less is nearer.
fn distance(to: &DatasetName, from: &DatasetName) -> (Reverse<usize>, usize) {
    let (to, length) = (to.components(), from.components().count());
    let common = to.zip(from.components());
    let common = common.take_while(|(to, from)| to == from).count();
    (Reverse(common), length)
}

/// The copy of a snapshot that is nearest to the dataset `to`, among `top` and all below it; one
/// that `fits` is preferred.
pub(super) fn nearest(
    dsl: &Arc<Dsl>,
    guid: Guid,
    (to, top): (&DatasetName, &DatasetName),
    fits: impl Fn(&Dataset) -> Result<bool, DslError>,
) -> Result<Option<Dataset>, DslError> {
    let mut best = None;
    let mut failure = None;
    walk_heads(dsl, |head| {
        if failure.is_some() || !is_within(head.name(), top) {
            return;
        }
        let found = snapshot_by_guid(head, guid).and_then(|found| match found {
            Some(found) => {
                let rank = (!fits(&found)?, distance(to, head.name()));
                Ok(Some((rank, found)))
            }
            None => Ok(None),
        });
        match found {
            Ok(Some((rank, found))) => {
                let is_better = best.as_ref().is_none_or(|(best, _)| rank < *best);
                if is_better {
                    best = Some((rank, found));
                }
            }
            Ok(None) => {}
            Err(error) => failure = Some(error),
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(best.map(|(_, found)| found)),
    }
}

/// A snapshot of a dataset by its guid, the newest first.
pub(super) fn snapshot_by_guid(head: &Dataset, guid: Guid) -> Result<Option<Dataset>, DslError> {
    for entry in head.snapshots()?.iter().rev() {
        let snapshot = head.open_snapshot(entry)?;
        if snapshot.phys().guid == guid {
            return Ok(Some(snapshot));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tree_is_nearer_than_what_is_above() {
        let name = |text| DatasetName::parse(text).expect("a name");
        let to = name("t/b/second/clone");
        let order = ["t/b/second/base", "t/b/second/c/d", "t/b", "t/b/first/base"];
        let order = order.into_iter().chain(["t", "t/a"]);
        let distances: Vec<_> = order.map(|from| distance(&to, &name(from))).collect();
        assert!(distances.is_sorted(), "{distances:?}");
    }
}
