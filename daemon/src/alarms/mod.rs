//! Sends the daemon's alarms by mail, webhook or program, as configured in a file.
//!
//! `config` reads the file and creates the channels; the other files are one kind of channel each.
//! Each channel has a time limit. A program that exceeds it is killed, and a server that does not
//! answer is given up. Alarms have no contents of files. They have names of pools, devices and
//! hosts, numbers, and what to do.

mod child;
pub mod command;
mod config;
mod mail;
mod places;
mod program;
mod webhook;

pub use config::AlarmFile;
