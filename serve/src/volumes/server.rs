//! The seam to whoever serves block devices.
//!
//! The engine decides which volumes are served where; how clients are talked to is not its
//! business. A [`VolumeServing`] starts servers; each is handed an offer, which opens volumes.

use cenote_control::model::{ControlError, NbdClient, NbdListen};
use cenote_engine::{HangUp, ServedVolume};
use std::sync::Arc;

/// What a server offers to clients.
pub trait VolumeOffer: Send + Sync {
    /// The names of what is served; what cannot be read is left out.
    fn list(&self) -> Vec<String>;

    /// The name of what a client means. The empty name stands for the only export, if there is
    /// only one.
    fn resolved(&self, name: &str) -> String;

    /// Opens a volume by its name for a client that `hang_up` disconnects.
    ///
    /// # Errors
    /// [`ControlError::NoSuchDataset`] if nothing of that name is served, or why it cannot be
    /// opened.
    fn open(&self, name: &str, hang_up: HangUp) -> Result<ServedVolume, ControlError>;
}

/// A server that listens; it ends when it is dropped, and disconnects its clients.
pub trait VolumeServer: Send + Sync {
    /// Where it listens: paths of sockets, and addresses with their ports.
    fn addresses(&self) -> Vec<String>;

    /// Who is connected.
    fn clients(&self) -> Vec<NbdClient>;

    /// Disconnects the clients of an export, and waits a little until they are gone.
    fn disconnect(&self, export: &str);
}

/// Starts servers.
pub trait VolumeServing: Send + Sync {
    /// Serves an offer; it listens when this returns.
    ///
    /// # Errors
    /// It cannot listen there, or the certificates are no good.
    fn serve(
        &self,
        listen: &NbdListen,
        offer: Arc<dyn VolumeOffer>,
    ) -> Result<Box<dyn VolumeServer>, ControlError>;
}
