//! Devices of new vdevs: opened, and judged before anything on them is lost.

use crate::clouds::table::{Held, How, is_in_store};
use crate::context::Context;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use cenote_base::Guid;
use cenote_cloud::location::place;
use cenote_control::model::{ControlError, NewVdev, NewVdevKind, NewVdevRole};
use cenote_device::{Device, DeviceError, DeviceKind, Opener, SystemOpener};
use cenote_dsl::directory_keys as keys;
use cenote_ondisk::pool_config::PoolState;
use cenote_pool::{NewLeaf, VdevShape};
use cenote_vdev::{AllocationClass, DeviceLabels};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Devices of a pool have at least this many bytes.
const SIZE_MIN: u64 = 64 << 20;
/// Sizes that differ by no more than this are the same: disks of one model are not quite alike.
const SIZE_RANGE_MAX: u64 = 16 << 20;
/// Data devices of a dRAID group when nobody says otherwise.
const DRAID_DATA: u64 = 8;

/// The word for a pool that is imported.
const ACTIVE: &str = "active";

/// Whose a device is, in a sentence.
struct Owner {
    text: String,
    /// No force takes a device from a pool that is imported.
    is_active: bool,
}

/// Why a device cannot be used, whatever is on it.
enum Closed {
    /// There is no such path.
    Absent,
    /// Pools need larger ones.
    Small,
    /// Somebody has it open.
    Taken(String),
    /// The system does not open it.
    Failed(String),
}

fn unusable(reason: String) -> ControlError {
    let name = "devices".to_owned();
    ControlError::BadValue { name, reason }
}

/// What becomes of the devices that were named.
#[derive(Default)]
pub(crate) struct Devices {
    pub vdevs: Vec<cenote_pool::NewVdev>,
    pub spares: Vec<NewLeaf>,
    pub caches: Vec<NewLeaf>,
    /// Those of them that are in stores, released if nothing comes of them.
    pub held: Held,
}

/// Opens all devices of new vdevs. `mismatch` is what speaks against their layout.
///
/// # Errors
/// A line about each device that cannot be used, and whether force would help.
pub(crate) fn open_devices(
    context: &Context,
    new: &[NewVdev],
    mismatch: Option<String>,
    (force, is_trial): (bool, bool),
) -> Result<Devices, ControlError> {
    let mut seen = HashSet::new();
    let mut taken = Vec::new();
    let mut small = Vec::new();
    let mut overridable = Vec::new();
    let mut devices = Devices::default();
    for vdev in new {
        let mut leaves = Vec::new();
        for path in &vdev.devices {
            if !seen.insert(real(path)) {
                let reason = "one or more vdevs refer to the same device, or one of\n\
                              the devices is part of an active md or lvm device";
                return Err(unusable(reason.to_owned()));
            }
            let opened = match is_in_store(path) {
                // Nothing is made in order to see what would be.
                true if is_trial => continue,
                true => open_in_store(context, path, force, &mut devices.held),
                false => open_device(&context.registry, path),
            };
            match opened {
                Ok((_, Some(owner))) if owner.is_active => taken.push(owner.text),
                Ok((leaf, owner)) => {
                    overridable.extend(owner.map(|owner| owner.text));
                    leaves.push(leaf);
                }
                Err(Closed::Absent) => {
                    return Err(ControlError::NoSuchPath { path: path.clone() });
                }
                Err(Closed::Small) => small.push(path.as_str()),
                Err(Closed::Taken(text)) => taken.push(text),
                Err(Closed::Failed(reason)) => return Err(unusable(reason)),
            }
        }
        overridable.extend(unlike_within(&vdev.kind, &leaves));
        devices.add(vdev, leaves)?;
    }
    if !taken.is_empty() {
        return Err(ControlError::DevicesRefused {
            devices: taken,
            is_forced: force,
        });
    }
    if !small.is_empty() {
        return Err(unusable(format!(
            "one or more devices is less than the minimum size (64M): {}",
            small.join(", ")
        )));
    }
    if !force {
        overridable.extend(mismatch);
        if !overridable.is_empty() {
            return Err(ControlError::DevicesRefused {
                devices: overridable,
                is_forced: false,
            });
        }
    }
    Ok(devices)
}

/// Opens a device; beside it who has it.
fn open_device(registry: &Registry, path: &str) -> Result<(NewLeaf, Option<Owner>), Closed> {
    let place = Path::new(path);
    if !place.exists() {
        return Err(Closed::Absent);
    }
    let device = SystemOpener::default().open_writable(place);
    let device = device.map_err(|error| why_closed(registry, path, &error))?;
    if device.size() < SIZE_MIN {
        return Err(Closed::Small);
    }
    let owner = owner_of(registry, path, &device);
    let leaf = NewLeaf {
        path: PathBuf::from(path),
        device,
        whole_disk: false,
    };
    Ok((leaf, owner))
}

/// The same of a device in a store, which is made if there is none.
fn open_in_store(
    context: &Context,
    name: &str,
    force: bool,
    held: &mut Held,
) -> Result<(NewLeaf, Option<Owner>), Closed> {
    let how = How {
        is_forced: force,
        is_writethrough: false,
    };
    let place = place(Path::new(name));
    let is_open = context.clouds.device(&place).is_some();
    let made = context.clouds.make(Path::new(name), how);
    let device = made.map_err(|error| Closed::Failed(error.to_string()))?;
    if !is_open {
        held.push(&device);
    }
    if device.size() < SIZE_MIN {
        return Err(Closed::Small);
    }
    let path = place.to_string_lossy().into_owned();
    let device: Arc<dyn Device> = device;
    let owner = owner_of(&context.registry, &path, &device);
    let leaf = NewLeaf {
        path: place,
        device,
        whole_disk: false,
    };
    Ok((leaf, owner))
}

/// Why a device cannot be opened: if it is in use, perhaps by which pool.
fn why_closed(registry: &Registry, path: &str, error: &DeviceError) -> Closed {
    if !matches!(error, DeviceError::InUse { .. }) {
        return Closed::Failed(error.to_string());
    }
    let device = SystemOpener::default().open(Path::new(path));
    let owner = device
        .ok()
        .and_then(|device| owner_of(registry, path, &device));
    Closed::Taken(match owner {
        Some(owner) => owner.text,
        None => format!("{path} is in use by another process"),
    })
}

/// Which pool has a device, by what is imported here and by its labels.
fn owner_of(registry: &Registry, path: &str, device: &Arc<dyn Device>) -> Option<Owner> {
    let labels = DeviceLabels::read(device.as_ref());
    if let Some(text) = auxiliary_owner(registry, path, &labels) {
        let is_active = true;
        return Some(Owner { text, is_active });
    }
    let owner = |what: &str, name: &str| Owner {
        text: format!("{path} is part of {what} pool '{name}'"),
        is_active: what == ACTIVE,
    };
    // Its labels may be those of the time before, or damaged.
    if let Some(pool) = pool_with(registry, path) {
        return Some(owner(ACTIVE, &pool));
    }
    let label = labels.newest_config()?;
    let guid = label.pool_guid()?;
    let config = label.config.as_ref()?;
    let name = config.name.clone().unwrap_or_else(|| guid.to_string());
    if let Some(text) = absent_leaf(registry, path, (guid, config.guid)) {
        let is_active = false;
        return Some(Owner { text, is_active });
    }
    let what = match (registry.has_guid(guid.0), config.state) {
        (true, _) => ACTIVE,
        (false, PoolState::Exported) => "exported",
        (false, PoolState::Destroyed) => return None,
        (false, _) => "potentially active",
    };
    Some(owner(what, &name))
}

/// That a device is one that an imported pool lacks: it came back, or parted from the pool.
/// Nobody has it open, so whoever insists may have it.
fn absent_leaf(
    registry: &Registry,
    path: &str,
    (pool, leaf): (Guid, Option<Guid>),
) -> Option<String> {
    let pools = registry.all();
    let own = pools.iter().find(|imported| imported.pool.guid() == pool)?;
    let leaf = leaf?;
    let is_absent = own.pool.vdev_tree().leaves().any(|own| own.guid == leaf)
        && !own.pool.vdevs().is_open(leaf);
    is_absent.then(|| {
        let name = own.name();
        format!(
            "{path} is a device of pool '{name}' that is not in use there, with data of its own"
        )
    })
}

/// The imported pool that has the device at a path open.
fn pool_with(registry: &Registry, path: &str) -> Option<String> {
    let place = real(path);
    let pools = registry.all();
    let has = |imported: &Arc<Imported>| {
        let pool = &imported.pool;
        // What is not open may be another device by now: its labels tell.
        let shape = pool.vdevs();
        let leaves = pool.vdev_tree().leaves().map(|leaf| leaf.guid);
        let leaves: HashSet<_> = leaves.filter(|leaf| shape.is_open(*leaf)).collect();
        let found = pool.found_devices();
        let own = found.iter().filter(|(guid, _)| leaves.contains(guid));
        let mut places = own.map(|(_, device)| device.path.to_string_lossy());
        places.any(|path| real(&path) == place)
    };
    let pool = pools.iter().find(|imported| has(imported))?;
    Some(pool.name().to_owned())
}

/// Which imported pool has a spare or cache device.
pub(crate) fn auxiliary_owner(
    registry: &Registry,
    path: &str,
    labels: &DeviceLabels,
) -> Option<String> {
    let guid = labels.newest_config()?.config.as_ref()?.guid?;
    registry.all().iter().find_map(|imported| {
        let has = |key| {
            let vdevs = imported.dsl().auxiliary_vdevs(key).unwrap_or_default();
            vdevs.iter().any(|vdev| vdev.guid == guid)
        };
        let name = imported.name();
        match (has(keys::CACHE_DEVICES), has(keys::SPARES)) {
            (true, _) => Some(format!("{path} is part of active pool '{name}'")),
            (_, true) => Some(format!(
                "{path} is reserved as a hot spare for pool '{name}'"
            )),
            _ => None,
        }
    })
}

/// What speaks against devices of one group: they are most likely mistaken for each other.
fn unlike_within(kind: &NewVdevKind, leaves: &[NewLeaf]) -> Option<String> {
    let word = match kind {
        NewVdevKind::Disk => return None,
        NewVdevKind::Mirror => "mirror",
        NewVdevKind::Raidz { .. } => "raidz",
        NewVdevKind::Draid { .. } => "draid",
    };
    let is_disk = |leaf: &NewLeaf| leaf.device.nature().kind == DeviceKind::Block;
    let disks = leaves.iter().filter(|leaf| is_disk(leaf)).count();
    let sizes = leaves.iter().map(|leaf| leaf.device.size());
    let range = sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0);
    let what = match () {
        () if disks > 0 && disks < leaves.len() => "both files and devices",
        () if range > SIZE_RANGE_MAX => "devices of different sizes",
        () => return None,
    };
    Some(format!("{word} contains {what}"))
}

fn real(path: &str) -> PathBuf {
    if is_in_store(path) {
        return place(Path::new(path));
    }
    std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path))
}

impl Devices {
    fn add(&mut self, vdev: &NewVdev, leaves: Vec<NewLeaf>) -> Result<(), ControlError> {
        let class = match vdev.role {
            NewVdevRole::Spare => {
                self.spares.extend(leaves);
                return Ok(());
            }
            NewVdevRole::Cache => {
                self.caches.extend(leaves);
                return Ok(());
            }
            NewVdevRole::Normal => AllocationClass::Normal,
            NewVdevRole::Log => AllocationClass::Log,
            NewVdevRole::Special => AllocationClass::Special,
            NewVdevRole::Dedup => AllocationClass::Dedup,
        };
        let shape = shape(&vdev.kind, leaves.len())?;
        self.vdevs.push(cenote_pool::NewVdev {
            shape,
            class,
            leaves,
        });
        Ok(())
    }
}

fn shape(kind: &NewVdevKind, count: usize) -> Result<VdevShape, ControlError> {
    Ok(match kind {
        NewVdevKind::Disk => VdevShape::Single,
        NewVdevKind::Mirror => VdevShape::Mirror,
        NewVdevKind::Raidz { parity } => VdevShape::Raidz {
            parity: u64::from(*parity),
        },
        NewVdevKind::Draid {
            parity,
            data,
            children,
            spares,
        } => {
            let bad = |reason: String| ControlError::BadValue {
                name: "draid".to_owned(),
                reason,
            };
            let count = count as u64;
            if children.is_some_and(|children| children != count) {
                return Err(bad(format!(
                    "invalid number of dRAID children; {} required but {count} provided",
                    children.unwrap_or(0)
                )));
            }
            let parity = u64::from(*parity);
            let room = count.saturating_sub(spares.saturating_add(parity));
            if room == 0 {
                return Err(bad(format!(
                    "request number of distributed spares {spares} and parity level {parity}\n\
                     leaves no disks available for data"
                )));
            }
            if let Some(data) = data.filter(|data| *data > room) {
                return Err(bad(format!(
                    "requested number of dRAID data disks per group {data} is too high,\n\
                     at most {room} disks are available for data"
                )));
            }
            VdevShape::Draid {
                parity,
                data: data.unwrap_or(DRAID_DATA.min(room)),
                spares: *spares,
            }
        }
    })
}
