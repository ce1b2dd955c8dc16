//! What is wrong with a pool, how bad that is, and what to do.
//!
//! The judgement is a pure function of a daemon's report on a pool ([`cenote_control::model`]): no
//! clock, no disk, no daemon. `cenote health` prints the findings. The daemon's alarms report the
//! same problems as they happen. They use the severities and limits from here, so that the two
//! never disagree.
//!
//! - `pool`, `leaves` and `stores` have the findings;
//! - `redundancy` counts how many more devices may fail;
//! - `means` is the table of advice by kind of device;
//! - `limits` says from where on a pool is too full and a scrub too old;
//! - `device` says how bad it is when a device changes its state;
//! - `numbers` prints sizes and durations as OpenZFS does.

#![forbid(unsafe_code)]

pub mod device;
mod finding;
mod leaves;
pub mod limits;
pub mod means;
pub mod numbers;
mod pool;
pub mod redundancy;
mod stores;

pub use finding::{Finding, Severity};
pub use pool::{Facts, findings};
