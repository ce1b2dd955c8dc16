//! Going back to a snapshot.

use crate::command::{By, run};
use crate::errors::parse_name;
use crate::mounts::follow::{mount_back, mounted_below, unmount_for_change};
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_dataset;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::write::RollbackDataset;

/// Makes a dataset what its newest snapshot is.
///
/// Its mount and those below it are taken away and made again: whoever has a file open there hears
/// an error from then on, since that file may never have been. With `force` mounts are taken away
/// although files are open.
pub(super) fn roll_back(
    registry: &Registry,
    mounts: &Mounts,
    snapshot: &str,
    force: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let snapshot = parse_name(snapshot)?;
    let head = snapshot.dataset();
    let (imported, _) = registry.dataset(&snapshot)?;
    let (_, dataset) = registry.dataset(&head)?;
    let id = dataset.id();
    drop(dataset);
    let mounted = mounted_below(mounts, &head);
    unmount_for_change(mounts, &imported, &head, (&mounted, force))?;
    let rolled_back = unmount_dataset(mounts, head.as_str(), force)
        .and_then(|()| imported.close_head(id))
        .and_then(|()| run(&imported, RollbackDataset { snapshot }, by));
    let mounted_back = mount_back(mounts, &imported, &head, &mounted, false);
    rolled_back?;
    mounted_back?;
    Ok(Response::Done)
}
