//! Setting properties of vdevs (format/3c 7). The messages are OpenZFS's.

use super::properties::is_internal;
use super::tree::{all_vdevs, answers_to, vdev_tree};
use crate::command::By;
use crate::errors::of_sync;
use crate::registry::sitting::AUTOSIT;
use crate::registry::table::Registry;
use cenote_base::{Guid, parse_size};
use cenote_control::model::properties::{VDEV, find, is_user_property};
use cenote_control::model::{ControlError, Response, SetVdevProperty, Vdev, VdevKind};
use cenote_dsl::Stored;
use cenote_pool::{VdevSetting, VdevSettingError};

/// Bytes of a user property's value, as for datasets.
pub(crate) const USER_VALUE_LENGTH_MAX: usize = 8191;
/// Where all devices are.
const DEVICES: &str = "/dev/";

fn bad(name: &str, reason: impl Into<String>) -> ControlError {
    ControlError::BadValue {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// Reads a property of a vdev.
///
/// # Errors
/// If there is no such property, it cannot be set, or the value is invalid.
fn vdev_setting(name: &str, value: &str) -> Result<VdevSetting, ControlError> {
    let stored = |value| VdevSetting::Stored(name.to_owned(), Some(value));
    if is_user_property(name) {
        let text = Some(value).filter(|value| !value.is_empty());
        let text = text.map(|text| Stored::Text(text.to_owned()));
        return match value.len() > USER_VALUE_LENGTH_MAX {
            true => Err(bad(name, "property value too long")),
            false if is_internal(name) => Err(bad(name, "the system itself keeps it")),
            false => Ok(VdevSetting::Stored(name.to_owned(), text)),
        };
    }
    let flag = || match value {
        "off" => Ok(false),
        "on" => Ok(true),
        _ => Err(bad(name, format!("'{name}' must be one of 'on | off'"))),
    };
    Ok(match name {
        "comment" => stored(Stored::Text(value.to_owned())),
        "path" if value.starts_with(DEVICES) => VdevSetting::Path(value.into()),
        "path" => return Err(bad(name, VdevSettingError::Impossible.to_string())),
        "allocating" => VdevSetting::Allocating(flag()?),
        "sit_out" => VdevSetting::SitsOut(flag()?),
        "failfast" | AUTOSIT => stored(Stored::Number(u64::from(flag()?))),
        "checksum_n" | "checksum_t" | "io_n" | "io_t" | "slow_io_n" | "slow_io_t" => {
            let number = match value {
                "none" => u64::MAX,
                value => parse_size(value).map_err(|error| bad(name, error.to_string()))?,
            };
            stored(Stored::Number(number))
        }
        name if find(VDEV, name).is_some() || name == "ashift" => {
            return Err(bad(name, format!("'{name}' is readonly")));
        }
        name => return Err(bad(name, format!("invalid property: '{name}'"))),
    })
}

pub(crate) fn set_vdev_property(
    registry: &Registry,
    set: &SetVdevProperty,
    by: &By<'_>,
) -> Result<Response, ControlError> {
    let imported = registry.writable_pool(&set.pool)?;
    let tree = vdev_tree(&imported.pool);
    let mut all = vec![&tree.root];
    all.extend(all_vdevs(&tree));
    let is_meant = |vdev: &&&Vdev| answers_to(vdev, &set.vdev);
    let vdev = all.iter().find(is_meant);
    let Some(vdev) = vdev else {
        let mut spares = tree.spares.iter().chain(&tree.cache);
        return Err(match spares.any(|vdev| answers_to(vdev, &set.vdev)) {
            true => bad(&set.property, VdevSettingError::Impossible.to_string()),
            false => ControlError::NoSuchDevice {
                device: set.vdev.clone(),
                pool: set.pool.clone(),
            },
        });
    };
    let is_striped = matches!(vdev.kind, VdevKind::Raidz { .. } | VdevKind::Draid { .. });
    if set.property == AUTOSIT && !is_striped {
        return Err(bad(&set.property, VdevSettingError::NotForThis.to_string()));
    }
    let setting = vdev_setting(&set.property, &set.value)?;
    let done = imported
        .pool
        .set_vdev_property(Guid(vdev.guid), setting, &by.actor);
    match done {
        Ok(()) => Ok(Response::Done),
        Err(VdevSettingError::Sync(error)) => Err(of_sync(imported.name(), error)),
        Err(error) => Err(bad(&set.property, error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_openzfs_reads_them() {
        let set = |name: &str, value: &str| vdev_setting(name, value);
        let number =
            |name: &str, number| VdevSetting::Stored(name.to_owned(), Some(Stored::Number(number)));
        for (name, text, value) in [
            ("checksum_n", "10", 10),
            ("checksum_t", "1k", 1024),
            ("io_n", "none", u64::MAX),
            ("failfast", "off", 0),
        ] {
            assert_eq!(set(name, text).expect("a value"), number(name, value));
        }
        let none = VdevSetting::Stored("a:b".to_owned(), None);
        assert_eq!(set("a:b", "").expect("taken away"), none);
        for (name, value, reason) in [
            ("io_t", "abc", "bad numeric value 'abc'"),
            ("io_t", "-1", "bad numeric value '-1'"),
            (
                "failfast",
                "inherit",
                "'failfast' must be one of 'on | off'",
            ),
            (
                "allocating",
                "maybe",
                "'allocating' must be one of 'on | off'",
            ),
            ("size", "3", "'size' is readonly"),
            ("ashift", "12", "'ashift' is readonly"),
            ("nosuch", "3", "invalid property: 'nosuch'"),
            ("autotrim", "on", "invalid property: 'autotrim'"),
            (
                "path",
                "/mnt/other",
                "invalid argument for this pool operation",
            ),
            ("com.delphix:ms", "1", "the system itself keeps it"),
        ] {
            let refused = set(name, value).expect_err("refused");
            assert_eq!(refused.to_string(), reason);
        }
    }

    #[test]
    fn the_table_says_which_can_be_set() {
        for info in VDEV {
            let values = ["on", "none", "7", "/dev/x"];
            let is_taken = values
                .iter()
                .any(|value| vdev_setting(info.name, value).is_ok());
            assert_eq!(is_taken, info.editable, "{}", info.name);
        }
    }
}
