//! Why a txg could not be written.

use cenote_base::{ObjectId, Txg, VdevId};
use cenote_dmu::DmuError;
use cenote_dsl::DslError;
use cenote_io::RangeConflict;
use cenote_ondisk::DecodeError;
use cenote_vdev::VdevError;

/// A txg could not be written. The pool takes no more changes; what is on disk stays as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The datasets' metadata.
    #[error(transparent)]
    Dsl(#[from] DslError),
    /// The pool's metadata.
    #[error(transparent)]
    Metadata(#[from] DmuError),
    /// The devices.
    #[error(transparent)]
    Vdevs(#[from] VdevError),
    /// A structure that is to be changed does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Space was freed that is not allocated, or allocated twice.
    #[error("vdev {vdev}: {conflict}")]
    Space {
        /// The vdev.
        vdev: VdevId,
        /// Where.
        conflict: RangeConflict,
    },
    /// A vdev that should have a ZAP has none.
    #[error("vdev {vdev} has no ZAP to note its unflushed metaslabs in")]
    NoVdevZap {
        /// The vdev.
        vdev: VdevId,
    },
    /// The metadata changed with each pass that wrote it.
    #[error("the metadata of txg {txg} was still changing after {passes} passes")]
    Endless {
        /// The txg.
        txg: Txg,
        /// How often it was written.
        passes: u32,
    },
    /// A dataset was changed that is not open for writing any more.
    #[error("dataset {id} has changes, and was closed before they were on disk")]
    HeadClosed {
        /// The dataset's head.
        id: ObjectId,
    },
    /// The pool takes no changes: it is suspended or was opened for reading.
    #[error("the pool takes no changes: {cause}")]
    Stopped {
        /// Why.
        cause: String,
    },
}
