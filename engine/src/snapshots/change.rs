//! Snapshots made and destroyed.
//!
//! What one command does to the snapshots of a pool is one task: all of it is in one transaction
//! group or none. So one command creates snapshots in one pool only. Destroying snapshots of
//! different pools is independent.

use super::bookmarks::{create_bookmark, destroy_bookmarks};
use super::clones::{clone_snapshot, promote};
use super::holds::{hold, release};
use super::names::{in_each_pool, snapshots_by_pool, with_complete_below};
use crate::command::{By, NotedOnce, run};
use crate::context::Context;
use crate::errors::parse_name;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::{Elsewhere, unmount_dataset};
use crate::registry::table::Registry;
use crate::values::setting;
use cenote_control::model::{ControlError, NameFault, Pair, Response, SnapshotChange};
use cenote_dsl::NameKind;
use cenote_dsl::property::parse::Purpose;
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::{CreateSnapshots, DestroySnapshots, RenameSnapshots, Setting};

/// How often a recursive command lists the datasets again that come and go meanwhile.
const LISTED_MAX: usize = 20;

pub(crate) fn change_snapshots(
    context: &Context,
    mounts: &Mounts,
    change: SnapshotChange,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let registry = &context.registry;
    match change {
        SnapshotChange::Create {
            names,
            recursive,
            properties,
        } => create_snapshots(registry, &names, recursive, &properties, by),
        SnapshotChange::Destroy { names, defer } => {
            destroy_snapshots(registry, mounts, &names, defer, by)
        }
        SnapshotChange::Hold {
            names,
            tag,
            recursive,
        } => hold(registry, &names, &tag, recursive, by),
        SnapshotChange::Release {
            names,
            tag,
            recursive,
        } => release(registry, mounts, &names, (&tag, recursive), by),
        SnapshotChange::Clone {
            origin,
            name,
            properties,
            parents,
            unmounted,
        } => {
            let how = (parents, unmounted);
            clone_snapshot(context, mounts, (&origin, &name), &properties, how, by)
        }
        SnapshotChange::Promote { dataset } => promote(registry, mounts, &dataset, by),
        SnapshotChange::Rename {
            from,
            to,
            recursive,
        } => rename_snapshots(registry, mounts, &from, &to, recursive, by),
        SnapshotChange::Bookmark {
            source,
            bookmark,
            recursive,
        } => create_bookmark(registry, &source, &bookmark, recursive, by),
        SnapshotChange::DestroyBookmarks { names } => destroy_bookmarks(registry, &names, by),
    }
}

fn create_snapshots(
    registry: &Registry,
    names: &[String],
    recursive: bool,
    properties: &[Pair],
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let settings = snapshot_settings(properties)?;
    let mut noted = NotedOnce::new(by);
    let by_pool = snapshots_by_pool(names)?;
    if by_pool.len() > 1 {
        return Err(ControlError::SnapshotRefused {
            name: String::new(),
            reason: "all snapshots of one command must be in the same pool".to_owned(),
        });
    }
    in_each_pool(by_pool, |names| {
        let (imported, _) = registry.dataset(&names[0].dataset())?;
        let mut attempts = 0;
        loop {
            let all = match recursive {
                true => with_complete_below(registry, names)?,
                false => names.to_vec(),
            };
            imported.replay_waiting(&all)?;
            let task = CreateSnapshots {
                names: all,
                properties: settings.clone(),
            };
            attempts += 1;
            match noted.change(names[0].as_str(), |by| run(&imported, task, by)) {
                Ok(_) => return Ok(()),
                // One of those below was destroyed, or is being received again, since the listing.
                Err(ControlError::NoSuchDataset { .. } | ControlError::DatasetBusy { .. })
                    if recursive && attempts < LISTED_MAX => {}
                Err(error) => return Err(error),
            }
        }
    })
}

fn destroy_snapshots(
    registry: &Registry,
    mounts: &Mounts,
    names: &[String],
    defer: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let wanted = snapshots_by_pool(names)?;
    let mut noted = NotedOnce::new(by);
    in_each_pool(wanted, |names| {
        let (imported, _) = registry.dataset(&names[0].dataset())?;
        let _freed = imported.free_snapshots(names)?;
        for name in names {
            // End its mounts first.
            unmount_dataset(mounts, name.as_str(), (false, Elsewhere::EndUnused))?;
        }
        let task = DestroySnapshots {
            names: names.to_vec(),
            defer,
        };
        noted.change(names[0].as_str(), |by| run(&imported, task, by))?;
        mounts.forget_snapshots(imported.name());
        Ok(())
    })
}

/// The properties of new snapshots.
fn snapshot_settings(properties: &[Pair]) -> Result<Vec<Setting>, ControlError> {
    let purpose = Purpose {
        kinds: Kinds::SNAPSHOT,
        at_creation: true,
    };
    properties
        .iter()
        .map(|pair| setting(pair, purpose))
        .collect()
}

/// Gives a snapshot another name, and with `recursive` the same of all datasets below.
fn rename_snapshots(
    registry: &Registry,
    mounts: &Mounts,
    from: &str,
    to: &str,
    recursive: bool,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let name = parse_name(from)?;
    if name.kind() != NameKind::Snapshot {
        let (name, fault) = (from.to_owned(), NameFault::NoSnapshot);
        return Err(ControlError::BadName { name, fault });
    }
    let head = name.dataset();
    parse_name(&format!("{head}@{to}"))?;
    let (imported, _) = registry.dataset(&name)?;
    let datasets = registry.names_below(head.as_str(), recursive)?;
    let component = name.after_delimiter().unwrap_or_default();
    for head in &datasets {
        unmount_dataset(
            mounts,
            &format!("{head}@{component}"),
            (false, Elsewhere::Refuse),
        )?;
    }
    let task = RenameSnapshots {
        datasets,
        from: component.to_owned(),
        to: to.to_owned(),
    };
    run(&imported, task, by)?;
    mounts.forget_snapshots(imported.name());
    Ok(Response::Done)
}
