//! What a daemon publishes of its pools beside mounts: volumes over NBD, volumes as disks of this
//! machine, file systems over HTTP. What is published, because of what, and to whom.
//!
//! *How a request gets here.* The engine is the daemon's service. It knows no protocol of the
//! outside, and hands requests about servers, sites and disks to its
//! [`Publisher`](cenote_engine::Publisher), which is [`Serve`]. So they are changes like others:
//! what follows any change, the daemon's record above all, follows them, too.
//!
//! *What changes below.* After each change the engine calls `Publisher::follow`, and each second
//! `Publisher::look`. What is published is then compared with what commands and properties ask
//! for: servers and disks begin and end, sites show other snapshots. A volume that got another size
//! is told of at once (`Publisher::resize`), because that can fail.
//!
//! *Who is in the way of a change.* Whoever has a volume or a tree of files open is noted in the
//! engine's registry, with a way to take it back: clients are disconnected, disks let go, trees
//! are taken from their files. So an export or a destruction frees datasets there, and holds off
//! whoever would open them again, without a word to this crate. Only the end of the daemon is
//! different: disks stay for the next one (`Publisher::leave_disks`).
//!
//! *Figures* are collected when the engine is asked for them (`Publisher::measure`).
//!
//! From the bottom up:
//!
//! * `servers`: the table of what listens, for volumes and sites alike;
//! * `trees`: files of a dataset by their paths, as sites show them;
//! * `volumes`, `disks`, `sites`: a folder for each protocol, with what is published, the adapter
//!   to the frontend that speaks it, and its requests;
//! * `measures`, and `publish`: the crate as the engine sees it.
//!
//! Deliberately absent: protocols, which are the frontends', and how datasets are opened, which is
//! the engine's.

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
