//! Devices of new vdevs: opened, and judged before anything on them is lost.

use super::owner::{Claim, claim_by_heartbeat, claim_of_kernel, claim_of_opener, claims, real};
use crate::clouds::opener::outside_stores;
use crate::clouds::table::{Held, How, is_in_store};
use crate::context::Context;
use cenote_cloud::is_url;
use cenote_cloud::location::place;
use cenote_control::model::{AllowedVdevs, ControlError, NewVdev, NewVdevKind, NewVdevRole};
use cenote_device::device_parts;
use cenote_device::{Device, DeviceError, DeviceKind, DevicePart, Opener};
use cenote_pool::{NewLeaf, VdevShape};
use cenote_vdev::AllocationClass;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Devices of a pool have at least this many bytes.
const SIZE_MIN: u64 = 64 << 20;
/// Sizes that differ by no more than this are the same: disks of one model are not quite alike.
const SIZE_RANGE_MAX: u64 = 16 << 20;
/// The default number of data devices in a dRAID group.
const DRAID_DATA: u64 = 8;

/// Why a device cannot be used, with any content.
enum Closed {
    /// There is no such path.
    Absent,
    /// Pools need larger ones.
    Small,
    /// It is in use.
    Taken(Claim),
    /// The system does not open it.
    Failed(String),
}

fn unusable(reason: String) -> ControlError {
    let name = "devices".to_owned();
    ControlError::BadValue { name, reason }
}

/// Where new devices go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination<'a> {
    /// A pool that is created.
    NewPool,
    /// This pool, as new vdevs.
    Added(&'a str),
    /// A vdev of this pool.
    Attached(&'a str),
}

/// The named devices, by their role.
#[derive(Default)]
pub(crate) struct Devices {
    pub vdevs: Vec<cenote_pool::NewVdev>,
    pub spares: Vec<NewLeaf>,
    pub caches: Vec<NewLeaf>,
    /// The devices in stores among them, which are released if the operation fails.
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
    (allowed, is_trial): (AllowedVdevs, bool),
    destination: Destination<'_>,
) -> Result<Devices, ControlError> {
    let mut seen = HashSet::new();
    let mut claims: Vec<Claim> = Vec::new();
    let mut small = Vec::new();
    let mut unlike = Vec::new();
    let mut devices = Devices::default();
    for vdev in new {
        let mut leaves = Vec::new();
        for path in &vdev.devices {
            let parts = parts(path);
            if parts.iter().any(|part| seen.contains(part)) {
                let reason = "one or more vdevs refer to the same device, or one of\n\
                              the devices is part of an active md or lvm device";
                return Err(unusable(reason.to_owned()));
            }
            seen.extend(parts);
            let opened = match is_in_store(path) {
                // Nothing is made in order to see what would be.
                true if is_trial => continue,
                true => open_in_store(context, path, allowed.in_use, &mut devices.held),
                false => open_device(context, path, allowed.in_use),
            };
            match opened {
                Ok((leaf, of_it)) => {
                    let is_new_spare = vdev.role == NewVdevRole::Spare;
                    let mut of_it = of_it;
                    of_it.retain(|claim| !(is_new_spare && is_shared(claim, destination)));
                    claims.extend(of_it);
                    leaves.push(leaf);
                }
                Err(Closed::Absent) => {
                    return Err(ControlError::NoSuchPath { path: path.clone() });
                }
                Err(Closed::Small) => small.push(path.as_str()),
                Err(Closed::Taken(claim)) => claims.push(claim),
                Err(Closed::Failed(reason)) => return Err(unusable(reason)),
            }
        }
        unlike.extend(unlike_within(&vdev.kind, &leaves));
        devices.add(vdev, leaves)?;
    }
    let past = refuse_taken(claims, allowed.in_use, destination)?;
    if !small.is_empty() {
        return Err(unusable(format!(
            "one or more devices is less than the minimum size (64M): {}",
            small.join(", ")
        )));
    }
    let mut overridable = Vec::new();
    if !allowed.in_use {
        overridable.extend(past);
    }
    if !allowed.replication_mismatch {
        overridable.extend(unlike);
        overridable.extend(mismatch);
    }
    match overridable.is_empty() {
        true => Ok(devices),
        false => Err(ControlError::DevicesRefused {
            devices: overridable,
            is_forced: false,
        }),
    }
}

/// Whether a pool can have a device as a spare that other pools have as one.
fn is_shared(claim: &Claim, destination: Destination<'_>) -> bool {
    match (claim, destination) {
        (Claim::Spare { pools, .. }, Destination::Added(pool)) => {
            pools.iter().all(|other| other != pool)
        }
        (Claim::Spare { .. }, Destination::NewPool) => true,
        _ => false,
    }
}

/// Refuses devices that are in use; returns sentences about former uses. A device that a pool lacks
/// may be attached to it again.
fn refuse_taken(
    claims: Vec<Claim>,
    force: bool,
    destination: Destination<'_>,
) -> Result<Vec<String>, ControlError> {
    let (mut past, mut taken) = (Vec::new(), Vec::new());
    let mut is_forced = true;
    for claim in claims {
        match claim {
            Claim::Past(text) => past.push(text),
            Claim::Absent { pool, text, .. }
                if destination == Destination::Attached(pool.as_str()) =>
            {
                past.push(text);
            }
            Claim::Kernel(text) => taken.push(text),
            Claim::Active(text)
            | Claim::Spare { text, .. }
            | Claim::Absent { others: text, .. } => {
                // OpenZFS offers force here, too, and then refuses.
                is_forced = force;
                taken.push(text);
            }
        }
    }
    match taken.is_empty() {
        true => Ok(past),
        false => Err(ControlError::DevicesRefused {
            devices: taken,
            is_forced,
        }),
    }
}

/// Opens a device; returns its present and former users with it.
fn open_device(
    context: &Context,
    path: &str,
    force: bool,
) -> Result<(NewLeaf, Vec<Claim>), Closed> {
    let (place, registry) = (Path::new(path), &context.registry);
    if !is_url(place) {
        if !place.exists() {
            return Err(Closed::Absent);
        }
        if let Some(claim) = claim_of_kernel(path) {
            return Err(Closed::Taken(claim));
        }
    }
    let opener = outside_stores(&context.clouds);
    let device = match opener.open_writable(place) {
        Ok(device) => device,
        Err(DeviceError::InUse { .. }) => {
            return Err(Closed::Taken(claim_of_opener(registry, &opener, path)));
        }
        Err(error) => return Err(Closed::Failed(error.to_string())),
    };
    if device.size() < SIZE_MIN {
        return Err(Closed::Small);
    }
    let failed = |error: DeviceError| Closed::Failed(error.to_string());
    let mut claims = claims(registry, path, &device).map_err(failed)?;
    let is_active = |claim: &Claim| !matches!(claim, Claim::Past(_) | Claim::Absent { .. });
    if force && !claims.iter().any(is_active) {
        claims.extend(claim_by_heartbeat(
            path,
            device.as_ref(),
            context.env.as_ref(),
        ));
    }
    let leaf = NewLeaf {
        path: PathBuf::from(path),
        device,
        whole_disk: false,
    };
    Ok((leaf, claims))
}

/// The same for a device in a store, which is created if it does not exist.
fn open_in_store(
    context: &Context,
    name: &str,
    force: bool,
    held: &mut Held,
) -> Result<(NewLeaf, Vec<Claim>), Closed> {
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
    let claims = claims(&context.registry, &path, &device);
    let claims = claims.map_err(|error| Closed::Failed(error.to_string()))?;
    let leaf = NewLeaf {
        path: place,
        device,
        whole_disk: false,
    };
    Ok((leaf, claims))
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

/// What a device consists of, to find the same one under two names.
#[derive(PartialEq, Eq, Hash)]
enum Part {
    Path(PathBuf),
    Own(DevicePart),
}

fn parts(path: &str) -> Vec<Part> {
    if is_url(Path::new(path)) {
        return vec![Part::Path(place(Path::new(path)))];
    }
    let parts = device_parts(Path::new(path)).into_iter();
    let path = Part::Path(real(path));
    parts.map(Part::Own).chain([path]).collect()
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
        // Count the named devices: those in use are not among the leaves, and are refused
        // separately.
        let shape = shape(&vdev.kind, vdev.devices.len())?;
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
