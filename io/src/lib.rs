//! The pipeline between block pointers and devices.
//!
//! Reading a block goes: embedded payload, or copies on vdevs, or gang members; checksum;
//! decryption and authentication; decompression. Nothing leaves here that failed its checksum
//! or its MAC. Caching is the next layer's business, and so is what the bytes mean.

#![forbid(unsafe_code)]

pub mod checksum;
mod copies;
pub mod crypt;
mod error;
mod faults;
mod gang;
mod heal;
mod pipeline;
mod range_set;
mod repair_space;
mod suspension;
mod workers;
pub mod write;

pub use cenote_vdev::{AllocationClass, IoClass, IoContext, Patience, ReadFrom};
pub use copies::{MendScope, Mended};
pub use crypt::ObjsetKeys;
pub use error::IoError;
pub use faults::{BlockFault, FaultClass, FaultSink};
pub use pipeline::{Pipeline, PipelineCounters, PipelineParts, ReadContext};
pub use range_set::{Delta, RangeChange, RangeConflict, RangeSet, without};
pub use repair_space::{HeldPlaces, RepairSpace, SpaceStamp};
pub use suspension::{Attempt, FailMode, Suspension};
pub use workers::Workers;
pub use write::{
    Allocation, AllocationRequest, Allocator, BlockSink, DedupError, DedupPolicy, DedupTable,
    Duplicate, LogMark, NoSpace, WritePolicy, WriteRequest, Writer, WriterParts,
};
pub use write::{CompressedForm, Form, StoredForm};
