//! Vdevs: labels, the tree of devices, and the mapping of a pool's address space onto them.
//!
//! [`scan`] finds devices and [`DeviceLabels`] says what they claim to be. [`Vdevs`] keeps the
//! open tree and changes it; a [`Shape`] is that tree at one moment, and does the work. It takes
//! the address of a block's copy and returns bytes that the caller accepts, using all redundancy
//! that the vdev has: mirror copies, parity, spares, the mapping of removed vdevs. It counts per
//! leaf what was read and what proved wrong. The other way round it takes blocks with their
//! addresses, adds parity, and writes them to every leaf that should have them, keeping account
//! of what a leaf missed; or to single leaves that had lost them.
//!
//! **Invariants**: bytes that the caller's check refused are never returned; whatever addresses,
//! sizes and mappings say, work and memory are bounded; threads are started only to flush devices
//! and to write labels.

#![forbid(unsafe_code)]

mod access;
mod batch;
mod check;
mod class;
mod copied;
mod counters;
mod courtesy;
pub mod create;
mod dtl;
mod error;
mod flush;
pub mod geometry;
mod growth;
mod health;
mod indirect;
mod indirect_mapping;
mod io_context;
mod kept;
mod labels;
mod labels_signs;
mod labels_write;
mod leaf;
mod leaf_write;
mod missed;
mod options;
mod queue;
mod read;
mod read_ahead;
mod rebuild;
mod repair;
mod request;
mod scan;
mod shape;
mod sources;
mod state;
mod statistics;
mod status;
mod strayed;
mod stripe;
mod suspects;
mod tree;
mod trim;
mod txg_set;
mod vdevs;
mod window;
mod write;
mod write_load;
mod write_plan;
mod written;

pub use access::LeftLeaf;
pub use batch::BatchRead;
pub use check::{CopyHealth, CopyReport, CopyRole, CopyVerdict};
pub use class::AllocationClass;
pub use counters::{VdevCounters, VdevFigures};
pub use dtl::{DtlKind, ResilverTarget};
pub use error::{LeafFailure, LeafFailures, LeafProblem, VdevError};
pub use flush::FlushMark;
pub use indirect_mapping::IndirectEntry;
pub use io_context::{IoContext, Patience, ReadFrom};
pub use kept::Kept;
pub use labels::{DeviceLabels, FoundUberblock, Label, LabelHealth};
pub use labels_write::{
    LabelPhase, UberblockScope, clear_labels, format_labels, write_device_labels,
};
pub use options::OpenOptions;
pub use queue::IoClass;
pub use request::{FaultKind, LeafFault, ReadOutcome};
pub use scan::{Member, Scan, scan};
pub use shape::Shape;
pub use state::{VdevAux, VdevState};
pub use statistics::ClassFigures;
pub use status::VdevStatus;
pub use tree::leaf_asize_min;
pub use trim::FreeSpaceAction;
pub use txg_set::TxgSet;
pub use vdevs::{Reshape, Vdevs};
pub use window::Windows;
pub use write::{PreparedWrite, VdevWrite};
pub use write_plan::WritePlan;
