//! The seam to whoever publishes volumes and file systems beside mounts: over the network, and as
//! disks of this machine.
//!
//! The engine knows no protocol of the outside. It hands requests about what is published on to a
//! [`Publisher`], and tells it when what is published may have to become something else. Who has a
//! volume or file system open is in the registry (`registry::served`, `registry::open_trees`), so
//! whoever changes a dataset as a whole frees it there, without asking a publisher.

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

/// What a change may have changed for what is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Datasets: some are gone, have another name, or another newest snapshot.
    Datasets,
    /// The same, and values of the properties that publish, where they may act.
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
/// No lock of the engine is held during any of these calls but that of a look each second, and
/// that of the record during [`Publisher::recorded`].
pub trait Publisher: Send + Sync {
    /// Carries out a request. When it was a change, [`Publisher::follow`] comes next.
    ///
    /// # Errors
    /// Why it is not carried out.
    fn act(&self, act: PublishAct) -> Result<Response, ControlError>;

    /// A request was carried out that may have changed something, or failed in the middle.
    fn follow(&self, changed: Changed);

    /// Looks for what happens without a request; called each second.
    fn look(&self);

    /// A volume has another size.
    ///
    /// # Errors
    /// What is made of it cannot have that size.
    fn resize(&self, imported: &Imported, volume: &Dataset) -> Result<(), ControlError>;

    /// What commands publish of a pool.
    fn recorded(&self, imported: &Imported) -> PublishedOf;

    /// Puts its figures into a sink.
    fn measure(&self, sink: &mut dyn Sink);

    /// The daemon ends, and nobody uses its pools but disks of this machine: leaves those to the
    /// next daemon, or ends them.
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
