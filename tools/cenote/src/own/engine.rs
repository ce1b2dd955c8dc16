//! The place where commands meet the engine.

use std::sync::Arc;

use cenote_control::model::{ControlError, Request, Response};
use cenote_control::protocol::{Peer, Reply, Service};

use super::source::PoolSource;
use crate::context::{Outcome, failed};

/// What the daemon serves.
pub fn service(_memory: Option<u64>) -> Arc<dyn Service> {
    Arc::new(WithoutEngine)
}

/// A command that reads a pool, before the engine can.
pub fn unavailable(source: &PoolSource) -> Outcome {
    failed(format!(
        "cannot open '{}': not available in this version",
        source.pool
    ))
}

/// Has no pools and says so.
struct WithoutEngine;

impl Service for WithoutEngine {
    fn handle(
        &self,
        request: Request,
        _peer: Peer,
        _reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        match request {
            Request::PoolList { .. } => Ok(Response::Pools {
                pools: Vec::new(),
                failures: Vec::new(),
            }),
            Request::MountList => Ok(Response::Mounts { mounts: Vec::new() }),
            _ => Err(ControlError::Unsupported {
                what: "opening pools".to_owned(),
            }),
        }
    }

    fn idle(&self) -> bool {
        true
    }

    fn shutdown(&self, _force: bool) -> Result<(), ControlError> {
        Ok(())
    }
}
