//! A head that gets other contents under its mounts: by a rollback or a receive.
//!
//! Mounts that support it hold requests back meanwhile, and resume with the new contents in place;
//! mounts below them stay. Other mounts, and those below them, are unmounted and mounted again.

use super::follow::{mount_back, mounted_below, unmount_for_change};
use super::mounter::Mounted;
use super::table::{Entry, Mounts};
use super::unmount::{Elsewhere, end_elsewhere, unmount_dataset};
use crate::errors::of_dsl;
use crate::imported::Imported;
use cenote_base::ObjectId;
use cenote_control::model::ControlError;
use cenote_dsl::DatasetName;
use cenote_posix::FileSystem;
use cenote_posix::write::HeldObject;
use std::sync::Arc;

/// Mounts of the dataset whose contents change.
type Own = [(String, Arc<dyn Mounted>)];

/// Lets `change` give the head another object set, after `prepare`. Both run with the mounts in the
/// same state: in place, or unmounted.
///
/// With `force` mounts that cannot stay are ended although they are in use.
pub fn exchange_contents(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    (head, id, force): (&DatasetName, ObjectId, bool),
    prepare: impl FnOnce() -> Result<(), ControlError>,
    change: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    // Clients of a volume would continue with other contents.
    let _disks = imported.free_dataset(head, false)?;
    // Clients of a site ask again.
    let _freed = imported.hold_trees(true, |tree| tree == id)?;
    // What other mount namespaces have cannot follow.
    end_elsewhere(
        mounts,
        |entry| entry.dataset == head.as_str(),
        Elsewhere::refuse_or(force),
    )?;
    let own = mounts.newest_first(|entry| entry.dataset == head.as_str());
    if own.iter().all(|(_, mounted)| mounted.can_exchange()) {
        // `prepare` needs the mounts, so check before it that they can hold back.
        hold_back(&own)?;
        own.iter().for_each(|(_, mounted)| mounted.go_on());
        prepare()?;
        let is_writer = |entry: &Entry| entry.dataset == head.as_str() && !entry.read_only;
        let may_write = !mounts.newest_first(is_writer).is_empty();
        exchange(imported, id, (&own, may_write), change)?;
    } else {
        // They keep the files open, and the head can be closed only when it is unused.
        drop(own);
        let mounted = mounted_below(mounts, head);
        unmount_for_change(mounts, imported, head, (&mounted, force))?;
        let elsewhere = Elsewhere::refuse_or(force);
        let changed = unmount_dataset(mounts, head.as_str(), (force, elsewhere))
            .and_then(|()| prepare())
            .and_then(|()| imported.close_head(id))
            .and_then(|()| change());
        let mounted_back = mount_back(mounts, imported, head, &mounted, false);
        changed?;
        mounted_back?;
    }
    mounts.forget_snapshots(imported.name());
    Ok(())
}

/// Lets `change` make a volume of a file system, or the other way round. Nothing of it stays
/// mounted; what is mounted below it is mounted again.
pub fn replace_contents(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    (head, id): (&DatasetName, ObjectId),
    change: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    let _disks = imported.free_dataset(head, false)?;
    let _freed = imported.hold_trees(true, |tree| tree == id)?;
    let mounted = mounted_below(mounts, head);
    unmount_for_change(mounts, imported, head, (&mounted, true))?;
    let changed = unmount_dataset(mounts, head.as_str(), (true, Elsewhere::End))
        .and_then(|()| imported.close_head(id))
        .and_then(|()| change());
    let mounted_back = mount_back(mounts, imported, head, &mounted, false);
    changed?;
    mounted_back?;
    mounts.forget_snapshots(imported.name());
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

/// Resumes all mounts of a head with the result of `change`, or with the old state.
fn exchange(
    imported: &Arc<Imported>,
    id: ObjectId,
    (own, may_write): (&Own, bool),
    change: impl FnOnce() -> Result<(), ControlError>,
) -> Result<(), ControlError> {
    hold_back(own)?;
    let held = imported.heads.held(id);
    let changed = imported.close_held_head(id).and_then(|()| change());
    let opened = open_again(imported, id, (own, may_write), &held);
    changed.and(opened)
}

/// Opens a head again for its mounts; these end where that fails. Its delete queue is emptied if
/// one of them may write: a copy that is only read stays what was received.
fn open_again(
    imported: &Arc<Imported>,
    id: ObjectId,
    (own, may_write): (&Own, bool),
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
        if may_write && files.is_writable() {
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
                // The first error is the one to report.
                let _ = mounted.unmount(true);
            }
        }
    }
    opened.map(drop)
}
