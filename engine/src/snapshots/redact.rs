//! `zfs redact`: a redaction bookmark of a snapshot, made piece by piece.
//!
//! The snapshots cannot be destroyed meanwhile. If the client is stopped, or the daemon, the list
//! stays incomplete, and the same command resumes it.

use crate::command::{By, run};
use crate::errors::{of_dsl, parse_name};
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Redact, Response};
use cenote_control::protocol::Reply;
use cenote_dsl::Dataset;
use cenote_redaction::{Redaction, RedactionError};

pub(crate) fn redact_snapshot(
    registry: &Registry,
    asked: &Redact,
    by: &By<'_>,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let name = parse_name(&asked.snapshot)?;
    let (imported, snapshot) = registry.dataset(&name)?;
    if !snapshot.is_snapshot() {
        let dataset = asked.snapshot.clone();
        return Err(ControlError::WrongKind { dataset });
    }
    let mut pins = imported.sent.pins();
    pins.add(snapshot.id());
    let mut redacted_by = Vec::new();
    for wanted in &asked.by {
        let name = parse_name(wanted)?;
        // What is in another pool did not grow out of it.
        if name.pool() != imported.name() {
            return Err(refused(asked, RedactionError::NotADescendant));
        }
        let (_, one) = registry.dataset(&name)?;
        pins.add(one.id());
        redacted_by.push(one);
    }
    // They may have been destroyed before they were pinned.
    let reopen = |dataset: &Dataset| dataset.dsl().dataset_of(dataset.id()).map_err(of_dsl);
    let snapshot = reopen(&snapshot)?;
    let redacted_by = redacted_by.iter().map(reopen);
    let redacted_by = redacted_by.collect::<Result<Vec<_>, _>>()?;
    let bookmark = parse_name(&format!("{}#{}", name.dataset(), asked.bookmark))?;
    let redaction = Redaction::of(&snapshot, bookmark, &redacted_by);
    let redaction = redaction.map_err(|error| refused(asked, error))?;
    if let Some(begin) = redaction.begin() {
        run(&imported, begin, by)?;
    }
    let quiet = by.unnoted();
    while let Some(piece) = redaction
        .next(&|| reply.cancelled())
        .map_err(|error| refused(asked, error))?
    {
        run(&imported, piece, &quiet)?;
    }
    Ok(Response::Done)
}

fn refused(asked: &Redact, error: RedactionError) -> ControlError {
    match error {
        RedactionError::Dsl(error) => of_dsl(error),
        RedactionError::Interrupted => ControlError::Interrupted,
        error => ControlError::SnapshotRefused {
            name: asked.snapshot.clone(),
            reason: error.to_string(),
        },
    }
}
