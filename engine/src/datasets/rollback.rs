//! Going back to a snapshot.
//!
//! Mounts stay where they can ([`exchange_contents`]): an open file stays usable if the snapshot
//! has the same file. Other mounts, and those below them, are unmounted and mounted again, which is
//! refused while they are in use.
//!
//! What is newer goes only after the mounts were asked, so that a refusal because of these loses
//! nothing.

use super::destroy::{Destruction, destroy_dataset};
use crate::command::{By, run};
use crate::context::Context;
use crate::errors::parse_name;
use crate::mounts::exchange::exchange_contents;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::{Elsewhere, unmount_dataset};
use crate::registry::imported::Imported;
use cenote_control::model::{ControlError, Response, RollBack};
use cenote_dsl::write::{DestroyBookmarks, DestroySnapshots, RollbackDataset};
use cenote_dsl::{DatasetName, NameKind};
use std::sync::Arc;

/// Makes a dataset what one of its snapshots is, once what is newer is destroyed, and the clones
/// of that.
pub(crate) fn roll_back(
    context: &Context,
    mounts: &Mounts,
    wanted: &RollBack,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let snapshot = parse_name(&wanted.snapshot)?;
    let head = snapshot.dataset();
    let (imported, _) = context.registry.dataset(&snapshot)?;
    let (_, dataset) = context.registry.dataset(&head)?;
    let id = dataset.id();
    drop(dataset);
    let _disks = imported.free_dataset(&head, wanted.force)?;
    let task = RollbackDataset { snapshot };
    exchange_contents(
        mounts,
        &imported,
        (&head, id, wanted.force),
        || destroy_newer(context, mounts, &imported, wanted, by),
        || run(&imported, task, by).map(drop),
    )?;
    Ok(Response::Done)
}

/// Destroys the clones, then the newer snapshots and bookmarks.
fn destroy_newer(
    context: &Context,
    mounts: &Mounts,
    imported: &Arc<Imported>,
    wanted: &RollBack,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let newer = wanted.newer.iter().map(|name| parse_name(name));
    let newer: Vec<DatasetName> = newer.collect::<Result<_, _>>()?;
    let is_bookmark = |name: &DatasetName| name.kind() == NameKind::Bookmark;
    let (bookmarks, snapshots): (Vec<_>, Vec<_>) = newer.into_iter().partition(is_bookmark);
    let _freed = imported.free_snapshots(&snapshots)?;
    for clone in &wanted.clones {
        let how = Destruction {
            recursive: true,
            clones: true,
            force: wanted.force,
            dry_run: false,
        };
        let done = destroy_dataset(context, mounts, clone, how, &by.unnoted())?;
        if let Response::Failures { failures, .. } = done
            && let Some((_, error)) = failures.into_iter().next()
        {
            return Err(error);
        }
    }
    for snapshot in &snapshots {
        unmount_dataset(mounts, snapshot.as_str(), (false, Elsewhere::EndUnused))?;
    }
    if !snapshots.is_empty() {
        let task = DestroySnapshots {
            names: snapshots,
            defer: false,
        };
        run(imported, task, &by.unnoted())?;
    }
    if !bookmarks.is_empty() {
        let task = DestroyBookmarks { names: bookmarks };
        run(imported, task, &by.unnoted())?;
    }
    Ok(())
}
