//! What is left of a stream that was cut, destroyed.

use crate::command::{By, run};
use crate::errors::{of_dsl, parse_name};
use crate::registry::imported::Imported;
use crate::registry::table::Registry;
use crate::registry::walk::walk_heads;
use cenote_control::model::{ControlError, Response, StreamAct, StreamRefusal};
use cenote_dsl::Dataset;
use cenote_dsl::resume_token::state;
use cenote_dsl::write::{DestroyDataset, RECEIVE_CHILD};
use std::sync::Arc;

/// Destroys the hidden child of a dataset, or a dataset that never was whole.
pub(crate) fn abort_receive(
    registry: &Registry,
    dataset: &str,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let name = parse_name(dataset)?;
    let (imported, head) = registry.dataset(&name)?;
    let child = head.directory().child(RECEIVE_CHILD.as_bytes());
    let child = child.map_err(of_dsl)?.map(|child| child.name().clone());
    let is_partial = head.is_inconsistent() && state(&head).map_err(of_dsl)?.is_some();
    drop(head);
    let name = match child {
        Some(child) => child,
        None if is_partial => name,
        None => {
            let dataset = dataset.to_owned();
            let why = StreamRefusal::NothingToAbort { dataset };
            return Err(ControlError::stream(StreamAct::Abort, why));
        }
    };
    run(&imported, DestroyDataset { name }, by)?;
    Ok(Response::Done)
}

/// Destroys the leftovers of interrupted streams that cannot be resumed: a killed daemon could not
/// do it.
pub(crate) fn destroy_leftovers(imported: &Arc<Imported>) {
    if !imported.pool.is_writable() {
        return;
    }
    let mut left = Vec::new();
    walk_heads(imported.dsl(), |head| {
        let child = head.directory().child(RECEIVE_CHILD.as_bytes());
        let child = child
            .ok()
            .flatten()
            .and_then(|child| child.head().ok().flatten());
        let is_left = |head: &Dataset| head.is_inconsistent() && matches!(state(head), Ok(None));
        match child {
            Some(child) if is_left(&child) => left.push(child.name().clone()),
            None if is_left(head) => left.push(head.name().clone()),
            _ => {}
        }
    });
    for name in left {
        let task = DestroyDataset { name: name.clone() };
        if let Err(error) = imported.pool.run_task(task) {
            log::warn!("{name}: what was received stays: {error}");
        }
    }
}
