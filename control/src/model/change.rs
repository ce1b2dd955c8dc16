//! What a client may ask to be changed.

use serde::{Deserialize, Serialize};

use super::activity::TreatmentKind;
use super::delegation::Delegation;
use super::devices::{DeviceChange, SplitPool};
use super::secret::Secret;
use super::snapshots::{RollBack, SnapshotChange};
use super::value::Pair;

/// A kind of group of devices in a new pool's layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NewVdevKind {
    /// One device.
    Disk,
    /// Copies on every device.
    Mirror,
    /// Parity.
    Raidz {
        /// Devices that may be lost.
        parity: u8,
    },
    /// Parity with distributed spares.
    Draid {
        /// Devices that may be lost.
        parity: u8,
        /// Data devices in a group; not set, as many as are fit.
        data: Option<u64>,
        /// Devices, as the user counts them.
        children: Option<u64>,
        /// Distributed spares.
        spares: u64,
    },
}

/// What a top-level vdev is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewVdevRole {
    /// Data.
    #[default]
    Normal,
    /// The intent log.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Deduplication tables.
    Dedup,
    /// A hot spare.
    Spare,
    /// A read cache.
    Cache,
}

/// A top-level vdev to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVdev {
    /// What it is for.
    pub role: NewVdevRole,
    /// How its devices hang together.
    pub kind: NewVdevKind,
    /// Absolute paths.
    pub devices: Vec<String>,
}

/// A pool to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// The name under which it is imported for now (`-t`).
    pub temporary_name: Option<String>,
    /// Its devices, in order.
    pub vdevs: Vec<NewVdev>,
    /// Pool properties and `feature@…` (`-o`).
    pub properties: Vec<Pair>,
    /// Properties of the root dataset (`-O`, `-m`).
    pub dataset_properties: Vec<Pair>,
    /// Prefix of all mount points (`-R`).
    pub altroot: Option<String>,
    /// Take devices that are in use or do not fit (`-f`).
    pub force: bool,
    /// Enable no features (`-d`).
    pub no_features: bool,
    /// Only check (`-n`).
    pub dry_run: bool,
    /// The key of an encrypted root dataset.
    pub key: Option<Secret>,
}

/// Vdevs to be added to a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedVdevs {
    /// The pool.
    pub pool: String,
    /// Its new devices, in order.
    pub vdevs: Vec<NewVdev>,
    /// `ashift` (`-o`).
    pub properties: Vec<Pair>,
    /// What is allowed although it is most likely a mistake.
    pub allowed: AllowedVdevs,
    /// Only check (`-n`).
    pub dry_run: bool,
}

/// Which new vdevs are accepted although they are most likely a mistake. `-f` accepts all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedVdevs {
    /// Devices that seem to be in use.
    pub in_use: bool,
    /// Vdevs whose redundancy differs from that of the others.
    pub replication_mismatch: bool,
    /// Vdevs whose allocation units differ from those of the pool.
    pub ashift_mismatch: bool,
}

impl AllowedVdevs {
    /// All of them, or none.
    pub fn all(is_forced: bool) -> Self {
        Self {
            in_use: is_forced,
            replication_mismatch: is_forced,
            ashift_mismatch: is_forced,
        }
    }
}

/// Devices to be used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlineDevices {
    /// The pool.
    pub pool: String,
    /// Its devices, by any of their names.
    pub devices: Vec<String>,
    /// Use all that they have become (`-e`).
    pub expand: bool,
}

/// A property of a vdev.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetVdevProperty {
    /// The pool.
    pub pool: String,
    /// The vdev, by any of its names.
    pub vdev: String,
    /// The property.
    pub property: String,
    /// Its value; empty to take a user property away.
    pub value: String,
}

/// A volume's own facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVolume {
    /// Bytes.
    pub size: u64,
    /// Bytes of a block; not set, 16 KiB.
    pub block_size: Option<u64>,
    /// Reserve no space.
    pub sparse: bool,
}

/// A dataset to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDataset {
    /// Its name.
    pub name: String,
    /// A volume; not set, a file system.
    pub volume: Option<NewVolume>,
    /// Its properties.
    pub properties: Vec<Pair>,
    /// Make missing parents, and be content if it is there (`-p`).
    pub parents: bool,
    /// Do not mount it (`-u`).
    pub unmounted: bool,
    /// Only check (`-n`).
    pub dry_run: bool,
    /// The key of a new encryption root.
    pub key: Option<Secret>,
}

/// What is wanted of a trim or initialization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wanted", rename_all = "snake_case")]
pub enum TreatmentCommand {
    /// Begin, or resume after a suspension.
    Start {
        /// Bytes a second; 0 for what it was begun with, which is no limit if nothing else was
        /// said.
        rate: u64,
        /// An initialization fills the space with zeros (`-z`).
        #[serde(default)]
        zeros: bool,
    },
    /// Give it up (`-c`).
    Cancel,
    /// Stop for now (`-s`).
    Suspend,
    /// Forget that it was done (`-u`).
    Reset,
}

/// What is wanted of a pool's scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wanted", rename_all = "snake_case")]
pub enum ScanCommand {
    /// Scrub, or resume a paused scrub.
    Scrub {
        /// Only what was written since the last complete scrub (`-C`).
        since_last: bool,
    },
    /// Scrub what was written in a period, or resume a paused scrub (`-S`, `-E`). Times are in
    /// seconds since the epoch.
    ScrubPeriod {
        /// Its beginning; absent means that of the pool.
        from: Option<u64>,
        /// Its end; absent means now.
        to: Option<u64>,
    },
    /// Scrub only the blocks that are known to be damaged (`-e`).
    ErrorScrub,
    /// Pause the scrub (`-p`).
    Pause,
    /// Give the scrub up (`-s`).
    Stop,
    /// Bring devices what they miss.
    Resilver,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// Make a pool and import it. Answer: `Done`.
    CreatePool(Box<NewPool>),
    /// Add vdevs to a pool. Answer: `Done`.
    AddVdevs(Box<AddedVdevs>),
    /// Reset error counters, and resume with devices that are back. Answer: `Done`.
    ClearErrors {
        /// The pool.
        pool: String,
        /// One of its devices; not set, all.
        device: Option<String>,
    },
    /// Use devices again. Answer: `Online`.
    OnlineDevices(OnlineDevices),
    /// Take devices out of use, add some beside others, take some away.
    Devices(DeviceChange),
    /// Make a pool of one side of each mirror of another. Answer: `Split`.
    SplitPool(Box<SplitPool>),
    /// Destroy a pool. Answer: `Done`.
    DestroyPool {
        /// The pool.
        pool: String,
        /// Unmount although busy.
        force: bool,
    },
    /// Set a property of a vdev. Answer: `Done`.
    SetVdevProperty(SetVdevProperty),
    /// Set a pool's property. Answer: `Done`.
    SetPoolProperty {
        /// The pool.
        pool: String,
        /// The property.
        property: String,
        /// Its value.
        value: String,
    },
    /// Wait until everything so far is on disk. Answer: `Done`.
    SyncPools {
        /// Which; empty means all.
        pools: Vec<String>,
        /// Write a group even if nothing was changed (`-f`).
        force: bool,
    },
    /// Give a pool another guid. Answer: `Done`.
    ReguidPool {
        /// The pool.
        pool: String,
        /// The guid; not set, a random one.
        guid: Option<u64>,
    },
    /// Enable all features that are wanted. Answer: `Names` of those that were not enabled.
    UpgradePool {
        /// The pool.
        pool: String,
    },
    /// Trim or initialize devices. Answer: `Failures`, by device; a name of "" stands for all.
    Treat {
        /// The pool.
        pool: String,
        /// Names of devices; empty means all.
        devices: Vec<String>,
        /// What is done.
        kind: TreatmentKind,
        /// What is wanted of it.
        command: TreatmentCommand,
    },
    /// Make a dataset what one of its snapshots is. Answer: `Done`.
    RollBack(RollBack),
    /// Keep the pool's state as it is now, or give up what is kept. Answer: `Done`.
    Checkpoint {
        /// The pool.
        pool: String,
        /// Give it up.
        discard: bool,
    },
    /// Begin, pause or end a scrub, or begin a resilver. Answer: `Done`.
    Scan {
        /// The pool.
        pool: String,
        /// What is wanted.
        command: ScanCommand,
    },
    /// Take a pool's labels off a device. Answer: `Done`.
    ClearLabels {
        /// Its path.
        device: String,
        /// Although the pool may be imported later.
        force: bool,
    },
    /// Make a dataset and mount it. Answer: `Done`, or `Planned` if it is only checked.
    CreateDataset(Box<NewDataset>),
    /// Destroy a dataset. Answer: `Failures`, each name with its reason.
    DestroyDataset {
        /// The dataset.
        dataset: String,
        /// With its snapshots and all below it.
        recursive: bool,
        /// With all clones of its snapshots, in any part of the pool.
        clones: bool,
        /// Unmount although busy.
        force: bool,
        /// Only check.
        dry_run: bool,
    },
    /// Make, destroy or rename snapshots, clones and bookmarks.
    Snapshots(SnapshotChange),
    /// Destroy what is left of a stream that was cut. Answer: `Done`.
    AbortReceive {
        /// The dataset that it was for.
        dataset: String,
    },
    /// Give a dataset another name. Answer: `Done`.
    RenameDataset {
        /// Its name.
        from: String,
        /// The new one.
        to: String,
        /// Make missing parents.
        parents: bool,
        /// Unmount although busy.
        force: bool,
        /// Leave it mounted where it is.
        unmounted: bool,
    },
    /// Set properties of datasets. Answer: `Failures`.
    SetProperties {
        /// Which.
        datasets: Vec<String>,
        /// What to which value.
        properties: Vec<Pair>,
        /// Do not remount.
        unmounted: bool,
    },
    /// Take properties' own values away. Answer: `Failures`.
    InheritProperty {
        /// Which datasets.
        datasets: Vec<String>,
        /// Which property.
        property: String,
        /// And everything below.
        recursive: bool,
        /// Go back to the received value.
        received: bool,
    },
    /// Let values act that came from elsewhere. Answer: `Approved`.
    ApproveValues {
        /// The datasets that have them.
        datasets: Vec<String>,
        /// And everything below.
        recursive: bool,
    },
    /// Delegate permissions, or take them back. Answer: `Done`.
    Delegate(Delegation),
    /// Wrap a dataset's keys with another one. Answer: `Done`.
    ChangeKey {
        /// The dataset.
        dataset: String,
        /// `keyformat`, `keylocation`, `pbkdf2iters`.
        properties: Vec<Pair>,
        /// The new key; not set, the parent's (`-i`).
        key: Option<Secret>,
    },
}
