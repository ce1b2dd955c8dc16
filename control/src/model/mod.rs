//! What the daemon and its clients say to each other, as plain data.
//!
//! The daemon computes and the client words: every number travels raw (bytes, seconds, guids) with
//! the source that set it, every error as a kind with the names it is about. Rounding, column
//! widths, OpenZFS's message texts and exit codes belong to the client, so that one answer serves
//! `zfs get`, `zfs get -p`, `zfs get -j` and a dashboard alike.
//!
//! Nothing here depends on the engine's crates: a client links only this module and the protocol.

mod activity;
mod alarm;
mod approval;
mod bytes;
mod change;
mod condition;
mod dataset;
mod delegation;
mod devices;
mod diagnosis;
mod diff;
mod error;
mod error_form;
mod error_record;
mod history;
mod http;
mod import;
mod injection;
mod inspect;
mod metrics;
mod nbd;
mod opened;
mod pool;
mod program;
pub mod properties;
mod receive;
mod refusal;
mod request;
mod response;
pub(crate) mod secret;
mod send;
mod setting;
mod shell_word;
mod snapshots;
mod space;
mod store;
mod ublk;
mod value;
mod vdev;
mod verify;

pub use activity::{
    CheckpointState, Due, IntentLogReport, RaidzExpand, Rebuild, RemovalActivity, RunState, Scan,
    ScanKind, Treatment, TreatmentKind, TreatmentState,
};
pub use alarm::{AlarmAct, AlarmOutcome, AlarmWayState};
pub use approval::WaitingValue;
pub use bytes::RawName;
pub use change::{
    AddedVdevs, AllowedVdevs, Change, NewDataset, NewPool, NewVdev, NewVdevKind, NewVdevRole,
    NewVolume, OnlineDevices, ScanCommand, SetVdevProperty, TreatmentCommand,
};
pub use condition::{Condition, FeatureName};
pub use dataset::{Dataset, DatasetKind, KindSet, MountEntry};
pub use delegation::{DatasetGrants, Delegation, is_delegable, permission, permission_for};
pub use devices::{AttachedDevice, DeviceChange, SplitPool};
pub use diagnosis::{Diagnosis, Fault};
pub use diff::{DiffChange, DiffRecord};
pub use error::{ControlError, MissingLog, NameFault};
pub use error_record::{ErrorKind, ErrorRecord};
pub use history::{Event, HistoryBody, HistoryRecord};
pub use http::{
    DashboardAct, HttpAct, HttpClient, HttpFigures, HttpLimits, HttpOptions, HttpServer, HttpSite,
    HttpSiteStatus, HttpState, HttpTls,
};
pub use import::{
    ImportCandidate, ImportCondition, ImportOptions, ImportPick, OlderState, Rewind, Rewound,
    Search,
};
pub use injection::{
    InjectAct, Injected, InjectedError, InjectedLabel, InjectedMetadata, InjectedPlace,
    InjectedWork, Injection, InjectionRow,
};
pub use inspect::{DaemonStatus, MissingPool, PoolActivity};
pub use metrics::{
    ClassRequests, Distribution, GroupRow, MetricFamily, MetricKind, MetricSeries, MetricValue,
};
pub use nbd::{NbdAct, NbdClient, NbdExport, NbdListen, NbdServer};
pub use opened::{LoadedKey, OpenedPool};
pub use pool::{
    DataError, DataErrorPlace, DedupBucket, DedupSum, DedupSummary, PoolHealth, PoolRow, PoolStatus,
};
pub use program::{Program, ProgramOutcome, ProgramValue};
pub use receive::{Receive, ReceiveNaming, ReceiveNote};
pub use refusal::{
    DeviceRefusal, HttpRefusal, InjectRefusal, KeyRefusal, NbdRefusal, PoolRefusal, Refusal,
    StoreRefusal, StreamAct, StreamFault, StreamRefusal, UblkRefusal,
};
pub use request::{Access, Depth, ExportHow, MountOptions, PropertySelection, Request};
pub use response::{Part, Response};
pub use secret::Secret;
pub use send::{Redact, Send, SendNote};
pub use setting::SettingRow;
pub use shell_word::shell_word;
pub use snapshots::{RollBack, SnapshotChange};
pub use space::{AccountKind, AccountOwner, Hold, KeptBy, SnapshotSpace, SpaceAccount};
pub use store::{StoreAct, StoreFault, StoreReport, StoreRequests, StoreStatus, StoreVerified};
pub use ublk::{UblkAct, UblkDisk, UblkFailure, UblkLeft, UblkStatus};
pub use value::{Pair, Property, Source, Value};
pub use vdev::{
    AllocationClass, Counters, Space, SpareUse, Vdev, VdevAux, VdevKind, VdevNaming, VdevRow,
    VdevState, VdevTree,
};
pub use verify::{CopyCheck, DamagedFile, VerifyOptions, VerifyProgress, VerifyReport};
