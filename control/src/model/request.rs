//! What a client may ask.

use serde::{Deserialize, Serialize};

use super::alarm::AlarmAct;
use super::change::Change;
use super::dataset::KindSet;
use super::http::{DashboardAct, HttpAct};
use super::import::{ImportOptions, ImportPick, Search};
use super::injection::InjectAct;
use super::nbd::NbdAct;
use super::program::Program;
use super::receive::Receive;
use super::secret::Secret;
use super::send::{Redact, Send};
use super::space::AccountKind;
use super::store::StoreAct;
use super::ublk::UblkAct;
use super::verify::VerifyOptions;

/// How deep a listing goes below its roots. Snapshots and bookmarks are one below their dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// The roots themselves.
    #[default]
    Roots,
    /// At most this many levels below.
    Levels(u64),
    /// Everything below.
    All,
}

impl Depth {
    /// Whether something `level` levels below a root is in.
    pub fn reaches(self, level: u64) -> bool {
        match self {
            Depth::Roots => level == 0,
            Depth::Levels(levels) => level <= levels,
            Depth::All => true,
        }
    }
}

/// Which properties an answer should carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PropertySelection {
    /// All that apply and have a value, user properties included.
    All,
    /// These, by full name; those that do not apply are left out of the answer.
    Named(Vec<String>),
}

/// How to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// Temporary options: `ro`, `noatime`, …
    #[serde(default)]
    pub options: Vec<String>,
    /// Mount over a directory that is not empty (`-O`).
    #[serde(default)]
    pub overlay: bool,
    /// Mount although the dataset is redacted or partly received (`-f`).
    #[serde(default)]
    pub force: bool,
}

/// How a pool is exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportHow {
    /// Unmount although it is busy.
    #[serde(default)]
    pub force: bool,
    /// What is not in its object stores yet stays in the local logs.
    #[serde(default)]
    pub keep_rest: bool,
    /// It stays in its cache file (`-F`).
    #[serde(default)]
    pub keep_cached: bool,
}

/// One request. Names are full dataset names; paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Pools that could be imported. Answer: `Candidates`.
    ImportSearch {
        /// Where to look.
        search: Search,
    },
    /// Import. Answer: `Imported`.
    Import {
        /// Where to look.
        search: Search,
        /// Which.
        pick: ImportPick,
        /// How.
        options: ImportOptions,
    },
    /// Export one pool. Answer: `Done`, after parts `Progress` while devices are uploaded.
    Export {
        /// The pool.
        pool: String,
        /// How.
        #[serde(flatten)]
        how: ExportHow,
    },
    /// Pools and their properties. Answer: `Pools`.
    PoolList {
        /// Which; empty means all, in alphabetical order.
        pools: Vec<String>,
        /// Which properties.
        properties: PropertySelection,
        /// Whether to add the vdevs.
        vdevs: bool,
    },
    /// How a pool was opened. Answer: `Opened`.
    PoolOpened {
        /// Its name or guid.
        pool: String,
    },
    /// Properties of vdevs. Answer: `Vdevs`.
    VdevGet {
        /// The pool.
        pool: String,
        /// Vdevs by name, path or guid; empty means all, `root` the root.
        vdevs: Vec<String>,
        /// Which properties.
        properties: PropertySelection,
    },
    /// Status of pools. Answer: `Statuses`.
    PoolStatus {
        /// Which; empty means all, in alphabetical order.
        pools: Vec<String>,
        /// List the permanent errors.
        errors: bool,
        /// Look at the deduplication table.
        dedup: bool,
    },
    /// A pool's history. Parts: `History`. Answer: `Done`.
    History {
        /// The pool.
        pool: String,
    },
    /// The daemon's events. Parts: `Events`. Answer: `Done`.
    Events {
        /// Of this pool only.
        pool: Option<String>,
        /// Continue until the client disconnects.
        follow: bool,
    },
    /// What went wrong with a pool, also before this daemon. Answer: `ErrorHistory`.
    ErrorHistory {
        /// The pool.
        pool: String,
    },
    /// The ways of alarms. Answer: `Alarms`.
    Alarms {
        /// What about them.
        act: AlarmAct,
    },
    /// Forget the events so far. Answer: `Cleared`.
    EventsClear,
    /// Datasets and their properties. Parts: `Datasets`. Answer: `Failures`.
    DatasetList {
        /// Where to start; empty means every pool.
        roots: Vec<String>,
        /// How deep.
        depth: Depth,
        /// Which kinds to report; roots of other kinds are only descended.
        kinds: KindSet,
        /// Which properties.
        properties: PropertySelection,
    },
    /// The permissions that are delegated on a dataset and on those above it. Answer: `Grants`.
    Grants {
        /// The dataset.
        dataset: String,
    },
    /// Mount a dataset or snapshot. Answer: `Done`.
    Mount {
        /// The dataset or snapshot.
        dataset: String,
        /// Where, instead of at its mountpoint property.
        at: Option<String>,
        /// How.
        options: MountOptions,
    },
    /// Mount everything that is to be mounted, parents first. Answer: `Failures`.
    MountAll {
        /// Only this dataset and what is below it.
        below: Option<String>,
        /// How.
        options: MountOptions,
    },
    /// Unmount by dataset name or by mount point. Answer: `Done`.
    Unmount {
        /// A dataset name, or an absolute path.
        target: String,
        /// Although it is busy.
        force: bool,
        /// And unload its key (`-u`).
        unload_key: bool,
    },
    /// Unmount everything. Answer: `Failures`.
    UnmountAll {
        /// Although busy.
        force: bool,
        /// And unload keys.
        unload_keys: bool,
    },
    /// The daemon's mounts, in the order they were made. Answer: `Mounts`.
    MountList,
    /// Load an encryption root's key. Answer: `Done`.
    LoadKey {
        /// The encryption root.
        dataset: String,
        /// As read from the key's location: passphrase, hex digits or 32 bytes.
        key: Secret,
        /// Only check it (`-n`).
        dry_run: bool,
    },
    /// Unload an encryption root's key. Answer: `Done`.
    UnloadKey {
        /// The encryption root.
        dataset: String,
    },
    /// Accounts of one kind. Parts: `Accounts`. Answer: `Done`.
    UserSpace {
        /// The file system or snapshot.
        dataset: String,
        /// Whose.
        kind: AccountKind,
    },
    /// Files that have lost their last name and are not freed yet. Answer: `DeleteQueue`.
    DeleteQueue {
        /// The file system.
        dataset: String,
    },
    /// The path of an object of a file system. Answer: `Place`.
    ObjectPlace {
        /// The pool.
        pool: String,
        /// The number of the dataset (property `objsetid`).
        objset: u64,
        /// The number of the object.
        object: u64,
        /// Within the dataset, mounted or not.
        in_dataset: bool,
    },
    /// User holds. Answer: `Holds`.
    Holds {
        /// The snapshot.
        snapshot: String,
        /// And those of the same name below (`-r`).
        recursive: bool,
    },
    /// What destroying all snapshots of a dataset, the oldest first, would give back. Parts:
    /// `SnapshotSpace`. Answer: `Done`.
    SnapshotSpace {
        /// The dataset.
        dataset: String,
        /// And those of all datasets below.
        recursive: bool,
    },
    /// What destroying these snapshots would give back. Parts: `SnapshotSpace`. Answer: `Done`.
    ReclaimedBy {
        /// The snapshots, in any order.
        snapshots: Vec<String>,
    },
    /// What changed between two snapshots, or since one. Parts: `Diff`. Answer: `Done`.
    Diff {
        /// The older snapshot.
        from: String,
        /// The newer snapshot; absent means the file system as it is.
        to: Option<String>,
    },
    /// Read and check everything. Parts: `Verify`. Answer: `Verified`.
    Verify {
        /// The pool.
        pool: String,
        /// What.
        options: VerifyOptions,
    },
    /// Run a channel program. Answer: `Program`.
    Program {
        /// What and how.
        program: Box<Program>,
        /// The command line, for the pool's history.
        command: String,
    },
    /// Change something. Answer: what the change says.
    Change {
        /// What.
        change: Change,
        /// The command line, for the pool's history.
        command: String,
    },
    /// Receive the stream that comes through the descriptor beside the request. Parts: `Receive`.
    /// Answer: `Done`.
    Receive {
        /// How.
        receive: Box<Receive>,
        /// The command line, for the pool's history.
        command: String,
    },
    /// Send a snapshot to the descriptor beside the request. Parts: `Send`. Answer: `Done`.
    Send {
        /// What and how.
        send: Box<Send>,
    },
    /// Make a redaction bookmark, or resume making it. Answer: `Done`.
    Redact {
        /// What of, and how.
        redact: Redact,
        /// The command line, for the pool's history.
        command: String,
    },
    /// Carry out a request that is no change and yet belongs into the history: an import, an
    /// export, a key that is loaded or unloaded. Answer: that request's.
    Noted {
        /// The request.
        asked: Box<Request>,
        /// The command line, for the histories of the pools that it is about.
        command: String,
    },
    /// Settings. Answer: `Settings`.
    SettingsList {
        /// Which; empty means all, in alphabetical order.
        names: Vec<String>,
    },
    /// Set all of these settings, or none. Answer: `Settings`, as they are then.
    SettingsSet {
        /// Names and values; `default` is the default.
        values: Vec<(String, String)>,
    },
    /// Do something with the devices in object stores of a pool. Parts: `Progress`. Answer:
    /// `Stores`.
    Stores {
        /// The pool.
        pool: String,
        /// What.
        act: StoreAct,
    },
    /// Volumes served as network block devices. Answer: `Nbd`.
    Nbd {
        /// What about them.
        act: NbdAct,
    },
    /// Volumes as disks of this machine. Answer: `Ublk`.
    Ublk {
        /// What about them.
        act: UblkAct,
    },
    /// Sites served over HTTP. Answer: `Http`.
    Http {
        /// What about them.
        act: HttpAct,
    },
    /// The dashboard and `/metrics`. Answer: `Dashboard`.
    Dashboard {
        /// What about them.
        act: DashboardAct,
    },
    /// Measurements whose names begin with one of these; all, if there is none. Answer: parts
    /// `Metrics`, then `Done`.
    Metrics {
        /// Beginnings of names.
        names: Vec<String>,
    },
    /// The last transaction groups of a pool. Answer: `Groups`.
    PoolGroups {
        /// The pool.
        pool: String,
    },
    /// Faults injected on purpose. Answer: `Injections`, or `Done`.
    Inject {
        /// What about them.
        act: InjectAct,
    },
    /// The daemon about itself. Answer: `Status`.
    DaemonStatus,
    /// Forget the pools of a daemon that died. Answer: `Done`.
    DaemonForget,
    /// Forget that these pools should be imported. Answer: `Done`.
    DaemonForgetPools {
        /// Their names, or guids in decimal.
        pools: Vec<String>,
    },
    /// Export everything and leave. Answer: `Done`.
    DaemonStop {
        /// Although something is busy.
        force: bool,
        /// Another daemon continues: disks of this machine wait for it.
        #[serde(default)]
        is_restart: bool,
    },
}

/// Which clients may make a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any user: it reads data in memory or the pool's metadata, at a bounded cost.
    Look,
    /// The daemon's user and root: it opens devices, reads contents, or shows what is private.
    Read,
    /// The daemon's user and root: it changes something.
    Change,
}

impl Request {
    /// Which clients may make it.
    ///
    /// One arm for each request, without a wildcard: a new one does not compile without its class.
    // tidy: allow(long-function, one arm for each request, so that none is forgotten)
    pub fn access(&self) -> Access {
        match self {
            Request::PoolList { .. }
            | Request::PoolStatus { .. }
            | Request::VdevGet { .. }
            | Request::ErrorHistory { .. }
            | Request::DatasetList { .. }
            | Request::Grants { .. }
            | Request::MountList
            | Request::SettingsList { .. }
            | Request::Metrics { .. }
            | Request::PoolGroups { .. }
            | Request::DeleteQueue { .. }
            | Request::DaemonStatus => Access::Look,
            // Keys, contents of directories, command lines, addresses; or an answer that is not
            // sent in parts, or the cost of a long walk.
            Request::ImportSearch { .. }
            | Request::Holds { .. }
            | Request::PoolOpened { .. }
            | Request::History { .. }
            | Request::Events { .. }
            | Request::UserSpace { .. }
            | Request::ObjectPlace { .. }
            | Request::SnapshotSpace { .. }
            | Request::ReclaimedBy { .. }
            | Request::Diff { .. }
            | Request::Verify { .. }
            | Request::Send { .. } => Access::Read,
            Request::Alarms { act } => match act {
                AlarmAct::List => Access::Read,
                AlarmAct::Reload | AlarmAct::Test => Access::Change,
            },
            Request::Stores { act, .. } => match act {
                StoreAct::Status => Access::Read,
                StoreAct::Sync | StoreAct::Compact | StoreAct::Verify => Access::Change,
            },
            Request::Nbd { act } => match act {
                NbdAct::Status => Access::Read,
                NbdAct::Serve { .. } | NbdAct::Stop { .. } => Access::Change,
            },
            Request::Ublk { act } => match act {
                UblkAct::Status => Access::Read,
                UblkAct::Serve { .. } | UblkAct::Stop { .. } => Access::Change,
            },
            Request::Http { act } => match act {
                HttpAct::Status => Access::Read,
                HttpAct::Start { .. } | HttpAct::Stop { .. } | HttpAct::Reload => Access::Change,
            },
            Request::Dashboard { act } => match act {
                DashboardAct::Status => Access::Read,
                DashboardAct::Listen { .. } | DashboardAct::Close => Access::Change,
            },
            Request::Import { .. }
            | Request::Inject { .. }
            | Request::Export { .. }
            | Request::EventsClear
            | Request::Mount { .. }
            | Request::MountAll { .. }
            | Request::Unmount { .. }
            | Request::UnmountAll { .. }
            | Request::LoadKey { .. }
            | Request::UnloadKey { .. }
            | Request::Change { .. }
            | Request::Program { .. }
            | Request::Receive { .. }
            | Request::Redact { .. }
            | Request::Noted { .. }
            | Request::SettingsSet { .. }
            | Request::DaemonForget
            | Request::DaemonForgetPools { .. }
            | Request::DaemonStop { .. } => Access::Change,
        }
    }
}
