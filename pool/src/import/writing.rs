//! Making an imported pool writable.
//!
//! All checks that refuse a pool come before the first write. The first transaction group writes
//! the labels, which then name the system that has the pool.

use crate::absence::away::{self, Away};
use crate::allocation::{self, Space};
use crate::dedup::ForgetLostFigures;
use crate::error::ImportError;
use crate::import::candidate::PoolCandidate;
use crate::import::choose::{Common, Known};
use crate::import::claim::{Notes, StoreLogHeaders, claim_logs, discard_logs};
use crate::import::groups::check_groups;
use crate::import::lineage::Chronicle;
use crate::import::log_devices::LogDevices;
use crate::import::needed::needed;
use crate::import::options::{Becoming, ImportOptions};
use crate::mos::directory_words;
use crate::pool::Pool;
use crate::space;
use crate::sync::{Actor, LiveConfig, Parts, Recorder, Syncer, history_fault, log_event};
use cenote_base::{Env, Guid, ObjectId, SECTOR_SIZE, Txg};
use cenote_device::{Device, DeviceError};
use cenote_dmu::{DmuError, Object, ObjectSet, TxgGate};
use cenote_dsl::write::{EndTemporaryHolds, SyncContext, SyncTask};
use cenote_dsl::{DslError, Stored, lost_dedup_figures};
use cenote_ondisk::ObjectType;
use cenote_ondisk::Uberblock;
use cenote_ondisk::brt::{BrtVdev, DIRECTORY_PREFIX};
use cenote_ondisk::features;
use cenote_ondisk::features::FEATURES;
use cenote_ondisk::object_directory::keys;
use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::uberblock::{ReflowScratch, VERSION_FEATURES};
use cenote_vdev::{Shape, VdevAux};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Pool versions that can be written to: the last one before feature flags, and that of feature
/// flags. The numbers in between were never used.
const VERSIONS_KEPT: [u64; 2] = [28, 5000];
/// The newest group that a pool may have on it to be written to: what is added to the numbers of
/// groups never overflows then. A pool that syncs a thousand a second gets here in 292 million
/// years.
const TXG_LAST: Txg = Txg(u64::MAX / 2);
/// Features whose upkeep this software does not know, once they are in use.
const UNKEPT: [&str; 2] = [features::DYNAMIC_GANG_HEADER, features::PHYSICAL_REWRITE];

/// How many groups a log device may be ahead of all others. It gets the uberblock of a group first,
/// and groups without changes are not written. If the pool is imported without it after a power cut
/// there, the groups that follow must be newer than those that only the log device has, so that it
/// is the one that is left out when it comes back. A log device that is ahead by more keeps the
/// pool out until it is taken away again.
const LOGS_AHEAD_MAX: u64 = 1024;

/// How long an import waits for devices that another process has locked: one that was killed keeps
/// its locks until the system has closed its files.
const LOCK_WAIT: Duration = Duration::from_secs(3);
/// How often it looks.
const LOCK_POLL: Duration = Duration::from_millis(20);

fn refusal(reason: impl Into<String>) -> ImportError {
    ImportError::NotWritable {
        reason: reason.into(),
    }
}

/// Opens a device for writing. If another process has locked it, waits until `deadline` of the
/// monotonic clock; after that the device is in use. It is never reported as missing, because its
/// pool would work without it.
fn open_when_free(
    path: &Path,
    options: &ImportOptions,
    (env, deadline): (&dyn Env, Duration),
) -> Result<Arc<dyn Device>, DeviceError> {
    loop {
        match options.opener.open_writable(path) {
            Err(DeviceError::InUse { .. }) if env.monotonic() < deadline => env.sleep(LOCK_POLL),
            opened => return opened,
        }
    }
}

/// The devices of a pool, opened for writing in place of those that were found.
#[derive(Default)]
pub(crate) struct Opened {
    pub devices: HashMap<Guid, Arc<dyn Device>>,
    /// Those that can only be read, each with the reason.
    pub unwritable: Vec<(Guid, DeviceError)>,
}

/// Opens the devices of a pool for writing.
///
/// # Errors
/// If one is in use, is none, was written to since it was found, or cannot be opened for another
/// reason than that it can only be read.
pub(crate) fn writable_devices(
    candidate: &PoolCandidate,
    options: &ImportOptions,
    env: &dyn Env,
) -> Result<Opened, ImportError> {
    let deadline = env.monotonic() + LOCK_WAIT;
    let found = candidate.devices();
    let paths = candidate.paths();
    let mut opened = Opened::default();
    for (guid, old) in found {
        let Some(path) = paths.get(&guid) else {
            continue;
        };
        let is_auxiliary = !candidate.tree.leaves().any(|leaf| leaf.guid == guid);
        if is_auxiliary {
            opened.devices.insert(guid, old);
            continue;
        }
        let device = match open_when_free(path, options, (env, deadline)) {
            Err(error) if error.is_unwritable() => {
                opened.unwritable.push((guid, error));
                continue;
            }
            device => device?,
        };
        if device.size() != old.size() {
            let path = path.display();
            return Err(refusal(format!("{path} holds the device as a part of it")));
        }
        // Until now others could import the pool, write to it and export it. What the search found
        // would be an older state then, and its free space has newer blocks.
        if !candidate.is_as_found(guid, device.as_ref()) {
            return Err(ImportError::WrittenMeanwhile { path: path.clone() });
        }
        opened.devices.insert(guid, device);
    }
    Ok(opened)
}

/// Refuses pools with a top-level vdev to which nothing can be written, although what is there of
/// it may be read: that of a device which became smaller.
pub(crate) fn check_available(vdevs: &Shape) -> Result<(), ImportError> {
    let root = vdevs.status();
    if root.state.is_readable() {
        return Ok(());
    }
    let mut problems = Vec::new();
    let mut stack: Vec<_> = root.children.iter().rev().collect();
    while let Some(vdev) = stack.pop() {
        stack.extend(vdev.children.iter().rev());
        if vdev.state.is_readable() || !vdev.children.is_empty() {
            continue;
        }
        let name = match (&vdev.device, &vdev.path) {
            (Some(device), _) => device.clone(),
            (None, Some(path)) => path.display().to_string(),
            (None, None) => format!("the device {}", vdev.guid),
        };
        problems.push(match vdev.device_size {
            Some(bytes) if vdev.aux == VdevAux::BadLabel => {
                format!("{name} has {bytes} bytes, less than the pool has on it")
            }
            _ => format!("{name}: {}", vdev.aux.message()),
        });
    }
    Err(refusal(problems.join("; ")))
}

/// Refuses pools with something in use that cannot be kept up.
pub(crate) fn check_features(pool: &Pool) -> Result<(), ImportError> {
    if !VERSIONS_KEPT.contains(&pool.uberblock().version) {
        let version = pool.uberblock().version;
        return Err(refusal(format!("pools of version {version} are only read")));
    }
    let is_unkept = |guid: &str| {
        let is_known = FEATURES.iter().any(|feature| feature.guid == guid);
        !is_known || UNKEPT.contains(&guid)
    };
    let features = pool.dsl().features();
    let active = features.iter().filter(|(_, feature)| feature.is_active());
    let unkept: Vec<&str> = active
        .map(|(guid, _)| guid)
        .filter(|guid| is_unkept(guid))
        .collect();
    if !unkept.is_empty() {
        let list = unkept.join(", ");
        return Err(refusal(format!(
            "features are in use that are only read: {list}"
        )));
    }
    check_removals(pool)?;
    let multihost = pool.dsl().pool_properties()?;
    if multihost.get("multihost") == Some(&Stored::Number(1)) && pool.options().hostid == 0 {
        return Err(ImportError::HostIdRequired);
    }
    match pool.uberblock().raidz_reflow().map(|reflow| reflow.scratch) {
        Some(ReflowScratch::Valid) => Err(refusal(
            "the expansion of a raidz vdev stopped in its first step, which the boot region holds",
        )),
        Some(ReflowScratch::Unknown(state)) => Err(refusal(format!(
            "the expansion of a raidz vdev is in the unknown state {state}"
        ))),
        // An expansion stays where it is: what is written lies as its offset tells.
        _ => Ok(()),
    }
}

/// Refuses pools whose removed vdevs are still being worked on.
fn check_removals(pool: &Pool) -> Result<(), ImportError> {
    const UNDER_WAY: u64 = 1;
    let state = directory_words(pool.mos(), keys::REMOVING)?;
    if state.and_then(|words| words.first().copied()) == Some(UNDER_WAY) {
        return Err(refusal("a vdev is being removed"));
    }
    for (key, reason) in [
        (
            keys::CONDENSING,
            "the mapping of a removed vdev is being condensed",
        ),
        (
            keys::OBSOLETE_BPOBJ,
            "blocks of a removed vdev were remapped",
        ),
    ] {
        if directory_words(pool.mos(), key)?.is_some() {
            return Err(refusal(reason));
        }
    }
    Ok(())
}

/// Notes in the history that the pool was opened for writing, as OpenZFS does.
struct NoteOpening {
    actor: Actor,
}

impl SyncTask for NoteOpening {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let software = format!("cenote {}", env!("CARGO_PKG_VERSION"));
        let detail = format!("software version 5000; {software}");
        log_event(context, &self.actor, "import", &detail)
    }
}

/// The pool becomes another one with its first group.
struct BecomeAnother(Arc<dyn Becoming>);

impl SyncTask for BecomeAnother {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.0.in_first_group(context)
    }
}

impl Pool {
    /// Whether a log device of the pool is not there.
    fn lacks_log(&self, candidate: &PoolCandidate) -> bool {
        let (tree, found) = (self.vdev_tree(), candidate.devices());
        let mut logs = tree.children.iter().filter(|top| top.is_log);
        logs.any(|top| {
            let mut leaves = top.leaves().filter(|leaf| leaf.is_leaf_device());
            leaves.any(|leaf| !found.contains_key(&leaf.guid))
        })
    }

    /// Takes an imported pool, whose meta object set was opened for writing, into use.
    pub(crate) fn make_writable(mut self, candidate: &PoolCandidate) -> Result<Self, ImportError> {
        check_features(&self)?;
        let options = self.options().clone();
        let uberblock = self.uberblock();
        let cache = Arc::clone(self.cache());
        let committed = ObjectSet::open(cache, self.mos().id(), uberblock.root, None)?;
        check_groups(
            &committed,
            &self.vdevs(),
            &self.vdev_tree(),
            state_of(&uberblock),
        )?;
        let space = self.load_space(&committed)?;
        space.opened_at(uberblock.txg);
        let logs = needed("the list of space map logs", allocation::logs(&committed))?;
        let newest = first_txg(candidate, uberblock.txg)?;
        let log_headers = self.take_logs(candidate, &space, newest)?;
        let rewound = options.rewind_to_checkpoint;
        let rewound = rewound.then(|| self.rewound_uberblock(newest));
        let last = match &rewound {
            Some(rewound) => rewound.txg,
            None if self.lacks_log(candidate) => Txg(newest.0.saturating_add(LOGS_AHEAD_MAX)),
            None => newest,
        };
        let gate = TxgGate::new(last, options.throttle, Arc::clone(self.env()));
        let checkpoint = directory_words(self.mos(), keys::CHECKPOINT)?;
        let (mut chronicle, away) = self.past(candidate, newest)?;
        if let Some(rewound) = &rewound {
            chronicle.add(rewound, Vec::new());
        }
        let config = self.config_in_use(candidate, uberblock.version);
        let syncer = Syncer::new(Parts {
            env: Arc::clone(self.env()),
            vdevs: Arc::clone(self.vdevs_kept()),
            pipeline: Arc::clone(self.cache().pipeline()),
            mos: Arc::clone(self.mos()),
            dsl: Arc::clone(self.dsl()),
            gate,
            space: Arc::new(space),
            recorder: Recorder::new(logs),
            config,
            uberblock: rewound.clone().unwrap_or(uberblock),
            chronicle,
            away,
            checkpoint_txg: checkpoint
                .and_then(|words| words.get(2).copied())
                .map_or(Txg(0), Txg),
            log_birth: log_headers.newest_birth(),
        });
        self.queue_first_tasks(&syncer, &options.hostname)?;
        // From here on the pool ends what it began: also if this fails, or panics.
        self.set_syncer(Arc::clone(&syncer));
        // Before the first group: others are to see it from the first write on.
        if let Some(rewound) = rewound {
            self.write_rewound(&rewound)?;
        }
        syncer.begin_heartbeat().map_err(ImportError::Thread)?;
        syncer.start().map_err(ImportError::Thread)?;
        let is_exported = candidate.config.state == PoolState::Exported;
        self.store_log_headers(&syncer, log_headers, is_exported)?;
        self.settle_split();
        self.settle_spares();
        self.resume_treatments();
        self.resume_rebuilds();
        self.resume_scans();
        self.begin_watching();
        Ok(self)
    }

    /// Stores the headers of logs with the first group, as the claimed space is.
    fn store_log_headers(
        &mut self,
        syncer: &Syncer,
        headers: StoreLogHeaders,
        is_exported: bool,
    ) -> Result<(), ImportError> {
        let waiting = headers.waiting().to_vec();
        if !headers.is_empty()
            && let Err(error) = syncer.run_task(headers)
        {
            // The error is known already.
            let _ = syncer.stop();
            return Err(refusal(error.to_string()));
        }
        if !is_exported {
            self.mend_waiting_logs(&waiting);
        }
        self.set_waiting_logs(waiting);
        Ok(())
    }

    /// Claims or discards the intent logs. Returns the headers for the first group.
    fn take_logs(
        &mut self,
        candidate: &PoolCandidate,
        space: &Space,
        newest: Txg,
    ) -> Result<StoreLogHeaders, ImportError> {
        let uberblock = self.uberblock();
        // If the logs are not those of the opened state, or are out of reach.
        let is_older = newest > uberblock.txg || uberblock.checkpoint_txg != Txg(0);
        let discards = is_older;
        let is_exported = candidate.config.state == PoolState::Exported;
        let notes = Notes {
            is_clean: is_exported && !is_older,
            may_lose: self.options().missing_logs,
            unclaimed: self.dsl().unclaimed_logs()?,
            devices: LogDevices::new(candidate, &self.vdev_tree(), &away::load(self.mos())?),
        };
        let headers = match discards {
            true => discard_logs(self, state_of(&uberblock), notes)?,
            false => claim_logs(self, space, newest, notes)?,
        };
        // The logs of a pool that was exported say nothing, unless they were passed over before.
        let lost = match discards && is_exported {
            false => headers.lost(),
            true => headers.lost_claims(),
        };
        self.set_discarded_logs(lost.to_vec());
        let heads = headers.unreadable().iter();
        self.set_unreadable_heads(heads.map(|head| (head.head, head.reason.clone())).collect());
        Ok(headers)
    }

    /// The pool's space, once all is read that groups need.
    fn load_space(&mut self, committed: &Arc<ObjectSet>) -> Result<Space, ImportError> {
        self.check_what_groups_read(committed)?;
        let space = allocation::load(committed, self.vdevs_kept(), &self.vdev_tree());
        needed("a space map", space)
    }

    /// Reads the tables that every group appends to. An import can name a damaged table, but a
    /// group that fails can only suspend the pool.
    fn check_what_groups_read(&mut self, committed: &Arc<ObjectSet>) -> Result<(), ImportError> {
        for top in &self.vdev_tree().children {
            let id = top.id.unwrap_or_default();
            let checked = space::check_ends(committed, &self.vdevs(), top);
            needed(&format!("a space map of top-level vdev {id}"), checked)?;
        }
        let directory = self.dsl().object_directory();
        for (key, what) in [
            (keys::SYNC_BPLIST, "the list of deferred frees"),
            (keys::FREE_BPOBJ, "the list of blocks to be freed"),
        ] {
            if let Some(list) = directory.object(key)? {
                needed(what, check_list(committed, list))?;
            }
        }
        // Dedup tables and counts of clones are changed whenever a block of theirs is freed.
        for entry in directory.zap().entries() {
            let entry = entry?;
            let key = entry.key.as_str().filter(|key| is_block_table(key));
            if let (Some(key), Some(object)) = (key, entry.value.as_u64()) {
                let read = check_tables(committed, key, ObjectId(object));
                needed(&format!("the table {key}"), read)?;
            }
        }
        let history = directory.object(keys::HISTORY)?;
        if let Some(fault) = history.and_then(|history| history_fault(committed, history)) {
            self.note_unread("the pool's history (a new one was started)", fault);
        }
        Ok(())
    }

    /// What is known of the pool's past, and which leaves are behind.
    fn past(
        &self,
        candidate: &PoolCandidate,
        newest: Txg,
    ) -> Result<(Chronicle, Away), ImportError> {
        let known: Vec<Known> = candidate.members.iter().filter_map(Known::of).collect();
        let common = Common::of(&known);
        let mut chronicle = Chronicle::new(common.groups, newest, common.floors);
        let kept = away::load(self.mos())?;
        let shape = self.vdevs();
        let tree = self.vdev_tree();
        let leaves = tree.leaves().map(|leaf| leaf.guid);
        // What a device turned out to have beyond what was kept is kept with the first group.
        let has_more = |leaf: &Guid| {
            let own = known.iter().find(|one| one.leaf == *leaf);
            let last = own.and_then(|one| one.groups.keys().next_back());
            let groups = kept.get(leaf).zip(last);
            groups.is_some_and(|(groups, last)| !groups.contains_key(last))
        };
        let behind = leaves.filter(|leaf| kept.contains_key(leaf) || !shape.dtl(*leaf).is_empty());
        let behind = behind.filter(|leaf| !has_more(leaf));
        let away = Away::new(behind.collect(), &kept);
        *chronicle.away_mut() = kept;
        Ok((chronicle, away))
    }

    /// The configuration of a pool that this system has.
    fn config_in_use(&self, candidate: &PoolCandidate, version: u64) -> LiveConfig {
        let options = self.options();
        let mut config = self.config().as_ref().clone();
        config.state = PoolState::Active;
        config.version = version;
        let name = match options.temporary_name {
            true => candidate.name(),
            false => self.name(),
        };
        config.name = Some(name.to_owned());
        config.hostid = options.hostid;
        // The guid of the split pool stays in the configuration until the first import.
        config.split_guid = options.becomes.as_ref().map(|other| other.origin());
        config.hostname = Some(options.hostname.clone());
        // The features in the labels are kept up to date; before feature flags labels have none.
        let features = config.features_for_read.take();
        let features = features.or_else(|| candidate.config.features_for_read.clone());
        let has_features = version >= VERSION_FEATURES;
        config.features_for_read = has_features.then(|| features.unwrap_or_default());
        let mut config = LiveConfig::new(config);
        config.touch();
        config
    }

    /// Queues what the first group writes besides the labels, without waiting.
    fn queue_first_tasks(&self, syncer: &Syncer, hostname: &str) -> Result<(), ImportError> {
        let host = hostname.to_owned();
        let actor = Actor { user: 0, host };
        let mut queued = syncer.queue(NoteOpening { actor }).map(drop);
        if let Some(becomes) = self.options().becomes.clone() {
            queued = queued.and(syncer.queue(BecomeAnother(becomes)).map(drop));
            // Vdevs that come later, by OpenZFS, get the numbers of those that it left behind.
            syncer.flush_space_maps();
        }
        // Errors of these tables are reported by the code that needs them.
        if lost_dedup_figures(self.dsl()).is_ok_and(|lost| !lost.is_empty()) {
            queued = queued.and(syncer.queue(ForgetLostFigures).map(drop));
        }
        if self
            .dsl()
            .temporary_holds()
            .is_ok_and(|holds| !holds.is_empty())
        {
            queued = queued.and(syncer.queue(EndTemporaryHolds::default()).map(drop));
        }
        queued.map_err(|error| refusal(error.to_string()))
    }
}

/// Whether an object of the directory has facts about single blocks.
fn is_block_table(key: &str) -> bool {
    key.starts_with("DDT-") || key.starts_with(DIRECTORY_PREFIX)
}

/// A table that is larger is read in its first part only: an import is to take no minutes. What is
/// damaged behind that is found when it is needed.
const TABLE_CHECKED_MAX: u64 = 16 << 20;

/// Reads a table about blocks, and the tables that it names.
fn check_tables(mos: &Arc<ObjectSet>, key: &str, table: ObjectId) -> Result<(), ImportError> {
    let object = check_table(mos, table)?;
    if key.starts_with(DIRECTORY_PREFIX) {
        check_table(mos, BrtVdev::decode(&object.dnode().bonus)?.entries)?;
        return Ok(());
    }
    // Newer pools have a directory of tables and logs for each checksum.
    if object.dnode().object_type != ObjectType::ZAP_METADATA || key == keys::DEDUP_STATISTICS {
        return Ok(());
    }
    for entry in mos.zap(table)?.entries() {
        let entry = entry?;
        let is_table = entry
            .key
            .as_str()
            .is_some_and(|key| key.starts_with("DDT-"));
        if let Some(part) = entry.value.as_u64().filter(|part| is_table && *part != 0) {
            check_table(mos, ObjectId(part))?;
        }
    }
    Ok(())
}

/// Reads a table.
fn check_table(mos: &Arc<ObjectSet>, table: ObjectId) -> Result<Object, DmuError> {
    let object = mos.object(table)?;
    let block = object.dnode().data_block_size.max(SECTOR_SIZE);
    let size = object.dnode().block_id_max.0.saturating_add(1);
    let size = size.saturating_mul(block).min(TABLE_CHECKED_MAX);
    let mut at = 0;
    while at < size {
        let length = usize::try_from(block.min(size - at)).unwrap_or(0);
        object.read(at, &mut vec![0; length])?;
        at += block;
    }
    Ok(object)
}

/// Reads the last block of a list of block pointers, which is added to.
fn check_list(mos: &Arc<ObjectSet>, list: ObjectId) -> Result<(), DmuError> {
    let object = mos.object(list)?;
    let dnode = object.dnode();
    let mut bytes = vec![0; usize::try_from(dnode.data_block_size).unwrap_or(0)];
    object.read(
        dnode.block_id_max.0.saturating_mul(dnode.data_block_size),
        &mut bytes,
    )
}

/// The group whose space maps an uberblock leads to: the first after a rewind to a checkpoint leads
/// to those of the checkpoint (format/1 1.7).
fn state_of(uberblock: &Uberblock) -> Txg {
    match uberblock.checkpoint_txg {
        Txg(0) => uberblock.txg,
        kept => kept.min(uberblock.txg),
    }
}

/// The group before the first that is to be written: no uberblock on the devices, good or bad,
/// may be newer than those to come. Refuses a pool that has not room to count on.
fn first_txg(candidate: &PoolCandidate, opened: Txg) -> Result<Txg, ImportError> {
    let found = candidate.uberblocks();
    let newest = found.first().map_or(opened, |newest| newest.txg);
    let last = newest.max(opened);
    if last > TXG_LAST {
        return Err(refusal(format!(
            "an uberblock is of txg {}, which is no number that a pool comes to",
            last.0
        )));
    }
    Ok(last)
}
