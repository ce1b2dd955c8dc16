//! Mounting, and the rules by which datasets are mounted.
//!
//! A file system is mounted at its mountpoint property unless `canmount` or the property say
//! otherwise; any dataset or snapshot can be mounted anywhere by name. Parents come before
//! children.

use super::change::{REMOUNT, mount_anew};
use super::mounter::MountJob;
use super::options::{check_options, switches, temporary, text_of};
use super::places::{check_within, is_derived, own_mount_point, prepare};
use super::snapshot_names::SnapshotNames;
use super::table::{Entry, Mounts};
use crate::errors::{of_dsl, parse_name};
use crate::imported::Imported;
use crate::table::Registry;
use crate::walk::{is_within, walk_heads_aloud};
use cenote_control::model::{ControlError, MountOptions, Response};
use cenote_dsl::{Dataset, DatasetName, DatasetType, DslError, KeyStatus, Property};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Mounts at one time.
const MOUNTS_MAX: usize = 65_536;

/// The record size where the property cannot be read: its default.
const RECORD_SIZE: u64 = 128 << 10;

/// The daemon's mount namespace.
const OWN_NAMESPACE: &str = "/proc/self/ns/mnt";

/// Failures by name, and how many succeeded.
pub type Outcomes = (Vec<(String, ControlError)>, u64);

/// All mounts, as an answer.
pub fn mount_list(mounts: &Mounts) -> Response {
    Response::Mounts {
        mounts: mounts.list(),
    }
}

/// Mounts a dataset, at a place that a process names if it is not its own.
pub fn mount(
    registry: &Registry,
    mounts: &Mounts,
    dataset: &str,
    (at, process): (Option<&str>, i32),
    options: &MountOptions,
) -> Result<Response, ControlError> {
    let (imported, found) = registry.dataset(&parse_name(dataset)?)?;
    if options.options.iter().any(|word| word == REMOUNT) {
        return mount_anew(mounts, &imported, dataset, at, options);
    }
    let place = match at {
        Some(at) => Some((PathBuf::from(at), namespace_of(process))),
        None if found.is_snapshot() => {
            return Err(ControlError::WrongKind {
                dataset: dataset.to_owned(),
            });
        }
        None => None,
    };
    mount_dataset(mounts, &imported, found, place, options)?;
    Ok(Response::Done)
}

/// Mounts what is mounted automatically, of all pools or from one dataset downwards.
pub fn mount_all(
    registry: &Registry,
    mounts: &Mounts,
    below: Option<&str>,
    options: &MountOptions,
) -> Result<Response, ControlError> {
    let mut failures = Vec::new();
    let mut done = 0;
    let mut add = |outcomes: Outcomes| {
        failures.extend(outcomes.0);
        done += outcomes.1;
    };
    match below {
        Some(below) => {
            let name = parse_name(below)?;
            let (imported, _) = registry.dataset(&name)?;
            add(mount_below(mounts, &imported, Some(&name), options));
        }
        None => {
            for imported in registry.all() {
                add(mount_below(mounts, &imported, None, options));
            }
        }
    }
    Ok(Response::Failures { failures, done })
}

/// The mount namespace of a process, if it is known and not the daemon's: a path from a container
/// is a directory of the container.
fn namespace_of(process: i32) -> Option<OwnedFd> {
    let theirs = format!("/proc/{process}/ns/mnt");
    let is_ours = std::fs::read_link(&theirs).ok()? == std::fs::read_link(OWN_NAMESPACE).ok()?;
    if is_ours {
        return None;
    }
    std::fs::File::open(theirs).ok().map(OwnedFd::from)
}

/// Mounts a new file system for its maker. Those that ordinary users make are left to root.
pub fn mount_new(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    name: &DatasetName,
    is_ordinary: bool,
) -> Outcomes {
    let head = imported.dsl().dataset(name);
    if is_ordinary && head.is_ok_and(|head| mounts_by_itself(mounts, &head)) {
        let refused = ControlError::PermissionDenied;
        return (vec![(name.as_str().to_owned(), refused)], 0);
    }
    mount_below(mounts, imported, Some(name), &MountOptions::default())
}

/// Mounts the datasets that are mounted automatically, parents first.
pub fn mount_below(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    below: Option<&DatasetName>,
    options: &MountOptions,
) -> Outcomes {
    let wanted = |head: &Dataset| mounts_by_itself(mounts, head);
    mount_wanted(mounts, imported, below, options, &wanted)
}

pub(crate) fn mount_wanted(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    below: Option<&DatasetName>,
    options: &MountOptions,
    wanted: &dyn Fn(&Dataset) -> bool,
) -> Outcomes {
    let within = |name: &DatasetName| below.is_none_or(|below| is_within(name, below));
    let mut names = Vec::new();
    let mut failures = Vec::new();
    let mut unread = Vec::new();
    let each = |head: &Dataset| {
        if !within(head.name()) {
            return;
        }
        if let Err(error) = check_properties(head) {
            failures.push((head.name().as_str().to_owned(), error));
        } else if wanted(head) {
            names.push(head.name().clone());
        }
    };
    walk_heads_aloud(imported.dsl(), each, |name, error| {
        unread.push((name.to_owned(), of_dsl(error)));
    });
    let is_within =
        |name: &str| DatasetName::parse(name).map_or(below.is_none(), |name| within(&name));
    unread.retain(|(name, _)| is_within(name));
    failures.extend(unread);
    let mut done = 0;
    for name in names {
        let mounted = imported
            .dsl()
            .dataset(&name)
            .map_err(of_dsl)
            .and_then(|head| mount_dataset(mounts, imported, head, None, options));
        match mounted {
            Ok(()) => done += 1,
            Err(error) => failures.push((name.as_str().to_owned(), error)),
        }
    }
    (failures, done)
}

/// Refuses a file system whose mount properties cannot be read.
fn check_properties(head: &Dataset) -> Result<(), ControlError> {
    let hidden = head.is_inconsistent() || head.is_redacted().unwrap_or(false);
    let status = head.dsl().key_status(head.directory());
    if hidden || matches!(status, Ok(KeyStatus::Unavailable)) {
        return Ok(());
    }
    if head.dataset_type().map_err(of_dsl)? != DatasetType::Filesystem {
        return Ok(());
    }
    for property in [Property::CanMount, Property::MountPoint] {
        if let Err(error) = head.property(property) {
            return Err(ControlError::PropertiesUnreadable {
                dataset: head.name().as_str().to_owned(),
                reason: of_dsl(error).to_string(),
            });
        }
    }
    Ok(())
}

/// Whether the properties of a dataset, or of one that it has them from, cannot be read.
fn lacks_properties(dataset: &Dataset) -> bool {
    let needed = [Property::MountPoint, Property::Setuid, Property::RecordSize];
    needed
        .into_iter()
        .any(|property| dataset.property(property).is_err())
}

/// Whether `zfs mount -a` mounts the dataset; others are skipped silently.
pub fn mounts_by_itself(mounts: &Mounts, head: &Dataset) -> bool {
    text_of(head, Property::CanMount).as_deref() == Some("on") && has_place(mounts, head)
}

/// Whether it is a file system that can be mounted at its own place and is not.
pub(crate) fn has_place(mounts: &Mounts, head: &Dataset) -> bool {
    let locked = head.dsl().key_status(head.directory());
    let place = text_of(head, Property::MountPoint);
    head.dataset_type()
        .is_ok_and(|kind| kind == DatasetType::Filesystem)
        && place.is_some_and(|place| place.starts_with('/'))
        && !head.is_inconsistent()
        && !head.is_redacted().unwrap_or(false)
        && !locked.is_ok_and(|status| status == KeyStatus::Unavailable)
        && !mounts.is_at_own_place(head.name().as_str())
}

/// Refuses a name that no user could have given: its mount point would be elsewhere than it seems.
fn check_name(dataset: &Dataset) -> Result<(), ControlError> {
    let name = dataset.name();
    name.check().map_err(|source| {
        let text = name.as_str().to_owned();
        of_dsl(DslError::BadName { text, source })
    })
}

fn mount_dataset(
    mounts: &Mounts,
    imported: &Arc<Imported>,
    dataset: Dataset,
    at: Option<(PathBuf, Option<OwnedFd>)>,
    options: &MountOptions,
) -> Result<(), ControlError> {
    let name = dataset.name().as_str().to_owned();
    let turn = mounts.turn(imported, &name)?;
    check_name(&dataset)?;
    check_kind(mounts, &dataset)?;
    check_options(&options.options)?;
    let own_place = at.is_none();
    if own_place && mounts.is_at_own_place(&name) {
        return Err(ControlError::AlreadyMounted { dataset: name });
    }
    check_contents(&dataset, options)?;
    let lacks_properties = lacks_properties(&dataset);
    let (place, namespace) = match at {
        Some(place) => place,
        None => {
            check_properties(&dataset)?;
            (own_mount_point(imported, &dataset)?, None)
        }
    };
    let overlay = options.overlay || text_of(&dataset, Property::Overlay).as_deref() == Some("on");
    if let (true, Some(root)) = (own_place, &imported.altroot) {
        check_within(root, &place)?;
    }
    // What is in a directory of another namespace cannot be seen from here.
    if namespace.is_none() {
        prepare(&place, own_place, overlay)?;
    }
    if namespace.is_none() && mounts.is_at(&name, &place) {
        return Err(ControlError::AlreadyMounted { dataset: name });
    }
    let is_derived = own_place && is_derived(&dataset)?;
    let files = imported.files(&dataset)?;
    let mut switches = switches(imported, &dataset, options);
    switches.read_only |= !files.is_writable() || lacks_properties;
    let read_only = switches.read_only;
    if !read_only {
        imported.drain(&dataset, &files)?;
    }
    let job = MountJob {
        pool: Arc::clone(&imported.pool),
        files,
        mount_point: place,
        namespace,
        switches,
        record_size: record_size(&dataset, lacks_properties)?,
        available: available(&dataset, lacks_properties)?,
        snapshots: Box::new(SnapshotNames::new(mounts, imported, dataset.id())),
        damage: Arc::clone(&imported.damage),
        dataset,
    };
    let mounted = Arc::from(mounts.mounter.mount(job)?);
    turn.add(Entry {
        pool: imported.name().to_owned(),
        dataset: name,
        own_place,
        is_derived,
        options: options.clone(),
        read_only,
        temporary: temporary(imported, options),
        mounted,
    })
}

/// Refuses what is no file system, and more mounts than there may be.
fn check_kind(mounts: &Mounts, dataset: &Dataset) -> Result<(), ControlError> {
    if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Filesystem {
        let dataset = dataset.name().as_str().to_owned();
        return Err(ControlError::WrongKind { dataset });
    }
    match mounts.list().len() >= MOUNTS_MAX {
        true => Err(ControlError::TooManyClients),
        false => Ok(()),
    }
}

/// Refuses what cannot be read, or should not be taken for complete.
fn check_contents(dataset: &Dataset, options: &MountOptions) -> Result<(), ControlError> {
    let name = dataset.name().as_str().to_owned();
    if dataset
        .dsl()
        .key_status(dataset.directory())
        .map_err(of_dsl)?
        == KeyStatus::Unavailable
    {
        return Err(ControlError::KeyNotLoaded { dataset: name });
    }
    if dataset.is_inconsistent() && !options.force {
        return Err(ControlError::PartlyReceived { dataset: name });
    }
    if dataset.is_redacted().map_err(of_dsl)? && !options.force {
        return Err(ControlError::Redacted { dataset: name });
    }
    Ok(())
}

fn record_size(dataset: &Dataset, lacks_properties: bool) -> Result<u64, ControlError> {
    match lacks_properties {
        true => Ok(RECORD_SIZE),
        false => dataset.stored_number(Property::RecordSize).map_err(of_dsl),
    }
}

fn available(dataset: &Dataset, lacks_properties: bool) -> Result<u64, ControlError> {
    match dataset.is_snapshot() || lacks_properties {
        true => Ok(0),
        false => Ok(dataset.available().map_err(of_dsl)?),
    }
}
