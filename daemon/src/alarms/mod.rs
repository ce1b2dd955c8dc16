//! How the daemon's alarms leave the machine: by mail, webhook or program, as a file says.
//!
//! `config` reads the file and makes the ways of it; the other files each are one way. A way has a
//! limit of time for all that it does: a program that does not end is killed, a server that does
//! not answer is given up. What is sent says nothing of the contents of files: names of pools,
//! devices and hosts, numbers, and what to do.

mod child;
pub mod command;
mod config;
mod mail;
mod places;
mod program;
mod webhook;

pub use config::AlarmFile;
