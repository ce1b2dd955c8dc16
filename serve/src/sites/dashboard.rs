//! The seam to the dashboard, which the program above serves.

use cenote_control::model::{ControlError, DashboardAct};

/// The dashboard, which the program serves beside the engine.
pub trait Dashboard: Send + Sync {
    /// Starts or ends it on a port; returns the addresses at which it is served afterwards.
    ///
    /// # Errors
    /// It cannot listen there, or listens on another port.
    fn act(&self, act: &DashboardAct) -> Result<Vec<String>, ControlError>;
}
