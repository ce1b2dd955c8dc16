//! Signals: the first one ends a command cleanly, the second at once.

use super::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a signal has arrived.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Watches for SIGINT, SIGTERM and SIGHUP.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let failed = |source| Failure::File {
                path: PathBuf::from("signals"),
                action: "watch for them",
                source,
            };
            // In this order, so that the first signal only sets the flag, which arms the exit.
            let code = 128 + signal;
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&stop.0))
                .map_err(failed)?;
            signal_hook::flag::register(signal, Arc::clone(&stop.0)).map_err(failed)?;
        }
        Ok(stop)
    }

    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
