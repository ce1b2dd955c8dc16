//! The one thing about a pool that its administrator should know first.

use serde::{Deserialize, Serialize};

/// A feature by its guid, with a description where the pool carries one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureName {
    /// `com.delphix:spacemap_v2`.
    pub guid: String,
    /// What the pool's own table says it is for.
    pub description: String,
}

/// What `zpool status` says under `status:` and `action:`; the first that holds, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A resilver is running.
    Resilvering,
    /// A sequential rebuild is running.
    Rebuilding,
    /// A sequential rebuild ended and nothing scrubbed since.
    RebuildScrub,
    /// The host that wrote the pool is not this one although multihost is on.
    HostMismatch,
    /// The pool's version is newer than the software.
    VersionNewer,
    /// Features that are needed even to read.
    UnsupportedRead(Vec<FeatureName>),
    /// Features that are needed to write: the pool is open read-only.
    UnsupportedWrite(Vec<FeatureName>),
    /// Reads or writes failed and all waits (`failmode=wait`).
    IoFailureWait,
    /// Reads or writes failed; requests fail (`failmode=continue`).
    IoFailureContinue,
    /// A group could not be written, for this reason, and the pool resumes only after it is
    /// imported again.
    IoFailureStopped(String),
    /// Suspended because another host took the pool over.
    IoFailureMultihost,
    /// The intent log cannot be read.
    BadLog,
    /// Too many faulted devices.
    FaultedNoReplicas,
    /// Too many missing devices.
    MissingNoReplicas,
    /// Too many devices with corrupt labels.
    CorruptLabelNoReplicas,
    /// The pool's own metadata cannot be read.
    CorruptPool,
    /// Permanent errors in files.
    CorruptData,
    /// A faulted device, with replicas left.
    FaultedDevice,
    /// A missing device, with replicas left.
    MissingDevice,
    /// A device with a corrupt label, with replicas left.
    CorruptLabel,
    /// A device met errors.
    FailingDevice,
    /// A device was taken offline.
    OfflineDevice,
    /// A device was removed.
    RemovedDevice,
    /// Devices in use lack what was written while they were away, and nothing brings it to them
    /// now.
    StaleDevices {
        /// They, by name.
        stale: Vec<String>,
        /// Devices that the pool cannot do without until then.
        needed: Vec<String>,
    },
    /// A device whose own block is larger than what was configured.
    NonNativeAshift,
    /// The pool shows the traces of a known bug.
    Errata(u64),
    /// A version before features.
    LegacyVersion,
    /// The compatibility list cannot be read.
    CompatibilityError,
    /// Features that the software knows and the pool does not use.
    FeaturesDisabled,
    /// Features beyond the compatibility list.
    IncompatibleFeatures,
}

impl Condition {
    /// The article that OpenZFS keeps about it: the last part of `ZFS-8000-XX`.
    pub fn message_id(&self) -> Option<&'static str> {
        Some(match self {
            Condition::HostMismatch => "ZFS-8000-EY",
            Condition::VersionNewer => "ZFS-8000-A5",
            Condition::IoFailureWait | Condition::IoFailureStopped(_) => "ZFS-8000-HC",
            Condition::IoFailureContinue => "ZFS-8000-JQ",
            Condition::IoFailureMultihost => "ZFS-8000-MM",
            Condition::BadLog => "ZFS-8000-K4",
            Condition::MissingNoReplicas => "ZFS-8000-3C",
            Condition::CorruptLabelNoReplicas => "ZFS-8000-5E",
            Condition::CorruptPool => "ZFS-8000-72",
            Condition::CorruptData => "ZFS-8000-8A",
            Condition::MissingDevice => "ZFS-8000-2Q",
            Condition::CorruptLabel => "ZFS-8000-4J",
            Condition::FailingDevice => "ZFS-8000-9P",
            Condition::Errata(_) => "ZFS-8000-ER",
            _ => return None,
        })
    }

    /// Whether `zpool status -x` passes over it.
    pub fn counts_as_healthy(&self) -> bool {
        matches!(
            self,
            Condition::LegacyVersion
                | Condition::FeaturesDisabled
                | Condition::CompatibilityError
                | Condition::IncompatibleFeatures
        )
    }
}
