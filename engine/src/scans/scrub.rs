//! Scrubs and resilvers: `zpool scrub` and `zpool resilver`.
//!
//! The pool does the work, on a thread of its own; commands only begin and end it.

use crate::command::By;
use crate::errors::{of_dsl, of_sync};
use crate::registry::moments::{groups_of, moments};
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, PoolRefusal, Response, ScanCommand};
use cenote_ondisk::features;
use cenote_pool::{Pool, ScanError, ScanRequest};

/// Why a scan does not begin or end.
fn refusal(pool: &str, error: ScanError) -> ControlError {
    match error {
        ScanError::Scrubbing => PoolRefusal::Scrubbing.into(),
        ScanError::Resilvering => PoolRefusal::Resilvering.into(),
        ScanError::NotScrubbing => PoolRefusal::NotScrubbing.into(),
        ScanError::Paused => PoolRefusal::ScrubPaused.into(),
        ScanError::Sync(error) => of_sync(pool, error),
        error => ControlError::Io {
            place: error.to_string(),
        },
    }
}

/// A scrub of everything, or of what was written since the last complete one.
fn scrub_request(pool: &Pool, since_last: bool) -> Result<ScanRequest, ControlError> {
    let since = match since_last {
        true => pool.dsl().last_scrubbed_txg().map_err(of_dsl)?,
        false => Default::default(),
    };
    let until = None;
    Ok(ScanRequest::Scrub { since, until })
}

/// The request may need a feature that not every pool has.
fn refuse_without_feature(pool: &Pool, command: ScanCommand) -> Result<(), ControlError> {
    let (guid, feature) = match command {
        ScanCommand::Resilver => (features::RESILVER_DEFER, "resilver_defer"),
        ScanCommand::ErrorScrub => (features::HEAD_ERRLOG, "head_errlog"),
        ScanCommand::Scrub { .. }
        | ScanCommand::ScrubPeriod { .. }
        | ScanCommand::Pause
        | ScanCommand::Stop => return Ok(()),
    };
    let feature = feature.to_owned();
    match pool.dsl().features().get(guid) {
        Some(_) => Ok(()),
        None => Err(PoolRefusal::NeedsFeature { feature }.into()),
    }
}

pub(crate) fn scan(
    registry: &Registry,
    pool: &str,
    command: ScanCommand,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = registry.writable_pool(pool)?;
    refuse_without_feature(&imported.pool, command)?;
    let noted = (&by.actor, by.command);
    let done = match command {
        ScanCommand::Scrub { since_last } => {
            let request = scrub_request(&imported.pool, since_last)?;
            imported.pool.start_scan(request, noted)
        }
        ScanCommand::ScrubPeriod { from, to } => {
            let (since, until) = groups_of(&moments(&imported)?, (from, to));
            let request = ScanRequest::Scrub { since, until };
            imported.pool.start_scan(request, noted)
        }
        ScanCommand::ErrorScrub => imported.pool.scrub_errors(noted),
        ScanCommand::Pause => imported.pool.pause_scan(noted),
        ScanCommand::Stop => imported.pool.cancel_scan(noted),
        ScanCommand::Resilver => imported.pool.start_scan(ScanRequest::Resilver, noted),
    };
    done.map_err(|error| refusal(pool, error))?;
    Ok(Response::Done)
}
