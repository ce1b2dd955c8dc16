//! Vdevs: labels, the tree of devices, and the mapping of a pool's address space onto them.
//!
//! [`DeviceLabels`] says what a device claims to be.

#![forbid(unsafe_code)]

pub mod geometry;
mod labels;
mod scan;

pub use labels::{DeviceLabels, FoundUberblock, Label, LabelHealth};
pub use scan::{Member, Scan, scan};
