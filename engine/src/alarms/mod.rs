//! Alarms: whoever looks after pools is told when something is wrong, without having to ask.
//!
//! An [`Alarm`](alarm::Alarm) is what a person is told: a line, a few more, and the event behind
//! it. `judge` makes alarms of the engine's events, once a second; `errors` counts what devices
//! got wrong, so that a storm of errors is one message; `levels` watches what grows slowly, the
//! space in use and the time since the last scrub.
//!
//! How alarms leave the machine is not the engine's concern: it is handed an [`AlarmPlan`] with
//! ways that implement [`AlarmWay`]. Each way has a thread and a queue of its own (`courier`).
//! *Invariant: nothing that a pool does waits for a way.* Whoever makes alarms only puts them into
//! bounded queues; what finds no place is counted and told with the next alarm that arrives. A way
//! that fails is tried again after the times of the plan, and then given up for that alarm.
//!
//! What went wrong is also written down (`journal`), for those who ask later.
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
