//! What clients of the read-only socket can see.
//!
//! As in OpenZFS every user may see pools, datasets and their properties. The names of damaged
//! files are visible only to root there, and only to the daemon's user here. The locations of key
//! files are shown to other users only if the daemon's user enables it.

use cenote_control::model::{Access, ControlError, Part, Request};
use cenote_control::protocol::Reply;
use std::os::fd::OwnedFd;

/// The most names in a request; commands need fewer.
const NAMES_MAX: usize = 256;

/// Properties that say where keys are.
const OF_KEYS: [&str; 1] = ["keylocation"];

/// A request with what may be asked of it; refused if that is nothing.
pub(crate) fn veiled(request: Request) -> Result<Request, ControlError> {
    if request.access() != Access::Look {
        return Err(ControlError::PermissionDenied);
    }
    let names = match &request {
        Request::PoolList { pools, .. } | Request::PoolStatus { pools, .. } => pools.len(),
        Request::DatasetList { roots, .. } => roots.len(),
        Request::VdevGet { vdevs, .. } => vdevs.len(),
        Request::Metrics { names } => names.len(),
        _ => 0,
    };
    if names > NAMES_MAX {
        return Err(ControlError::BadValue {
            name: "names".to_owned(),
            reason: format!("{names} names at once are more than the {NAMES_MAX} allowed"),
        });
    }
    Ok(match request {
        Request::PoolStatus { pools, dedup, .. } => Request::PoolStatus {
            pools,
            errors: false,
            dedup,
        },
        other => other,
    })
}

/// The way back without the places of keys.
pub(crate) struct WithoutKeys<'a>(pub &'a mut dyn Reply);

impl Reply for WithoutKeys<'_> {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        let Part::Datasets(mut rows) = part else {
            return self.0.part(part);
        };
        for row in &mut rows {
            let is_shown = |name: &str| !OF_KEYS.contains(&name);
            row.properties.retain(|property| is_shown(&property.name));
        }
        self.0.part(Part::Datasets(rows))
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }

    fn take_descriptor(&mut self, _index: usize) -> Option<OwnedFd> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_damaged_files_and_long_lists_are_not_for_everybody() {
        let status = |pools: usize| Request::PoolStatus {
            pools: vec!["tank".to_owned(); pools],
            errors: true,
            dedup: false,
        };
        let shown = veiled(status(1)).expect("allowed");
        assert!(matches!(shown, Request::PoolStatus { errors: false, .. }));
        assert!(veiled(status(NAMES_MAX + 1)).is_err());
        assert!(veiled(Request::EventsClear).is_err());
    }
}
