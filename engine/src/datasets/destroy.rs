//! Datasets destroyed.

use crate::command::{By, run};
use crate::context::Context;
use crate::mounts::places::remove_places;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_dataset;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::DatasetName;
use cenote_dsl::write::DestroyDataset;

pub(crate) fn destroy_dataset(
    context: &Context,
    mounts: &Mounts,
    dataset: &str,
    recursive: bool,
    force: bool,
    dry_run: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let mut names = context.registry.names_below(dataset, recursive)?;
    if dry_run {
        return Ok(Response::Done);
    }
    let mut failures = Vec::new();
    let mut done = 0;
    // Children go before their parents.
    while let Some(name) = names.pop() {
        match destroy_one(context, mounts, &name, force, by) {
            Ok(()) => done += 1,
            Err(error) => {
                failures.push((name.as_str().to_owned(), error));
                break;
            }
        }
    }
    Ok(Response::Failures { failures, done })
}

fn destroy_one(
    context: &Context,
    mounts: &Mounts,
    name: &DatasetName,
    force: bool,
    by: &By<'_>,
) -> Result<(), ControlError> {
    let (imported, dataset) = context.registry.dataset(name)?;
    let places = mounts.derived_places(name.as_str());
    unmount_dataset(mounts, name.as_str(), force)?;
    imported.close_head(dataset.id())?;
    drop(dataset);
    let task = DestroyDataset { name: name.clone() };
    run(&imported, task, by)?;
    remove_places(&places);
    Ok(())
}
