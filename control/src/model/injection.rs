//! Faults injected on purpose, for drills: `zinject`.

use serde::{Deserialize, Serialize};

/// How a device or a block fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedError {
    /// An error of the device (EIO).
    Io,
    /// The device is gone (ENXIO).
    Nxio,
    /// Its checksum is wrong.
    Checksum,
    /// It does not decompress.
    Decompress,
    /// It does not decrypt.
    Decrypt,
    /// One bit of what is read is wrong.
    Corrupt,
    /// As if it had been missed (ECHILD).
    Dtl,
    /// It is not carried out, and succeeds.
    Noop,
}

/// The kinds of requests to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedWork {
    /// All but probes.
    All,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Freeing space: trims.
    Free,
    /// Flushes.
    Flush,
    /// Questions whether the device is there.
    Probe,
}

/// A part of the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedLabel {
    /// The configuration.
    Nvlist,
    /// The blank beginning.
    Pad1,
    /// The boot environment.
    Pad2,
    /// The uberblocks.
    Uber,
}

/// What of a pool's metadata fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectedMetadata {
    /// All of the meta object set.
    Mos,
    /// The object directory.
    Mosdir,
    /// The configuration.
    Config,
    /// Lists of blocks.
    Bpobj,
    /// Space maps.
    Spacemap,
    /// The directory of metaslabs.
    Metaslab,
    /// The logs of errors.
    Errlog,
}

/// The blocks that are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum InjectedPlace {
    /// A file's contents.
    File {
        /// The file system or snapshot.
        dataset: String,
        /// The file's number.
        object: u64,
        /// The level of its block tree.
        level: u8,
        /// The first and last byte; all if absent.
        bytes: Option<(u64, u64)>,
    },
    /// The dnode of a file or directory.
    Dnode {
        /// The file system or snapshot.
        dataset: String,
        /// The file's number.
        object: u64,
        /// The level of the tree of dnodes.
        level: u8,
    },
    /// Metadata of the pool.
    Metadata {
        /// Which.
        kind: InjectedMetadata,
        /// The level of its block tree.
        level: u8,
        /// The first and last block; all if absent.
        blocks: Option<(u64, u64)>,
    },
    /// Blocks by their numbers.
    Bookmark {
        /// The object set.
        objset: u64,
        /// The object.
        object: u64,
        /// The level.
        level: u8,
        /// The first block.
        start: u64,
        /// The last block.
        end: u64,
    },
}

/// A fault to be injected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Injection {
    /// Requests of a device fail.
    Device {
        /// The device, by any of its names.
        device: String,
        /// How.
        error: InjectedError,
        /// Which requests.
        work: InjectedWork,
        /// Only in this part of the labels; if absent, only elsewhere.
        label: Option<InjectedLabel>,
        /// How many of a million.
        per_million: u32,
    },
    /// Requests of a device take long.
    Delay {
        /// The device, by any of its names.
        device: String,
        /// Milliseconds that each takes at least.
        latency_ms: u64,
        /// How many are carried out at once.
        lanes: u32,
        /// Which requests.
        work: InjectedWork,
    },
    /// Blocks fail when they are read.
    Blocks {
        /// Which.
        place: InjectedPlace,
        /// How.
        error: InjectedError,
        /// How many reads of a million.
        per_million: u32,
        /// A bit for each copy that fails; 0 for all.
        copies: u8,
    },
    /// The next import of the pool takes so many seconds longer.
    Import {
        /// Seconds.
        seconds: u64,
    },
    /// The next export of the pool takes so many seconds longer.
    Export {
        /// Seconds.
        seconds: u64,
    },
}

/// A fault that is on, as it was resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Injected {
    /// Requests of a device fail.
    Device {
        /// The leaf.
        guid: u64,
        /// How.
        error: InjectedError,
        /// Which requests.
        work: InjectedWork,
        /// Only in this part of the labels.
        label: Option<InjectedLabel>,
        /// How many of a million.
        per_million: u32,
    },
    /// Requests of a device take long.
    Delay {
        /// The leaf.
        guid: u64,
        /// Milliseconds that each takes at least.
        latency_ms: u64,
        /// How many are carried out at once.
        lanes: u32,
    },
    /// Blocks fail when they are read.
    Blocks {
        /// The object set.
        objset: u64,
        /// The object; absent for all.
        object: Option<u64>,
        /// The type of objects; absent for all.
        object_type: Option<u8>,
        /// The level.
        level: u8,
        /// The first and last block; absent for all.
        blocks: Option<(u64, u64)>,
        /// How.
        error: InjectedError,
        /// How many reads of a million.
        per_million: u32,
        /// A bit for each copy that fails; 0 for all.
        copies: u8,
    },
    /// An import takes longer.
    Import {
        /// Seconds.
        seconds: u64,
    },
    /// An export takes longer.
    Export {
        /// Seconds.
        seconds: u64,
    },
}

/// A fault that is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectionRow {
    /// Its number.
    pub id: u64,
    /// The pool.
    pub pool: String,
    /// The fault.
    pub fault: Injected,
}

/// What to do about faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum InjectAct {
    /// List them.
    List,
    /// Inject one. It ends when it is cancelled, the pool is exported, or the daemon ends.
    Add {
        /// The pool.
        pool: String,
        /// The fault.
        fault: Injection,
        /// Empty the pool's caches first (`-a`).
        #[serde(default)]
        flush: bool,
    },
    /// End one, or all. The answer has those that ended.
    Cancel {
        /// Its number; absent for all.
        id: Option<u64>,
    },
    /// Empty the caches of all pools.
    Flush,
    /// Put a device into a state (`-A`).
    Blame {
        /// The pool.
        pool: String,
        /// The device, by any of its names.
        device: String,
        /// Whether it is faulted, rather than degraded.
        fault: bool,
    },
}
