//! The interface to the code that publishes volumes and file systems in addition to mounts: over
//! the network, and as disks of this machine.
//!
//! The engine knows no network protocol. It passes requests about published volumes and file
//! systems to a [`Publisher`], and calls it after changes that may affect them. The registry lists
//! the users of open volumes and file systems (`registry::served`, `registry::open_trees`). So a
//! change of a dataset as a whole frees it through the registry, without a call to the publisher.

use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use cenote_base::metrics::Sink;
use cenote_control::model::{
    ControlError, DashboardAct, HttpAct, HttpRefusal, NbdAct, NbdRefusal, Response, UblkAct,
    UblkRefusal,
};
use cenote_control::protocol::DisksAtEnd;
use cenote_control::record::{RecordedExport, RecordedSite};
use cenote_dsl::Dataset;
use std::sync::Arc;

/// A request about what is published.
#[derive(Debug)]
pub enum PublishAct {
    /// Volumes over NBD.
    Nbd(NbdAct),
    /// Volumes as disks of this machine.
    Ublk(UblkAct),
    /// File systems over HTTP.
    Http(HttpAct),
    /// The dashboard.
    Dashboard(DashboardAct),
}

/// What a change may have affected, as far as publishing depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Datasets: some were destroyed, were renamed, or have a new newest snapshot.
    Datasets,
    /// The same, and the approved values of properties that publish datasets.
    Values,
}

/// What commands publish of a pool, for the record.
#[derive(Debug, Default)]
pub struct PublishedOf {
    /// Volumes and snapshots over NBD.
    pub exports: Vec<RecordedExport>,
    /// File systems over HTTP.
    pub sites: Vec<RecordedSite>,
}

/// Publishes volumes and file systems.
///
/// The engine holds no lock during these calls, with two exceptions: a lock of its own during the
/// check once a second, and the lock of the record during [`Publisher::recorded`].
pub trait Publisher: Send + Sync {
    /// Carries out a request. After a change the engine calls [`Publisher::follow`].
    ///
    /// # Errors
    /// Why it was not carried out.
    fn act(&self, act: PublishAct) -> Result<Response, ControlError>;

    /// A request may have changed something, even if it failed halfway.
    fn follow(&self, changed: Changed);

    /// Checks for changes that happened without a request. Called once a second.
    fn look(&self);

    /// A volume has a new size.
    ///
    /// # Errors
    /// Its disk cannot have that size.
    fn resize(&self, imported: &Imported, volume: &Dataset) -> Result<(), ControlError>;

    /// What commands publish of a pool.
    fn recorded(&self, imported: &Imported) -> PublishedOf;

    /// Puts its figures into a sink.
    fn measure(&self, sink: &mut dyn Sink);

    /// The daemon ends, and only disks of this machine still use its pools. Leaves these disks to
    /// the next daemon, or ends them.
    fn leave_disks(&self, at_end: DisksAtEnd);

    /// The daemon ends: ends all servers.
    fn end(&self);
}

/// Makes a publisher of what is in the registry.
pub type Publish = Box<dyn FnOnce(&Arc<Registry>) -> Arc<dyn Publisher> + Send>;

/// Publishes nothing: for a service that only answers questions.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPublisher;

impl Publisher for NoPublisher {
    fn act(&self, act: PublishAct) -> Result<Response, ControlError> {
        Err(match act {
            PublishAct::Nbd(_) => NbdRefusal::NoServer.into(),
            PublishAct::Ublk(_) => UblkRefusal::Unavailable {
                reason: "this daemon cannot make disks of volumes".to_owned(),
            }
            .into(),
            PublishAct::Http(_) => HttpRefusal::NoServer.into(),
            PublishAct::Dashboard(_) => HttpRefusal::NoDashboard.into(),
        })
    }

    fn follow(&self, _changed: Changed) {}

    fn look(&self) {}

    fn resize(&self, _imported: &Imported, _volume: &Dataset) -> Result<(), ControlError> {
        Ok(())
    }

    fn recorded(&self, _imported: &Imported) -> PublishedOf {
        PublishedOf::default()
    }

    fn measure(&self, _sink: &mut dyn Sink) {}

    fn leave_disks(&self, _at_end: DisksAtEnd) {}

    fn end(&self) {}
}
