//! What is wrong with a pool, how bad that is, and what to do.
//!
//! The judgement is a pure function of what a daemon says about a pool ([`cenote_control::model`]):
//! no clock, no disk, no daemon. `cenote health` prints the findings. The daemon's alarms are about
//! the same things as they happen, and take from here how bad they are and where the limits lie, so
//! that a person is not told two opinions.
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
