//! Which events are alarms: messages to the administrator.
//!
//! `judge` turns the engine's events into alarms, once a second. `errors` counts errors of devices,
//! so that a storm of errors is one message. `levels` watches slowly growing values: the space in
//! use and the time since the last scrub. `cenote_alarms` sends them.
//!
//! Deliberately absent: alarms about things that went well again, apart from scans, and a memory
//! of alarms over restarts of the daemon.

pub(crate) mod desk;
mod errors;
mod judge;
mod levels;
mod text;
