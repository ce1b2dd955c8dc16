//! Tests the program on the repository's small pools, without and with a daemon.

mod copies;
mod damage;
mod mutants;
mod process;
mod programs;
mod redacted_streams;
mod redaction;
mod shells;
mod stores;
mod support;
mod transcripts;
mod units;
mod vdev_settings;
mod zdb;
mod zedlets;
