//! Why a device is not changed.

use crate::create::CreateError;
use crate::devices::spares::SpareError;
use crate::sync::SyncError;
use cenote_device::DeviceError;
use cenote_dsl::DslError;
use cenote_vdev::VdevError;

/// Why a device is not changed; the texts are OpenZFS's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The pool has no such device.
    #[error("no such device in pool")]
    NoDevice,
    /// Data would be lost, or out of reach.
    #[error("no valid replicas")]
    NoReplicas,
    /// What would be left does not answer.
    #[error(
        "the pool would be left with devices that do not answer: {}. Check their cables and power, \
         run 'zpool clear', and try again; or replace them first",
        devices.join(", ")
    )]
    Silent {
        /// The devices.
        devices: Vec<String>,
    },
    /// Parity has no sides that could be taken away or added.
    #[error("only applicable to mirror and replacing vdevs")]
    NotMirrored,
    /// Only a mirror gets more sides.
    #[error("can only attach to mirrors and top-level disks")]
    NotMirrorable,
    /// A spare replaces whole devices only.
    #[error("device is a spare of another vdev")]
    ForeignSpare,
    /// The new device has less room than the vdev uses of each.
    #[error("device is too small")]
    TooSmall,
    /// The new device cannot write in units as small as the vdev's.
    #[error(
        "new device has a different optimal sector size; use the option '-o ashift=N' to \
         override the optimal size"
    )]
    BadAshift,
    /// The parity of a raidz goes by blocks.
    #[error("only mirror and dRAID vdevs support sequential reconstruction")]
    NotSequential,
    /// Older software would not know about it.
    #[error("device_rebuild feature must be enabled in order to use sequential reconstruction")]
    NoRebuildFeature,
    /// Only a pool of mirrors can be split.
    #[error("Source pool must be composed only of mirrors")]
    NotOnlyMirrors,
    /// A log device has what the new pool needs, and cannot have.
    #[error("{log}: {source}")]
    LogDevice {
        /// Where the device is.
        log: String,
        /// What is there.
        source: Box<ChangeError>,
    },
    /// Two sides of one mirror cannot both go.
    #[error("Device list must include at most one disk from each mirror")]
    TwoSides,
    /// What is split off has to be all there.
    #[error("{}: the device is not whole, or a resilver is under way", path.display())]
    NotWhole {
        /// Where it is.
        path: std::path::PathBuf,
    },
    /// The checkpoint knows the devices as they are.
    #[error("checkpoint exists")]
    Checkpoint,
    /// The blocks of a data vdev would have to be copied elsewhere.
    #[error(
        "only log, spare and cache devices can be removed here so far; OpenZFS removes data \
         vdevs: export the pool and import it there"
    )]
    DataVdev,
    /// One side of a mirror goes by `detach`.
    #[error(
        "the device is a part of a vdev: name the whole vdev, or use 'zpool detach' for one side \
         of a mirror"
    )]
    SideOnly,
    /// What `fsync` promised is there and nowhere else.
    #[error(
        "it holds intent logs that were not replayed yet, of {}: mount them (and load their keys \
         before), or export the pool and import it with OpenZFS",
        datasets.join(", ")
    )]
    LogNeeded {
        /// The datasets.
        datasets: Vec<String>,
    },
    /// It is unknown whether it is needed.
    #[error(
        "it has allocated space, and whether an intent log needs it cannot be found out: \
         {reason}. Run 'zpool scrub' and repair or destroy what is damaged"
    )]
    LogsUnknown {
        /// What could not be read.
        reason: String,
    },
    /// It replaces another device.
    #[error("the spare is in use: detach it first ('zpool detach')")]
    SpareInUse,
    /// It is space of its draid vdev.
    #[error("a distributed spare is a part of its draid vdev and cannot be removed")]
    DistributedSpare,
    /// The new device cannot be made one of the pool.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The spare cannot be taken.
    #[error(transparent)]
    Spare(#[from] SpareError),
    /// A device cannot be written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The tree cannot be that.
    #[error(transparent)]
    Vdevs(#[from] VdevError),
    /// The pool's metadata cannot be read.
    #[error(transparent)]
    Dsl(#[from] DslError),
    /// The pool takes no changes.
    #[error(transparent)]
    Sync(#[from] SyncError),
}
