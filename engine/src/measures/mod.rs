//! What the daemon measures, collected when somebody asks.
//!
//! Nothing is kept here. Each answer walks what there is at the moment, so that a pool, vdev,
//! dataset or mount that is gone has no series any more. [`table`] describes all measurements.

pub(crate) mod answer;
mod cache;
mod datasets;
pub(crate) mod groups;
mod pools;
mod process;
mod serving;
pub mod table;
mod vdevs;
