//! Pools that could be imported: `zpool import` without operands.
//!
//! Each pool is judged as an import for writing would judge it. If that refuses it, the vdevs are
//! shown as far as they can be read, and the condition says what is in the way.

use super::diagnosis::{diagnoses_in, diagnoses_of_missing, feature_name, not_used};
use super::search::find;
use super::trial::{trial, trial_for_writing};
use crate::context::Context;
use crate::devices::tree::{state_of, tree_of, vdev_tree};
use crate::host::hostid;
use cenote_base::{Env, Guid};
use cenote_control::model::{
    AllocationClass, ControlError, Diagnosis, Fault, ImportCandidate, ImportCondition, PoolHealth,
    Response, Search, Vdev, VdevAux, VdevKind, VdevState, VdevTree,
};
use cenote_ondisk::pool_config::PoolState;
use cenote_pool::{ImportError, MissingVdev, Outsider, Pool, PoolCandidate};
use cenote_vdev::{OpenOptions, Shape, Vdevs};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) fn import_search(context: &Context, search: &Search) -> Result<Response, ControlError> {
    let found = find(context, search)?;
    let fresh = found
        .candidates
        .iter()
        .filter(|candidate| !context.registry.has_guid(candidate.guid.0));
    let describe = |candidate: &PoolCandidate| {
        let mut described = describe(candidate, &context.env);
        let sharer = found.sharers.get(&candidate.guid);
        if let Some(by) = sharer.filter(|_| !is_usable(described.health)) {
            let by = by.clone();
            described.condition = Some(ImportCondition::Overwritten { by });
        }
        described
    };
    Ok(Response::Candidates {
        candidates: fresh.map(describe).collect(),
        unreadable: found.unreadable,
    })
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
///
/// Devices that are not what the pool left them as count as missing.
fn open_tree(candidate: &PoolCandidate, parted: &[Outsider]) -> Option<(Arc<Shape>, VdevTree)> {
    let mut devices = candidate.devices();
    devices.retain(|leaf, _| parted.iter().all(|outsider| outsider.leaf != *leaf));
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

/// Shows devices where they were found; the others keep their last known path.
fn set_found_paths(root: &mut Vdev, paths: &HashMap<Guid, PathBuf>) {
    let mut stack = vec![root];
    while let Some(vdev) = stack.pop() {
        if let Some(path) = paths.get(&Guid(vdev.guid)) {
            vdev.path = Some(path.to_string_lossy().into_owned());
        }
        stack.extend(vdev.children.iter_mut());
    }
}

/// Names missing disks that are top-level vdevs by their last known path, if there is one.
fn set_last_paths(root: &mut Vdev, missing: &[MissingVdev]) {
    let unknown = |vdev: &&mut Vdev| vdev.kind == VdevKind::Missing && vdev.path.is_none();
    for vdev in root.children.iter_mut().filter(unknown) {
        let mut tops = missing.iter().filter(|missing| missing.is_top);
        let known = tops.find(|missing| missing.top_id.0 == vdev.id);
        let path = known.and_then(|known| known.last_path.as_ref());
        vdev.path = path.map(|path| path.to_string_lossy().into_owned());
    }
}

fn describe(candidate: &PoolCandidate, env: &Arc<dyn Env>) -> ImportCandidate {
    let best = candidate.uberblocks().into_iter().next();
    let try_with = |options| cenote_pool::import(candidate, &options, Arc::clone(env));
    let (readable, refusal) = match try_with(trial_for_writing()) {
        Ok(pool) => (Some(pool), None),
        Err(refusal) => (try_with(trial()).ok(), Some(refusal)),
    };
    let parted = match &refusal {
        Some(ImportError::Parted { outsiders }) => outsiders.as_slice(),
        _ => &[],
    };
    let opened = match readable.as_ref().filter(|_| parted.is_empty()) {
        Some(pool) => Some((pool.vdevs(), tree_of_pool(pool))),
        None => open_tree(candidate, parted),
    };
    let (mut health, mut vdevs) = match opened {
        Some((vdevs, tree)) => (health_of(state_of(vdevs.state().0)), tree),
        None => (PoolHealth::Unavail, empty_tree(candidate)),
    };
    let refused = refusal.as_ref();
    let obstacle = refused.and_then(|refusal| obstacle(refusal, readable.is_some()));
    if refusal.is_some() && is_usable(health) {
        health = PoolHealth::Unavail;
    }
    if let Some((worse, condition)) = &obstacle {
        health = *worse;
        if *condition == ImportCondition::ActiveElsewhere {
            (vdevs.root.state, vdevs.root.aux) = (VdevState::CantOpen, VdevAux::Active);
        }
    }
    let config = &candidate.config;
    // The pool's own configuration knows all devices, a label only those of its top-level vdev.
    let diagnoses = match (&refusal, &readable) {
        (Some(ImportError::Parted { outsiders }), _) => not_used(&candidate.tree, outsiders),
        (Some(ImportError::MissingDevices { missing }), _) => {
            set_last_paths(&mut vdevs.root, missing);
            diagnoses_of_missing(candidate, missing)
        }
        (_, Some(pool)) => diagnoses_in(candidate, &pool.vdev_tree(), &pool.outsiders()),
        (_, None) => diagnoses_in(candidate, &candidate.tree, &candidate.outsiders),
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

/// What keeps a pool from being imported although its devices are there, perhaps as older copies.
fn obstacle(refusal: &ImportError, is_readable: bool) -> Option<(PoolHealth, ImportCondition)> {
    let unavailable = |condition| Some((PoolHealth::Unavail, condition));
    match refusal {
        ImportError::UnsupportedFeatures { features } => {
            let features = features.iter().cloned().map(feature_name).collect();
            unavailable(ImportCondition::UnsupportedRead(features))
        }
        ImportError::BadGuidSum { .. } => unavailable(ImportCondition::BadGuidSum),
        ImportError::ActiveElsewhere { .. } => unavailable(ImportCondition::ActiveElsewhere),
        ImportError::HostIdRequired => unavailable(ImportCondition::HostIdRequired),
        ImportError::Parted { .. } => unavailable(ImportCondition::MissingDevices),
        ImportError::NotWritable { reason } if is_readable => {
            unavailable(ImportCondition::OnlyReadable(reason.clone()))
        }
        other if is_readable => unavailable(ImportCondition::OnlyReadable(other.to_string())),
        ImportError::Metadata(_)
        | ImportError::Config(_)
        | ImportError::Dsl(_)
        | ImportError::NeededForWriting { .. }
        | ImportError::DamagedTxg { .. }
        | ImportError::PartOfGroup { .. } => {
            Some((PoolHealth::Faulted, ImportCondition::CorruptPool))
        }
        _ => None,
    }
}

fn is_usable(health: PoolHealth) -> bool {
    matches!(health, PoolHealth::Online | PoolHealth::Degraded)
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
    if !is_usable(health) {
        return Some(ImportCondition::CorruptDevices);
    }
    if config.state == PoolState::Active && config.hostid != 0 && config.hostid != hostid() {
        return Some(ImportCondition::ForeignHost);
    }
    if config.version < cenote_dsl::FEATURE_VERSION {
        return Some(ImportCondition::LegacyVersion);
    }
    (config.errata != 0).then_some(ImportCondition::Errata(config.errata))
}
