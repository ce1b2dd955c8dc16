//! Going back to a snapshot.
//!
//! Mounts stay where they can: requests are held back while the head is closed, made what the
//! snapshot is, and opened again; whoever has a file open goes on with it if the snapshot has the
//! same. Where mounts cannot stay ([`Mounted::can_exchange`]), they and those below are taken away
//! and made again, which is refused while something uses them.
//!
//! What is newer goes only after the mounts were asked, so that a refusal because of these loses
//! nothing.

use super::destroy::{Destruction, destroy_dataset};
use crate::command::{By, run};
use crate::context::Context;
use crate::errors::{of_dsl, parse_name};
use crate::mounts::follow::{mount_back, mounted_below, unmount_for_change};
use crate::mounts::mounter::Mounted;
use crate::mounts::table::Mounts;
use crate::mounts::unmount::unmount_dataset;
use crate::registry::imported::Imported;
use cenote_base::ObjectId;
use cenote_control::model::{ControlError, Response, RollBack};
use cenote_dsl::write::{DestroyBookmarks, DestroySnapshots, RollbackDataset};
use cenote_dsl::{DatasetName, NameKind};
use cenote_posix::FileSystem;
use cenote_posix::write::HeldObject;
use std::sync::Arc;

/// Mounts of the dataset that is taken back.
type Own = [(String, Arc<dyn Mounted>)];

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
    let task = RollbackDataset { snapshot };
    let own = mounts.newest_first(|entry| entry.dataset == head.as_str());
    if own.iter().all(|(_, mounted)| mounted.can_exchange()) {
        // Destroying needs the mounts, so they are asked before it, too.
        hold_back(&own)?;
        own.iter().for_each(|(_, mounted)| mounted.go_on());
        destroy_newer(context, mounts, &imported, wanted, by)?;
        exchange(&imported, id, &own, || run(&imported, task, by).map(drop))?;
    } else {
        let mounted = mounted_below(mounts, &head);
        unmount_for_change(mounts, &imported, &head, (&mounted, wanted.force))?;
        let rolled_back = unmount_dataset(mounts, head.as_str(), wanted.force)
            .and_then(|()| destroy_newer(context, mounts, &imported, wanted, by))
            .and_then(|()| imported.close_head(id))
            .and_then(|()| run(&imported, task, by));
        let mounted_back = mount_back(mounts, &imported, &head, &mounted, false);
        rolled_back?;
        mounted_back?;
    }
    mounts.forget_snapshots(imported.name());
    Ok(Response::Done)
}

/// Destroys the clones, then the snapshots and bookmarks that are in the way.
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
    imported.check_not_sent(&snapshots)?;
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
        let task = DestroyBookmarks { names: bookmarks };
        run(imported, task, &by.unnoted())?;
    }
    Ok(())
}

/// Holds all requests to the mounts of a head back, or none.
fn hold_back(own: &Own) -> Result<(), ControlError> {
    for (index, (dataset, mounted)) in own.iter().enumerate() {
        if !mounted.hold_back() {
            own[..index].iter().for_each(|(_, mounted)| mounted.go_on());
            let dataset = dataset.clone();
            return Err(ControlError::DatasetBusy { dataset });
        }
    }
    Ok(())
}

/// Lets all mounts of a head go on with what `change` makes of it, or with what it was.
fn exchange(
    imported: &Arc<Imported>,
    id: ObjectId,
    own: &Own,
    change: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    hold_back(own)?;
    let held = imported.heads.held(id);
    let changed = imported.close_head(id).and_then(|()| change());
    let opened = open_again(imported, id, own, &held);
    changed.and(opened)
}

/// Opens a head again for its mounts; these end where that fails.
fn open_again(
    imported: &Arc<Imported>,
    id: ObjectId,
    own: &Own,
    held: &[HeldObject],
) -> Result<(), ControlError> {
    if own.is_empty() {
        return Ok(());
    }
    let open = |files: &FileSystem| match files.is_writable() {
        true => files.hold_again(held),
        false => Ok(Vec::new()),
    };
    let dataset = imported.dsl().dataset_of(id).map_err(of_dsl);
    let opened = dataset.and_then(|dataset| {
        let files = imported.files(&dataset)?;
        let gone = open(&files).map_err(|error| ControlError::Io {
            place: error.to_string(),
        })?;
        if files.is_writable() {
            imported.drain(&dataset, &files)?;
        }
        Ok((files, gone))
    });
    let ids: Vec<ObjectId> = held.iter().map(|one| one.id).collect();
    for (_, mounted) in own {
        match &opened {
            Ok((files, gone)) => mounted.take_up(Arc::clone(files), &ids, gone),
            Err(_) => {
                mounted.go_on();
                // The error that led here is the one to tell.
                let _ = mounted.unmount(true);
            }
        }
    }
    opened.map(drop)
}
