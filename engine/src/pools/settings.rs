//! Pool properties that a command sets: which there are, and what their values come to
//! (cli/contract-zpool 3 to 5, format/3c 6). The messages are OpenZFS's.

use super::compatibility::compatibility;
use crate::devices::add::ashift;
use crate::devices::settings::USER_VALUE_LENGTH_MAX;
use crate::host::hostid;
use crate::registry::cache_file;
use cenote_base::parse_size;
use cenote_control::model::ControlError;
use cenote_control::model::properties::{POOL, find, is_user_property};
use cenote_dsl::{FEATURE_VERSION, OLD_VERSIONS, Stored};
use cenote_ondisk::features::{self, Feature};

/// Characters of a pool's comment.
const COMMENT_LENGTH_MAX: usize = 32;
/// A property with its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PoolSetting {
    /// One of the pool's table; an empty text takes it away.
    Stored(&'static str, Stored),
    /// A user property, by its name.
    User(String, String),
    /// log2 of the allocation unit of vdevs that are added; 0 to choose by the devices.
    Ashift(u32),
    /// A remark; empty for none.
    Comment(String),
    /// Names of sets of features.
    Compatibility(String),
    /// Where the pool's devices are noted.
    CacheFile(String),
    /// The directory below which mount points are put, at creation.
    AltRoot(String),
    /// The file system to boot from; empty for none.
    BootFileSystem(String),
    /// The version of a new pool.
    Version(u64),
    /// A feature, enabled or, at creation, not.
    Feature(&'static Feature, bool),
}

fn bad(name: &str, reason: impl Into<String>) -> ControlError {
    ControlError::BadValue {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// Reads a property that is given `at_creation` of a pool, or later.
///
/// # Errors
/// If there is no such property, it cannot be set at that time, or the value is invalid.
pub(crate) fn pool_setting(
    name: &str,
    value: &str,
    at_creation: bool,
) -> Result<PoolSetting, ControlError> {
    if let Some(feature) = name.strip_prefix("feature@") {
        return feature_setting(name, feature, value, at_creation);
    }
    if is_user_property(name) {
        return match value.len() > USER_VALUE_LENGTH_MAX {
            true => Err(bad(name, "property value too long")),
            false => Ok(PoolSetting::User(name.to_owned(), value.to_owned())),
        };
    }
    let Some(info) = find(POOL, name) else {
        return Err(match at_creation {
            true => bad(
                name,
                format!("property '{name}' is not a valid pool or vdev property"),
            ),
            false => bad(name, format!("invalid property '{name}'")),
        });
    };
    let name = info.name;
    if !info.editable {
        return Err(bad(name, format!("'{name}' is readonly")));
    }
    let text = || value.to_owned();
    Ok(match name {
        "ashift" => PoolSetting::Ashift(ashift(name, value)?),
        "comment" if value.chars().count() > COMMENT_LENGTH_MAX => {
            return Err(bad(name, "comment must not exceed 32 characters"));
        }
        "comment" => PoolSetting::Comment(text()),
        "compatibility" => {
            compatibility(value).map_err(|error| bad(name, error.to_string()))?;
            PoolSetting::Compatibility(text())
        }
        "cachefile" => {
            cache_file::check(value)?;
            PoolSetting::CacheFile(text())
        }
        "altroot" if at_creation && value.starts_with('/') => PoolSetting::AltRoot(text()),
        "altroot" if at_creation => {
            return Err(bad(name, format!("bad alternate root '{value}'")));
        }
        "altroot" => {
            let reason = "property 'altroot' can only be set during pool creation or import";
            return Err(bad(name, reason));
        }
        "readonly" => {
            let reason = "property 'readonly' can only be set at import time";
            return Err(bad(name, reason));
        }
        "bootfs" if at_creation => {
            let reason = "property 'bootfs' cannot be set at creation or import time";
            return Err(bad(name, reason));
        }
        "bootfs" => PoolSetting::BootFileSystem(text()),
        "version" => version(name, value, at_creation)?,
        _ => PoolSetting::Stored(name, stored(name, value)?),
    })
}

/// The version of a new pool: that of pools with features, or the last before them.
fn version(name: &str, value: &str, at_creation: bool) -> Result<PoolSetting, ControlError> {
    let number = value.parse().unwrap_or(0);
    if at_creation && (number == FEATURE_VERSION || number == *OLD_VERSIONS.end()) {
        return Ok(PoolSetting::Version(number));
    }
    let reason = match at_creation && OLD_VERSIONS.contains(&number) {
        true => format!("pools of version {number} are not made here, only opened"),
        false => format!("property '{name}' number {value} is invalid."),
    };
    Err(bad(name, reason))
}

/// Refuses a property that an import cannot be given, or a value that it cannot have.
///
/// # Errors
/// As [`pool_setting`].
pub(crate) fn check_at_import(name: &str, value: &str) -> Result<(), ControlError> {
    match name {
        // These are the import's own.
        "readonly" | "altroot" => Ok(()),
        name if name.starts_with("cenote:") => Ok(()),
        "bootfs" => {
            let reason = "property 'bootfs' cannot be set at creation or import time";
            Err(bad(name, reason))
        }
        _ => pool_setting(name, value, false).map(drop),
    }
}

fn feature_setting(
    name: &str,
    feature: &str,
    value: &str,
    at_creation: bool,
) -> Result<PoolSetting, ControlError> {
    let Some(known) = features::by_name(feature) else {
        let reason = format!("feature '{feature}' is not supported");
        return Err(bad(name, reason));
    };
    match (value, at_creation) {
        ("enabled", _) => Ok(PoolSetting::Feature(known, true)),
        ("disabled", true) => Ok(PoolSetting::Feature(known, false)),
        ("disabled", false) => {
            let when = "can only be set to 'disabled' at creation time";
            Err(bad(name, format!("property '{name}' {when}")))
        }
        _ => {
            let values = "can only be set to 'enabled' or 'disabled'";
            Err(bad(name, format!("property '{name}' {values}")))
        }
    }
}

/// The value of a property of the pool's table.
fn stored(name: &str, value: &str) -> Result<Stored, ControlError> {
    let words: &[(&str, u64)] = match name {
        "failmode" => &[("wait", 0), ("continue", 1), ("panic", 2)],
        "dedup_table_quota" => {
            let size = match value {
                "none" => 0,
                "auto" => u64::MAX,
                value => parse_size(value).map_err(|error| bad(name, error.to_string()))?,
            };
            return Ok(Stored::Number(size));
        }
        _ => &[("off", 0), ("on", 1)],
    };
    if (name, value) == ("multihost", "on") && hostid() == 0 {
        return Err(bad(name, "requires a non-zero system hostid".to_owned()));
    }
    match words.iter().find(|(word, _)| *word == value) {
        Some((_, number)) => Ok(Stored::Number(*number)),
        None => {
            // As they are listed, which is not always the order of their numbers.
            let listed = find(POOL, name).map_or("", |info| info.values);
            Err(bad(name, format!("'{name}' must be one of '{listed}'")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_openzfs_reads_them() {
        let later = |name: &str, value: &str| pool_setting(name, value, false);
        let on = Stored::Number(1);
        let listed = PoolSetting::Stored("listsnapshots", on);
        assert_eq!(later("listsnaps", "on").expect("an alias"), listed);
        assert_eq!(
            later("ashift", "12").expect("a shift"),
            PoolSetting::Ashift(12)
        );
        let refused = |name: &str, value: &str, at_creation| {
            let refused = pool_setting(name, value, at_creation);
            refused.expect_err("refused").to_string()
        };
        for (name, value, reason) in [
            ("foo", "1", "invalid property 'foo'"),
            ("size", "1", "'size' is readonly"),
            ("guid", "3", "'guid' is readonly"),
            ("version", "28", "property 'version' number 28 is invalid."),
            (
                "ashift",
                "99",
                "property 'ashift' number 99 is invalid, only values between 9 and 16 are allowed.",
            ),
            (
                "failmode",
                "bad",
                "'failmode' must be one of 'wait | continue | panic'",
            ),
            ("autotrim", "x", "'autotrim' must be one of 'on | off'"),
            (
                "readonly",
                "on",
                "property 'readonly' can only be set at import time",
            ),
            (
                "feature@lz4_compress",
                "disabled",
                "property 'feature@lz4_compress' can only be set to 'disabled' at creation time",
            ),
            ("dedup_table_quota", "12q", "invalid numeric suffix 'q'"),
        ] {
            assert_eq!(refused(name, value, false), reason);
        }
        assert_eq!(
            refused("foo", "1", true),
            "property 'foo' is not a valid pool or vdev property"
        );
        assert!(pool_setting("feature@lz4_compress", "disabled", true).is_ok());
        assert!(pool_setting("altroot", "/x", true).is_ok());
        let long = "x".repeat(USER_VALUE_LENGTH_MAX + 1);
        assert_eq!(refused("a:b", &long, false), "property value too long");
    }
}
