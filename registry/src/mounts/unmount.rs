//! Unmounting: children go before their parents, and what was written through a mount is on disk
//! when it is gone.

use super::follow::mount_these;
use super::mounter::{Holder, Mounted};
use super::options::text_of;
use super::places::remove_places;
use super::table::{Entry, KeptUnmounted, Mounts};
use crate::errors::{of_dsl, parse_name};
use crate::imported::Imported;
use crate::table::Registry;
use cenote_base::ObjectId;
use cenote_control::model::ControlError;
use cenote_dsl::Property;
use std::path::Path;
use std::sync::Arc;

/// Unmounts a dataset and what is below it, or what is at a place and below; which datasets. With
/// `unload_key` nothing is unmounted if mounts that stay need a key that will be unloaded.
pub fn unmount(
    registry: &Registry,
    mounts: &Mounts,
    target: &str,
    (force, unload_key): (bool, bool),
) -> Result<Vec<String>, ControlError> {
    let found = if target.starts_with('/') {
        let path = Path::new(target);
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        mounts.at_and_below(&[path, &real])
    } else {
        let name = parse_name(target)?;
        registry.dataset(&name)?;
        let below = format!("{target}/");
        let own = mounts.newest_first(|entry| entry.dataset == target);
        if own.is_empty() {
            own
        } else {
            mounts
                .newest_first(|entry| entry.dataset == target || entry.dataset.starts_with(&below))
        }
    };
    if found.is_empty() {
        return Err(ControlError::NotMounted {
            target: target.to_owned(),
        });
    }
    if unload_key {
        check_keys(registry, mounts, &found)?;
    }
    let mut datasets = Vec::new();
    for (dataset, mounted) in found {
        if let Err(error) = mounts.unmount_one(mounted, force) {
            mount_these(registry, mounts, &datasets);
            return Err(error);
        }
        datasets.push(dataset);
    }
    close_unmounted(registry, &datasets, force)?;
    Ok(datasets)
}

/// Refuses if a mount that is not among these uses the key of an encryption root among them.
fn check_keys(
    registry: &Registry,
    mounts: &Mounts,
    going: &[(String, Arc<dyn Mounted>)],
) -> Result<(), ControlError> {
    let key_of = |dataset: &str| -> Result<_, ControlError> {
        let (imported, found) = registry.dataset(&parse_name(dataset)?)?;
        let directory = found.directory();
        let key = directory.crypto_key().map_err(of_dsl)?;
        Ok(key.map(|key| (imported.pool.guid(), key.root(), directory.id())))
    };
    let mut roots = Vec::new();
    for (dataset, _) in going {
        if let Some((pool, root, own)) = key_of(dataset)?
            && root == own
        {
            roots.push((pool, root, dataset));
        }
    }
    let is_going =
        |mounted: &Arc<dyn Mounted>| going.iter().any(|(_, it)| Arc::ptr_eq(it, mounted));
    let mut stays = mounts.newest_first(|_| !roots.is_empty());
    stays.retain(|(_, mounted)| !is_going(mounted));
    for (dataset, _) in stays {
        let Some((pool, root, _)) = key_of(&dataset)? else {
            continue;
        };
        if let Some((_, _, of)) = roots.iter().find(|(p, r, _)| (*p, *r) == (pool, root)) {
            let dataset = (*of).clone();
            return Err(ControlError::KeyBusy { dataset });
        }
    }
    Ok(())
}

/// Waits until what was written through mounts that are gone is on disk. `force` does not
/// insist on that, where a pool is suspended.
fn close_unmounted(
    registry: &Registry,
    datasets: &[String],
    force: bool,
) -> Result<(), ControlError> {
    let mut pools: Vec<(Arc<Imported>, Vec<ObjectId>)> = Vec::new();
    for dataset in datasets {
        let (imported, found) = registry.dataset(&parse_name(dataset)?)?;
        let is_of = |(pool, _): &&mut (Arc<Imported>, _)| Arc::ptr_eq(pool, &imported);
        match pools.iter_mut().find(is_of) {
            Some((_, heads)) => heads.push(found.id()),
            None => pools.push((imported, vec![found.id()])),
        }
    }
    for (imported, heads) in pools {
        match imported.close_unmounted(&heads) {
            Err(ControlError::Suspended { .. }) if force => {}
            closed => closed?,
        }
    }
    Ok(())
}

fn is_legacy(registry: &Registry, dataset: &str) -> bool {
    let found = parse_name(dataset).and_then(|name| registry.dataset(&name));
    found.is_ok_and(|(_, found)| text_of(&found, Property::MountPoint).as_deref() == Some("legacy"))
}

/// The result of unmounting everything.
pub struct Unmounted {
    /// What is not mounted any more.
    pub datasets: Vec<String>,
    /// What is, or is not on disk yet, and why.
    pub failures: Vec<(String, ControlError)>,
}

/// Unmounts all file systems but those with `mountpoint=legacy`.
pub fn unmount_all(registry: &Registry, mounts: &Mounts, force: bool) -> Unmounted {
    let mut failures = Vec::new();
    let mut unmounted = Vec::new();
    let mut found = mounts.newest_first(|entry| !entry.dataset.contains('@'));
    // umount(8) is for those, as mount(8) was. The list of mounts is not held while the pool is
    // asked, which may have to wait.
    found.retain(|(dataset, _)| !is_legacy(registry, dataset));
    for (dataset, mounted) in found {
        match mounts.unmount_one(mounted, force) {
            Ok(()) => unmounted.push(dataset),
            Err(error) => failures.push((dataset, error)),
        }
    }
    if let Err(error) = close_unmounted(registry, &unmounted, force) {
        let pool = unmounted.first().cloned().unwrap_or_default();
        failures.push((pool, error));
    }
    Unmounted {
        datasets: unmounted,
        failures,
    }
}

/// What to do about mounts that only other mount namespaces still have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// Refuse the request. Only mounts that are there by accident and idle are ended.
    Refuse,
    /// End them unless something uses them: the dataset is being destroyed.
    EndUnused,
    /// End them.
    End,
}

impl Elsewhere {
    /// Ends them with `force`, and refuses without.
    pub fn refuse_or(force: bool) -> Self {
        if force { Self::End } else { Self::Refuse }
    }

    /// Ends even used ones with `force`, and only unused ones without.
    pub fn unused_or(force: bool) -> Self {
        if force { Self::End } else { Self::EndUnused }
    }
}

/// Ends mounts that only exist in other mount namespaces.
///
/// # Errors
/// If one of them must stay, or cannot be ended.
pub(crate) fn end_elsewhere(
    mounts: &Mounts,
    wanted: impl Fn(&Entry) -> bool,
    elsewhere: Elsewhere,
) -> Result<(), ControlError> {
    let found = mounts.elsewhere(wanted);
    // All or none: if one cannot be ended, the others are left alone.
    for (dataset, mounted) in &found {
        match in_the_way(mounted.as_ref(), elsewhere) {
            Some(holder) if mounted.is_there() => {
                return Err(mounted_elsewhere(dataset.clone(), holder));
            }
            _ => {}
        }
    }
    for (dataset, mounted) in found {
        if mounted.is_there() && !mounted.end() {
            return Err(ControlError::DatasetBusy { dataset });
        }
    }
    // Their files are closed only then.
    mounts.forget_ended();
    Ok(())
}

/// The holder that prevents ending a mount in other mount namespaces: a process, or an invisible
/// one.
fn in_the_way(mounted: &dyn Mounted, elsewhere: Elsewhere) -> Option<Option<Holder>> {
    let holders = match elsewhere {
        Elsewhere::End => return None,
        Elsewhere::Refuse | Elsewhere::EndUnused => mounted.holders(),
    };
    let mut all = holders.iter();
    let is_idle = !holders.is_empty() && all.all(|holder| holder.is_idle_copy);
    match elsewhere {
        Elsewhere::Refuse if is_idle => None,
        // One that uses it comes first.
        Elsewhere::Refuse => Some(holders.into_iter().next()),
        _ => holders.into_iter().find(|holder| holder.is_used).map(Some),
    }
}

fn mounted_elsewhere(dataset: String, holder: Option<Holder>) -> ControlError {
    let Some(holder) = holder else {
        return ControlError::MountedElsewhere {
            dataset,
            process: None,
        };
    };
    let path = holder.mount_point.to_string_lossy().into_owned();
    ControlError::MountedElsewhere {
        dataset,
        process: Some((holder.pid, holder.command, path)),
    }
}

/// Ends all mounts of a dataset; nothing uses it then.
pub fn unmount_dataset(
    mounts: &Mounts,
    dataset: &str,
    (force, elsewhere): (bool, Elsewhere),
) -> Result<(), ControlError> {
    for (_, mounted) in mounts.newest_first(|entry| entry.dataset == dataset) {
        mounts.unmount_one(mounted, force)?;
    }
    end_elsewhere(mounts, |entry| entry.dataset == dataset, elsewhere)
}

/// Unmounts everything of a pool, or nothing, and says what is busy; which datasets. Nothing of it
/// is mounted until the second answer is dropped.
pub fn unmount_pool<'a>(
    registry: &Registry,
    mounts: &'a Mounts,
    imported: &Imported,
    force: bool,
) -> Result<(Vec<String>, KeptUnmounted<'a>), ControlError> {
    let kept = mounts.keep_unmounted(imported);
    let pool = imported.name().to_owned();
    let places = mounts.derived_places(&pool);
    let mut unmounted = Vec::new();
    let of_pool = |entry: &Entry| entry.pool == pool;
    let mut gone = Ok(());
    for (dataset, mounted) in mounts.newest_first(of_pool) {
        gone = mounts.unmount_one(mounted, force);
        if gone.is_err() {
            break;
        }
        unmounted.push(dataset);
    }
    let gone = gone.and_then(|()| end_elsewhere(mounts, of_pool, Elsewhere::refuse_or(force)));
    if let Err(error) = gone {
        drop(kept);
        mount_these(registry, mounts, &unmounted);
        return Err(error);
    }
    remove_places(&places);
    Ok((unmounted, kept))
}
