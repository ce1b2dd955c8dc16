//! Alarms: messages to the administrator when something is wrong with a pool.
//!
//! An [`Alarm`](alarm::Alarm) is such a message: a subject, a few lines, and the event behind it.
//! `judge` turns the engine's events into alarms, once a second. `errors` counts errors of devices,
//! so that a storm of errors is one message. `levels` watches slowly growing values: the space in
//! use and the time since the last scrub.
//!
//! The engine does not know how alarms are sent: it gets an [`AlarmPlan`] with ways that implement
//! [`AlarmWay`]. Each way has a thread and a queue of its own (`courier`). *Invariant: nothing that
//! a pool does waits for a way.* Alarms are only put into bounded queues; if a queue is full they
//! are dropped and counted, and the next alarm that arrives reports the number. A way that fails is
//! tried again after the times of the plan; then that alarm counts as failed.
//!
//! Errors are also recorded (`journal`), for later questions.
//!
//! Deliberately absent: alarms about things that went well again, apart from scans, and a memory
//! of alarms over restarts of the daemon.

pub(crate) mod alarm;
mod courier;
pub(crate) mod death;
pub(crate) mod desk;
mod errors;
mod journal;
mod judge;
mod levels;
mod text;
pub(crate) mod trial;
pub(crate) mod way;
