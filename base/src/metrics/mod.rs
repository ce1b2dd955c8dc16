//! Measurements: what is counted, how it is described, and how it is collected.
//!
//! Code that does the work keeps plain cells: a [`Counter`] where many threads count at once, a
//! [`Count`] where few do, a [`Histogram`] for durations and sizes. A cell has no name and costs
//! one relaxed addition for each event, whether or not its value is ever read.
//!
//! Collecting is pull. A reader passes a [`Sink`] down the layers, and each layer puts samples into
//! it. A sample comes with its [`Measure`], a static with the name, the unit and the labels, and
//! with the values of these labels. So a measurement exists as long as the pool, vdev, dataset or
//! mount that has the cell, and nothing has to be unregistered. Parts that are not reachable from
//! the pools register themselves in a [`Registry`], which does not keep them alive.
//!
//! There is no table in a static: two daemons or two worlds in one process never see each other's
//! figures.

mod cells;
mod counter;
mod histogram;
mod measure;
mod registry;

pub use cells::{Count, Gauge};
pub use counter::Counter;
pub use histogram::{Distribution, DurationHistogram, Histogram, SizeHistogram};
pub use measure::{Kind, Measure, Sample, Sink};
pub use registry::{Collect, Registry};
