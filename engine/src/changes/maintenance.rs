//! Changes of a pool as a whole: its guid, its features; and labels taken off devices.

use super::pools::wanted_features;
use super::{By, of_sync};
use crate::Engine;
use cenote_base::Guid;
use cenote_control::model::{ControlError, Response};
use cenote_device::{DeviceError, Opener, SystemOpener};
use cenote_dsl::FEATURE_VERSION;
use cenote_ondisk::pool_config::PoolState;
use cenote_vdev::{DeviceLabels, clear_labels};
use std::path::Path;

/// Why labels cannot be taken off a device.
fn refusal(reason: impl Into<String>) -> ControlError {
    ControlError::BadValue {
        name: String::new(),
        reason: reason.into(),
    }
}

impl Engine {
    /// Gives a pool another guid.
    pub(super) fn reguid_pool(
        &self,
        pool: &str,
        guid: Option<u64>,
        by: &By<'_>,
    ) -> Result<Response, ControlError> {
        let imported = self.registry.writable_pool(pool)?;
        if guid.is_some_and(|guid| guid == 0 || self.registry.has_guid(guid)) {
            return Err(refusal("a pool with that guid already exists"));
        }
        let done = imported.pool.reguid(guid.map(Guid), &by.actor, by.command);
        done.map_err(|error| of_sync(pool, error))?;
        self.note_in_cache_file(&imported);
        Ok(Response::Done)
    }

    /// Enables all features that a pool is wanted to have and lacks; one with a version number has
    /// features from then on.
    pub(super) fn upgrade_pool(&self, pool: &str, by: &By<'_>) -> Result<Response, ControlError> {
        let imported = self.registry.writable_pool(pool)?;
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
        }
        if from_version.is_some() {
            self.note_in_cache_file(&imported);
        }
        let features = missing.iter().map(|feature| feature.name.to_owned());
        Ok(Response::Upgraded {
            from_version,
            features: features.collect(),
        })
    }

    /// Takes the labels of a pool off a device.
    pub(super) fn clear_labels(&self, path: &str, force: bool) -> Result<Response, ControlError> {
        if !Path::new(path).exists() {
            let path = path.to_owned();
            return Err(ControlError::NoSuchPath { path });
        }
        let device = SystemOpener::default().open_writable(Path::new(path));
        let device = match device {
            Ok(device) => device,
            Err(DeviceError::InUse { .. }) => {
                let device = SystemOpener::default().open(Path::new(path));
                let device = device.map_err(|error| refusal(error.to_string()))?;
                let pool = pool_of(&DeviceLabels::read(device.as_ref())).0;
                let path = path.to_owned();
                return Err(ControlError::DeviceInUse { path, pool });
            }
            Err(error) => return Err(refusal(error.to_string())),
        };
        let labels = DeviceLabels::read(device.as_ref());
        if labels.newest_config().is_none() {
            return Err(refusal(format!("failed to read label from {path}")));
        }
        let (pool, state) = pool_of(&labels);
        let word = match state {
            PoolState::Active => Some("potentially active"),
            PoolState::Exported => Some("exported"),
            PoolState::Destroyed => None,
            PoolState::Spare | PoolState::CacheDevice => {
                if let Some(owner) = self.auxiliary_owner(path, &labels) {
                    return Err(refusal(owner));
                }
                None
            }
        };
        if let Some(word) = word.filter(|_| !force) {
            return Err(ControlError::DevicesRefused {
                devices: vec![format!("{path} is a member of {word} pool \"{pool}\"")],
                is_forced: false,
            });
        }
        clear_labels(device.as_ref()).map_err(|error| refusal(error.to_string()))?;
        Ok(Response::Done)
    }
}

/// The name of the pool that a device's labels tell, and the pool's state.
fn pool_of(labels: &DeviceLabels) -> (String, PoolState) {
    let config = labels
        .newest_config()
        .and_then(|label| label.config.as_ref());
    let name = config.and_then(|config| config.name.clone());
    let state = config.map_or(PoolState::Destroyed, |config| config.state);
    (name.unwrap_or_default(), state)
}
