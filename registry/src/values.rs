//! Values of datasets' properties, from a command's words to what is stored.

use crate::errors::of_dsl;
use cenote_control::model::properties::{DATASET, Effect, dataset_effect, find};
use cenote_control::model::{ControlError, Pair};
use cenote_dsl::property::parse::{Purpose, SettingError, parse_setting};
use cenote_dsl::property::table::Kinds;
use cenote_dsl::write::Setting;
use cenote_dsl::{Dataset, DatasetType, Stored};

/// The user property that says whether volumes are served as network block devices.
pub const SERVED: &str = "cenote:nbd";

/// The user property that says whether volumes are disks of this machine.
pub const DISK: &str = "cenote:ublk";

/// The user property that says where a mirror comes from.
pub const UPSTREAM: &str = "cenote:upstream";

/// Parses a value that a user gave. Errors are in the words of the clients.
pub fn setting(pair: &Pair, purpose: Purpose) -> Result<Setting, ControlError> {
    if let Effect::Refused(reason) = dataset_effect(&pair.0)
        && pair.1 != "off"
    {
        return Err(ControlError::BadValue {
            name: pair.0.clone(),
            reason: format!("'{}': {reason}", pair.0),
        });
    }
    let is_own = [SERVED, DISK].contains(&pair.0.as_str());
    if is_own && !["on", "off"].contains(&pair.1.as_str()) {
        return Err(ControlError::BadValue {
            name: pair.0.clone(),
            reason: format!("'{}' must be one of 'on | off'", pair.0),
        });
    }
    received_setting(pair, purpose)
}

/// A value that came with a stream: it is stored even if it is not obeyed.
pub fn received_setting(pair: &Pair, purpose: Purpose) -> Result<Setting, ControlError> {
    parse_setting(&pair.0, &pair.1, purpose).map_err(|error| bad_setting(&pair.0, &error))
}

/// Why a value is refused, in the words of the clients.
pub fn bad_setting(name: &str, error: &SettingError) -> ControlError {
    match error {
        SettingError::Unknown(property) => ControlError::NoSuchProperty {
            property: property.clone(),
        },
        // As they are listed: without old names, and in short for many.
        SettingError::NotOneOf { name: property, .. } if find(DATASET, property).is_some() => {
            let listed = find(DATASET, property).map_or("", |info| info.values);
            ControlError::BadValue {
                name: name.to_owned(),
                reason: format!("'{property}' must be one of '{listed}'"),
            }
        }
        error => ControlError::BadValue {
            name: name.to_owned(),
            reason: error.to_string(),
        },
    }
}

/// The purpose of a setting of an existing head.
pub fn purpose_of(dataset: &Dataset) -> Result<Purpose, ControlError> {
    let kinds = match dataset.dataset_type().map_err(of_dsl)? {
        DatasetType::Filesystem => Kinds::FILESYSTEM,
        DatasetType::Volume => Kinds::VOLUME,
    };
    Ok(Purpose {
        kinds,
        at_creation: false,
    })
}

/// Takes a number out of the settings: it is stored elsewhere.
pub fn take_number(settings: &mut Vec<Setting>, name: &str) -> Option<u64> {
    let at = settings.iter().position(|setting| setting.name == name)?;
    match settings.remove(at).value {
        Some(Stored::Number(number)) => Some(number),
        _ => None,
    }
}

/// A number among the settings.
pub fn number_of(settings: &[Setting], name: &str) -> Option<u64> {
    let found = settings.iter().find(|setting| setting.name == name)?;
    match found.value {
        Some(Stored::Number(number)) => Some(number),
        _ => None,
    }
}
