//! Scrubs and resilvers, as `zpool scrub` and `zpool resilver` ask for them.
//!
//! The pool does the work, on a thread of its own; commands only begin and end it.

use crate::command::By;
use crate::errors::{of_dsl, of_sync, refused};
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, Response, ScanCommand};
use cenote_ondisk::features;
use cenote_pool::{Pool, ScanError, ScanRequest};

/// Why a scan does not begin or end, in OpenZFS's words.
fn refusal(pool: &str, error: ScanError) -> ControlError {
    match error {
        ScanError::Scrubbing => {
            refused("currently scrubbing; use 'zpool scrub -s' to cancel scrub")
        }
        ScanError::Resilvering => refused("currently resilvering"),
        ScanError::NotScrubbing => refused("there is no active scrub"),
        ScanError::Paused => refused("scrub is paused; use 'zpool scrub' to resume scrub"),
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

/// What is asked for may need something that not every pool has.
fn refuse_without_feature(pool: &Pool, command: ScanCommand) -> Result<(), ControlError> {
    let (feature, refusal) = match command {
        ScanCommand::Resilver => (
            features::RESILVER_DEFER,
            "this action requires the resilver_defer feature",
        ),
        ScanCommand::ErrorScrub => (
            features::HEAD_ERRLOG,
            "this action requires the head_errlog feature",
        ),
        ScanCommand::Scrub { .. } | ScanCommand::Pause | ScanCommand::Stop => return Ok(()),
    };
    match pool.dsl().features().get(feature) {
        Some(_) => Ok(()),
        None => Err(refused(refusal)),
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
        ScanCommand::ErrorScrub => imported.pool.scrub_errors(noted),
        ScanCommand::Pause => imported.pool.pause_scan(noted),
        ScanCommand::Stop => imported.pool.cancel_scan(noted),
        ScanCommand::Resilver => imported.pool.start_scan(ScanRequest::Resilver, noted),
    };
    done.map_err(|error| refusal(pool, error))?;
    Ok(Response::Done)
}
