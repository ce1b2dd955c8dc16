//! The crate as the engine sees it.

use crate::context::Context;
use crate::disks::act::{act_on_disks, resize_disk};
use crate::disks::seam::DiskSetup;
use crate::disks::table::LocalDisks;
use crate::measures::measure;
use crate::servers::Servers;
use crate::sites::act::act_on_sites;
use crate::sites::dashboard::Dashboard;
use crate::volumes::act::act_on_servers;
use crate::volumes::table::VolumeServers;
use cenote_base::metrics::Sink;
use cenote_control::model::{ControlError, HttpRefusal, NbdListen, Response};
use cenote_control::protocol::DisksAtEnd;
use cenote_dsl::Dataset;
use cenote_engine::{Changed, Imported, OwnDisks, PublishAct, PublishedOf, Publisher, Registry};
use std::sync::Arc;
use std::time::Duration;

/// How long downloads may take when the daemon ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// Settings of what the daemon publishes.
pub struct ServeSettings {
    /// Where the daemon's own server of volumes listens.
    pub own_server: NbdListen,
    /// How volumes become disks of this machine.
    pub disks: DiskSetup,
    /// The dashboard, if there is one.
    pub dashboard: Option<Arc<dyn Dashboard>>,
}

/// The publisher of a daemon.
pub struct Serve {
    pub(crate) context: Context,
    dashboard: Option<Arc<dyn Dashboard>>,
}

impl Serve {
    /// A publisher of the pools in the registry, which publishes nothing yet. It adds its disks to
    /// `own`.
    pub fn new(registry: &Arc<Registry>, settings: ServeSettings, own: &Arc<OwnDisks>) -> Self {
        Self {
            context: Context {
                registry: Arc::clone(registry),
                volumes: VolumeServers::new(settings.own_server),
                disks: LocalDisks::new(settings.disks, own),
                sites: Servers::default(),
            },
            dashboard: settings.dashboard,
        }
    }
}

impl Publisher for Serve {
    fn act(&self, act: PublishAct) -> Result<Response, ControlError> {
        match act {
            PublishAct::Nbd(act) => act_on_servers(&self.context, &act),
            PublishAct::Ublk(act) => act_on_disks(&self.context, &act),
            PublishAct::Http(act) => act_on_sites(&self.context, act),
            PublishAct::Dashboard(act) => match &self.dashboard {
                Some(dashboard) => {
                    let addresses = dashboard.act(&act)?;
                    Ok(Response::Dashboard { addresses })
                }
                None => Err(HttpRefusal::NoDashboard.into()),
            },
        }
    }

    fn follow(&self, changed: Changed) {
        match changed {
            Changed::Values => self.context.follow_exports(),
            Changed::Datasets => self.context.end_unneeded_servers(false),
        }
        if changed == Changed::Values || self.context.disks.is_active() {
            self.context.follow_disks();
        }
        self.context.follow_sites();
    }

    fn look(&self) {
        self.context.follow_sites();
        self.context.disks.end_leaving();
    }

    fn resize(&self, imported: &Imported, volume: &Dataset) -> Result<(), ControlError> {
        resize_disk(&self.context, imported, volume)
    }

    fn recorded(&self, imported: &Imported) -> PublishedOf {
        PublishedOf {
            exports: self.context.recorded_exports(imported),
            sites: self.context.recorded_sites(imported),
        }
    }

    fn measure(&self, sink: &mut dyn Sink) {
        measure(&self.context, sink);
    }

    fn leave_disks(&self, at_end: DisksAtEnd) {
        self.context.disks.leave_at_end(at_end);
    }

    fn end(&self) {
        self.context.volumes.servers.end_all(FAREWELL);
        self.context.sites.end_all(FAREWELL);
    }
}
