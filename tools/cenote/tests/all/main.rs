//! The program on the small pools of the repository, without a daemon and with one.

mod copies;
mod damage;
mod mutants;
mod process;
mod shells;
mod stores;
mod support;
mod transcripts;
mod units;
