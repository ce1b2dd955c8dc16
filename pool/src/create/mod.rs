//! Making a pool (format/1e).
//!
//! The devices' labels are blanked, so that whatever was there is not found any more. The first
//! objects of the meta object set are made by hand; with them the dataset layer can be opened,
//! and the rest is an ordinary sync task of an ordinary first transaction group.

mod layout;
mod task;

pub(crate) use layout::{
    blank, devices_by_guid, distributed_spare_path, distributed_spares, found, leaf, random_guid,
    top,
};
pub(crate) use task::{VdevZaps, add_auxiliary, auxiliary, change_auxiliaries, remove_auxiliary};

use crate::absence::away::Away;
use crate::allocation::{Metaslab, Space, TopSpace};
use crate::import::lineage::Chronicle;
use crate::import::options::ImportOptions;
use crate::pool::Pool;
use crate::sync::{Actor, LiveConfig, Parts, Recorder, SyncError, Syncer};
use cenote_base::{Env, Guid, ObjsetId, Txg, VdevId};
use cenote_cache::{BlockCache, CacheLimits};
use cenote_device::{Device, DeviceError};
use cenote_dmu::{CreateParams, DmuError, ObjectSet, Transaction, TxgGate};
use cenote_dsl::write::{
    Encryption, Format, NewMetadata, PoolServices, Setting, SyncContext, create_metadata,
};
use cenote_dsl::{Dsl, DslError, PoolFacts, Stored};
use cenote_io::{Pipeline, PipelineParts, Workers, Writer, WriterParts};
use cenote_ondisk::features::Feature;
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::pool_config::{PoolConfig, PoolState};
use cenote_ondisk::uberblock::{TXG_INITIAL, Uberblock, VERSION_FEATURES};
use cenote_ondisk::{BlockPointer, VdevConfig, VdevKind};
use cenote_vdev::{AllocationClass, OpenOptions, Shape, VdevError, Vdevs, format_labels};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// How the devices of a top-level vdev are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VdevShape {
    /// One device.
    Single,
    /// Each device has everything.
    Mirror,
    /// Parity over the devices.
    Raidz {
        /// 1 to 3.
        parity: u64,
    },
    /// Parity over rows spread over all devices.
    Draid {
        /// 1 to 3.
        parity: u64,
        /// Data columns in a group.
        data: u64,
        /// Distributed spares.
        spares: u64,
    },
}

/// A device that becomes part of a pool.
#[derive(Clone, Debug)]
pub struct NewLeaf {
    /// Where it is, as the configuration remembers it.
    pub path: PathBuf,
    /// The device, open for writing.
    pub device: Arc<dyn Device>,
    /// Whether the pool owns the whole disk with its partition table.
    pub whole_disk: bool,
}

/// A new top-level vdev.
#[derive(Clone, Debug)]
pub struct NewVdev {
    /// How its devices are put together.
    pub shape: VdevShape,
    /// What its space is for.
    pub class: AllocationClass,
    /// Its devices.
    pub leaves: Vec<NewLeaf>,
}

/// A pool that is to be made.
pub struct CreateRequest {
    /// Its name.
    pub name: String,
    /// Its version: 5000, or 28, which has no features.
    pub version: u64,
    /// Its top-level vdevs.
    pub vdevs: Vec<NewVdev>,
    /// Hot spares.
    pub spares: Vec<NewLeaf>,
    /// Cache devices.
    pub cache_devices: Vec<NewLeaf>,
    /// log2 of the allocation unit; `None` to choose by the devices.
    pub ashift: Option<u32>,
    /// The features to enable, in their order; see [`default_features`].
    pub features: Vec<&'static Feature>,
    /// Properties of the pool that are stored.
    pub properties: Vec<(String, Stored)>,
    /// A remark, and the name of the set of features.
    pub comment: Option<String>,
    /// The `compatibility` property.
    pub compatibility: Option<String>,
    /// Properties of the root dataset.
    pub root_properties: Vec<Setting>,
    /// Whether the root dataset is encrypted.
    pub encryption: Encryption,
    /// Fills the root dataset's object set; `None` leaves it empty.
    pub format: Option<Format>,
    /// The user and system that create it.
    pub actor: Actor,
    /// The command line, for the history.
    pub command: Option<String>,
}

/// A pool or vdev cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A device is smaller than 64 MiB.
    #[error("{} is too small: a device of a pool has at least 64 MiB", path.display())]
    TooSmall {
        /// Which.
        path: PathBuf,
    },
    /// No vdev can be put together like that.
    #[error("{children} devices do not make such a vdev")]
    NoLayout {
        /// How many devices there are.
        children: usize,
    },
    /// The pool's vdevs have one allocation unit, and the new ones another.
    #[error("adding devices with different physical sector sizes is not allowed")]
    AshiftMismatch,
    /// There is no vdev for data.
    #[error("a pool needs a device for data")]
    NoVdevs,
    /// A feature is enabled that another one needs to be.
    #[error("feature {feature} needs {dependency}")]
    MissingDependency {
        /// The feature.
        feature: &'static str,
        /// What it needs.
        dependency: &'static str,
    },
    /// No random numbers are available.
    #[error("no random numbers: {0}")]
    Randomness(std::io::Error),
    /// The thread that writes transaction groups cannot be started.
    #[error("no thread can be started: {0}")]
    Thread(std::io::Error),
    /// A device cannot be written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The vdevs do not open.
    #[error(transparent)]
    Vdevs(#[from] VdevError),
    /// The pool's metadata cannot be made.
    #[error(transparent)]
    Metadata(#[from] DmuError),
    /// The datasets cannot be made.
    #[error(transparent)]
    Dsl(#[from] DslError),
    /// The first transaction group cannot be written.
    #[error(transparent)]
    Sync(#[from] SyncError),
}

/// The pool while it has nothing but its first objects: nothing can be freed yet.
#[derive(Debug)]
struct Bare {
    env: Arc<dyn Env>,
    /// It writes nothing before the first group.
    writer: Writer,
}

impl Bare {
    fn new(pipeline: &Arc<Pipeline>, space: &Arc<Space>, env: &Arc<dyn Env>) -> Self {
        let writer = Writer::new(WriterParts {
            pipeline: Arc::clone(pipeline),
            env: Arc::clone(env),
            allocator: Arc::clone(space) as _,
            dedup: None,
            repairs: None,
        });
        let env = Arc::clone(env);
        Self { env, writer }
    }
}

impl PoolServices for Bare {
    fn free(&self, _: Txg, _: &BlockPointer) -> Result<(), DslError> {
        Ok(())
    }

    fn share(&self, _: &BlockPointer) {
        unreachable!("a pool without files has no blocks to clone");
    }

    fn writer(&self) -> &Writer {
        &self.writer
    }

    fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    fn pass(&self) -> u32 {
        1
    }
}

fn check_features(features: &[&'static Feature]) -> Result<(), CreateError> {
    for feature in features {
        let has = |guid: &str| features.iter().any(|other| other.guid == guid);
        let missing = feature.dependencies.iter().find(|guid| !has(guid));
        if let Some(dependency) = missing {
            let feature = feature.name;
            return Err(CreateError::MissingDependency {
                feature,
                dependency,
            });
        }
    }
    Ok(())
}

fn root_config(request: &CreateRequest, env: &dyn Env) -> Result<VdevConfig, CreateError> {
    let mut root = layout::blank(VdevKind::Root, random_guid(env)?, TXG_INITIAL);
    root.id = Some(VdevId(0));
    for (index, new) in request.vdevs.iter().enumerate() {
        let id = VdevId(index as u64);
        root.children
            .push(top(new, id, request.ashift, env, TXG_INITIAL)?);
    }
    Ok(root)
}

fn pool_config(request: &CreateRequest, root: VdevConfig, hostid: u64) -> PoolConfig {
    PoolConfig {
        version: request.version,
        name: Some(request.name.clone()),
        state: PoolState::Active,
        txg: Some(TXG_INITIAL),
        pool_guid: Some(root.guid),
        errata: 0,
        comment: request.comment.clone(),
        compatibility: request.compatibility.clone(),
        hostid,
        hostname: Some(request.actor.host.clone()),
        top_guid: None,
        guid: None,
        is_spare: false,
        is_log: false,
        vdev_children: Some(root.children.len() as u64),
        holes: Vec::new(),
        split_guid: None,
        split_leaves: Vec::new(),
        features_for_read: Some(Vec::new()),
        create_txg: None,
        has_per_vdev_zaps: true,
        previous: None,
        logs_have_groups: false,
        rested_logs: Vec::new(),
        vdev_tree: Some(root),
    }
}

/// The space of a new top-level vdev.
pub(crate) fn new_space(vdevs: &Shape, top: &VdevConfig, class: AllocationClass) -> TopSpace {
    let (id, ashift) = (top.id.unwrap_or_default(), top.ashift.unwrap_or(9));
    let count = top.asize >> top.metaslab_shift;
    let ranges = (0..count).filter_map(|index| vdevs.metaslab(id, index));
    let metaslabs = ranges.map(|(start, length)| Metaslab::new(start..start + length, None));
    let metaslabs = metaslabs.collect();
    let mut space = TopSpace::new(id, class, ashift, top.metaslab_shift, metaslabs);
    space.width = match top.kind {
        VdevKind::Raidz | VdevKind::Draid => top.children.len() as u64,
        _ => 1,
    };
    space
}

/// Makes a pool on devices whose contents are lost, and opens it for writing.
///
/// # Errors
/// If the layout is impossible, or the devices cannot be written.
pub fn create(
    request: CreateRequest,
    options: &ImportOptions,
    env: Arc<dyn Env>,
) -> Result<Pool, CreateError> {
    check_features(&request.features)?;
    let has_data = |vdev: &NewVdev| vdev.class == AllocationClass::Normal;
    if !request.vdevs.iter().any(has_data) {
        return Err(CreateError::NoVdevs);
    }
    let root = root_config(&request, env.as_ref())?;
    let devices = devices_by_guid(&root.children, &request.vdevs);
    for (_, device) in &devices {
        format_labels(device.as_ref(), None)?;
    }
    let opened: HashMap<Guid, Arc<dyn Device>> = devices.into_iter().collect();
    let open_options = OpenOptions {
        env: Arc::clone(&env),
        ..OpenOptions::default()
    };
    let vdevs = Arc::new(Vdevs::open(&root, &opened, &open_options)?);
    for (top, new) in root.children.iter().zip(&request.vdevs) {
        vdevs
            .shape()
            .set_class(top.id.unwrap_or_default(), new.class);
    }
    let tops = root.children.clone();
    let config = pool_config(&request, root, options.hostid);
    let syncer = bare_pool(&request, config, &vdevs, options, &env)?;
    let leaves = request.vdevs.iter().flat_map(|vdev| &vdev.leaves);
    let mut known = found(tops.iter().flat_map(VdevConfig::leaves), leaves);
    let others = (request.spares.clone(), request.cache_devices.clone());
    let pending = syncer.queue(task::Populate::new(request, &tops, env.as_ref())?)?;
    syncer.start().map_err(CreateError::Thread)?;
    syncer.gate.request_sync();
    let populated = match pending.wait() {
        Ok(populated) => populated,
        Err(error) => {
            // The pool was never created, so its labels must not be found. If they cannot be
            // cleared, the next
            // `zpool create` on these devices needs `-f`.
            let _ = Pool::of_syncer(syncer, options, &env).destroy();
            return Err(error.into());
        }
    };
    known.extend(found(&populated.spares, &others.0));
    known.extend(found(&populated.cache_devices, &others.1));
    syncer.begin_heartbeat().map_err(CreateError::Thread)?;
    let pool = Pool::of_syncer(syncer, options, &env);
    pool.note_devices(known);
    pool.resume_treatments();
    pool.begin_watching();
    Ok(pool)
}

/// The layers of a pool whose metadata is in memory only, ready for its first group.
fn bare_pool(
    request: &CreateRequest,
    config: PoolConfig,
    vdevs: &Arc<Vdevs>,
    options: &ImportOptions,
    env: &Arc<dyn Env>,
) -> Result<Arc<Syncer>, CreateError> {
    let mut salt = [0; 32];
    env.fill_random(&mut salt)
        .map_err(CreateError::Randomness)?;
    let cache = empty_cache(vdevs, options, salt);
    let pipeline = Arc::clone(cache.pipeline());
    let params = CreateParams { flags: 0 };
    let mos = ObjectSet::create(cache, ObjsetId::MOS, ObjsetKind::Meta, None, None, params);
    let tx = Transaction::syncing(TXG_INITIAL);
    create_metadata(&mos, &tx, &metadata_of(request, salt, env.as_ref()))?;
    let tree = config.vdev_tree.as_ref();
    let tops = tree
        .map(|tree| tree.children.as_slice())
        .unwrap_or_default();
    let shape = vdevs.shape();
    let spaces = tops.iter().zip(&request.vdevs);
    let spaces = spaces.map(|(top, new)| Some(new_space(&shape, top, new.class)));
    let space = Arc::new(Space::new(Arc::clone(vdevs), spaces.collect(), None));
    let ratio = |id: u64| (id, shape.deflate_ratio(VdevId(id)).unwrap_or(512));
    let facts = || PoolFacts {
        name: options.new_name.as_ref().unwrap_or(&request.name).clone(),
        version: request.version,
        space: crate::pool::space_facts(&shape, &space.figures()),
        deflate_ratios: (0..tops.len() as u64).map(ratio).collect(),
    };
    let bare = Bare::new(&pipeline, &space, env);
    let first = Dsl::open(Arc::clone(&mos), facts())?;
    let context = SyncContext {
        dsl: &first,
        tx: &tx,
        pool: &bare,
    };
    context.create_hidden()?;
    let dsl = Dsl::open(Arc::clone(&mos), facts())?;
    let context = SyncContext {
        dsl: &dsl,
        ..context
    };
    let mut config = config;
    if let Some(root) = &mut config.vdev_tree {
        give_zaps(&context, root, &request.vdevs, &space)?;
    }
    let mut config = LiveConfig::new(config);
    config.touch();
    Ok(Syncer::new(Parts {
        env: Arc::clone(env),
        vdevs: Arc::clone(vdevs),
        pipeline,
        mos,
        dsl,
        gate: TxgGate::new(Txg(TXG_INITIAL.0 - 1), options.throttle, Arc::clone(env)),
        space,
        recorder: Recorder::new(BTreeMap::new()),
        config,
        uberblock: first_uberblock(request.version),
        chronicle: Chronicle::default(),
        away: Away::default(),
        checkpoint_txg: Txg(0),
        log_birth: Txg(0),
    }))
}

fn metadata_of<'a>(request: &'a CreateRequest, salt: [u8; 32], env: &dyn Env) -> NewMetadata<'a> {
    NewMetadata {
        version: request.version,
        features: &request.features,
        salt,
        seconds: env.wall_clock().as_secs(),
    }
}

/// The layers between vdevs that hold nothing yet and object sets.
fn empty_cache(vdevs: &Arc<Vdevs>, options: &ImportOptions, salt: [u8; 32]) -> Arc<BlockCache> {
    let pipeline = Arc::new(Pipeline::new(PipelineParts {
        vdevs: Arc::clone(vdevs),
        memory: Arc::clone(&options.buffers.reads),
        salt: Some(salt),
    }));
    let workers = Arc::new(Workers::new(crate::import::WORKER_THREADS));
    let limits = CacheLimits::of_total(options.cache_bytes);
    Arc::new(BlockCache::new(pipeline, workers, limits))
}

/// Gives all vdevs of a new pool their ZAPs.
fn give_zaps(
    context: &SyncContext<'_>,
    root: &mut VdevConfig,
    new: &[NewVdev],
    space: &Space,
) -> Result<(), DslError> {
    let zaps = VdevZaps::open(context)?;
    zaps.root(root)?;
    for (top, new) in root.children.iter_mut().zip(new) {
        zaps.top(top, new.class)?;
        space.set_top_zap(top.id.unwrap_or_default(), top.top_zap);
    }
    Ok(())
}

/// The uberblock before the first one.
fn first_uberblock(version: u64) -> Uberblock {
    Uberblock {
        little_endian: true,
        version,
        txg: Txg(0),
        guid_sum: 0,
        timestamp: 0,
        root: BlockPointer::HOLE,
        software_version: VERSION_FEATURES,
        multihost: None,
        checkpoint_txg: Txg(0),
        raidz_reflow_word: 0,
    }
}
