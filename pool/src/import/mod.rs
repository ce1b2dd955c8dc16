//! From devices to an open pool.
//!
//! 1. The labels give a provisional tree, good enough to read the meta object set (MOS).
//! 2. The best uberblock that the options allow names the MOS's root.
//! 3. The MOS holds the trusted configuration: the tree is built again from it.
//! 4. Features, the guid sum, missing vdevs, removed vdevs and dirty time logs are checked. Devices
//!    that cannot be in the state in which the pool left them are excluded, and the steps are
//!    repeated.
//! 5. The dataset layer opens.
//!
//! If labels alone do not prove that a device belongs to the pool, it is added once the open pool
//! proves it. If the newest state is unreadable because its devices never got all of it (an
//! interrupted resilver), the next readable state is used.
//!
//! With a rewind the steps from 2 on are repeated for one uberblock after another.

pub(crate) mod candidate;
pub(crate) mod choose;
pub(crate) mod claim;
mod groups;
pub(crate) mod label_tree;
pub(crate) mod last_known;
pub(crate) mod lineage;
pub(crate) mod log_devices;
mod missing;
pub(crate) mod moved_space;
mod needed;
pub(crate) mod options;
pub(crate) mod outsider;
mod probe;
pub(crate) mod required;
mod serving;
pub(crate) mod split;
pub(crate) mod unread;
pub(crate) mod writing;

use crate::absence::away;
use crate::absence::behind::behind;
use crate::devices::Reach;
use crate::error::{ImportError, MissingVdev};
use crate::heartbeat::is_in_use;
use crate::import::candidate::PoolCandidate;
use crate::import::choose::Known;
use crate::import::claim::check_missing_logs;
use crate::import::label_tree::is_readable;
use crate::import::last_known::at_last_path;
use crate::import::lineage::Groups;
use crate::import::log_devices::LogDevices;
use crate::import::missing::missing_leaves;
use crate::import::options::{ImportOptions, Rewind};
use crate::import::outsider::{Outsider, Why};
use crate::import::required::{check_parted, is_in_part};
use crate::import::serving::serving_spares;
use crate::import::unread::Unread;
use crate::import::writing::{Opened, check_available, check_features, writable_devices};
use crate::mos::{directory_object, directory_words, packed_list};
use crate::pool::{Loaded, Pool};
use crate::{space, verify};
use cenote_base::{Env, Guid, ObjsetId, Txg};
use cenote_cache::{BlockCache, CacheLimits};
use cenote_device::{Device, DeviceError};
use cenote_dmu::ObjectSet;
use cenote_io::{Pipeline, PipelineParts, Workers};
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::pool_config::{PoolConfig, PoolState};
use cenote_ondisk::uberblock::Uberblock;
use cenote_ondisk::vdev_zap;
use cenote_ondisk::{VdevConfig, VdevKind, features};
use cenote_vdev::{AllocationClass, OpenOptions, TxgSet, Vdevs};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// A rewind with `-F` goes back this many txgs at most: blocks freed in them are still there.
const REWIND_TXGS: u64 = 2;
/// What a rewind must be able to read: metadata of the last txgs.
const RECENT_TXGS: u64 = 3;
/// The pool version with feature flags.
const VERSION_FEATURES: u64 = 5000;
/// Reads in flight: enough for a dozen hard disks, or a virtual disk's queue.
pub(crate) const WORKER_THREADS: usize = 16;

/// The devices of an import.
#[derive(Default)]
struct Devices {
    open: HashMap<Guid, Arc<dyn Device>>,
    paths: HashMap<Guid, PathBuf>,
}

impl Devices {
    /// Opens the devices of a candidate; those as well that can only be read, if they are not to
    /// be.
    fn open(
        candidate: &PoolCandidate,
        options: &ImportOptions,
        env: &dyn Env,
    ) -> Result<(Self, Vec<(Guid, DeviceError)>), ImportError> {
        let opened = match options.read_only {
            true => Opened {
                devices: candidate.devices(),
                unwritable: Vec::new(),
            },
            false => writable_devices(candidate, options, env)?,
        };
        let devices = Self {
            open: opened.devices,
            paths: candidate.paths(),
        };
        Ok((devices, opened.unwritable))
    }

    /// Opens the devices of a candidate, all of which are needed.
    fn open_all(
        candidate: &PoolCandidate,
        options: &ImportOptions,
        env: &dyn Env,
    ) -> Result<Self, ImportError> {
        let (devices, unwritable) = Self::open(candidate, options, env)?;
        match unwritable.into_iter().next() {
            Some((_, error)) => Err(error.into()),
            None => Ok(devices),
        }
    }

    fn add(&mut self, other: Self) {
        self.open.extend(other.open);
        self.paths.extend(other.paths);
    }
}

/// Everything between the vdevs and the MOS.
struct Stack {
    vdevs: Arc<Vdevs>,
    cache: Arc<BlockCache>,
    mos: Arc<ObjectSet>,
}

impl Stack {
    fn loaded(self, config: PoolConfig, uberblock: Uberblock) -> Loaded {
        Loaded {
            config,
            uberblock,
            vdevs: self.vdevs,
            cache: self.cache,
            mos: self.mos,
        }
    }
}

/// Opens the pool that `candidate` describes.
pub fn import(
    candidate: &PoolCandidate,
    options: &ImportOptions,
    env: Arc<dyn Env>,
) -> Result<Pool, ImportError> {
    check_use(candidate, options, env.as_ref())?;
    let (devices, unwritable) = Devices::open(candidate, options, env.as_ref())?;
    let unusable = |(leaf, error): &(Guid, DeviceError)| not_writable(candidate, *leaf, error);
    let outsiders: Vec<Outsider> = unwritable.iter().filter_map(unusable).collect();
    let Some((_, refusal)) = unwritable.into_iter().next() else {
        return import_from(candidate.clone(), devices, options, env);
    };
    // Without them the pool must be as new as with them, and lack nothing.
    let newest = |of: &PoolCandidate| of.uberblocks().first().map(|newest| newest.txg);
    let rest = candidate.without(&outsiders);
    let Some(rest) = rest.filter(|rest| newest(rest) == newest(candidate)) else {
        return Err(refusal.into());
    };
    let imported = import_from(rest, devices, options, env);
    imported.map_err(|error| match lacks_one_of(&error, &outsiders) {
        true => refusal.into(),
        false => error,
    })
}

/// Imports the pool with these devices.
fn import_from(
    mut candidate: PoolCandidate,
    mut devices: Devices,
    options: &ImportOptions,
    env: Arc<dyn Env>,
) -> Result<Pool, ImportError> {
    let workers = Arc::new(Workers::new(WORKER_THREADS));
    let (mut all, mut failure) = (Vec::new(), None);
    let mut returned = HashSet::new();
    // Each round leaves out at least one device, or takes one in that was not taken before.
    loop {
        let outsiders = match import_with(&candidate, &devices, options, &workers, &env) {
            Err(ImportError::Parted { outsiders }) => outsiders,
            // They would be there, and are not used.
            Err(ImportError::MissingDevices { .. }) if !all.is_empty() => {
                return Err(ImportError::Parted { outsiders: all });
            }
            Err(error) => {
                let is_older_wanted = error.is_damage() && options.rewind == Rewind::Never;
                let next = candidate
                    .next_best(error.lost_birth())
                    .filter(|_| is_older_wanted);
                let next = next.filter(|next| check_use(next, options, env.as_ref()).is_ok());
                // What is wrong with the newest state is what there is to say.
                let first = failure.take().unwrap_or(error);
                let Some(next) = next else {
                    return Err(first);
                };
                failure = Some(first);
                // Devices that are not used need not be locked.
                devices = Devices::default();
                devices.add(Devices::open_all(&next, options, env.as_ref())?);
                candidate = next;
                continue;
            }
            Ok(pool) => {
                let mut back = known_to(&pool, &candidate)?;
                let (tree, opener) = (pool.vdev_tree(), options.opener.as_ref());
                back.extend(serving_spares(&tree, opener, &candidate));
                back.retain(|known| returned.insert(known.leaf));
                let next = candidate.with(&back);
                let Some(next) = next.filter(|_| !back.is_empty()) else {
                    // What is out of use is closed, and may be opened again by its name at once.
                    drop(devices);
                    return finish(pool, &candidate, options);
                };
                drop(pool);
                devices.add(Devices::open_all(&next.only(&back), options, env.as_ref())?);
                candidate = next;
                continue;
            }
        };
        all.extend(outsiders.iter().cloned());
        for outsider in &outsiders {
            devices.open.remove(&outsider.leaf);
            devices.paths.remove(&outsider.leaf);
        }
        let rest = candidate.without(&outsiders);
        candidate = rest.ok_or(ImportError::Parted { outsiders })?;
    }
}

/// The report about a device that is read-only, if the pool works without it.
fn not_writable(candidate: &PoolCandidate, leaf: Guid, error: &DeviceError) -> Option<Outsider> {
    let mut known = candidate.members.iter().filter_map(Known::of);
    let known = known.find(|known| known.leaf == leaf)?;
    let reason = match error.io_error() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    };
    Some(known.outsider(Why::NotWritable { reason }, None))
}

/// Whether an import may have failed for want of one of these devices.
fn lacks_one_of(error: &ImportError, outsiders: &[Outsider]) -> bool {
    match error {
        ImportError::MissingLogs { missing } => {
            let is_out = |vdev: &MissingVdev| outsiders.iter().any(|out| out.leaf == vdev.guid);
            missing.iter().any(is_out)
        }
        ImportError::MissingDevices { .. } | ImportError::Parted { .. } => true,
        error => error.is_damage(),
    }
}

/// Refuses a pool that lacks something without a device that can only be read.
fn check_unwritable(pool: &Pool, candidate: &PoolCandidate) -> Result<(), ImportError> {
    let outsiders = candidate.outsiders.iter();
    let needed = outsiders.filter(|outsider| {
        matches!(outsider.why, Why::NotWritable { .. }) && pool.vdevs().is_required(outsider.leaf)
    });
    let outsiders: Vec<Outsider> = needed.cloned().collect();
    match outsiders.is_empty() {
        true => Ok(()),
        false => Err(ImportError::Parted { outsiders }),
    }
}

/// Takes the pool that was opened into use, as far as that is wanted.
fn finish(
    pool: Pool,
    candidate: &PoolCandidate,
    options: &ImportOptions,
) -> Result<Pool, ImportError> {
    pool.find_auxiliary(Reach::Recorded);
    if !options.read_only {
        check_unwritable(&pool, candidate)?;
        return pool.make_writable(candidate);
    }
    if options.dry_run {
        check_features(&pool)?;
    }
    if !options.missing_logs {
        let devices = LogDevices::new(candidate, &pool.vdev_tree(), &away_of(&pool)?);
        check_missing_logs(&pool, &devices, is_older(&pool, candidate))?;
    }
    Ok(pool)
}

/// Whether the pool is as it was before its newest group.
fn is_older(pool: &Pool, candidate: &PoolCandidate) -> bool {
    let opened = pool.uberblock();
    let found = candidate.uberblocks();
    let newest = found.first().map_or(opened.txg, |newest| newest.txg);
    newest > opened.txg || opened.checkpoint_txg != Txg(0)
}

/// The last groups of devices that are away. A pool that is only read does not need them.
fn away_of(pool: &Pool) -> Result<BTreeMap<Guid, Groups>, ImportError> {
    match away::load(pool.mos()) {
        Err(_) if pool.options().read_only => Ok(BTreeMap::new()),
        loaded => Ok(loaded?),
    }
}

/// Devices that seemed to be none of the pool's by what labels say, and had one of the last groups
/// that the pool itself knows they had.
fn known_to(pool: &Pool, candidate: &PoolCandidate) -> Result<Vec<Known>, ImportError> {
    let away = away_of(pool)?;
    let mut taken: HashSet<Guid> = candidate.devices().into_keys().collect();
    let parted = candidate.parted().into_iter();
    let mut known: Vec<Known> = parted.filter_map(|member| Known::of(&member)).collect();
    known.retain(|one| {
        let is_leaf = pool.vdev_tree().leaves().any(|leaf| leaf.guid == one.leaf);
        let last = one.groups.iter().next_back();
        let kept = away.get(&one.leaf).zip(last);
        let was_there = kept.is_some_and(|(kept, (txg, state))| {
            kept.get(txg).is_some_and(|kept| kept.root == state.root)
        });
        is_leaf && was_there && taken.insert(one.leaf)
    });
    Ok(known)
}

/// Opens the pool with the devices that are left.
fn import_with(
    candidate: &PoolCandidate,
    devices: &Devices,
    options: &ImportOptions,
    workers: &Arc<Workers>,
    env: &Arc<dyn Env>,
) -> Result<Pool, ImportError> {
    let mut failure = None;
    for uberblock in uberblocks_to_try(candidate, options)? {
        let opened = open_at(candidate, devices, uberblock, options, workers, env);
        let judged = opened.and_then(|pool| {
            judge_recent(&pool, candidate, options)?;
            Ok(pool)
        });
        match judged {
            Ok(pool) => return Ok(pool),
            Err(error @ ImportError::Parted { .. }) => return Err(error),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or(ImportError::NoUberblock { limit: options.txg }))
}

/// Refuses a state of which something is missing that the groups before it wrote.
fn judge_recent(
    pool: &Pool,
    candidate: &PoolCandidate,
    options: &ImportOptions,
) -> Result<(), ImportError> {
    let txg = pool.txg();
    let is_rewind = options.rewind != Rewind::Never;
    let before = |groups: u64| Txg(txg.0.saturating_sub(groups));
    if is_rewind && !verify::recent_metadata_is_good(pool, before(RECENT_TXGS))? {
        return Err(ImportError::DamagedTxg { txg });
    }
    // A read-only import may show what is left.
    let is_judged = is_rewind || !options.read_only || options.dry_run;
    let is_doubtful = is_judged && is_in_part(candidate, &pool.vdev_tree(), txg);
    if is_doubtful && !verify::recent_blocks_are_good(pool, before(1))? {
        return Err(ImportError::PartOfGroup { txg });
    }
    Ok(())
}

/// Refuses a pool that another system may be using (format/1 1.5 and 1.6).
fn check_use(
    candidate: &PoolCandidate,
    options: &ImportOptions,
    env: &dyn Env,
) -> Result<(), ImportError> {
    let config = &candidate.config;
    let only_reads = options.read_only && !options.dry_run;
    if only_reads || config.state != PoolState::Active {
        return Ok(());
    }
    let hostname = config.hostname.clone().unwrap_or_default();
    let best = candidate.uberblocks().into_iter().next();
    // The error for a pool of another system also says how to force the import. So it is not
    // reported while that system has the pool, which no force overrules.
    if is_in_use(candidate, env) {
        return Err(ImportError::ActiveElsewhere { hostname });
    }
    if options.force || config.hostid == 0 || config.hostid == options.hostid {
        return Ok(());
    }
    Err(ImportError::InUse {
        hostname,
        hostid: config.hostid,
        timestamp: best.map_or(0, |best| best.timestamp),
    })
}

/// The uberblocks to open, best first.
fn uberblocks_to_try(
    candidate: &PoolCandidate,
    options: &ImportOptions,
) -> Result<Vec<Uberblock>, ImportError> {
    let all = candidate.uberblocks();
    let newest = all.first().cloned();
    let limit = options.txg.unwrap_or(Txg(u64::MAX));
    let mut allowed: Vec<Uberblock> = all.into_iter().filter(|u| u.txg <= limit).collect();
    let (Some(newest), Some(best)) = (newest, allowed.first().map(|u| u.txg)) else {
        return Err(ImportError::NoUberblock { limit: options.txg });
    };
    match options.rewind {
        Rewind::Never => allowed.truncate(1),
        Rewind::Recent => allowed.retain(|u| u.txg.0 + REWIND_TXGS >= best.0),
        Rewind::Extreme => {}
    }
    // Data moves when a raidz vdev grows; older uberblocks do not know where to.
    let crosses = |u: &Uberblock| u.raidz_reflow_word != newest.raidz_reflow_word;
    if allowed.first().is_some_and(crosses) {
        return Err(ImportError::RewindAcrossExpansion { txg: best });
    }
    allowed.retain(|u| !crosses(u));
    Ok(allowed)
}

fn open_stack(
    (candidate, tree): (&PoolCandidate, &VdevConfig),
    devices: &Devices,
    uberblock: &Uberblock,
    options: &ImportOptions,
    workers: &Arc<Workers>,
    env: &Arc<dyn Env>,
) -> Result<Stack, ImportError> {
    let missing = tree.leaves().filter(|leaf| {
        let is_device = leaf.kind.is_device();
        is_device && !devices.open.contains_key(&leaf.guid)
    });
    let problems = missing.filter_map(|leaf| Some((leaf.guid, at_last_path(leaf)?.aux())));
    let open_options = OpenOptions {
        reflow: uberblock.raidz_reflow(),
        problems: problems.collect(),
        env: Arc::clone(env),
    };
    let vdevs = Arc::new(Vdevs::open(tree, &devices.open, &open_options)?);
    // Before anything is read: what a device missed is not there, and is no damage.
    for (leaf, missed) in behind(candidate, tree, uberblock.txg) {
        vdevs.shape().add_missed(leaf, &missed);
    }
    let pipeline = Arc::new(Pipeline::new(PipelineParts {
        vdevs: Arc::clone(&vdevs),
        memory: Arc::clone(&options.buffers.reads),
        salt: None,
    }));
    let limits = CacheLimits::of_total(options.cache_bytes);
    let cache = Arc::new(BlockCache::new(pipeline, Arc::clone(workers), limits));
    let mos = ObjectSet::open(Arc::clone(&cache), ObjsetId::MOS, uberblock.root, None)?;
    Ok(Stack { vdevs, cache, mos })
}

/// The pool's own configuration.
pub(crate) fn read_config(mos: &Arc<ObjectSet>) -> Result<PoolConfig, ImportError> {
    let object = directory_object(mos, keys::CONFIG)?;
    let object = object.ok_or(cenote_ondisk::DecodeError::Missing {
        structure: "object directory",
        key: keys::CONFIG,
    })?;
    Ok(PoolConfig::decode(&packed_list(mos, object)?)?)
}

fn open_at(
    candidate: &PoolCandidate,
    devices: &Devices,
    mut uberblock: Uberblock,
    options: &ImportOptions,
    workers: &Arc<Workers>,
    env: &Arc<dyn Env>,
) -> Result<Pool, ImportError> {
    if !uberblock.is_version_supported() {
        return Err(ImportError::UnsupportedVersion {
            version: uberblock.version,
        });
    }
    check_label_features(candidate, &uberblock)?;
    // Missing devices are only refused once the trusted tree is known. But if the MOS is unreadable
    // because of them, they are the reason to report.
    let mut tree = candidate.tree.clone();
    set_paths(&mut tree, &devices.paths);
    let open = |tree: &VdevConfig, at: &Uberblock| {
        open_stack((candidate, tree), devices, at, options, workers, env)
    };
    let opened = uberblock.txg;
    let explained = |error| missing_or(candidate, devices, opened, error);
    let provisional = open(&tree, &uberblock).map_err(explained)?;
    if options.rewind_to_checkpoint {
        uberblock = checkpoint(&provisional.mos, &uberblock)?;
    }
    let mos = match options.rewind_to_checkpoint {
        true => {
            let cache = Arc::clone(&provisional.cache);
            ObjectSet::open(cache, ObjsetId::MOS, uberblock.root, None)?
        }
        false => provisional.mos,
    };
    let mut config = read_config(&mos).map_err(explained)?;
    become_another(&mut config, options)?;
    let mut tree = config
        .vdev_tree
        .clone()
        .ok_or(cenote_ondisk::DecodeError::Missing {
            structure: "pool configuration",
            key: "vdev_tree",
        })?;
    check_missing(&tree, devices)?;
    let found = tree.guid_sum();
    if found != uberblock.guid_sum && options.becomes.is_none() {
        return Err(ImportError::BadGuidSum {
            found,
            expected: uberblock.guid_sum,
        });
    }
    set_paths(&mut tree, &devices.paths);
    let mut stack = open(&tree, &uberblock)?;
    if !options.read_only || options.dry_run {
        check_available(&stack.vdevs.shape())?;
    }
    if !options.read_only {
        let cache = Arc::clone(&stack.cache);
        stack.mos = ObjectSet::open_writable(cache, ObjsetId::MOS, uberblock.root, None, None)?;
    }
    let unread = prepare(candidate, &stack, (&tree, &uberblock), options)?;
    if let Some(salt) = space::checksum_salt(&stack.mos)? {
        stack.cache.pipeline().learn_salt(salt);
    }
    config.vdev_tree = Some(tree);
    let loaded = stack.loaded(config, uberblock);
    Pool::open(candidate, loaded, options, env, unread)
}

/// Passes the vdevs their data from the MOS and the labels. Returns the tables that were
/// unreadable.
fn prepare(
    candidate: &PoolCandidate,
    stack: &Stack,
    (tree, opened): (&VdevConfig, &Uberblock),
    options: &ImportOptions,
) -> Result<Unread, ImportError> {
    let mut unread = Unread::new(options.read_only && !options.dry_run);
    let logs = prepare_vdevs(stack, tree, &mut unread)?;
    check_parted((candidate, &logs), &stack.mos, (tree, opened), options)?;
    for (leaf, missed) in behind(candidate, tree, opened.txg) {
        stack.vdevs.shape().add_missed(leaf, &missed);
    }
    if !options.read_only {
        for (leaf, missed) in probe::lacking(&stack.mos, opened) {
            stack.vdevs.shape().add_missed(leaf, &missed);
        }
    }
    Ok(unread)
}

/// Puts the configuration of the pool that this one becomes in its place.
fn become_another(config: &mut PoolConfig, options: &ImportOptions) -> Result<(), ImportError> {
    let changed = options.becomes.as_ref().map(|other| other.change(config));
    let changed = changed.unwrap_or(Ok(()));
    changed.map_err(|reason| ImportError::NotWritable { reason })
}

/// Active features are in the label, since the MOS may be unreadable without them.
fn check_label_features(
    candidate: &PoolCandidate,
    uberblock: &Uberblock,
) -> Result<(), ImportError> {
    if uberblock.version != VERSION_FEATURES {
        return Ok(());
    }
    let active = candidate
        .config
        .features_for_read
        .clone()
        .unwrap_or_default();
    let features: Vec<String> = active
        .into_iter()
        .filter(|guid| !features::is_readable(guid))
        .collect();
    if features.is_empty() {
        Ok(())
    } else {
        Err(ImportError::UnsupportedFeatures { features })
    }
}

/// The vdevs that keep a tree from being read: leaves of top-level vdevs without a way around.
fn missing_vdevs(tree: &VdevConfig, devices: &Devices, behind: &HashSet<Guid>) -> Vec<MissingVdev> {
    let mut missing = Vec::new();
    for top in &tree.children {
        let is_whole = |leaf| devices.open.contains_key(&leaf) && !behind.contains(&leaf);
        if is_readable(top, is_whole) {
            continue;
        }
        missing.extend(missing_leaves(top, |leaf| devices.open.contains_key(&leaf)));
    }
    missing
}

/// The missing devices if there are any: they explain any other error. A device that is behind
/// does not have what the pool is opened at, so one that is missing may be needed beside it.
fn missing_or(
    candidate: &PoolCandidate,
    devices: &Devices,
    opened: Txg,
    error: ImportError,
) -> ImportError {
    let tree = &candidate.tree;
    let behind = behind(candidate, tree, opened);
    let behind: HashSet<Guid> = behind.into_iter().map(|(leaf, _)| leaf).collect();
    let missing = missing_vdevs(tree, devices, &behind);
    match missing.iter().any(|vdev| !vdev.is_log) {
        true => ImportError::MissingDevices { missing },
        false => error,
    }
}

/// Refuses a tree with missing devices. For a missing log device, the logs show what is lost
/// ([`claim`]).
fn check_missing(tree: &VdevConfig, devices: &Devices) -> Result<(), ImportError> {
    let missing = missing_vdevs(tree, devices, &HashSet::new());
    match missing.iter().any(|vdev| !vdev.is_log) {
        true => Err(ImportError::MissingDevices { missing }),
        false => Ok(()),
    }
}

/// Replaces the advisory paths by those where the devices were found.
fn set_paths(tree: &mut VdevConfig, paths: &HashMap<Guid, PathBuf>) {
    let mut stack = vec![tree];
    while let Some(vdev) = stack.pop() {
        if let Some(path) = paths.get(&vdev.guid) {
            vdev.path = Some(path.clone());
            // OpenZFS notes of a device that it did not find that it is not there.
            vdev.state.not_present = false;
        }
        stack.extend(vdev.children.iter_mut());
    }
}

/// The uberblock of the pool's checkpoint, to be opened in place of `current`.
fn checkpoint(mos: &Arc<ObjectSet>, current: &Uberblock) -> Result<Uberblock, ImportError> {
    let words = directory_words(mos, keys::CHECKPOINT)?;
    let words = words.ok_or(ImportError::NoCheckpoint)?;
    let words: [u64; 27] = words
        .as_slice()
        .try_into()
        .map_err(|_| ImportError::NoCheckpoint)?;
    let mut uberblock = Uberblock::from_words(&words)?;
    uberblock.little_endian = current.little_endian;
    Ok(uberblock)
}

/// Gives the vdevs what only the MOS knows: where removed ones went, and what leaves missed.
/// Returns the latter, as far as it can be read.
fn prepare_vdevs(
    stack: &Stack,
    tree: &VdevConfig,
    unread: &mut Unread,
) -> Result<HashMap<Guid, TxgSet>, ImportError> {
    let mut logs = HashMap::new();
    for top in &tree.children {
        let id = top.id.unwrap_or_default();
        if top.kind == VdevKind::Indirect {
            moved_space::prepare(&stack.mos, &stack.vdevs.shape(), top, unread)?;
        }
        let what = format!("the properties of top-level vdev {id} (its class is unknown)");
        unread.or_default(what, set_class(stack, top))?;
    }
    for leaf in tree.leaves() {
        let mut missed = Some(Vec::new());
        if let Some(object) = leaf.dtl {
            let name = leaf.path.as_ref().map(|path| path.display().to_string());
            let name = name.unwrap_or_else(|| leaf.guid.to_string());
            let what = format!("the dirty time log of {name} (what it missed is unknown)");
            let ranges = space::dirty_time_log(&stack.mos, object).map(Some);
            missed = unread.or_default(what, ranges)?;
            let ranges = missed.as_deref().unwrap_or_default();
            stack.vdevs.shape().set_dtl(leaf.guid, ranges);
        }
        let log = missed.map(TxgSet::from_ranges);
        logs.extend(log.map(|log| (leaf.guid, log)));
    }
    Ok(logs)
}

fn set_class(stack: &Stack, top: &VdevConfig) -> Result<(), ImportError> {
    let (Some(zap), Some(id)) = (top.top_zap, top.id) else {
        return Ok(());
    };
    let bias = stack
        .mos
        .zap(zap)?
        .lookup(vdev_zap::top::ALLOCATION_BIAS.as_bytes())?;
    match bias.as_ref().and_then(|bias| bias.as_str()) {
        Some("special") => stack.vdevs.shape().set_class(id, AllocationClass::Special),
        Some("dedup") => stack.vdevs.shape().set_class(id, AllocationClass::Dedup),
        _ => {}
    }
    Ok(())
}
