//! Messages to the administrator: what an alarm is, how it leaves the machine, and the history of
//! errors.
//!
//! The engine decides what is an alarm. It gets an [`AlarmPlan`] with ways that implement
//! [`AlarmWay`]; the daemon has mail, webhooks and programs. Each way has a job and a queue of its
//! own ([`Courier`]). *Invariant: nothing that a pool does waits for a way.* Alarms are only put
//! into bounded queues; if a queue is full they are dropped and counted, and the next alarm that
//! arrives reports the number. A way that fails is tried again after the times of the plan; then
//! that alarm counts as failed.
//!
//! Errors are also recorded ([`Journal`]), for later questions.

#![forbid(unsafe_code)]

mod alarm;
mod courier;
mod death;
mod journal;
mod trial;
mod way;

pub use alarm::{Alarm, AlarmKind, AlarmSeverity};
pub use courier::Courier;
pub use death::{daemon_died, pool_missing, record_unwritable};
pub use journal::Journal;
pub use trial::{alarm_ways, try_all};
pub use way::{
    AlarmLimits, AlarmPlan, AlarmPlanError, AlarmSendError, AlarmSetup, AlarmSource, AlarmWay,
    AlarmWayPlan,
};
