//! What the end-to-end suites share: pools made by OpenZFS, and a way to compare.
//!
//! The suites run the real program on real pools and check whether it reads what OpenZFS wrote.
//! [`golden`] finds and unpacks the pools, [`manifest`] has their expected contents, [`mounted`]
//! walks a mount as any program would, [`compare`] lists differences, [`program`] runs `cenote`
//! with a daemon of its own, and [`mutate`] damages pools with and without correcting the checksums
//! above.
//!
//! The pools lie in `tests/data/pools`. [`skip`] is for tests that cannot run where they are.

#![forbid(unsafe_code)]

pub mod boot;
pub mod chaos;
pub mod clients;
pub mod cloud;
pub mod compare;
pub mod dashboard;
pub mod fstests;
pub mod golden;
pub mod guest;
pub mod guest_ublk;
pub mod guest_volume;
pub mod handbook;
pub mod history;
pub mod kinds;
pub mod manifest;
pub mod model;
pub mod mount_helper;
pub mod mounted;
pub mod mutate;
pub mod nbd;
pub mod network;
pub mod offline;
pub mod patience;
pub mod pingpong;
pub mod pjdfstest;
pub mod pool;
pub mod postgresql;
pub mod program;
pub mod python;
pub mod random;
pub mod recorder;
pub mod referee;
pub mod repair;
pub mod replicate;
pub mod site;
pub mod skip;
pub mod sparse;
pub mod streams;
pub mod torture;
pub mod words;
pub mod zoo;
