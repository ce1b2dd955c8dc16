//! An open pool.

use crate::damage::error_notes::ErrorNotes;
use crate::devices::auxiliary_label::SpareUser;
use crate::error::ImportError;
use crate::import::candidate::PoolCandidate;
use crate::import::options::ImportOptions;
use crate::import::outsider::Outsider;
use crate::import::unread::{Unread, UnreadTable};
use crate::rebuild::Rebuilds;
use crate::scan::Scans;
use crate::space::{self, Metaslabs};
use crate::sync::Syncer;
use crate::treatment::Treatments;
use crate::view::Hold;
use cenote_base::rt::job::Job;
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{Env, Guid, ObjectId, SECTOR_SIZE, Txg, VdevId};
use cenote_cache::BlockCache;
use cenote_dmu::ObjectSet;
use cenote_dsl::{Dsl, EnabledFeature, FeatureTable, PoolFacts, SpaceFacts};
use cenote_io::{FaultSink, IoContext};
use cenote_ondisk::pool_config::PoolConfig;
use cenote_ondisk::uberblock::Uberblock;
use cenote_ondisk::{VdevConfig, features};
use cenote_vdev::{AllocationClass, Shape, Vdevs};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What a top-level vdev's space is and how much of it is taken, in bytes of its address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VdevSpace {
    /// Whole metaslabs.
    pub size: u64,
    /// Allocated.
    pub allocated: u64,
    /// Of that, what only the checkpoint still needs.
    pub checkpoint: u64,
    /// Not allocated, but to be used again only after later transaction groups.
    pub deferred: u64,
    /// No new blocks are put here.
    pub is_closed: bool,
}

/// An open pool, read-only.
#[derive(Debug)]
pub struct Pool {
    name: String,
    config: Mutex<KnownConfig, ranks::KnownConfig>,
    label_config: PoolConfig,
    uberblock: Uberblock,
    vdevs: Arc<Vdevs>,
    cache: Arc<BlockCache>,
    mos: Arc<ObjectSet>,
    dsl: Arc<Dsl>,
    options: ImportOptions,
    env: Arc<dyn Env>,
    metaslabs: Vec<Metaslabs>,
    space: BTreeMap<VdevId, VdevSpace>,
    found: Mutex<BTreeMap<Guid, FoundDevice>, ranks::FoundDevices>,
    outsiders: Mutex<Vec<Outsider>, ranks::Outsiders>,
    syncer: Option<Arc<Syncer>>,
    treatments: OnceLock<Arc<Treatments>>,
    /// Gives the logs what is late.
    aging: Job,
    /// Looks whether the names of devices still lead to them.
    names: Job,
    scans: Arc<Scans>,
    rebuilds: Arc<Rebuilds>,
    notes: Arc<ErrorNotes>,
    discarded_logs: Vec<ObjectId>,
    waiting_logs: Vec<ObjectId>,
    unreadable_heads: Vec<(ObjectId, String)>,
    unread: Vec<UnreadTable>,
    /// Of a view of a pool that is written to.
    #[expect(dead_code, reason = "it is dropped with the pool, and nothing else")]
    hold: Option<Hold>,
}

/// A snapshot of the root vdev's configuration: it does not change when the pool's does.
#[derive(Clone, Debug)]
pub struct VdevTree(Arc<PoolConfig>);

impl Deref for VdevTree {
    type Target = VdevConfig;

    fn deref(&self) -> &VdevConfig {
        self.0
            .vdev_tree
            .as_ref()
            .expect("import put the trusted tree here")
    }
}

/// The newest configuration that was read.
#[derive(Debug)]
struct KnownConfig {
    /// How often the tree had changed when it was taken.
    changes: u64,
    config: Arc<PoolConfig>,
}

impl KnownConfig {
    fn new(config: PoolConfig) -> Mutex<Self, ranks::KnownConfig> {
        let config = Arc::new(config);
        Mutex::new(Self { changes: 0, config })
    }
}

/// What is read from the meta object set when a pool is opened.
struct Tables {
    metaslabs: Vec<Metaslabs>,
    space: BTreeMap<VdevId, VdevSpace>,
    dsl: Arc<Dsl>,
}

impl Tables {
    fn read(name: &str, loaded: &Loaded, unread: &mut Unread) -> Result<Self, ImportError> {
        let Loaded { config, mos, .. } = loaded;
        let vdevs = &*loaded.vdevs.shape();
        let mut metaslabs: Vec<Metaslabs> = Vec::new();
        for top in config.vdev_tree.iter().flat_map(|tree| &tree.children) {
            let id = top.id.unwrap_or_default();
            let what = format!("the list of space maps of top-level vdev {id} (space is unknown)");
            let found = unread.or_default(what, space::metaslabs(mos, vdevs, top))?;
            metaslabs.extend(found);
        }
        let allocated = space::allocated(mos, &metaslabs);
        let allocated = unread.or_default("a space map (space in use is unknown)", allocated)?;
        let checkpoint = space::checkpoint_bytes(mos, config.vdev_tree.as_ref());
        let what = "the space map of the checkpoint (the space that it needs is unknown)";
        let checkpoint = unread.or_default(what, checkpoint)?;
        let is_closed = |id: VdevId| {
            let mut tops = config.vdev_tree.iter().flat_map(|tree| &tree.children);
            let top = tops.find(|top| top.id == Some(id));
            top.is_some_and(|top| top.non_allocating || top.removing)
        };
        let of = |vdev: &Metaslabs| VdevSpace {
            is_closed: is_closed(vdev.vdev),
            size: space::size(vdevs, vdev),
            allocated: allocated.get(&vdev.vdev).copied().unwrap_or(0),
            checkpoint: checkpoint.get(&vdev.vdev).copied().unwrap_or(0),
            deferred: 0,
        };
        let space: BTreeMap<VdevId, VdevSpace> =
            metaslabs.iter().map(|vdev| (vdev.vdev, of(vdev))).collect();
        let ratios = space.keys().map(|id| (id.0, ratio_of(vdevs, *id)));
        let facts = PoolFacts {
            name: name.to_owned(),
            version: loaded.uberblock.version,
            space: space_facts(vdevs, &space),
            deflate_ratios: ratios.collect(),
        };
        let mut needed = None;
        let dsl = Dsl::open_with(Arc::clone(mos), facts, &mut |table, error| {
            if !unread.is_allowed() {
                needed = Some(format!("the table {table}"));
                return Err(error);
            }
            unread.note(format!("the table {table}"), &error);
            Ok(())
        });
        let dsl = dsl.map_err(|error| match needed {
            Some(what) => ImportError::NeededForWriting {
                what,
                source: Box::new(error.into()),
            },
            None => error.into(),
        })?;
        check_features(&dsl)?;
        Ok(Self {
            metaslabs,
            space,
            dsl,
        })
    }
}

/// A device that was found when the pool was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// Where.
    pub path: PathBuf,
    /// Bytes, labels and all.
    pub size: u64,
    /// The other pool that uses it, if it is a spare that several share: as its labels said when
    /// they were read.
    pub used_by: Option<SpareUser>,
}

impl FoundDevice {
    /// A device that only this pool uses.
    pub(crate) fn new(path: PathBuf, size: u64) -> Self {
        Self {
            path,
            size,
            used_by: None,
        }
    }
}

/// What an import opened of a pool's state, from the devices to the meta object set.
pub(crate) struct Loaded {
    /// The trusted configuration, with the paths where devices were found.
    pub config: PoolConfig,
    pub uberblock: Uberblock,
    pub vdevs: Arc<Vdevs>,
    pub cache: Arc<BlockCache>,
    pub mos: Arc<ObjectSet>,
}

/// What every pool is made of, however it came to be open.
struct Parts {
    name: String,
    label_config: PoolConfig,
    loaded: Loaded,
    tables: Tables,
    options: ImportOptions,
    env: Arc<dyn Env>,
    found: BTreeMap<Guid, FoundDevice>,
    outsiders: Vec<Outsider>,
    syncer: Option<Arc<Syncer>>,
    unread: Vec<UnreadTable>,
    hold: Option<Hold>,
}

impl Pool {
    /// A pool of its parts. No thread works for it yet.
    fn of(parts: Parts) -> Self {
        let Parts { loaded, tables, .. } = parts;
        Self {
            name: parts.name,
            config: KnownConfig::new(loaded.config),
            label_config: parts.label_config,
            uberblock: loaded.uberblock,
            vdevs: loaded.vdevs,
            cache: loaded.cache.for_io(&IoContext::COMMAND),
            mos: loaded.mos.for_io(&IoContext::COMMAND),
            dsl: tables.dsl.for_io(&IoContext::COMMAND),
            options: parts.options,
            env: parts.env,
            metaslabs: tables.metaslabs,
            space: tables.space,
            found: Mutex::new(parts.found),
            outsiders: Mutex::new(parts.outsiders),
            syncer: parts.syncer,
            treatments: OnceLock::new(),
            aging: Job::default(),
            names: Job::default(),
            scans: Arc::default(),
            rebuilds: Arc::default(),
            notes: Arc::default(),
            discarded_logs: Vec::new(),
            waiting_logs: Vec::new(),
            unreadable_heads: Vec::new(),
            unread: parts.unread,
            hold: parts.hold,
        }
    }

    /// A pool that an import found on its devices.
    pub(crate) fn open(
        candidate: &PoolCandidate,
        loaded: Loaded,
        options: &ImportOptions,
        env: &Arc<dyn Env>,
        mut unread: Unread,
    ) -> Result<Self, ImportError> {
        // The label's, not the configuration's: that is the name that the user saw.
        let own = || candidate.name().to_owned();
        let name = options.new_name.clone().unwrap_or_else(own);
        let tables = Tables::read(&name, &loaded, &mut unread)?;
        Ok(Self::of(Parts {
            name,
            label_config: candidate.config.clone(),
            loaded,
            tables,
            options: options.clone(),
            env: Arc::clone(env),
            found: found_devices(candidate),
            outsiders: candidate.outsiders.clone(),
            syncer: None,
            unread: unread.into_tables(),
            hold: None,
        }))
    }

    /// The same pool for reading, as another uberblock has it.
    pub(crate) fn as_of(
        &self,
        config: PoolConfig,
        uberblock: Uberblock,
        mos: Arc<ObjectSet>,
        hold: Option<Hold>,
    ) -> Result<Self, ImportError> {
        let loaded = Loaded {
            config,
            uberblock,
            vdevs: Arc::clone(&self.vdevs),
            cache: Arc::clone(&self.cache),
            mos,
        };
        let mut unread = Unread::new(self.options.read_only);
        let tables = Tables::read(&self.name, &loaded, &mut unread)?;
        Ok(Self::of(Parts {
            name: self.name.clone(),
            label_config: self.label_config.clone(),
            loaded,
            tables,
            options: self.options.clone(),
            env: Arc::clone(&self.env),
            found: self.found_devices(),
            outsiders: self.outsiders(),
            syncer: None,
            unread: unread.into_tables(),
            hold,
        }))
    }

    /// A pool that was just made.
    pub(crate) fn of_syncer(
        syncer: Arc<Syncer>,
        options: &ImportOptions,
        env: &Arc<dyn Env>,
    ) -> Self {
        let config = syncer.config().config.clone();
        Self::of(Parts {
            name: syncer.dsl.pool_name().to_string(),
            label_config: config.clone(),
            loaded: Loaded {
                config,
                uberblock: syncer.uberblock(),
                vdevs: Arc::clone(&syncer.vdevs),
                cache: Arc::clone(syncer.mos.cache()),
                mos: Arc::clone(&syncer.mos),
            },
            tables: Tables {
                metaslabs: Vec::new(),
                space: syncer.space.figures(),
                dsl: Arc::clone(&syncer.dsl),
            },
            options: options.clone(),
            env: Arc::clone(env),
            found: BTreeMap::new(),
            outsiders: Vec::new(),
            syncer: Some(syncer),
            unread: Vec::new(),
            hold: None,
        })
    }

    pub(crate) fn set_syncer(&mut self, syncer: Arc<Syncer>) {
        self.syncer = Some(syncer);
    }

    pub(crate) fn syncer(&self) -> Option<&Arc<Syncer>> {
        self.syncer.as_ref()
    }

    pub(crate) fn treatment_slot(&self) -> &OnceLock<Arc<Treatments>> {
        &self.treatments
    }

    pub(crate) fn notes(&self) -> &Arc<ErrorNotes> {
        &self.notes
    }

    pub(crate) fn rebuilds(&self) -> &Arc<Rebuilds> {
        &self.rebuilds
    }

    /// The jobs that look after the pool as long as it is open for writing.
    pub(crate) fn watchers(&self) -> [&Job; 2] {
        [&self.aging, &self.names]
    }

    pub(crate) fn scans(&self) -> &Arc<Scans> {
        &self.scans
    }

    /// The name that the pool was imported under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pool's guid.
    pub fn guid(&self) -> Guid {
        let live = self
            .syncer
            .as_ref()
            .map(|syncer| syncer.config().config.pool_guid);
        live.unwrap_or(self.config().pool_guid).unwrap_or_default()
    }

    /// The pool's own configuration as of now, with the paths where its devices were found.
    pub fn config(&self) -> Arc<PoolConfig> {
        let mut known = self.config.lock();
        // Devices also leave by themselves, when a resilver has ended.
        if let Some(syncer) = &self.syncer {
            // Read before the configuration: a change between the two is found next time.
            let changes = syncer.tree_changes();
            if known.changes != changes {
                known.changes = changes;
                known.config = Arc::new(syncer.config().config.clone());
            }
        }
        Arc::clone(&known.config)
    }

    /// Makes the current configuration visible to new callers.
    pub(crate) fn renew_config(&self) {
        if let Some(syncer) = &self.syncer {
            let mut known = self.config.lock();
            known.config = Arc::new(syncer.config().config.clone());
        }
    }

    /// The newest label's configuration, which names the system that had the pool last.
    pub fn label_config(&self) -> &PoolConfig {
        &self.label_config
    }

    /// The root vdev's configuration.
    pub fn vdev_tree(&self) -> VdevTree {
        VdevTree(self.config())
    }

    /// Heads whose intent logs were discarded by the import, and may have held something.
    pub fn discarded_logs(&self) -> &[ObjectId] {
        &self.discarded_logs
    }

    /// Heads with intent logs that waited for their replay when the pool was imported.
    pub fn waiting_logs(&self) -> &[ObjectId] {
        &self.waiting_logs
    }

    pub(crate) fn set_waiting_logs(&mut self, heads: Vec<ObjectId>) {
        self.waiting_logs = heads;
    }

    /// Notes metadata that is done without.
    pub(crate) fn note_unread(&mut self, what: &str, reason: String) {
        let what = what.to_owned();
        self.unread.push(UnreadTable { what, reason });
    }

    /// Space of which nothing is allocated, as its map was found to be damaged.
    pub fn unread_space(&self) -> Vec<String> {
        let space = self.syncer.as_ref().map(|syncer| &syncer.space);
        let damaged = space.map_or(Vec::new(), |space| space.damaged());
        let say = |(vdev, count)| {
            format!(
                "the space maps of {count} metaslabs of top-level vdev {vdev} are damaged: \
                 nothing is written there; copy the pool's data to another one"
            )
        };
        damaged.into_iter().map(say).collect()
    }

    pub(crate) fn set_discarded_logs(&mut self, heads: Vec<ObjectId>) {
        self.discarded_logs = heads;
    }

    /// Heads whose object sets could not be read when the pool was imported for writing, with the
    /// reason.
    pub fn unreadable_heads(&self) -> &[(ObjectId, String)] {
        &self.unreadable_heads
    }

    pub(crate) fn set_unreadable_heads(&mut self, heads: Vec<(ObjectId, String)>) {
        self.unreadable_heads = heads;
    }

    /// Tables that could not be read when the pool was imported read-only, and that files can be
    /// read without.
    pub fn unread(&self) -> &[UnreadTable] {
        &self.unread
    }

    /// The state that was opened, whatever was written since.
    pub fn opened_uberblock(&self) -> &Uberblock {
        &self.uberblock
    }

    /// The uberblock that the pool was opened at, or the last that was written since.
    pub fn uberblock(&self) -> Uberblock {
        match &self.syncer {
            Some(syncer) => syncer.uberblock(),
            None => self.uberblock.clone(),
        }
    }

    /// The uberblock that the pool was opened at.
    pub fn opened_at(&self) -> &Uberblock {
        &self.uberblock
    }

    /// The txg that the pool was opened at, or the last that was written since.
    pub fn txg(&self) -> Txg {
        self.uberblock().txg
    }

    /// The open vdevs, as they are now.
    pub fn vdevs(&self) -> Arc<Shape> {
        self.vdevs.shape()
    }

    /// Sets the sink for device faults: parts of blocks that were repaired from redundancy, and
    /// lost blocks. Only the first call counts.
    pub fn set_fault_sink(&self, sink: Arc<dyn FaultSink>) {
        self.cache.pipeline().set_fault_sink(sink);
    }

    /// What keeps the open vdevs and changes them.
    pub(crate) fn vdevs_kept(&self) -> &Arc<Vdevs> {
        &self.vdevs
    }

    /// The cache that all reads go through.
    pub fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// The meta object set.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.mos
    }

    /// The datasets.
    pub fn dsl(&self) -> &Arc<Dsl> {
        &self.dsl
    }

    /// The options of the import.
    pub fn options(&self) -> &ImportOptions {
        &self.options
    }

    /// Where the pool gets time and randomness from.
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Size and allocation of each top-level vdev that has metaslabs.
    pub fn space(&self) -> BTreeMap<VdevId, VdevSpace> {
        match &self.syncer {
            Some(syncer) => syncer.space.figures_soon(),
            None => self.space.clone(),
        }
    }

    /// The devices that were found, by guid, with spares and cache devices: which of those are
    /// the pool's, and which others it has, its dataset layer knows.
    pub fn found_devices(&self) -> BTreeMap<Guid, FoundDevice> {
        let found = self.found.lock();
        found.clone()
    }

    /// Notes devices that became the pool's after it was opened.
    pub(crate) fn note_devices(&self, devices: impl IntoIterator<Item = (Guid, FoundDevice)>) {
        let mut found = self.found.lock();
        found.extend(devices);
    }

    /// Forgets where a device was found.
    pub(crate) fn forget_device(&self, device: Guid) {
        let mut found = self.found.lock();
        found.remove(&device);
    }

    /// Devices that have guids of the pool and are not used.
    pub fn outsiders(&self) -> Vec<Outsider> {
        let outsiders = self.outsiders.lock();
        let all = outsiders.clone();
        let shape = self.vdevs();
        let found = self.found_devices();
        let is_still = |outsider: &Outsider| {
            let is_used = found
                .get(&outsider.leaf)
                .is_some_and(|found| found.path == outsider.path);
            let is_known = self
                .vdev_tree()
                .leaves()
                .any(|leaf| leaf.guid == outsider.leaf);
            is_known && (outsider.is_copy() || !(is_used && shape.is_open(outsider.leaf)))
        };
        all.into_iter().filter(is_still).collect()
    }

    /// Records that a device is not used, and replaces earlier reports about it.
    pub(crate) fn note_outsiders(&self, new: &[Outsider]) {
        let mut outsiders = self.outsiders.lock();
        outsiders.retain(|known| new.iter().all(|new| new.path != known.path));
        outsiders.extend(new.iter().cloned());
    }

    pub(crate) fn metaslabs(&self) -> &[Metaslabs] {
        &self.metaslabs
    }
}

fn found_devices(candidate: &PoolCandidate) -> BTreeMap<Guid, FoundDevice> {
    let (devices, paths) = (candidate.devices(), candidate.paths());
    let found = devices.into_iter().filter_map(|(guid, device)| {
        let path = paths.get(&guid)?.clone();
        let size = device.size();
        Some((guid, FoundDevice::new(path, size)))
    });
    found.collect()
}

/// Refuses features in use that must be known to read the pool.
fn check_features(dsl: &Dsl) -> Result<(), ImportError> {
    let must_be_known = |(guid, feature): &(&str, &EnabledFeature)| {
        feature.is_active()
            && feature.table == FeatureTable::ForRead
            && !features::is_readable(guid)
    };
    let features = dsl.features();
    let unknown = features.iter().filter(must_be_known);
    let features: Vec<String> = unknown.map(|(guid, _)| guid.to_owned()).collect();
    if features.is_empty() {
        Ok(())
    } else {
        Err(ImportError::UnsupportedFeatures { features })
    }
}

/// Accounted bytes per 512 bytes of a vdev's space (format/1c 5).
fn ratio_of(vdevs: &Shape, vdev: VdevId) -> u64 {
    vdevs.deflate_ratio(vdev).unwrap_or(512)
}

/// A block that is written next is younger than all that an expansion moves.
const NEWEST: Txg = Txg(u64::MAX);

/// Deflated sums by class, as the dataset layer needs them (format/1d.8).
pub(crate) fn space_facts(vdevs: &Shape, space: &BTreeMap<VdevId, VdevSpace>) -> SpaceFacts {
    let mut facts = SpaceFacts::default();
    for (id, space) in space {
        let ratio = ratio_of(vdevs, *id);
        let deflated = |bytes: u64| (bytes >> 9).saturating_mul(ratio);
        facts.checkpoint += deflated(space.checkpoint);
        facts.deferred += deflated(space.deferred);
        match vdevs.class(*id).unwrap_or_default() {
            // What is on a closed vdev can only be replaced elsewhere: that space is not for use.
            AllocationClass::Normal if space.is_closed => {}
            AllocationClass::Normal => {
                facts.normal += deflated(space.size);
                for (index, cost) in facts.block_costs.iter_mut().enumerate() {
                    let taken = vdevs.asize(*id, SECTOR_SIZE << index, NEWEST);
                    *cost = deflated(taken.unwrap_or(0)).max(*cost);
                }
            }
            AllocationClass::Special => facts.special_allocated += deflated(space.allocated),
            AllocationClass::Dedup => facts.dedup_allocated += deflated(space.allocated),
            AllocationClass::Log => {}
        }
    }
    facts
}
