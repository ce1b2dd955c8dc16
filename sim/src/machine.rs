//! Pools on the simulated disks: made, imported, and their datasets opened as the daemon does.
//!
//! Which devices a pool has is drawn ([`Layout`]). A dataset that is opened for writing has the log
//! replayed that a cut left it; in a pool that is open for reading only, that happens in memory.

use crate::disks::Disks;
use anyhow::{Context, Result, bail, ensure};
use cenote_base::rt::{Random, trace};
use cenote_base::{Env, ObjectId, RealEnv};
use cenote_dataset::{Access, OpenDataset};
use cenote_device::Opener;
use cenote_dsl::write::{CreateDataset, Encryption, Format, NewKeyFormat, Setting, UserKey};
use cenote_dsl::{Dataset, DatasetName, DatasetType, DslError, Stored};
use cenote_intent_log::IntentLog;
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, VerifyReport, Watcher, verify};
use cenote_pool::{
    Actor, CreateRequest, ImportError, ImportOptions, NewVdev, Pool, VdevShape, assemble,
    default_features, import,
};
use cenote_posix::write::{FormatParams, WriteSettings, format_new};
use cenote_posix::{FileSystem, PosixError, ReplayOptions, Timestamp};
use cenote_vdev::{AllocationClass, scan};
use cenote_volume::Volume;
use std::sync::Arc;

/// The pool's name.
pub const POOL: &str = "sim";

/// What each disk has, in bytes: little more than the least that a pool takes.
pub const DISK_SIZE: usize = 80 << 20;
const KEY: &[u8] = &[7; 32];

/// Numbers that the property `compression` is stored as: off, gzip-1, lz4, zstd.
const COMPRESSIONS: [u64; 4] = [2, 5, 15, 16];
/// What `dedup=on` is stored as.
const DEDUP_ON: u64 = 1;

/// One vdev of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VdevPlan {
    shape: VdevShape,
    class: AllocationClass,
    pub disks: usize,
    /// How many disks may be lost, or wrong.
    pub spare: usize,
}

impl VdevPlan {
    fn new(shape: VdevShape, disks: usize, spare: usize) -> Self {
        Self {
            shape,
            class: AllocationClass::Normal,
            disks,
            spare,
        }
    }

    pub(crate) fn class(self, class: AllocationClass) -> Self {
        Self { class, ..self }
    }

    pub(crate) fn single() -> Self {
        Self::new(VdevShape::Single, 1, 0)
    }

    pub(crate) fn mirror(disks: usize) -> Self {
        Self::new(VdevShape::Mirror, disks, disks - 1)
    }

    pub(crate) fn raidz(parity: usize, disks: usize) -> Self {
        let shape = VdevShape::Raidz {
            parity: parity as u64,
        };
        Self::new(shape, disks, parity)
    }

    fn draid() -> Self {
        let shape = VdevShape::Draid {
            parity: 1,
            data: 2,
            spares: 1,
        };
        Self::new(shape, 5, 1)
    }
}

/// What a pool is made of, and the properties of its first dataset.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(crate) vdevs: Vec<VdevPlan>,
    is_encrypted: bool,
    pub(crate) settings: WriteSettings,
    compression: Option<u64>,
    has_dedup: bool,
    /// The disks lie about flushes: only histories go by this.
    pub(crate) is_lying: bool,
}

impl Layout {
    /// One disk, without anything special.
    pub fn plain() -> Self {
        Self {
            vdevs: vec![VdevPlan::single()],
            is_encrypted: false,
            settings: WriteSettings::default(),
            compression: None,
            has_dedup: false,
            is_lying: false,
        }
    }

    /// The same with a log device.
    #[must_use]
    pub fn with_log(mut self) -> Self {
        let log = VdevPlan::single().class(AllocationClass::Log);
        self.vdevs.push(log);
        self
    }

    /// The same, encrypted.
    #[must_use]
    pub fn encrypted(self) -> Self {
        Self {
            is_encrypted: true,
            ..self
        }
    }

    /// The same on disks that lie about flushes: a test of histories.
    #[must_use]
    pub fn lying(self) -> Self {
        Self {
            is_lying: true,
            ..self
        }
    }

    /// A layout that the seed decides.
    pub fn draw(random: &mut Random) -> Self {
        let mut vdevs = match random.below(9) {
            0 | 1 => vec![VdevPlan::single()],
            2 => vec![VdevPlan::single(); 2],
            3 | 4 => vec![VdevPlan::mirror(2)],
            5 => vec![VdevPlan::mirror(3)],
            6 => vec![VdevPlan::raidz(1, 3)],
            7 => vec![VdevPlan::raidz(2, 4)],
            _ => vec![VdevPlan::draid()],
        };
        let beside = match vdevs[0].spare {
            0 => VdevPlan::single(),
            _ => VdevPlan::mirror(2),
        };
        match random.below(10) {
            0..2 => vdevs.push(VdevPlan::single().class(AllocationClass::Log)),
            2 => vdevs.push(VdevPlan::mirror(2).class(AllocationClass::Log)),
            3 => vdevs.extend([VdevPlan::single().class(AllocationClass::Log); 2]),
            4 => vdevs.push(beside.class(AllocationClass::Special)),
            5 => vdevs.push(beside.class(AllocationClass::Dedup)),
            _ => {}
        }
        let record_size = [4 << 10, 16 << 10, 128 << 10, 128 << 10][random.index(4)];
        Self {
            vdevs,
            is_encrypted: random.happens(20),
            settings: WriteSettings {
                record_size,
                ..WriteSettings::default()
            },
            compression: random
                .happens(40)
                .then(|| COMPRESSIONS[random.index(COMPRESSIONS.len())]),
            has_dedup: random.happens(10),
            is_lying: false,
        }
    }

    /// A layout for tests of room: without log devices and classes, whose space is their own.
    pub(crate) fn draw_sound(random: &mut Random) -> Self {
        let vdevs = match random.below(4) {
            0 | 1 => vec![VdevPlan::single()],
            2 => vec![VdevPlan::mirror(2)],
            _ => vec![VdevPlan::raidz(1, 3)],
        };
        Self {
            vdevs,
            compression: Some(COMPRESSIONS[if random.happens(70) { 0 } else { 2 }]),
            ..Self::plain()
        }
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.compression != Some(COMPRESSIONS[0])
    }

    /// How many disks it takes.
    pub fn disks(&self) -> usize {
        self.vdevs.iter().map(|vdev| vdev.disks).sum()
    }

    /// For each disk, the number of its vdev.
    pub(crate) fn vdev_of(&self, disk: usize) -> &VdevPlan {
        let mut before = 0;
        let mut vdevs = self.vdevs.iter();
        let found = vdevs.find(|vdev| {
            before += vdev.disks;
            disk < before
        });
        found.expect("a disk of the layout")
    }

    /// Whether a disk is made a log device.
    pub(crate) fn is_log(&self, disk: usize) -> bool {
        self.vdev_of(disk).class == AllocationClass::Log
    }

    /// The layout as text.
    pub fn told(&self) -> String {
        let vdev = |vdev: &VdevPlan| format!("{:?} {:?} of {}", vdev.class, vdev.shape, vdev.disks);
        let vdevs: Vec<String> = self.vdevs.iter().map(vdev).collect();
        format!(
            "{}; encrypted {}, record size {}, compression {:?}, dedup {}",
            vdevs.join(", "),
            self.is_encrypted,
            self.settings.record_size,
            self.compression,
            self.has_dedup
        )
    }

    fn root_properties(&self) -> Vec<Setting> {
        let number = |name: &str, value| Setting {
            name: name.to_owned(),
            value: Some(Stored::Number(value)),
        };
        let compression = self.compression.map(|kind| number("compression", kind));
        let dedup = self.has_dedup.then(|| number("dedup", DEDUP_ON));
        compression.into_iter().chain(dedup).collect()
    }
}

/// Makes the pool on the first disks.
///
/// # Errors
/// If it cannot be made.
pub fn create(disks: &Arc<Disks>, layout: &Layout) -> Result<Pool> {
    create_with(disks, layout, [0, 0])
}

/// The same with so many spares and cache devices, which are the next disks.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn create_with(
    disks: &Arc<Disks>,
    layout: &Layout,
    [spares, caches]: [usize; 2],
) -> Result<Pool> {
    let encryption = match layout.is_encrypted {
        false => Encryption::Inherit,
        true => {
            let name = DatasetName::parse(POOL)?;
            let key = UserKey::derive(&name, KEY, NewKeyFormat::Raw, "prompt", &RealEnv::new())?;
            Encryption::On {
                suite: None,
                key: Some(key),
            }
        }
    };
    let mut leaves = disks.leaves().into_iter();
    let vdevs = layout.vdevs.iter().map(|vdev| NewVdev {
        shape: vdev.shape,
        class: vdev.class,
        leaves: leaves.by_ref().take(vdev.disks).collect(),
    });
    let request = CreateRequest {
        name: POOL.to_owned(),
        version: 5000,
        vdevs: vdevs.collect(),
        spares: leaves.by_ref().take(spares).collect(),
        cache_devices: leaves.take(caches).collect(),
        ashift: None,
        features: default_features(),
        properties: Vec::new(),
        comment: None,
        compatibility: None,
        root_properties: layout.root_properties(),
        encryption,
        format: Some(empty_file_system()),
        actor: actor(),
        command: Some(format!("zpool create {POOL}")),
    };
    Ok(cenote_pool::create(request, &options(disks, false), env())?)
}

/// The user and system of all commands.
pub fn actor() -> Actor {
    Actor {
        user: 0,
        host: "sim".to_owned(),
    }
}

/// A dataset's name from its text.
pub(crate) fn named(name: &str) -> Result<DatasetName> {
    Ok(DatasetName::parse(name)?)
}

/// The task that makes an empty file system.
pub(crate) fn new_file_system(name: &str) -> Result<CreateDataset> {
    Ok(CreateDataset {
        name: named(name)?,
        kind: ObjsetKind::Zfs,
        properties: Vec::new(),
        encryption: Encryption::Inherit,
        format: Some(empty_file_system()),
        created: None,
    })
}

/// An empty file system.
pub fn empty_file_system() -> Format {
    Box::new(|set, tx| {
        let made = format_new(set, tx, &FormatParams::default());
        let failed = |error: PosixError| DslError::Format {
            reason: error.to_string(),
        };
        made.map(drop).map_err(failed)
    })
}

fn env() -> Arc<dyn Env> {
    Arc::new(RealEnv::new())
}

fn options(disks: &Arc<Disks>, is_read_only: bool) -> ImportOptions {
    ImportOptions {
        read_only: is_read_only,
        hostid: 0x1234,
        opener: Arc::clone(disks) as Arc<dyn Opener>,
        ..ImportOptions::default()
    }
}

/// Imports the pool, and loads its key.
///
/// # Errors
/// If it cannot be imported.
pub fn open(disks: &Arc<Disks>, is_read_only: bool) -> Result<Pool> {
    let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
    let candidate = candidates.first().context("no pool is found")?;
    let pool = import(candidate, &options(disks, is_read_only), env())?;
    load_key(pool)
}

/// Imports the pool for reading without some of its disks.
///
/// # Errors
/// If it cannot be imported.
pub fn open_without_all(disks: &Arc<Disks>, away: &[usize]) -> Result<Pool> {
    let paths = disks.paths().into_iter().enumerate();
    let here = paths.filter(|(disk, _)| !away.contains(disk));
    let here: Vec<_> = here.map(|(_, path)| path).collect();
    let candidates = assemble(scan(&here, disks.as_ref()));
    let candidate = candidates.first().context("no pool is found")?;
    load_key(import(candidate, &options(disks, true), env())?)
}

/// Imports the pool as of its checkpoint, and loads its key.
///
/// # Errors
/// If it cannot be imported.
pub fn open_at_checkpoint(disks: &Arc<Disks>, is_read_only: bool) -> Result<Pool> {
    let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
    let candidate = candidates.first().context("no pool is found")?;
    let options = ImportOptions {
        rewind_to_checkpoint: true,
        ..options(disks, is_read_only)
    };
    load_key(import(candidate, &options, env())?)
}

/// Whether the log of a head that is not open waits for its replay.
///
/// # Errors
/// If it cannot be read.
pub fn is_log_waiting(dataset: &Dataset) -> Result<bool> {
    let log = IntentLog::open(&dataset.object_set()?)?;
    Ok(log.is_some_and(|log| log.is_claimed() && log.header().needs_replay()))
}

/// Imports the pool without one of its disks. Gives up a log device's contents, but only if the
/// import requires that. Returns `None` if more is missing, which is never so if the disk `is_log`.
///
/// # Errors
/// If it cannot be imported, and should be.
pub fn open_without(disks: &Arc<Disks>, disk: usize, is_log: bool) -> Result<Option<Pool>> {
    let mut paths = disks.paths();
    paths.remove(disk);
    let candidates = assemble(scan(&paths, disks.as_ref()));
    let Some(candidate) = candidates.first() else {
        return Ok(None);
    };
    let mut options = options(disks, false);
    let mut pool = import(candidate, &options, env());
    if let Err(ImportError::MissingLogs { missing }) = &pool {
        trace!("without disk {disk} logs are missing: {missing:?}");
        options.missing_logs = true;
        pool = import(candidate, &options, env());
    }
    match pool {
        Ok(pool) if options.missing_logs || pool.discarded_logs().is_empty() => {
            load_key(pool).map(Some)
        }
        Ok(pool) => bail!("lost without `-m`: {:?}", pool.discarded_logs()),
        Err(error) if is_log => Err(error.into()),
        Err(_) => Ok(None),
    }
}

fn load_key(pool: Pool) -> Result<Pool> {
    let root = dataset(&pool, POOL)?;
    if root.directory().crypto_key()?.is_some() {
        match pool.dsl().load_key(root.directory(), KEY, false) {
            Ok(_) | Err(DslError::KeyLoaded { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pool)
}

/// A dataset by its name.
///
/// # Errors
/// If there is none.
pub fn dataset(pool: &Pool, name: &str) -> Result<Dataset> {
    Ok(pool.dsl().dataset(&DatasetName::parse(name)?)?)
}

fn access(pool: &Pool) -> Result<Access> {
    Ok(Access {
        dsl: Arc::clone(pool.dsl()),
        gate: Arc::clone(pool.gate()?),
        env: env(),
        blocks: Some(Arc::clone(pool.block_writer()?)),
        damage: None,
    })
}

/// When the pool was synced last before it was opened.
fn synced_at(pool: &Pool) -> Timestamp {
    let seconds = pool.opened_uberblock().timestamp.cast_signed();
    Timestamp::from_stored((seconds, 0))
}

/// Opens a dataset for changes, once the log is replayed for good that a cut left it.
///
/// # Errors
/// If it cannot be opened, or its log does not fit.
pub fn open_dataset(pool: &Pool, name: &str) -> Result<Arc<OpenDataset>> {
    let access = access(pool)?;
    let dataset = dataset(pool, name)?;
    let open = access.open(&dataset)?;
    let Some(log) = open.log()? else {
        return Ok(Arc::new(open));
    };
    // Of a log whose records are all in groups a cut leaves the block for the next ones.
    if log.is_claimed() {
        match dataset.dataset_type()? {
            DatasetType::Filesystem => {
                let settings = WriteSettings::default();
                let report = FileSystem::replay_log(&open, &log, settings, synced_at(pool))?;
                ensure!(report.stopped.is_none(), "the log does not fit: {report:?}");
            }
            DatasetType::Volume => {
                let report = Volume::replay_log(&open, &log)?;
                ensure!(report.stopped.is_none(), "the log does not fit: {report:?}");
            }
        }
    }
    open.destroy_log(&log)?;
    open.end()?;
    Ok(Arc::new(access.open(&dataset)?))
}

/// A file system: open for writing if the pool is and it is no snapshot, else for reading.
///
/// # Errors
/// If it cannot be opened, or its log does not fit.
pub fn files(pool: &Pool, name: &str, settings: WriteSettings) -> Result<Arc<FileSystem>> {
    if pool.is_writable() && !name.contains('@') {
        let fs = FileSystem::open_writable(open_dataset(pool, name)?, settings)?;
        fs.drain_delete_queue()?;
        return Ok(Arc::new(fs));
    }
    let dataset = dataset(pool, name)?;
    if dataset.is_snapshot() {
        return Ok(Arc::new(FileSystem::open(dataset.object_set()?)?));
    }
    let options = ReplayOptions {
        last_synced: pool.txg(),
        synced_at: synced_at(pool),
        settings,
        env: env(),
    };
    let (fs, report) = FileSystem::open_replayed(dataset.object_set()?, &options)?;
    ensure!(report.stopped.is_none(), "the log does not fit: {report:?}");
    Ok(Arc::new(fs))
}

/// A volume: open for writing if the pool is, else for reading.
///
/// # Errors
/// If it cannot be opened, or its log does not fit.
pub fn volume(pool: &Pool, name: &str) -> Result<Volume> {
    if pool.is_writable() {
        return Ok(Volume::open_writable(open_dataset(pool, name)?)?);
    }
    let set = dataset(pool, name)?.object_set()?;
    let (volume, report) = Volume::open_replayed(set, pool.txg(), env())?;
    ensure!(report.stopped.is_none(), "the log does not fit: {report:?}");
    Ok(volume)
}

/// Waits as `fsync(2)` of a file or directory does.
///
/// # Errors
/// If the pool takes no changes.
pub fn fsync(fs: &FileSystem, object: ObjectId) -> Result<()> {
    Ok(fs.fsync(object)?)
}

/// Waits as `sync(2)` does.
///
/// # Errors
/// If the pool takes no changes.
pub fn fsync_all(fs: &FileSystem) -> Result<()> {
    Ok(fs.fsync_all()?)
}

/// Waits for a transaction group.
///
/// # Errors
/// If the pool takes no changes.
pub fn sync_group(fs: &FileSystem) -> Result<()> {
    Ok(fs.sync()?)
}

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// What our own verification says of a pool.
///
/// # Errors
/// If it cannot run.
pub fn report(pool: &Pool) -> Result<VerifyReport> {
    Ok(verify(pool, &VerifyOptions::default(), &Silent)?)
}

/// Opens the head that a stream is received into.
///
/// # Errors
/// If it cannot be opened.
pub fn open_received(pool: &Pool, head: ObjectId) -> Result<OpenDataset> {
    Ok(access(pool)?.open(&pool.dsl().dataset_of(head)?)?)
}
