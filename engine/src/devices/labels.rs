//! `zpool labelclear`: labels taken off a device that no pool needs. Nothing else on it changes.

use super::owner::{Claim, claim_by_heartbeat, claim_of_kernel, claim_of_pool};
use crate::clouds::opener::outside_stores;
use crate::context::Context;
use cenote_cloud::is_url;
use cenote_control::model::{ControlError, DeviceRefusal, Response};
use cenote_device::{DeviceError, Opener};
use cenote_ondisk::pool_config::PoolState;
use cenote_vdev::DeviceLabels;
use std::path::Path;

/// Takes the labels of a pool off a device.
pub(crate) fn clear_labels(
    context: &Context,
    path: &str,
    force: bool,
) -> Result<Response, ControlError> {
    if !is_url(Path::new(path)) && !Path::new(path).exists() {
        let path = path.to_owned();
        return Err(ControlError::NoSuchPath { path });
    }
    if let Some(Claim::Kernel(claim)) = claim_of_kernel(path) {
        return Err(DeviceRefusal::Claimed { claim }.into());
    }
    let opener = outside_stores(&context.clouds);
    let device = opener.open_writable(Path::new(path));
    let device = match device {
        Ok(device) => device,
        Err(DeviceError::InUse { .. }) => {
            let device = opener.open(Path::new(path));
            let device = device.map_err(failed)?;
            let pool = pool_of(&DeviceLabels::read(device.as_ref())).0;
            let path = path.to_owned();
            return Err(ControlError::DeviceInUse { path, pool });
        }
        Err(error) => return Err(failed(error).into()),
    };
    let labels = DeviceLabels::read(device.as_ref());
    if labels.newest_config().is_none() {
        let path = path.to_owned();
        return Err(DeviceRefusal::NoLabel { path }.into());
    }
    match claim_of_pool(&context.registry, path, &labels) {
        Some(Claim::Active(claim) | Claim::Spare { text: claim, .. }) => {
            return Err(DeviceRefusal::Claimed { claim }.into());
        }
        // The pool has only closed it: 'zpool online' uses it again.
        Some(Claim::Absent {
            pool,
            returns: true,
            ..
        }) => {
            let path = path.to_owned();
            return Err(ControlError::DeviceInUse { path, pool });
        }
        Some(Claim::Absent { text, .. }) if !force => {
            return Err(ControlError::DevicesRefused {
                devices: vec![text],
                is_forced: false,
            });
        }
        _ => {}
    }
    let (pool, state) = pool_of(&labels);
    let word = match state {
        PoolState::Active => Some("potentially active"),
        PoolState::Exported => Some("exported"),
        PoolState::Destroyed | PoolState::Spare | PoolState::CacheDevice => None,
    };
    if let Some(word) = word.filter(|_| !force) {
        return Err(ControlError::DevicesRefused {
            devices: vec![format!("{path} is a member of {word} pool \"{pool}\"")],
            is_forced: false,
        });
    }
    let env = context.env.as_ref();
    if let Some(Claim::Active(claim)) = claim_by_heartbeat(path, device.as_ref(), env) {
        return Err(DeviceRefusal::Claimed { claim }.into());
    }
    labels.clear(device.as_ref()).map_err(failed)?;
    Ok(Response::Done)
}

fn failed(error: impl ToString) -> DeviceRefusal {
    let reason = error.to_string();
    DeviceRefusal::Failed { reason }
}

/// The name and state of the pool in a device's labels.
fn pool_of(labels: &DeviceLabels) -> (String, PoolState) {
    let config = labels
        .newest_config()
        .and_then(|label| label.config.as_ref());
    let name = config.and_then(|config| config.name.clone());
    let state = config.map_or(PoolState::Destroyed, |config| config.state);
    (name.unwrap_or_default(), state)
}
