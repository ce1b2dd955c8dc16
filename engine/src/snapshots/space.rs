//! What snapshots take, and what destroying them would give back.
//!
//! One pass over the deadlists of a dataset's chain answers for any set of its snapshots
//! ([`Dataset::reclaimed_by`]); datasets share nothing that can be destroyed with snapshots but
//! what clones began as, and that stays.

use super::names::snapshots_by_pool;
use crate::errors::of_dsl;
use crate::registry::table::Registry;
use crate::registry::walk::read_or_gone;
use cenote_control::model::{ControlError, KeptBy, Part, Response, SnapshotSpace};
use cenote_control::protocol::Reply;
use cenote_dsl::{Dataset, DatasetName, Reclaimed};
use std::collections::{BTreeMap, HashSet};

/// Rows sent at once.
const BATCH: usize = 256;

/// All snapshots of a dataset, and with `recursive` of those below.
pub(crate) fn snapshot_space(
    registry: &Registry,
    dataset: &str,
    recursive: bool,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    for name in registry.names_below(dataset, recursive)? {
        let imported = registry.pool_of(&name)?;
        let read = || {
            let (_, head) = registry.dataset(&name)?;
            reclaimed(&head, |_| true)
        };
        match read_or_gone(imported.dsl(), read, read)? {
            Some(all) => send(&name, &all, reply)?,
            None if name.as_str() == dataset => {
                let dataset = dataset.to_owned();
                return Err(ControlError::NoSuchDataset { dataset });
            }
            // It was destroyed since the names were listed.
            None => {}
        }
    }
    Ok(Response::Done)
}

/// These snapshots.
pub(crate) fn reclaimed_by(
    registry: &Registry,
    snapshots: &[String],
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let mut by_head: BTreeMap<DatasetName, HashSet<Vec<u8>>> = BTreeMap::new();
    for name in snapshots_by_pool(snapshots)?.into_values().flatten() {
        // A snapshot that there is not is an error, and names may ignore case.
        let (_, snapshot) = registry.dataset(&name)?;
        let component = snapshot.name().after_delimiter().unwrap_or_default();
        let of_head = by_head.entry(name.dataset()).or_default();
        of_head.insert(component.as_bytes().to_vec());
    }
    for (name, chosen) in by_head {
        let all = registry.pool_of(&name)?.dsl().of_one_moment(|| {
            let (_, head) = registry.dataset(&name)?;
            reclaimed(&head, |name| chosen.contains(name))
        })?;
        send(&name, &all, reply)?;
    }
    Ok(Response::Done)
}

fn reclaimed(
    head: &Dataset,
    chosen: impl FnMut(&[u8]) -> bool,
) -> Result<Vec<Reclaimed>, ControlError> {
    let all = head.reclaimed_by(chosen).map_err(of_dsl)?;
    all.ok_or_else(|| ControlError::Unsupported {
        what: "telling the space of snapshots in a pool of a version before 26".to_owned(),
    })
}

fn send(head: &DatasetName, all: &[Reclaimed], reply: &mut dyn Reply) -> Result<(), ControlError> {
    for some in all.chunks(BATCH) {
        if reply.cancelled() {
            return Err(ControlError::Interrupted);
        }
        let rows = some.iter().map(|one| row(head, one));
        reply.part(Part::SnapshotSpace(rows.collect()))?;
    }
    Ok(())
}

fn row(head: &DatasetName, one: &Reclaimed) -> SnapshotSpace {
    let component = String::from_utf8_lossy(&one.entry.name);
    SnapshotSpace {
        name: format!("{head}@{component}"),
        created: one.phys.creation_time,
        create_txg: one.phys.creation_txg.0,
        used: one.phys.unique_bytes,
        referenced: one.phys.referenced_bytes,
        frees: one.freed,
        kept_by: one.kept_by.map(|kept_by| match kept_by {
            cenote_dsl::KeptBy::Holds => KeptBy::Holds,
            cenote_dsl::KeptBy::Clones => KeptBy::Clones,
            cenote_dsl::KeptBy::System => KeptBy::System,
        }),
    }
}
