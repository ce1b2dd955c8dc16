//! What a daemon publishes of its pools in addition to mounts: volumes over NBD, volumes as disks
//! of this machine, and file systems over HTTP.
//!
//! *Requests.* The engine is the daemon's service, but it knows no network protocol. It passes
//! requests about servers, sites and disks to its [`Publisher`](cenote_engine::Publisher), which is
//! [`Serve`]. So the engine treats them like other changes, and updates the daemon's record
//! after them.
//!
//! *Changes of datasets.* The engine calls `Publisher::follow` after each change, and
//! `Publisher::look` once a second. This crate then compares what it publishes with what commands
//! and properties ask for. It starts and ends servers and disks, and switches sites to other
//! snapshots. The engine passes on a volume's new size at once (`Publisher::resize`), because the
//! disk may refuse it.
//!
//! *Open volumes and trees.* The engine's registry lists each volume and each tree of files that is
//! open here, with a way to take it back: disconnect the clients, remove the disk, or close the
//! tree. An export or a destroy uses this list, and does not call this crate. Until it ends, disks
//! and trees cannot be opened again. The end of the daemon is an exception: disks stay for the next
//! daemon (`Publisher::leave_disks`).
//!
//! *Figures* are collected when a client asks the engine for them (`Publisher::measure`).
//!
//! From the bottom up:
//!
//! * `servers`: the table of servers, for volumes and sites alike;
//! * `trees`: files of a dataset by their paths, as sites show them;
//! * `volumes`, `disks`, `sites`: a folder for each protocol, with what is published, the adapter
//!   to the protocol's frontend, and its requests;
//! * `measures`, and `publish`: the crate as the engine sees it.
//!
//! Deliberately absent: the protocols, which are in the frontends, and the opening of datasets,
//! which is in the engine.

#![forbid(unsafe_code)]

mod context;
mod disks;
mod measures;
mod publish;
mod servers;
mod sites;
#[cfg(test)]
mod tests;
mod trees;
mod volumes;

pub use disks::seam::DiskSetup;
pub use disks::ublk::{UblkDisks, status_without_daemon, stop_without_daemon};
pub use publish::{Serve, ServeSettings};
pub use sites::dashboard::Dashboard;
