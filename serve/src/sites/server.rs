//! The seam to whoever serves sites.

use super::report::SiteReport;
use super::site::Site;
use cenote_control::model::{ControlError, DashboardAct, HttpFigures, HttpOptions};
use std::sync::Arc;
use std::time::Duration;

/// What a server offers to clients.
pub trait SiteOffer: Send + Sync {
    /// The site for a host (in lower case, without a port; empty if the client named none) and a
    /// path, and how many components of the path lead to its root. Never waits.
    fn site(&self, host: &str, path: &[Vec<u8>]) -> Option<(Arc<Site>, usize)>;

    /// All sites and what they show.
    fn status(&self) -> Vec<SiteReport>;
}

/// A server that listens; it ends when it is dropped.
pub trait SiteServer: Send + Sync {
    /// Where it listens, with the ports that the system chose.
    fn addresses(&self) -> Vec<String>;

    /// What it did.
    fn figures(&self) -> HttpFigures;

    /// Reads certificates and style sheets again, and begins the access log anew.
    ///
    /// # Errors
    /// What cannot be read; then all goes on as before.
    fn reload(&self) -> Result<(), ControlError>;

    /// Listens no longer; what is being sent may take so long.
    fn stop(&self, grace: Duration);
}

/// The dashboard, which the program serves beside the engine.
pub trait Dashboard: Send + Sync {
    /// Serves it on a port, or no longer; returns where it is served then.
    ///
    /// # Errors
    /// It cannot listen there, or listens on another port.
    fn act(&self, act: &DashboardAct) -> Result<Vec<String>, ControlError>;
}

/// Starts servers.
pub trait SiteServing: Send + Sync {
    /// Serves an offer; it listens when this returns.
    ///
    /// # Errors
    /// It cannot listen there, or an option is no good.
    fn serve(
        &self,
        options: &HttpOptions,
        offer: Arc<dyn SiteOffer>,
    ) -> Result<Box<dyn SiteServer>, ControlError>;

    /// Addresses as servers have them, for comparisons.
    ///
    /// # Errors
    /// It is no address.
    fn address(&self, text: &str) -> Result<String, ControlError>;
}
