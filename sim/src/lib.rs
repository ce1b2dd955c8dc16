//! A simulated machine: pools whose devices, threads and clock come from a seed.
//!
//! Power cuts on real machines find the bugs that the moment happens to offer. Here everything that
//! differs between two runs of the same program (when a thread runs, how long a device takes,
//! what a disk keeps of its cache) is drawn from a seed, so that thousands of runs take minutes,
//! and the one that failed is run again, byte for byte ([`base::rt`](cenote_base::rt)).
//!
//! From the bottom up: [`Image`] and [`Disks`], which record what was written and compute what a
//! power cut leaves; [`Sickness`], what can be wrong with them beside; [`flushes`], failures that
//! end, with the power on; [`machine`], pools on them;
//! [`files`], [`volumes`], [`datasets`] and [`upkeep`], what is done to a pool and which states
//! that allows; [`life`], one seed from the pool's creation to its judgement; [`names`], disks
//! whose names lead to others while the pool runs; [`restarts`], long lives in which disks are
//! exchanged; [`sequences`], short histories of files, all there are; [`takeover`], disks of the
//! kernel that outlive their daemons.

#![forbid(unsafe_code)]

mod datasets;
mod disk_cache;
mod disks;
mod files;
mod flushes;
mod image;
mod kept_logs;
mod life;
mod machine;
mod mutants;
mod names;
mod panics;
mod record;
mod restarts;
mod room;
#[cfg(test)]
mod room_tests;
mod sequences;
mod sickness;
mod takeover;
mod upkeep;
mod volumes;
mod wrong;

pub use cenote_base::rt::Random;
pub use disks::Disks;
pub use image::Image;
pub use kept_logs::keep_logs;
pub use life::{Options, Outcome, live};
pub use machine::{Layout, POOL};
pub use mutants::{Fate, Herd, catch_panics};
pub use names::exchange_names;
pub use panics::panic_somewhere;
pub use record::{Bounds, Event, Record, bounds};
pub use room::crowd;
pub use sequences::{Course, Sequences, judge_history};
pub use sickness::Sickness;
pub use takeover::{Inheritance, take_over};
