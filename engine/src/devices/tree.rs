//! The vdev tree of a pool in the clients' terms: configuration, state and figures joined by guid.

use super::fragmentation::fragmentation;
use crate::registry::imported::Imported;
use cenote_base::{Guid, VdevId};
use cenote_control::model::{
    AllocationClass, ClassRequests, Counters, Space, SpareUse, Treatment, TreatmentState, Vdev,
    VdevAux, VdevKind, VdevNaming, VdevState, VdevTree,
};
use cenote_dsl::directory_keys;
use cenote_ondisk::VdevConfig;
use cenote_ondisk::VdevKind as ConfigKind;
use cenote_ondisk::scan::ScanFunction;
use cenote_pool::{
    Pool, TreatmentKind as EngineKind, TreatmentState as EngineTreatment, TreatmentStatus,
};
use cenote_vdev::AllocationClass as EngineClass;
use cenote_vdev::VdevAux as EngineAux;
use cenote_vdev::VdevState as EngineState;
use cenote_vdev::{ClassFigures, IoClass, Shape, VdevStatus};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a device that are its labels and boot block (format/1).
const RESERVED_BYTES: u64 = 4608 << 10;
/// Bytes of each device that a dRAID vdev keeps for its expansion (format/1c).
const DRAID_REFLOW_BYTES: u64 = 32 << 20;
/// Levels of vdevs below the root: a decoded configuration has at most 20.
const DEPTH_MAX: usize = 32;

/// The whole tree with states, counters and sizes.
pub(crate) fn vdev_tree(pool: &Pool) -> VdevTree {
    let status = pool.vdevs().status();
    let mut root = tree_of(&pool.vdev_tree(), &status, &|id| Sized {
        space: top_space(pool, id),
        ashift: pool.vdevs().ashift(id).map_or(0, u64::from),
    });
    root.guid = pool.guid().0;
    add_treatments(&mut root, pool);
    add_gains(&mut root, pool);
    add_replaceable(&mut root, pool);
    add_stale(&mut root, pool);
    add_rebuilding(&mut root, pool);
    root.space = root_space(&root.children);
    VdevTree {
        cache: auxiliary(pool, directory_keys::CACHE_DEVICES),
        spares: auxiliary(pool, directory_keys::SPARES),
        root,
    }
}

/// The whole tree, in which spares that `pools` share are those of the pool that uses them.
pub(crate) fn shared_tree(pools: &[Arc<Imported>], pool: &Pool) -> VdevTree {
    let mut tree = vdev_tree(pool);
    let found = pool.found_devices();
    for spare in &mut tree.spares {
        if spare.spare == Some(SpareUse::InUse) {
            continue;
        }
        let mut others = pools
            .iter()
            .filter(|other| other.pool.guid() != pool.guid());
        if let Some(user) = others.find(|other| is_in_tree(&other.pool, Guid(spare.guid))) {
            spare.spare = Some(SpareUse::InUseBy(user.name().to_owned()));
            (spare.state, spare.aux) = (VdevState::Online, VdevAux::None);
            continue;
        }
        // The label is outdated if the pool that it names is imported here and does not use the
        // spare.
        let user = found
            .get(&Guid(spare.guid))
            .and_then(|found| found.used_by.as_ref());
        if user.is_some_and(|user| pools.iter().any(|other| other.pool.guid() == user.pool)) {
            spare.spare = Some(SpareUse::Available);
        }
    }
    tree
}

/// Whether a device is in the tree of a pool.
pub(crate) fn is_in_tree(pool: &Pool, device: Guid) -> bool {
    pool.vdev_tree().walk().any(|vdev| vdev.guid == device)
}

/// Says of each leaf how long its requests took and how large they were.
pub(crate) fn add_requests(root: &mut Vdev, pool: &Pool) {
    let mut leaves: HashMap<u64, Vec<ClassFigures>> = HashMap::new();
    for (guid, classes) in pool.vdevs().leaf_requests() {
        leaves.insert(guid.0, classes);
    }
    let mut stack: Vec<&mut Vdev> = vec![root];
    while let Some(vdev) = stack.pop() {
        let classes = leaves.remove(&vdev.guid).unwrap_or_default();
        let classes = IoClass::ALL.into_iter().zip(classes);
        vdev.requests = classes
            .map(|(class, figures)| ClassRequests {
                class: class.name().to_owned(),
                active: figures.active.into(),
                waiting: figures.waiting.into(),
                total: figures.total.into(),
                device: figures.device.into(),
                queue: figures.queue.into(),
                single_sizes: figures.single_sizes.into(),
                joined_sizes: figures.joined_sizes.into(),
            })
            .collect();
        stack.extend(vdev.children.iter_mut());
    }
}

/// What top-level vdevs could gain, and what the devices below them have gained, in metaslabs.
fn add_gains(root: &mut Vdev, pool: &Pool) {
    let expandable = pool.expandable();
    for (top, config) in root.children.iter_mut().zip(&pool.vdev_tree().children) {
        top.space.expandable = expandable.get(&VdevId(top.id)).copied().unwrap_or(0);
        let mut stack: Vec<&mut Vdev> = top.children.iter_mut().collect();
        while let Some(vdev) = stack.pop() {
            let gain = pool.vdevs().gain_of_leaf(Guid(vdev.guid)).unwrap_or(0);
            vdev.space.expandable = gain >> config.metaslab_shift << config.metaslab_shift;
            stack.extend(vdev.children.iter_mut());
        }
    }
}

/// Which devices wait for what they missed, with no resilver under way that brings it.
fn add_stale(root: &mut Vdev, pool: &Pool) {
    let shape = pool.vdevs();
    if shape.is_resilver_needed().is_none() {
        return;
    }
    let is_under_way = is_resilvering(pool);
    let mut stack: Vec<&mut Vdev> = root.children.iter_mut().collect();
    while let Some(vdev) = stack.pop() {
        if vdev.kind.is_leaf() && shape.needs_resilver(Guid(vdev.guid)) {
            match is_under_way && pool.is_being_resilvered(Guid(vdev.guid)) {
                true => {
                    vdev.is_resilvering = true;
                    vdev.scan_processed = scanned(&shape, vdev.guid);
                }
                false => vdev.resilver_deferred = true,
            }
        }
        stack.extend(vdev.children.iter_mut());
    }
}

/// Which devices are brought what they missed in the order of the disk.
fn add_rebuilding(root: &mut Vdev, pool: &Pool) {
    let tree = pool.vdev_tree();
    let leaves = tree.leaves();
    let rebuilding = leaves.filter(|leaf| leaf.rebuild_txg.is_some());
    let rebuilding: Vec<u64> = rebuilding.map(|leaf| leaf.guid.0).collect();
    let mut stack: Vec<&mut Vdev> = root.children.iter_mut().collect();
    while let Some(vdev) = stack.pop() {
        vdev.is_rebuilding = rebuilding.contains(&vdev.guid);
        stack.extend(vdev.children.iter_mut());
    }
}

/// Bytes that scans brought to a device since it was opened.
fn scanned(shape: &Shape, guid: u64) -> u64 {
    let root = shape.status();
    let mut stack = vec![&root];
    while let Some(vdev) = stack.pop() {
        if vdev.guid == Guid(guid) {
            return vdev.figures.scan_repaired_bytes;
        }
        stack.extend(&vdev.children);
    }
    0
}

fn is_resilvering(pool: &Pool) -> bool {
    let scan = pool.dsl().scan().ok().flatten();
    scan.is_some_and(|scan| scan.is_running() && scan.function == ScanFunction::Resilver)
}

/// How small a device may be that takes another's place: the space of its top-level vdev is in
/// whole metaslabs, and each device has its share of it.
fn add_replaceable(root: &mut Vdev, pool: &Pool) {
    let tree = pool.vdev_tree();
    let concrete = root.children.iter_mut().zip(&tree.children);
    for (top, config) in concrete.filter(|(_, config)| config.asize != 0) {
        let least = config.asize >> config.metaslab_shift << config.metaslab_shift;
        set_replaceable(top, least);
    }
}

/// A vdev and all below it: trees are at most four deep by their decoder.
fn set_replaceable(vdev: &mut Vdev, least: u64) {
    if vdev.kind.is_leaf() {
        vdev.space.replaceable = least.saturating_add(RESERVED_BYTES);
        return;
    }
    vdev.space.replaceable = least;
    let share = match vdev.kind {
        VdevKind::Raidz { .. } => least.div_ceil(vdev.children.len().max(1) as u64),
        VdevKind::Draid {
            children, spares, ..
        } => least
            .div_ceil(children.saturating_sub(spares).max(1))
            .saturating_add(DRAID_REFLOW_BYTES),
        _ => least,
    };
    for child in &mut vdev.children {
        set_replaceable(child, share);
    }
}

/// What is or was done to the free space of each device.
fn add_treatments(root: &mut Vdev, pool: &Pool) {
    let all = pool.treatment_status();
    let mut stack = vec![root];
    while let Some(vdev) = stack.pop() {
        if vdev.kind.is_leaf() {
            let of = |kind| {
                let mut found = all.iter();
                let found = found.find(|status| status.leaf.0 == vdev.guid && status.kind == kind);
                found.and_then(treatment)
            };
            let (trim, initialize) = (of(EngineKind::Trim), of(EngineKind::Initialize));
            (vdev.trim, vdev.initialize) = (trim, initialize);
            vdev.trim_unsupported = pool.vdevs().can_discard(Guid(vdev.guid)) == Some(false);
        }
        stack.extend(vdev.children.iter_mut());
    }
}

fn treatment(status: &TreatmentStatus) -> Option<Treatment> {
    let state = match status.state {
        EngineTreatment::None => return None,
        EngineTreatment::Active => TreatmentState::Active,
        EngineTreatment::Canceled => TreatmentState::Canceled,
        EngineTreatment::Suspended => TreatmentState::Suspended,
        EngineTreatment::Complete => TreatmentState::Complete,
    };
    Some(Treatment {
        state,
        time: status.time,
        done: status.done,
        total: status.total,
    })
}

/// Sizes of the pool: sums over the classes that hold data.
fn root_space(tops: &[Vdev]) -> Space {
    let mut space = Space::default();
    for top in tops.iter().filter(|top| top.class != AllocationClass::Log) {
        space.allocated += top.space.allocated;
        space.total += top.space.total;
        space.deflated += top.space.deflated;
        space.checkpoint += top.space.checkpoint;
        space.expandable += top.space.expandable;
    }
    space
}

/// The sizes of a top-level vdev.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sized {
    pub space: Space,
    pub ashift: u64,
}

/// The tree of a configuration with the states of its vdevs.
pub(crate) fn tree_of(
    config: &VdevConfig,
    status: &VdevStatus,
    sizes: &dyn Fn(VdevId) -> Sized,
) -> Vdev {
    let configs: HashMap<Guid, &VdevConfig> =
        config.walk().map(|config| (config.guid, config)).collect();
    let mut root = join(status, &configs, sizes, 0);
    root.kind = VdevKind::Root;
    root
}

fn join(
    status: &VdevStatus,
    configs: &HashMap<Guid, &VdevConfig>,
    sizes: &dyn Fn(VdevId) -> Sized,
    depth: usize,
) -> Vdev {
    let config = configs.get(&status.guid).copied();
    let id = status.id.unwrap_or_default();
    let mut vdev = Vdev::new(kind_of(&status.kind, config), id.0, status.guid.0);
    vdev.state = state_of(status.state);
    vdev.aux = aux_of(status.aux);
    vdev.path = status
        .path
        .as_ref()
        .map(|path| path.to_string_lossy().into_owned());
    vdev.counters = Counters {
        read_errors: status.figures.read_errors,
        write_errors: status.figures.write_errors,
        checksum_errors: status.figures.checksum_errors,
        slow_ios: status.figures.slow_operations,
        self_healed: status.figures.self_healed_bytes,
        scan_repaired: status.figures.scan_repaired_bytes,
        read_operations: status.figures.read_operations,
        read_bytes: status.figures.read_bytes,
        write_operations: status.figures.write_operations,
        write_bytes: status.figures.write_bytes,
        errors_ever: status.figures.errors_ever,
        ..Counters::default()
    };
    vdev.class = class_of(status.class.unwrap_or_default());
    if let Some(config) = config {
        describe(&mut vdev, config);
    }
    if depth == 1 {
        let sized = sizes(id);
        (vdev.space, vdev.ashift) = (sized.space, sized.ashift);
    }
    vdev.space.physical = status.device_size.unwrap_or(0);
    let parent_ashift = vdev.ashift;
    if depth < DEPTH_MAX {
        let children = status.children.iter();
        vdev.children = children
            .map(|child| join(child, configs, sizes, depth + 1))
            .collect();
        for child in vdev.children.iter_mut().filter(|_| depth > 0) {
            child.ashift = parent_ashift;
            child.class = vdev.class;
            child.no_allocation = vdev.no_allocation;
        }
    }
    vdev
}

/// What only the configuration knows.
fn describe(vdev: &mut Vdev, config: &VdevConfig) {
    vdev.device_id = config.devid.clone();
    vdev.physical_path = config.physical_path.clone();
    vdev.whole_disk = config.whole_disk.unwrap_or(false);
    vdev.not_present =
        config.state.not_present || (vdev.kind.is_leaf() && vdev.state == VdevState::CantOpen);
    vdev.removing = config.removing;
    vdev.no_allocation = config.non_allocating;
    vdev.resilver_deferred = config.state.resilver_deferred;
    if config.is_log {
        vdev.class = AllocationClass::Log;
    }
}

fn top_space(pool: &Pool, id: VdevId) -> Space {
    let Some(space) = pool.space().get(&id).copied() else {
        return Space::default();
    };
    let ratio = pool.vdevs().deflate_ratio(id).unwrap_or(512);
    Space {
        allocated: space.allocated,
        total: space.size,
        checkpoint: space.checkpoint,
        deflated: (space.size >> 9).saturating_mul(ratio),
        fragmentation: fragmentation(pool, Some(id.0)),
        ..Space::default()
    }
}

fn kind_of(kind: &ConfigKind, config: Option<&VdevConfig>) -> VdevKind {
    let parity = config.map_or(0, |config| config.parity);
    match kind {
        ConfigKind::Root => VdevKind::Root,
        ConfigKind::Mirror => VdevKind::Mirror,
        ConfigKind::Raidz => VdevKind::Raidz { parity },
        ConfigKind::Draid => {
            let draid = config.and_then(|config| config.draid);
            VdevKind::Draid {
                parity,
                data: draid.map_or(0, |draid| draid.data),
                children: config.map_or(0, |config| config.children.len() as u64),
                spares: draid.map_or(0, |draid| draid.spares),
            }
        }
        ConfigKind::DistributedSpare => VdevKind::DraidSpare,
        ConfigKind::Disk => VdevKind::Disk,
        ConfigKind::File => VdevKind::File,
        ConfigKind::Replacing => VdevKind::Replacing,
        ConfigKind::Spare => VdevKind::Spare,
        ConfigKind::Indirect => VdevKind::Indirect,
        ConfigKind::Hole => VdevKind::Hole,
        ConfigKind::Missing | ConfigKind::Unknown(_) => VdevKind::Missing,
    }
}

fn class_of(class: EngineClass) -> AllocationClass {
    match class {
        EngineClass::Normal => AllocationClass::Normal,
        EngineClass::Log => AllocationClass::Log,
        EngineClass::Special => AllocationClass::Special,
        EngineClass::Dedup => AllocationClass::Dedup,
    }
}

pub(crate) fn state_of(state: EngineState) -> VdevState {
    match state {
        EngineState::Offline => VdevState::Offline,
        EngineState::Removed => VdevState::Removed,
        EngineState::CannotOpen => VdevState::CantOpen,
        EngineState::Faulted => VdevState::Faulted,
        EngineState::Degraded => VdevState::Degraded,
        EngineState::Healthy => VdevState::Online,
    }
}

pub(crate) fn aux_of(aux: EngineAux) -> VdevAux {
    match aux {
        EngineAux::None => VdevAux::None,
        EngineAux::OpenFailed => VdevAux::OpenFailed,
        EngineAux::CorruptData => VdevAux::CorruptData,
        EngineAux::NoReplicas => VdevAux::NoReplicas,
        EngineAux::BadGuidSum => VdevAux::BadGuidSum,
        EngineAux::TooSmall => VdevAux::TooSmall,
        EngineAux::BadLabel => VdevAux::BadLabel,
        EngineAux::ErrorsExceeded => VdevAux::TooManyErrors,
        EngineAux::External => VdevAux::External,
        EngineAux::SplitPool => VdevAux::SplitPool,
        EngineAux::ChildrenOffline => VdevAux::ChildrenOffline,
        EngineAux::Replaced => VdevAux::Replaced,
        EngineAux::Deleted => VdevAux::Deleted,
    }
}

/// Spares or cache devices; a list that cannot be read is shown as none.
fn auxiliary(pool: &Pool, key: &'static str) -> Vec<Vdev> {
    let configs = pool.dsl().auxiliary_vdevs(key).unwrap_or_default();
    let in_use: Vec<Guid> = spares_in_use(pool);
    let each = configs.iter().zip(0..).map(|(config, id)| {
        let mut vdev = Vdev::new(kind_of(&config.kind, Some(config)), id, config.guid.0);
        vdev.path = config
            .path
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned());
        describe(&mut vdev, config);
        vdev.not_present = false;
        set_found(&mut vdev, config, pool);
        let is_resting = config.state.offline || pool.is_cache_resting(config.guid);
        if key == directory_keys::CACHE_DEVICES && is_resting {
            (vdev.state, vdev.aux) = (VdevState::Offline, VdevAux::None);
        }
        if key == directory_keys::SPARES {
            let found = pool.found_devices().remove(&config.guid);
            let user = found.and_then(|found| found.used_by);
            vdev.spare = Some(match (in_use.contains(&config.guid), user) {
                (true, _) => SpareUse::InUse,
                (false, Some(user)) => SpareUse::InUseBy(user.name),
                (false, None) => SpareUse::Available,
            });
        }
        vdev
    });
    each.collect()
}

/// Path and size of a spare or cache device as it was found, or that it was not.
fn set_found(vdev: &mut Vdev, config: &VdevConfig, pool: &Pool) {
    if let Some((draid, _)) = config.distributed_spare {
        // A column's worth of space: that of the smallest device of the draid vdev.
        let tree = pool.vdev_tree();
        let mut tree = tree.walk();
        let leaves = tree.find(|vdev| vdev.guid == draid);
        let leaves = leaves.into_iter().flat_map(VdevConfig::leaves);
        let sizes = leaves.filter_map(|leaf| Some(pool.found_devices().get(&leaf.guid)?.size));
        vdev.space.physical = sizes.min().unwrap_or(0);
        return;
    }
    match pool.found_devices().get(&config.guid) {
        Some(found) => {
            vdev.path = Some(found.path.to_string_lossy().into_owned());
            vdev.space.physical = found.size;
        }
        None => (vdev.state, vdev.aux) = (VdevState::CantOpen, VdevAux::OpenFailed),
    }
}

/// The spares that replace devices of the tree.
fn spares_in_use(pool: &Pool) -> Vec<Guid> {
    let tree = pool.vdev_tree();
    let spares = tree.walk().filter(|vdev| vdev.is_spare);
    spares.map(|vdev| vdev.guid).collect()
}

/// Every vdev of the tree below the root, parents first.
pub(crate) fn all_vdevs(tree: &VdevTree) -> Vec<&Vdev> {
    let mut found = Vec::new();
    let mut stack: Vec<&Vdev> = tree.root.children.iter().rev().collect();
    while let Some(vdev) = stack.pop() {
        found.push(vdev);
        stack.extend(vdev.children.iter().rev());
    }
    found
}

/// The leaf that a name means, and whether it is a leaf.
pub(crate) fn leaf_named(pool: &Pool, name: &str) -> Option<(Guid, bool)> {
    let tree = vdev_tree(pool);
    let mut all = all_vdevs(&tree).into_iter();
    let found = all.find(|vdev| answers_to(vdev, name))?;
    let is_leaf = found.kind.is_leaf() && found.children.is_empty();
    Some((Guid(found.guid), is_leaf))
}

/// What a vdev is called, the root too.
pub(crate) fn display_name(vdev: &Vdev) -> String {
    match vdev.kind {
        VdevKind::Root => "root-0".to_owned(),
        _ => vdev.name(VdevNaming::default()),
    }
}

/// Whether a user may mean the vdev by this name.
pub(crate) fn answers_to(vdev: &Vdev, name: &str) -> bool {
    let is_root = vdev.kind == VdevKind::Root;
    (is_root && matches!(name, "root" | "root-0")) || vdev.answers_to(name)
}
