//! Going back to a snapshot.

use crate::command::{By, run};
use crate::errors::parse_name;
use crate::mounts::follow::{mount_back, mounted_below, unmount_for_change};
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_dataset;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::write::{DestroyBookmarks, DestroySnapshots, RollbackDataset};
use cenote_dsl::{DatasetName, NameKind};
use std::sync::Arc;

/// Makes a dataset what one of its snapshots is, once those that are `newer` are destroyed: after
/// the mounts, so that a refusal because of these loses nothing.
///
/// Its mount and those below it are taken away and made again: whoever has a file open there hears
/// an error from then on, since that file may never have been. With `force` mounts are taken away
/// although files are open.
pub(super) fn roll_back(
    registry: &Registry,
    mounts: &Mounts,
    (snapshot, newer): (&str, &[String]),
    force: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let snapshot = parse_name(snapshot)?;
    let head = snapshot.dataset();
    let newer = newer.iter().map(|name| parse_name(name));
    let newer: Vec<DatasetName> = newer.collect::<Result<_, _>>()?;
    let (imported, _) = registry.dataset(&snapshot)?;
    let (_, dataset) = registry.dataset(&head)?;
    let id = dataset.id();
    drop(dataset);
    let mounted = mounted_below(mounts, &head);
    unmount_for_change(mounts, &imported, &head, (&mounted, force))?;
    let rolled_back = unmount_dataset(mounts, head.as_str(), force)
        .and_then(|()| destroy_newer(mounts, &imported, newer, by))
        .and_then(|()| imported.close_head(id))
        .and_then(|()| run(&imported, RollbackDataset { snapshot }, by));
    let mounted_back = mount_back(mounts, &imported, &head, &mounted, false);
    rolled_back?;
    mounted_back?;
    Ok(Response::Done)
}

fn destroy_newer(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    newer: Vec<DatasetName>,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let is_bookmark = |name: &DatasetName| name.kind() == NameKind::Bookmark;
    let (bookmarks, snapshots): (Vec<_>, Vec<_>) = newer.into_iter().partition(is_bookmark);
    imported.check_not_sent(&snapshots)?;
    for snapshot in &snapshots {
        unmount_dataset(mounts, snapshot.as_str(), false)?;
    }
    if !snapshots.is_empty() {
        let task = DestroySnapshots {
            names: snapshots,
            defer: false,
        };
        run(imported, task, &by.unnoted())?;
    }
    if !bookmarks.is_empty() {
        run(
            imported,
            DestroyBookmarks { names: bookmarks },
            &by.unnoted(),
        )?;
    }
    Ok(())
}
