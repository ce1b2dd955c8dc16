//! The owner of a device, checked before it is overwritten.
//!
//! There are three kinds of owners. The **kernel**: it is mounted, swap, a volume of LVM or MD,
//! behind a loop device, or a part of it is. A **pool**: its labels name it; the configuration of
//! an imported pool overrides labels. **Other software**: it left a signature. A device that is in
//! use now cannot be taken, even with force; traces of former uses yield to force.
//!
//! A pool owns the devices in its configuration, by guid. Labels of an imported pool are a former
//! use if their guid is no longer in it (replaced, detached, removed while it was missing). A pool
//! that is not imported here may be in use by another host: with the property `multihost` it shows
//! that by heartbeats, and force waits for them first. Without it this cannot be found out, and
//! force decides.

use super::tree::is_in_tree;
use crate::host::hostid;
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use cenote_base::{Env, Guid};
use cenote_device::{Device, DeviceError, DeviceKind, Opener, SystemOpener};
use cenote_device::{Signature, SignatureKind, kernel_use, signatures};
use cenote_dsl::directory_keys as keys;
use cenote_ondisk::PoolConfig;
use cenote_ondisk::pool_config::PoolState;
use cenote_pool::{is_device_in_use, user_of_spare, waiting_spare};
use cenote_vdev::DeviceLabels;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a device is not simply taken; each is a sentence that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The kernel uses it: no force takes it.
    Kernel(String),
    /// A pool uses it: no force takes it.
    Active(String),
    /// An imported pool has it and lacks it now: force brings it back into that pool, as a new
    /// device, and takes it for nothing else.
    Absent {
        /// The pool's name.
        pool: String,
        /// Whether the pool can use it again with what is on it.
        returns: bool,
        /// The message if it is to return to that pool.
        text: String,
        /// The message for any other use.
        others: String,
    },
    /// It is a spare of imported pools that waits to be used: other pools can have it as a spare,
    /// too, and no force takes it for anything else.
    Spare {
        /// The pools' names.
        pools: Vec<String>,
        /// The message for any other use.
        text: String,
    },
    /// It was used before: force takes it.
    Past(String),
}

fn active(path: &str, pool: &str) -> String {
    format!("{path} is part of active pool '{pool}'")
}

/// What the kernel uses a device for, if it does.
pub(super) fn claim_of_kernel(path: &str) -> Option<Claim> {
    let used = kernel_use(Path::new(path))?;
    Some(Claim::Kernel(format!("{path} {used}")))
}

/// Other present and former users of a device that could be opened for writing.
///
/// # Errors
/// If it cannot be read.
pub(super) fn claims(
    registry: &Registry,
    path: &str,
    device: &Arc<dyn Device>,
) -> Result<Vec<Claim>, DeviceError> {
    let labels = DeviceLabels::read(device.as_ref());
    let mut claims: Vec<Claim> = claim_of_pool(registry, path, &labels).into_iter().collect();
    for signature in signatures(device.as_ref())? {
        claims.push(Claim::Past(contents(path, &signature)));
    }
    Ok(claims)
}

/// Whether a device without labels holds nothing and is not in use, as far as can be known.
pub(super) fn is_nobodys(place: &Path) -> bool {
    if kernel_use(place).is_some() {
        return false;
    }
    let opened = SystemOpener::default().open(place);
    let found = opened.and_then(|device| signatures(device.as_ref()));
    found.is_ok_and(|found| found.is_empty())
}

/// What a signature says of a device.
fn contents(path: &str, signature: &Signature) -> String {
    let what = match signature.kind {
        SignatureKind::Contents => "filesystem",
        SignatureKind::PartitionTable => "partition table",
    };
    format!("{path} contains a {what} of type '{}'", signature.name)
}

/// Which pool has a device, by what is imported here and by its labels.
pub(super) fn claim_of_pool(
    registry: &Registry,
    path: &str,
    labels: &DeviceLabels,
) -> Option<Claim> {
    if let Some(claim) = claim_of_list(registry, path, labels) {
        return Some(claim);
    }
    let text = |what: &str, name: &str| format!("{path} is part of {what} pool '{name}'");
    // Its labels may be those of the time before, or damaged.
    if let Some(pool) = pool_with(registry, path) {
        return Some(Claim::Active(text("active", &pool)));
    }
    let configs = labels
        .labels
        .iter()
        .filter_map(|label| label.config.as_ref());
    let mut members = configs.filter_map(|config| member_of(registry, config));
    if let Some((imported, leaf)) = members.next() {
        let pool = imported.name().to_owned();
        if imported.pool.vdevs().is_open(leaf) {
            return Some(Claim::Active(text("active", &pool)));
        }
        return Some(Claim::Absent {
            returns: imported.pool.can_return(leaf, labels),
            text: format!(
                "{path} is a device of pool '{pool}' that is not in use there, with data of its own"
            ),
            others: active(path, &pool),
            pool,
        });
    }
    let config = labels.newest_config()?.config.as_ref()?;
    let Some(guid) = config.pool_guid else {
        // A pool that went down while it took the spare, or gave it back, may need it.
        let user = user_of_spare(labels)?;
        return Some(Claim::Past(text("potentially active", &user.name)));
    };
    let name = config.name.clone().unwrap_or_else(|| guid.to_string());
    if registry.has_guid(guid.0) {
        let text = format!("{path} is a former device of pool '{name}', which is imported");
        return Some(Claim::Past(text));
    }
    let what = match config.state {
        PoolState::Exported => "exported",
        PoolState::Destroyed => return None,
        _ => "potentially active",
    };
    let mut text = text(what, &name);
    let is_foreign = config.hostid != 0 && config.hostid != hostid();
    if let Some(host) = config.hostname.as_ref().filter(|_| is_foreign) {
        text.push_str(&format!(" (last used by host '{host}')"));
    }
    Some(Claim::Past(text))
}

/// The imported pool whose configuration has the very device that a label is of, and the device. If
/// it is not open there, it rests, came back, or parted from the pool.
fn member_of(registry: &Registry, config: &PoolConfig) -> Option<(Arc<Imported>, Guid)> {
    let (pool, device) = (config.pool_guid?, config.guid?);
    let pools = registry.all();
    let imported = pools.iter().find(|imported| imported.pool.guid() == pool)?;
    let tree = imported.pool.vdev_tree();
    let is_member = tree.walk().any(|vdev| vdev.guid == device);
    is_member.then(|| (Arc::clone(imported), device))
}

/// The imported pool that has the device at a path open.
fn pool_with(registry: &Registry, path: &str) -> Option<String> {
    let place = real(path);
    let pools = registry.all();
    let has = |imported: &Arc<Imported>| {
        let pool = &imported.pool;
        // A path that is not open may be another device by now: its labels show that.
        let shape = pool.vdevs();
        let tree = pool.vdev_tree();
        let leaves = tree.leaves().map(|leaf| leaf.guid);
        let is_here = |leaf: &Guid| shape.is_open(*leaf) && !shape.has_strayed(*leaf);
        let leaves: HashSet<_> = leaves.filter(is_here).collect();
        let found = pool.found_devices();
        let own = found.iter().filter(|(guid, _)| leaves.contains(guid));
        let mut places = own.map(|(_, device)| device.path.to_string_lossy());
        places.any(|path| real(&path) == place)
    };
    let pool = pools.iter().find(|imported| has(imported))?;
    Some(pool.name().to_owned())
}

/// A path without symbolic links, if it is one of this machine.
pub(super) fn real(path: &str) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// The imported pools that list a spare or cache device.
pub(crate) fn pools_with_auxiliary(registry: &Registry, guid: Guid) -> Vec<Arc<Imported>> {
    let has = |imported: &Arc<Imported>| {
        let lists = [keys::CACHE_DEVICES, keys::SPARES].into_iter();
        let mut vdevs =
            lists.flat_map(|key| imported.dsl().auxiliary_vdevs(key).unwrap_or_default());
        vdevs.any(|vdev| vdev.guid == guid)
    };
    let mut pools = registry.all();
    pools.retain(has);
    pools
}

/// What imported pools that list a device as a spare or cache device have of it.
fn claim_of_list(registry: &Registry, path: &str, labels: &DeviceLabels) -> Option<Claim> {
    let guid = labels.newest_config()?.config.as_ref()?.guid?;
    let pools = pools_with_auxiliary(registry, guid);
    let lists = pools.first()?.name();
    // One that is in use is a part of the pool that uses it, which may be imported or not.
    let user = pools
        .iter()
        .find(|imported| is_in_tree(&imported.pool, guid));
    if let Some(user) = user {
        return Some(Claim::Active(active(path, user.name())));
    }
    let is_spare = |imported: &Arc<Imported>| {
        let spares = imported.dsl().auxiliary_vdevs(keys::SPARES);
        spares.is_ok_and(|spares| spares.iter().any(|spare| spare.guid == guid))
    };
    Some(match pools.iter().all(is_spare) {
        true if waiting_spare(labels) == Some(guid) => Claim::Spare {
            text: format!("{path} is reserved as a hot spare for pool '{lists}'"),
            pools: pools.iter().map(|pool| pool.name().to_owned()).collect(),
        },
        _ => {
            let user = user_of_spare(labels).map(|user| user.name);
            Claim::Active(active(path, user.as_deref().unwrap_or(lists)))
        }
    })
}

/// The claim on a device that another process has open, with its pool if the labels name one.
pub(super) fn claim_of_opener(registry: &Registry, opener: &dyn Opener, path: &str) -> Claim {
    let unknown = || Claim::Active(format!("{path} is in use by another process"));
    let Ok(device) = opener.open(Path::new(path)) else {
        return unknown();
    };
    let labels = DeviceLabels::read(device.as_ref());
    match claim_of_pool(registry, path, &labels) {
        Some(
            Claim::Active(text)
            | Claim::Kernel(text)
            | Claim::Absent { others: text, .. }
            | Claim::Spare { text, .. }
            | Claim::Past(text),
        ) => Claim::Active(text),
        None if device.nature().kind == DeviceKind::Block => {
            let found = signatures(device.as_ref()).unwrap_or_default();
            let name = found.first().map_or("unknown", |signature| signature.name);
            let text = format!("{path} is in use and contains a {name} filesystem");
            Claim::Kernel(text)
        }
        None => unknown(),
    }
}

/// Before labels yield to force: which pool shows by heartbeats that it has the device, on another
/// host or for another user of this one. This waits for as long as one may take to come.
pub(super) fn claim_by_heartbeat(path: &str, device: &dyn Device, env: &dyn Env) -> Option<Claim> {
    if !is_device_in_use(device, env) {
        return None;
    }
    let labels = DeviceLabels::read(device);
    let config = labels.newest_config()?.config.as_ref()?;
    let name = config.name.clone().unwrap_or_default();
    let host = config.hostname.clone().unwrap_or_default();
    Some(Claim::Active(format!(
        "{path} is part of active pool '{name}', in use by host '{host}'"
    )))
}
