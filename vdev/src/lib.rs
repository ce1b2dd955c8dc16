//! Vdevs: labels, the tree of devices, and the mapping of a pool's address space onto them.
//!
//! [`scan`] finds devices and [`DeviceLabels`] says what they claim to be. [`Vdevs`] is the open
//! tree: it takes the address of a block's copy and returns bytes that the caller accepts, using
//! all redundancy that the vdev has: mirror copies, parity, spares, the mapping of removed
//! vdevs. It counts per leaf what was read and what proved wrong.
//!
//! **Invariants**: bytes that the caller's check refused are never returned; whatever addresses,
//! sizes and mappings say, work and memory are bounded; no thread is started here.

#![forbid(unsafe_code)]

mod batch;
mod check;
mod error;
pub mod geometry;
mod indirect;
mod labels;
mod leaf;
mod read;
mod scan;
mod state;
mod stripe;
mod suspects;
mod tree;
mod vdevs;

pub use batch::BatchRead;
pub use check::{CopyHealth, CopyReport, CopyRole, CopyVerdict};
pub use error::{LeafFailure, LeafFailures, LeafProblem, VdevError};
pub use indirect::IndirectEntry;
pub use labels::{DeviceLabels, FoundUberblock, Label, LabelHealth};
pub use leaf::VdevCounters;
pub use scan::{Member, Scan, scan};
pub use state::{VdevAux, VdevState};
pub use vdevs::{AllocationClass, OpenOptions, VdevFigures, VdevStatus, Vdevs};
