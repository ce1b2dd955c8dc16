//! What is left of a stream that was cut, destroyed.

use crate::command::{By, run};
use crate::errors::{of_dsl, parse_name};
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response};
use cenote_dsl::resume_token::state;
use cenote_dsl::write::{DestroyDataset, RECEIVE_CHILD};

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
            return Err(ControlError::StreamRefused {
                what: String::new(),
                reason: format!("'{dataset}' does not have any resumable receive state to abort"),
            });
        }
    };
    run(&imported, DestroyDataset { name }, by)?;
    Ok(Response::Done)
}
