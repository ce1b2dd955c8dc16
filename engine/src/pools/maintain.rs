//! Changes of a pool as a whole: its guid, its features, all of it written to disk.

use super::compatibility::wanted_features;
use crate::command::By;
use crate::errors::of_sync;
use crate::registry::table::Registry;
use cenote_base::Guid;
use cenote_control::model::{ControlError, PoolRefusal, Response};
use cenote_dsl::FEATURE_VERSION;

/// Gives a pool another guid.
pub(crate) fn reguid_pool(
    registry: &Registry,
    pool: &str,
    guid: Option<u64>,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = registry.writable_pool(pool)?;
    if guid.is_some_and(|guid| guid == 0 || registry.has_guid(guid)) {
        return Err(PoolRefusal::GuidTaken.into());
    }
    let before = imported.pool.guid();
    // Until the approvals are those of the new guid, too.
    let _storing = imported.waiting.begin();
    let done = imported.pool.reguid(guid.map(Guid), &by.actor, by.command);
    done.map_err(|error| of_sync(pool, error))?;
    let now = imported.pool.guid();
    registry.approvals.extend_to(before, now);
    registry.note_in_cache_file(&imported);
    Ok(Response::Done)
}

/// Enables all features that a pool is wanted to have and lacks; one with a version number has
/// features from then on.
pub(crate) fn upgrade_pool(
    registry: &Registry,
    pool: &str,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = registry.writable_pool(pool)?;
    let (_, compatibility) = imported.pool.remarks();
    let version = imported.pool.uberblock().version;
    let from_version = (version < FEATURE_VERSION).then_some(version);
    if from_version.is_some() && compatibility.as_deref() == Some("legacy") {
        // The property says that the pool stays readable for what knows no features.
        return Ok(Response::Upgraded {
            from_version: None,
            features: Vec::new(),
        });
    }
    let mut missing = wanted_features(compatibility.as_deref())?;
    let enabled = imported.dsl().features();
    missing.retain(|feature| enabled.get(feature.guid).is_none());
    if from_version.is_some() || !missing.is_empty() {
        let done = imported
            .pool
            .enable_features(&missing, &by.actor, by.command);
        done.map_err(|error| of_sync(pool, error))?;
        imported.complete_all_accounts();
    }
    if from_version.is_some() {
        registry.note_in_cache_file(&imported);
    }
    let features = missing.iter().map(|feature| feature.name.to_owned());
    Ok(Response::Upgraded {
        from_version,
        features: features.collect(),
    })
}

/// Writes all of the named pools, or of all, to disk.
pub(crate) fn sync_pools(
    registry: &Registry,
    pools: &[String],
    force: bool,
) -> Result<Response, ControlError> {
    let (found, failures) = registry.named(pools);
    if let Some((_, error)) = failures.into_iter().next() {
        return Err(error);
    }
    // A pool that is only read has nothing to write.
    for imported in found.iter().filter(|imported| imported.pool.is_writable()) {
        if imported.pool.suspended().is_some() {
            let pool = imported.name().to_owned();
            return Err(ControlError::Suspended { pool });
        }
        let synced = match force {
            true => imported.pool.sync_labels(),
            false => imported.pool.sync(),
        };
        synced.map_err(|error| of_sync(imported.name(), error))?;
    }
    Ok(Response::Done)
}
