//! Datasets renamed, and their mounts with them.

use super::create::with_parents;
use crate::command::{By, run};
use crate::context::Context;
use crate::errors::parse_name;
use crate::mounts::follow::{mounted_below, unmount_for_change};
use crate::mounts::make::mount_below;
use crate::mounts::places::remove_places;
use crate::mounts::table::Mounts;
use crate::registry::imported::Imported;
use cenote_control::model::{ControlError, MountOptions, Response};
use cenote_dsl::DatasetName;
use cenote_dsl::write::RenameDataset;
use std::sync::Arc;

/// How a dataset is renamed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renaming {
    pub parents: bool,
    pub force: bool,
    pub unmounted: bool,
}

pub(crate) fn rename_dataset(
    context: &Context,
    mounts: &Mounts,
    from: &str,
    to: &str,
    how: Renaming,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let (from, to) = (parse_name(from)?, parse_name(to)?);
    let (imported, _) = context.registry.dataset(&from)?;
    let rename = || rename_here(mounts, &imported, (&from, &to), how, by);
    let (mut unmounted, failures) = match how.parents {
        true => with_parents(context, mounts, (&imported, &to), by, rename)?,
        false => (rename()?, Vec::new()),
    };
    unmounted.extend(failures);
    match unmounted.is_empty() {
        true => Ok(Response::Done),
        false => Ok(Response::Failures {
            failures: unmounted,
            done: 1,
        }),
    }
}

/// Renames below a parent that is there; what cannot be mounted again, and why.
fn rename_here(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    (from, to): (&DatasetName, &DatasetName),
    how: Renaming,
    by: &By<'_>,
) -> Result<Vec<(String, ControlError)>, ControlError> {
    let _disks = imported.free_below(from, how.force)?;
    let places = mounts.derived_places(from.as_str());
    let mounted = match how.unmounted {
        true => Vec::new(),
        false => {
            let mounted = mounted_below(mounts, from);
            unmount_for_change(mounts, imported, from, (&mounted, how.force))?;
            mounted
        }
    };
    let task = RenameDataset {
        from: from.clone(),
        to: to.clone(),
    };
    let renamed = run(imported, task, by);
    if renamed.is_ok() {
        mounts.rename(from.as_str(), to.as_str());
    }
    let mut failures = Vec::new();
    if !mounted.is_empty() {
        if renamed.is_ok() {
            remove_places(&places);
        }
        let name = if renamed.is_ok() { to } else { from };
        let options = MountOptions::default();
        failures = mount_below(mounts, imported, Some(name), &options).0;
    }
    renamed.map(|_| failures)
}
