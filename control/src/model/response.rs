//! What the daemon answers.

use serde::{Deserialize, Serialize};

use super::activity::IntentLogReport;
use super::alarm::AlarmWayState;
use super::approval::WaitingValue;
use super::dataset::{Dataset, MountEntry};
use super::delegation::DatasetGrants;
use super::diagnosis::Diagnosis;
use super::diff::DiffRecord;
use super::error::ControlError;
use super::error_record::ErrorRecord;
use super::history::{Event, HistoryRecord};
use super::http::HttpServer;
use super::import::{ImportCandidate, Rewound};
use super::injection::InjectionRow;
use super::inspect::DaemonStatus;
use super::metrics::{GroupRow, MetricFamily};
use super::nbd::NbdServer;
use super::opened::OpenedPool;
use super::pool::{DataErrorPlace, PoolRow, PoolStatus};
use super::program::ProgramOutcome;
use super::receive::ReceiveNote;
use super::send::SendNote;
use super::setting::SettingRow;
use super::space::{Hold, SnapshotSpace, SpaceAccount};
use super::store::StoreReport;
use super::ublk::UblkStatus;
use super::vdev::{VdevRow, VdevState};
use super::verify::{VerifyProgress, VerifyReport};

/// A share of a long answer, sent before the answer itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "part", content = "of", rename_all = "snake_case")]
pub enum Part {
    /// Datasets, in any order; none twice.
    Datasets(Vec<Dataset>),
    /// History, oldest first.
    History(Vec<HistoryRecord>),
    /// Events, oldest first.
    Events(Vec<Event>),
    /// Accounts, in any order.
    Accounts(Vec<SpaceAccount>),
    /// Snapshots and what they take: those of a dataset together, the oldest first.
    SnapshotSpace(Vec<SnapshotSpace>),
    /// Differences, in order.
    Diff(Vec<DiffRecord>),
    /// How far a verification is.
    Verify(VerifyProgress),
    /// What happens to a stream that is received.
    Receive(ReceiveNote),
    /// What happens to a stream that is sent.
    Send(SendNote),
    /// How far a long operation is: what, done, total.
    Progress(String, u64, u64),
    /// Measurements. Those with many series come in several parts, one after the other.
    Metrics(Vec<MetricFamily>),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// It is done.
    Done,
    /// It is done, except for these: each name with its reason.
    Failures {
        /// Name and reason.
        failures: Vec<(String, ControlError)>,
        /// How many were done.
        done: u64,
    },
    /// A pool has what it lacked.
    Upgraded {
        /// The version that it had, of those before features.
        from_version: Option<u64>,
        /// Names of the features that were enabled, in their order.
        features: Vec<String>,
    },
    /// Devices are used again, or not.
    Online {
        /// Each with its state, in the order of the request.
        states: Vec<(String, VdevState)>,
        /// Name and reason of the others.
        failures: Vec<(String, ControlError)>,
    },
    /// A pool was made of sides of mirrors, or would be.
    Split {
        /// The guids of the devices.
        sides: Vec<u64>,
        /// Name and reason of the datasets that could not be mounted.
        failures: Vec<(String, ControlError)>,
    },
    /// The properties that a dataset would be created with, beside the requested ones.
    Planned {
        /// Bytes of a volume: whole blocks.
        volume_size: Option<u64>,
        /// Bytes that are reserved for a volume by default.
        reserved: Option<u64>,
    },
    /// Values that may act from now on.
    Approved {
        /// In order of dataset.
        values: Vec<WaitingValue>,
        /// Name and reason of the datasets that could not be read.
        failures: Vec<(String, ControlError)>,
    },
    /// A channel program ended.
    Program {
        /// How.
        outcome: ProgramOutcome,
    },
    /// Pools that could be imported.
    Candidates {
        /// In the order they were found.
        candidates: Vec<ImportCandidate>,
        /// Places that could not be searched, and why, a line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unreadable: Vec<String>,
    },
    /// What was imported and what was not.
    Imported {
        /// Names under which pools are now imported.
        pools: Vec<String>,
        /// Name and reason of those that are not.
        failures: Vec<(String, ControlError)>,
        /// The state gone back to, when that is not the newest.
        rewound: Option<Rewound>,
        /// What is wrong with devices that could be done without.
        diagnoses: Vec<Diagnosis>,
        /// Intent logs of which the replay in memory stopped early.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cut_short: Vec<IntentLogReport>,
        /// By pool: what could not be read and was done without: metadata that reading files does
        /// not need, and stores.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unread: Vec<(String, String)>,
    },
    /// Pools.
    Pools {
        /// In the order asked for.
        pools: Vec<PoolRow>,
        /// Name and reason of the others.
        failures: Vec<(String, ControlError)>,
    },
    /// How a pool was opened.
    Opened {
        /// This way.
        opened: Box<OpenedPool>,
    },
    /// Vdevs.
    Vdevs {
        /// The pool, with its properties left out.
        pool: Box<PoolRow>,
        /// In the order asked for.
        vdevs: Vec<VdevRow>,
        /// Names that are no vdev of the pool.
        unknown: Vec<String>,
    },
    /// Pools in full.
    Statuses {
        /// In the order asked for.
        pools: Vec<PoolStatus>,
        /// Name and reason of the others.
        failures: Vec<(String, ControlError)>,
    },
    /// The number of events forgotten.
    Cleared {
        /// How many.
        events: u64,
    },
    /// What went wrong with a pool.
    ErrorHistory {
        /// Oldest first.
        records: Vec<ErrorRecord>,
    },
    /// The ways of alarms.
    Alarms {
        /// The file that they are configured in, if there is one.
        file: Option<String>,
        /// In the order of the file.
        ways: Vec<AlarmWayState>,
    },
    /// Mounts.
    Mounts {
        /// In the order they were made.
        mounts: Vec<MountEntry>,
    },
    /// Delegated permissions.
    Grants {
        /// Those of the dataset, then of each above it; without those that have none.
        levels: Vec<DatasetGrants>,
    },
    /// Holds.
    Holds {
        /// In order of snapshot and tag.
        holds: Vec<Hold>,
    },
    /// The outcome of a verification.
    Verified {
        /// The report.
        report: Box<VerifyReport>,
    },
    /// Settings.
    Settings {
        /// In the order asked for.
        settings: Vec<SettingRow>,
    },
    /// Devices in object stores.
    Stores {
        /// Those of the pool.
        stores: Vec<StoreReport>,
    },
    /// Servers of volumes.
    Nbd {
        /// The daemon's own first.
        servers: Vec<NbdServer>,
    },
    /// Volumes as disks of this machine.
    Ublk {
        /// All of them.
        status: UblkStatus,
    },
    /// Servers of sites.
    Http {
        /// In the order in which they began.
        servers: Vec<HttpServer>,
    },
    /// Where the dashboard and `/metrics` are served.
    Dashboard {
        /// `unix:PATH`, and `ADDRESS:PORT` if it is served on a port.
        addresses: Vec<String>,
    },
    /// Files that have lost their last name and are not freed yet.
    DeleteQueue {
        /// How many; 0 of a file system that is not open for writing.
        files: u64,
    },
    /// Where an object is.
    Place {
        /// By its path, if that can be found.
        place: DataErrorPlace,
    },
    /// Faults injected on purpose.
    Injections {
        /// In the order in which they were added.
        rows: Vec<InjectionRow>,
    },
    /// Transaction groups.
    Groups {
        /// Oldest first.
        groups: Vec<GroupRow>,
    },
    /// The daemon about itself.
    Status {
        /// The figures.
        status: DaemonStatus,
    },
}
