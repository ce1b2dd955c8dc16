//! Programs that run for events: zedlets (zed(8)).
//!
//! A zedlet is an executable file in a directory, by default `/etc/zfs/zed.d`. Its name says for
//! which events it runs ([`Directory`]), and the event is in its environment ([`variables`]).
//! Administrators have such programs already. So names, variables and rules are those of OpenZFS's
//! event daemon.
//!
//! A [`Runner`] queues events and runs zedlets, some at a time. Two processes have one:
//!
//! - `cenote daemon` runs the zedlets of the default directory ([`Zedlets`]). No other service is
//!   needed.
//! - `zed` runs those of another directory in the foreground, for the events of a daemon ([`run`]).
//!
//! A lock on the directory keeps the two apart, so that no event is handled twice.
//!
//! *Invariants: nothing that a pool does waits for a zedlet, and each event that a runner got is
//! handled once: by this runner, or by the next one if this one ended first.*

#![forbid(unsafe_code)]

mod child;
mod described;
mod directory;
mod kept;
mod place;
mod plan;
mod position;
mod program;
mod runner;
mod service;
mod surroundings;
mod tell;
mod variables;

pub use described::{NAME, OTHER};
pub use directory::{Directory, Sharing};
pub use place::directory_of_daemon;
pub use plan::Plan;
pub use program::run;
pub use runner::Runner;
pub use service::Zedlets;
pub use surroundings::Surroundings;
pub use tell::Tell;
pub use variables::{subclass, variables};
