//! Which features the property `compatibility` allows, by the files of this machine.

use cenote_control::model::ControlError;
use cenote_control::regular;
use cenote_ondisk::compatibility::{self, Compatibility, CompatibilityError, FILE_SIZE_MAX};
use cenote_ondisk::features::Feature;

/// The features that a value of `compatibility` allows; the default ones if it is empty.
///
/// # Errors
/// If a set cannot be had.
pub(crate) fn compatibility(text: &str) -> Result<Compatibility, CompatibilityError> {
    compatibility::compatibility(text, &|path| {
        let read = || regular::read_text(path, FILE_SIZE_MAX).ok();
        path.exists().then(read)
    })
}

/// The features that pools with this `compatibility` property are to have.
pub(crate) fn wanted_features(sets: Option<&str>) -> Result<Vec<&'static Feature>, ControlError> {
    let wanted = compatibility(sets.unwrap_or_default());
    let wanted = wanted.map_err(|error| ControlError::BadValue {
        name: "compatibility".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(wanted.features)
}

/// Features that are newer than the OpenZFS release whose commands are implemented here. They are
/// shown if a pool has them, and not reported as missing otherwise.
pub(crate) const LATER_FEATURES: [&str; 4] = [
    "com.klarasystems:dynamic_gang_header",
    "com.truenas:block_cloning_endian",
    "com.truenas:physical_rewrite",
    "com.seagate:draid_failure_domains",
];
