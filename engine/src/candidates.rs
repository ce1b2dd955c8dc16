//! Pools that could be imported: `zpool import` without operands.

use cenote_base::{Env, Guid, settings};
use cenote_control::model::{
    AllocationClass, ControlError, Diagnosis, Fault, ImportCandidate, ImportCondition, PoolHealth,
    Response, Search, Vdev, VdevAux, VdevKind, VdevState, VdevTree,
};
use cenote_device::{
    DEVICE_SIZE_MIN, Device, DeviceError, Entry, Opener, SystemOpener, WindowDevice,
};
use cenote_dsl::Stored;
use cenote_ondisk::VdevConfig;
use cenote_ondisk::pool_config::PoolState;
use cenote_pool::{
    Buffers, ImportError, Pool, PoolCandidate, Stranger, assemble, at_last_path, is_in_use,
};
use cenote_vdev::{OpenOptions, Scan, Shape, Vdevs, scan};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Engine;
use super::refusal::feature_name;
use super::vdevs::{state_of, tree_of, vdev_tree};

/// Where devices are looked for when no place is named.
const PLACES: [&str; 2] = ["/dev/disk/by-id", "/dev"];

/// Opens devices as of a byte offset: pools inside images.
#[derive(Debug)]
struct OffsetOpener {
    system: SystemOpener,
    offset: u64,
}

impl Opener for OffsetOpener {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        let device = self.system.open(path)?;
        Ok(match self.offset {
            0 => device,
            offset => Arc::new(WindowDevice::new(device, offset, None)?),
        })
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.system.list(path)
    }
}

/// What a search came to.
pub(super) struct Found {
    /// The pools.
    pub candidates: Vec<PoolCandidate>,
    /// Places that could not be looked at, and why, a line each.
    unreadable: Vec<String>,
}

/// Looks for devices of pools.
pub(super) fn find(search: &Search) -> Result<Found, ControlError> {
    let paths: Vec<PathBuf> = match search.paths.is_empty() {
        _ if search.cache_file.is_some() => {
            let file = search.cache_file.as_deref().unwrap_or_default();
            super::cache_file::places(Path::new(file))?
        }
        false => search.paths.iter().map(PathBuf::from).collect(),
        true => {
            let places = PLACES.iter().map(PathBuf::from);
            places.filter(|place| place.exists()).collect()
        }
    };
    let opener = OffsetOpener {
        system: SystemOpener::default(),
        offset: search.offset,
    };
    let found: Scan = scan(&paths, &opener);
    let unreadable = unreadable(search, &found.failures);
    let mut candidates = assemble(found);
    let destroyed = |candidate: &PoolCandidate| candidate.config.state == PoolState::Destroyed;
    candidates.retain(|candidate| destroyed(candidate) == search.destroyed);
    Ok(Found {
        candidates,
        unreadable,
    })
}

/// Failures that a person should know of: of places that were named, and for want of permission.
/// Drives without a medium and the like are passed over.
fn unreadable(search: &Search, failures: &[DeviceError]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut denied = 0u64;
    for failure in failures {
        let (path, reason) = match failure {
            DeviceError::Open { path, source } => (Some(path), source.kind()),
            _ => (None, ErrorKind::Other),
        };
        let is_named = path.is_none_or(|path| {
            let mut named = search.paths.iter();
            named.any(|named| Path::new(named) == path)
        });
        match is_named && !search.paths.is_empty() {
            true => lines.push(failure.to_string()),
            false => denied += u64::from(reason == ErrorKind::PermissionDenied),
        }
    }
    if denied > 0 {
        lines.push(format!(
            "{denied} devices cannot be opened: permission denied"
        ));
    }
    lines
}

impl Engine {
    pub(super) fn import_search(&self, search: &Search) -> Result<Response, ControlError> {
        let found = find(search)?;
        let fresh = found
            .candidates
            .iter()
            .filter(|candidate| !self.registry.has_guid(candidate.guid.0));
        Ok(Response::Candidates {
            candidates: fresh
                .map(|candidate| describe(candidate, &self.env))
                .collect(),
            unreadable: found.unreadable,
        })
    }
}

/// Memory for a look at a pool.
const TRIAL_CACHE_BYTES: u64 = 8 << 20;
const TRIAL_BUFFER_BYTES: u64 = 40 << 20;

/// Options for a look at a pool, whoever uses it and whether or not log devices are missing.
pub(super) fn trial() -> cenote_pool::ImportOptions {
    cenote_pool::ImportOptions {
        read_only: true,
        force: true,
        missing_logs: true,
        cache_bytes: TRIAL_CACHE_BYTES,
        buffers: Buffers::new(TRIAL_BUFFER_BYTES),
        ..cenote_pool::ImportOptions::default()
    }
}

/// The vdevs as an import listing shows them: by their paths, there or not.
fn tree_of_pool(pool: &Pool) -> VdevTree {
    let mut tree = vdev_tree(pool);
    name_by_path(&mut tree.root);
    tree
}

fn name_by_path(root: &mut Vdev) {
    let mut stack: Vec<&mut Vdev> = vec![root];
    while let Some(vdev) = stack.pop() {
        vdev.not_present = false;
        // OpenZFS gives no reason for a disk that is not there.
        let is_log_disk = vdev.class == AllocationClass::Log && vdev.kind == VdevKind::Disk;
        if is_log_disk && vdev.aux == VdevAux::OpenFailed {
            vdev.aux = VdevAux::None;
        }
        stack.extend(vdev.children.iter_mut());
    }
}

/// The states that a candidate's vdevs would have.
fn open_tree(candidate: &PoolCandidate) -> Option<(Arc<Shape>, VdevTree)> {
    let devices = candidate.devices();
    let best = candidate.uberblocks().into_iter().next();
    let options = OpenOptions {
        reflow: best.and_then(|best| best.raidz_reflow()),
        ..OpenOptions::default()
    };
    let vdevs = Vdevs::open(&candidate.tree, &devices, &options)
        .ok()?
        .shape();
    let mut root = tree_of(&candidate.tree, &vdevs.status(), &|_| Default::default());
    set_found_paths(&mut root, &candidate.paths());
    name_by_path(&mut root);
    let tree = VdevTree {
        root,
        cache: Vec::new(),
        spares: Vec::new(),
    };
    Some((vdevs, tree))
}

/// Shows devices where they were found; the others keep the path where they were last known.
fn set_found_paths(root: &mut Vdev, paths: &HashMap<Guid, PathBuf>) {
    let mut stack = vec![root];
    while let Some(vdev) = stack.pop() {
        if let Some(path) = paths.get(&Guid(vdev.guid)) {
            vdev.path = Some(path.to_string_lossy().into_owned());
        }
        stack.extend(vdev.children.iter_mut());
    }
}

fn describe(candidate: &PoolCandidate, env: &Arc<dyn Env>) -> ImportCandidate {
    let best = candidate.uberblocks().into_iter().next();
    let tried = cenote_pool::import(candidate, &trial(), Arc::clone(env));
    let opened = match &tried {
        Ok(pool) => Some((pool.vdevs(), tree_of_pool(pool))),
        Err(_) => open_tree(candidate),
    };
    let (mut health, mut vdevs) = match opened {
        Some((vdevs, tree)) => (health_of(state_of(vdevs.state().0)), tree),
        None => (PoolHealth::Unavail, empty_tree(candidate)),
    };
    let obstacle = match &tried {
        Ok(pool) => other_hosts(candidate, pool, env.as_ref()),
        Err(error) => obstacle(error),
    };
    if let Some((worse, condition)) = &obstacle {
        health = *worse;
        if *condition == ImportCondition::ActiveElsewhere {
            (vdevs.root.state, vdevs.root.aux) = (VdevState::CantOpen, VdevAux::Active);
        }
    }
    let config = &candidate.config;
    // The pool's own configuration knows all devices, a label only those of its top-level vdev.
    let diagnoses = match &tried {
        Ok(pool) => diagnoses_in(candidate, pool.vdev_tree()),
        Err(_) => diagnoses_in(candidate, &candidate.tree),
    };
    ImportCandidate {
        name: candidate.name().to_owned(),
        guid: candidate.guid.0,
        health,
        destroyed: config.state == PoolState::Destroyed,
        comment: config.comment.clone(),
        hostname: config.hostname.clone(),
        hostid: Some(config.hostid).filter(|id| *id != 0),
        timestamp: best.as_ref().map_or(0, |best| best.timestamp),
        txg: best.as_ref().map_or(0, |best| best.txg.0),
        condition: match obstacle {
            Some((_, condition)) => Some(condition),
            None => condition(candidate, health, &vdevs, &diagnoses),
        },
        vdevs,
        diagnoses,
    }
}

/// What keeps a pool that several systems can reach from being imported by this one.
fn other_hosts(
    candidate: &PoolCandidate,
    pool: &Pool,
    env: &dyn Env,
) -> Option<(PoolHealth, ImportCondition)> {
    if is_in_use(candidate, env) {
        return Some((PoolHealth::Unavail, ImportCondition::ActiveElsewhere));
    }
    let properties = pool.dsl().pool_properties().ok()?;
    let is_shared = properties.get("multihost") == Some(&Stored::Number(1));
    (is_shared && hostid() == 0).then_some((PoolHealth::Unavail, ImportCondition::HostIdRequired))
}

/// What keeps a pool from being opened although its devices are there.
fn obstacle(error: &ImportError) -> Option<(PoolHealth, ImportCondition)> {
    match error {
        ImportError::Metadata(_) | ImportError::Config(_) | ImportError::Dsl(_) => {
            Some((PoolHealth::Faulted, ImportCondition::CorruptPool))
        }
        ImportError::UnsupportedFeatures { features } => {
            let features = features.iter().cloned().map(feature_name).collect();
            let condition = ImportCondition::UnsupportedRead(features);
            Some((PoolHealth::Unavail, condition))
        }
        ImportError::BadGuidSum { .. } => Some((PoolHealth::Unavail, ImportCondition::BadGuidSum)),
        _ => None,
    }
}

fn empty_tree(candidate: &PoolCandidate) -> VdevTree {
    let mut root = Vdev::new(VdevKind::Root, 0, candidate.guid.0);
    root.state = VdevState::CantOpen;
    VdevTree {
        root,
        cache: Vec::new(),
        spares: Vec::new(),
    }
}

fn health_of(state: VdevState) -> PoolHealth {
    match state {
        VdevState::Online => PoolHealth::Online,
        VdevState::Degraded => PoolHealth::Degraded,
        VdevState::Faulted => PoolHealth::Faulted,
        _ => PoolHealth::Unavail,
    }
}

fn condition(
    candidate: &PoolCandidate,
    health: PoolHealth,
    vdevs: &VdevTree,
    diagnoses: &[Diagnosis],
) -> Option<ImportCondition> {
    let config = &candidate.config;
    let logs = vdevs.of_class(AllocationClass::Log);
    let lost_log = logs
        .into_iter()
        .any(|log| log.state == VdevState::CantOpen && log.aux == VdevAux::None);
    if lost_log && health == PoolHealth::Degraded {
        return Some(ImportCondition::CorruptDevices);
    }
    let missing = |diagnosis: &Diagnosis| {
        matches!(diagnosis.fault, Fault::NotFound | Fault::Unreadable { .. })
    };
    let lost_cache = |cache: &Vdev| cache.state == VdevState::CantOpen;
    if diagnoses.iter().any(missing) || vdevs.cache.iter().any(lost_cache) {
        return Some(ImportCondition::MissingDevices);
    }
    let is_damaged = |diagnosis: &Diagnosis| {
        matches!(
            diagnosis.fault,
            Fault::NoLabel | Fault::OtherPool { .. } | Fault::TooSmall { .. }
        )
    };
    if diagnoses.iter().any(is_damaged) {
        return Some(ImportCondition::CorruptDevices);
    }
    if config.version > cenote_dsl::FEATURE_VERSION {
        return Some(ImportCondition::VersionNewer);
    }
    if health == PoolHealth::Degraded {
        return Some(ImportCondition::OfflineDevices);
    }
    if config.state == PoolState::Active && config.hostid != 0 && config.hostid != hostid() {
        return Some(ImportCondition::ForeignHost);
    }
    if config.version < cenote_dsl::FEATURE_VERSION {
        return Some(ImportCondition::LegacyVersion);
    }
    (config.errata != 0).then_some(ImportCondition::Errata(config.errata))
}

/// What is missing or damaged, leaf by leaf, of the pool's own `tree` or of that of the labels.
pub(super) fn diagnoses_in(candidate: &PoolCandidate, tree: &VdevConfig) -> Vec<Diagnosis> {
    let paths = candidate.paths();
    let mut found = Vec::new();
    for leaf in tree.leaves() {
        let fault = match paths.get(&leaf.guid) {
            Some(_) => label_fault(candidate, leaf.guid),
            None if leaf.kind.is_device() => Some(absence(leaf)),
            None if leaf.kind == cenote_ondisk::VdevKind::Missing => Some(Fault::NotFound),
            None => None,
        };
        if let Some(fault) = fault {
            found.push(diagnosis(tree, leaf, fault, paths.get(&leaf.guid)));
        }
    }
    found
}

/// Why a device was not found.
fn absence(leaf: &VdevConfig) -> Fault {
    match at_last_path(leaf) {
        None => Fault::NotFound,
        Some(Stranger::Unreadable { reason }) => Fault::Unreadable { reason },
        Some(Stranger::Unlabelled) => Fault::NoLabel,
        Some(Stranger::Foreign { pool }) => Fault::OtherPool { pool },
        Some(Stranger::TooSmall { bytes }) => Fault::TooSmall {
            expected: DEVICE_SIZE_MIN,
            found: bytes,
        },
    }
}

fn diagnosis(
    tree: &VdevConfig,
    leaf: &VdevConfig,
    fault: Fault,
    found: Option<&PathBuf>,
) -> Diagnosis {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    Diagnosis {
        vdev: place_of(tree, leaf.guid, leaf),
        guid: leaf.guid.0,
        last_path: leaf.path.as_ref().map(text),
        found_path: found.map(text),
        fault,
    }
}

/// Where a leaf stands in the tree: `raidz1-0/1`.
fn place_of(root: &VdevConfig, guid: Guid, leaf: &VdevConfig) -> String {
    let top = root
        .children
        .iter()
        .find(|top| top.walk().any(|vdev| vdev.guid == guid && guid.0 != 0));
    let id = |vdev: &VdevConfig| vdev.id.map_or(0, |id| id.0);
    match top {
        Some(top) if top.guid != guid => {
            let parity = match top.parity {
                0 => String::new(),
                parity => parity.to_string(),
            };
            format!("{}{parity}-{}/{}", top.kind.name(), id(top), id(leaf))
        }
        _ => format!("top-level vdev {}", id(leaf)),
    }
}

/// Labels of a device that do not verify.
fn label_fault(candidate: &PoolCandidate, guid: Guid) -> Option<Fault> {
    let member = candidate.members.iter().find(|member| {
        let config = member.labels.newest_config();
        config.and_then(|label| label.guid()) == Some(guid)
    })?;
    let mut good = 0;
    for label in member.labels.labels.iter().filter(|label| label.is_valid()) {
        good |= 1u8 << label.index.min(3);
    }
    (good != 0b1111).then_some(Fault::Labels { good })
}

/// This host's id, as OpenZFS finds it; 0 if it has none.
pub(super) fn hostid() -> u64 {
    let given = settings::HOST_ID.get();
    if given != 0 {
        return given;
    }
    let bytes = std::fs::read("/etc/hostid").unwrap_or_default();
    match bytes.as_slice().try_into() {
        Ok(bytes) => u64::from(u32::from_le_bytes(bytes)),
        Err(_) => 0,
    }
}

/// This host's name; empty if the system does not say.
pub(super) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}
