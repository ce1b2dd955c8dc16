//! The open dataset layer of one pool.

use crate::error::DslError;
use crate::facts::{DeflateRatios, PoolFacts, SpaceFacts};
use crate::features::Features;
use crate::key_store::KeyStore;
use crate::moment::{Change, Changes};
use crate::name::DatasetName;
use crate::object_directory::{ObjectDirectory, keys};
use crate::objset_cache::ObjsetCache;
use crate::sharing::Sharing;
use crate::write::Heads;
use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, RwLock, ranks};
use cenote_dmu::{IoContext, Object, ObjectSet, Zap};
use cenote_ledger::Rooms;
use cenote_ondisk::ObjectType;
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::dsl_dir::DslDir;
use cenote_ondisk::features::{self, FEATURE_VERSION};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Names of directories found by their number that are remembered.
const NAMES_MAX: usize = 16 << 10;

/// The datasets of one pool.
///
/// Handles to directories and datasets hold the layer. Each handle shows the state at the time it
/// was opened: callers that need the state after a change must open it again. Changes are made in
/// syncing context ([`crate::write`]); the module `moment` explains how to read during a change.
///
/// `Dsl` is a handle: all handles of a pool share the layer's state. The context of each handle
/// applies to everything opened through it ([`Self::for_io`]).
#[derive(Debug)]
pub struct Dsl {
    mos: Arc<ObjectSet>,
    object_directory: ObjectDirectory,
    state: Arc<DslState>,
}

/// What all handles of the datasets of a pool share.
#[derive(Debug)]
pub struct DslState {
    features: RwLock<Arc<Features>, ranks::Features>,
    name: DatasetName,
    version: AtomicU64,
    space: RwLock<SpaceFacts, ranks::SpaceFacts>,
    facts: PoolFacts,
    deflate_ratios: RwLock<DeflateRatios, ranks::DeflateRatios>,
    pub(crate) root_directory: ObjectId,
    origin_snapshot: Option<ObjectId>,
    pub(crate) objsets: ObjsetCache,
    pub(crate) heads: Heads,
    pub(crate) changes: Changes,
    rooms: Rooms,
    keys: KeyStore,
    sharing: Mutex<Sharing, ranks::SharedBlocks>,
    /// Whether blocks were cloned since the pool was opened.
    has_cloned: AtomicBool,
    /// Whether the freeing of destroyed datasets met something that cannot be read.
    pub(crate) freeing_is_stalled: AtomicBool,
    /// Names of directories that were looked up by number.
    names: Mutex<HashMap<ObjectId, DatasetName>, ranks::DirectoryNames>,
}

impl Deref for Dsl {
    type Target = DslState;

    fn deref(&self) -> &DslState {
        &self.state
    }
}

impl Dsl {
    /// A handle of the same datasets that reads for something else.
    #[must_use]
    pub fn for_io(&self, io: &IoContext) -> Arc<Self> {
        Arc::new(Self {
            mos: self.mos.for_io(io),
            object_directory: self.object_directory.for_io(io),
            state: Arc::clone(&self.state),
        })
    }

    /// What this handle reads for.
    pub fn io(&self) -> &IoContext {
        self.mos.io()
    }

    /// Opens the datasets of the pool whose metadata is `mos`.
    ///
    /// # Errors
    /// If the object directory, the feature tables or the root directory cannot be read.
    pub fn open(mos: Arc<ObjectSet>, facts: PoolFacts) -> Result<Arc<Self>, DslError> {
        Self::open_with(mos, facts, &mut |_, error| Err(error))
    }

    /// Like [`Self::open`], but calls `unread` for each table that is unreadable and not needed to
    /// read files. `unread` gets the table's name and the error, and returns `Ok` to open without
    /// it.
    ///
    /// # Errors
    /// Those of [`Self::open`], and whatever `unread` returns.
    pub fn open_with(
        mos: Arc<ObjectSet>,
        facts: PoolFacts,
        unread: &mut dyn FnMut(&'static str, DslError) -> Result<(), DslError>,
    ) -> Result<Arc<Self>, DslError> {
        let object_directory = ObjectDirectory::open(&mos)?;
        let features = Features::load_with(&mos, &object_directory, unread)?;
        let name = DatasetName::of_pool(&facts.name).map_err(|source| DslError::BadName {
            text: facts.name.clone(),
            source,
        })?;
        let root = object_directory.object(keys::ROOT_DATASET)?;
        let key = keys::ROOT_DATASET;
        let root_directory = root.ok_or(DslError::MissingEntry { key })?;
        let state = DslState {
            features: RwLock::new(Arc::new(features)),
            name,
            version: AtomicU64::new(facts.version),
            space: RwLock::new(facts.space.clone()),
            deflate_ratios: RwLock::new(facts.deflate_ratios.clone()),
            facts,
            root_directory,
            origin_snapshot: None,
            objsets: ObjsetCache::default(),
            heads: Heads::default(),
            changes: Changes::default(),
            rooms: Rooms::default(),
            keys: KeyStore::default(),
            sharing: Mutex::default(),
            has_cloned: AtomicBool::new(false),
            freeing_is_stalled: AtomicBool::new(false),
            names: Mutex::default(),
        };
        let mut dsl = Self {
            mos,
            object_directory,
            state: Arc::new(state),
        };
        let origin = match dsl.find_origin_snapshot() {
            Ok(found) => found,
            Err(error) => unread("$ORIGIN", error).map(|()| None)?,
        };
        let state = Arc::get_mut(&mut dsl.state);
        state.expect("no other handle exists yet").origin_snapshot = origin;
        Ok(Arc::new(dsl))
    }

    /// `$ORIGIN@$ORIGIN`, of which everything is formally a clone; pools before version 11 have
    /// none (format/3a 2).
    fn find_origin_snapshot(&self) -> Result<Option<ObjectId>, DslError> {
        let (_, root) = self.read_directory(self.root_directory)?;
        let children = self.mos.zap(root.child_map)?;
        let Some(directory) = children.lookup_u64("$ORIGIN")? else {
            return Ok(None);
        };
        let (_, directory) = self.read_directory(ObjectId(directory))?;
        let Some(head) = directory.head_dataset else {
            return Ok(None);
        };
        let (_, head) = self.read_dataset(head)?;
        Ok(head.previous_snapshot)
    }

    /// The pool's metadata.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        &self.mos
    }

    /// The object directory.
    pub fn object_directory(&self) -> &ObjectDirectory {
        &self.object_directory
    }

    /// The pool's features, as they are now.
    pub fn features(&self) -> Arc<Features> {
        let features = self.features.read();
        Arc::clone(&features)
    }

    /// Notes a feature's new count of uses.
    pub(crate) fn set_feature_count(&self, guid: &str, count: u64) {
        let mut features = self.features.write();
        Arc::make_mut(&mut features).set_count(guid, count);
    }

    /// Reads the feature tables again, after features were enabled.
    pub fn reload_features(&self) -> Result<(), DslError> {
        let read = Features::load(&self.mos, &self.object_directory)?;
        let mut features = self.features.write();
        *features = Arc::new(read);
        Ok(())
    }

    /// Notes that the pool has features from now on.
    pub(crate) fn set_feature_version(&self) {
        self.version.store(FEATURE_VERSION, Ordering::Release);
    }

    /// The pool's name.
    pub fn pool_name(&self) -> &DatasetName {
        &self.name
    }

    /// The pool's version.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The keys that are loaded.
    pub fn keys(&self) -> &KeyStore {
        &self.keys
    }

    /// The figures of the pool's devices.
    pub fn space(&self) -> SpaceFacts {
        let space = self.space.read();
        space.clone()
    }

    /// Replaces the figures of the pool's devices.
    pub fn set_space(&self, space: SpaceFacts) {
        *self.space.write() = space;
    }

    /// What `bytes` count for that are stored in blocks of `block` bytes, one copy of them.
    pub fn block_cost(&self, bytes: u64, block: u64) -> u64 {
        self.space.read().cost(bytes, block)
    }

    /// How much the open heads may still grow.
    pub fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// How much 512 bytes of a vdev's space count, in bytes (format/3a, `used`).
    pub fn deflate_ratio(&self, vdev: u64) -> u64 {
        let ratios = self.deflate_ratios.read();
        ratios.get(&vdev).copied().unwrap_or(512)
    }

    /// Replaces the ratios, after vdevs were added.
    pub fn set_deflate_ratios(&self, ratios: DeflateRatios) {
        let mut current = self.deflate_ratios.write();
        *current = ratios;
    }

    /// What the pool layer said at opening.
    pub fn facts(&self) -> &PoolFacts {
        &self.facts
    }

    /// What is known of blocks that are used more than once.
    pub(crate) fn sharing(&self) -> MutexGuard<'_, Sharing> {
        self.sharing.lock()
    }

    /// Drops the cached savings of dedup and cloning because their tables changed. The next query
    /// computes them again; a computation that is under way is not cached.
    pub fn forget_saved_space(&self) {
        let mut sharing = self.sharing();
        *sharing = Sharing {
            generation: sharing.generation + 1,
            ..Sharing::default()
        };
    }

    /// Whether the pool has the feature for cloning blocks. Must be called in the transaction that
    /// clones: from then on, freed blocks may have been cloned.
    pub fn begin_cloning(&self) -> bool {
        let is_enabled = self.has_feature(features::BLOCK_CLONING);
        if is_enabled {
            self.has_cloned.store(true, Ordering::Release);
        }
        is_enabled
    }

    /// Whether the pool has a feature enabled.
    pub fn has_feature(&self, guid: &str) -> bool {
        self.features().get(guid).is_some()
    }

    /// Whether blocks may have been cloned since the pool was opened.
    pub fn has_cloned(&self) -> bool {
        self.has_cloned.load(Ordering::Acquire)
    }

    /// `$ORIGIN@$ORIGIN`, if the pool has it.
    pub fn origin_snapshot(&self) -> Option<ObjectId> {
        self.origin_snapshot
    }

    /// Reads a directory's structure.
    pub(crate) fn read_directory(&self, id: ObjectId) -> Result<(Object, DslDir), DslError> {
        let object = self.bonus_object(id, ObjectType::DSL_DIR)?;
        let decoded = DslDir::decode(&object.dnode().bonus);
        let directory = decoded.map_err(|source| DslError::decode(id, source))?;
        Ok((object, directory))
    }

    /// Reads a dataset's structure.
    pub(crate) fn read_dataset(&self, id: ObjectId) -> Result<(Object, DslDataset), DslError> {
        let object = self.bonus_object(id, ObjectType::DSL_DATASET)?;
        let decoded = DslDataset::decode(&object.dnode().bonus);
        let dataset = decoded.map_err(|source| DslError::decode(id, source))?;
        Ok((object, dataset))
    }

    fn bonus_object(&self, id: ObjectId, bonus_type: ObjectType) -> Result<Object, DslError> {
        let object = self.mos.object(id)?;
        match object.dnode().bonus_type == bonus_type {
            true => Ok(object),
            false => Err(DslError::structure(
                id,
                "its bonus buffer is of another type",
            )),
        }
    }

    /// The ZAP of extension fields of a directory or dataset, if it has been extended
    /// (format/3a 1).
    pub(crate) fn extension(object: &Object) -> Result<Option<Zap>, DslError> {
        let kind = object.dnode().object_type;
        if matches!(kind, ObjectType::DSL_DIR | ObjectType::DSL_DATASET) {
            return Ok(None);
        }
        Ok(Some(Zap::open(object.clone())?))
    }

    pub(crate) fn remembered_name(&self, directory: ObjectId) -> Option<DatasetName> {
        let names = self.names.lock();
        names.get(&directory).cloned()
    }

    pub(crate) fn remember_name(&self, directory: ObjectId, name: &DatasetName) {
        let mut names = self.names.lock();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(directory, name.clone());
    }

    /// Forgets which directory has which name: to be called after each rename.
    pub fn forget_names(&self) {
        let mut names = self.names.lock();
        names.clear();
    }

    /// Begins a change of the tree by this thread. Changes come one after the other.
    pub fn begin_change(&self) -> Change<'_> {
        self.changes.begin()
    }

    /// Reads something from its name or number on; again where the tree changed meanwhile.
    pub fn of_one_moment<T, E>(&self, read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        self.changes.read_again(read, |_| false)
    }

    /// Reads something, again where that failed and the tree changed meanwhile.
    ///
    /// For what is whole whenever it can be read.
    pub(crate) fn unless_changing<T, E>(&self, read: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        self.changes.read_again(read, Result::is_ok)
    }

    /// Reads by a handle that was opened a while ago; if that fails or the tree changed meanwhile,
    /// by name.
    ///
    /// # Errors
    /// What `by_name` says.
    pub fn by_handle_or_name<T, E>(
        &self,
        by_handle: impl FnOnce() -> Result<T, E>,
        by_name: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.changes.now();
        match by_handle() {
            Ok(read) if before.is_multiple_of(2) && self.changes.now() == before => Ok(read),
            _ => self.of_one_moment(by_name),
        }
    }
}
