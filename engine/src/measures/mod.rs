//! What the daemon measures, collected on request.
//!
//! Nothing is kept here. Each answer walks the present state, so that a pool, vdev, dataset or
//! mount that no longer exists has no series. [`table`] describes all measurements.

pub(crate) mod answer;
mod cache;
mod datasets;
pub(crate) mod groups;
mod pools;
mod process;
mod serving;
mod vdevs;

pub(crate) use cenote_control::measures as table;
