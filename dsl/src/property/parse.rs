//! From the words of a user to the value that is stored.
//!
//! Source: cli/contract-zfs 3 and 5, cli/contract 2 for numbers. The messages are OpenZFS's.

use super::stored::Stored;
use super::table::{Class, Format, Kinds, Property, PropertyInfo, UNLIMITED};
use super::words::{self, Words};
use crate::write::Setting;
use cenote_base::{SizeError, parse_size};

/// Bytes of a user property's value and of its name, without NULs.
const USER_VALUE_LENGTH_MAX: usize = 8191;
const USER_NAME_LENGTH_MAX: usize = 255;
/// Bytes of a path or name.
const TEXT_LENGTH_MAX: usize = 4095;
/// The version that file systems have today.
const FILE_SYSTEM_VERSION_MAX: u64 = 5;
const RECORD_SIZE_MIN: u64 = 512;
const RECORD_SIZE_MAX: u64 = 16 << 20;

/// Why a value is none of a property's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it means")]
pub enum SettingError {
    #[error("invalid property '{0}'")]
    Unknown(String),
    #[error("'{0}' is readonly")]
    ReadOnly(String),
    #[error("'{0}' does not apply to datasets of this type")]
    OtherKind(String),
    #[error("'{0}' must be a number")]
    NotANumber(String),
    #[error(transparent)]
    Number(#[from] SizeError),
    #[error("'{name}' must be one of '{values}'")]
    NotOneOf { name: String, values: String },
    #[error("'{0}' must be power of 2 from 512B to 16M")]
    BadRecordSize(String),
    #[error("'{0}' must be zero or a power of 2 from 512B to 16M")]
    BadSmallBlocks(String),
    #[error("mlslabels are unsupported")]
    NoLabels,
    #[error("'{0}' must be an absolute path, 'none', or 'legacy'")]
    BadMountPoint(String),
    #[error("use 'none' to disable {0}")]
    UseNone(String),
    #[error("'{0}' must be one of '1 | 2 | 3'")]
    BadCopies(String),
    #[error("property value too long")]
    TooLong,
    #[error("property name '{0}' is too long")]
    NameTooLong(String),
    #[error("'{0}' is readonly")]
    OnlyAtCreation(String),
    #[error("setting '{0}' is not available in this version")]
    NotAvailable(String),
    #[error("'{0}' property cannot be inherited")]
    NotInherited(String),
}

/// What a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The kind of dataset.
    pub kinds: Kinds,
    /// The dataset is being made.
    pub at_creation: bool,
}

/// Reads what a user wants a property to be.
///
/// # Errors
/// If there is no such property, it cannot be set on this kind of dataset, or the value is none
/// of its values.
pub fn parse_setting(name: &str, text: &str, purpose: Purpose) -> Result<Setting, SettingError> {
    let setting = |value| Setting {
        name: name.to_owned(),
        value: Some(value),
    };
    if name.contains(':') {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-+._:".contains(&c);
        return match () {
            () if !name.bytes().all(fits) => Err(SettingError::Unknown(name.to_owned())),
            () if name.len() > USER_NAME_LENGTH_MAX => {
                Err(SettingError::NameTooLong(name.to_owned()))
            }
            () if text.len() > USER_VALUE_LENGTH_MAX => Err(SettingError::TooLong),
            () => Ok(setting(Stored::Text(text.to_owned()))),
        };
    }
    let unknown = || SettingError::Unknown(name.to_owned());
    let info = Property::by_name(name).ok_or_else(unknown)?.info();
    if info.class == Class::ReadOnly {
        return Err(SettingError::ReadOnly(name.to_owned()));
    }
    if !info.kinds.contains(purpose.kinds) {
        return Err(SettingError::OtherKind(name.to_owned()));
    }
    if info.class == Class::AtCreation && !purpose.at_creation {
        return Err(SettingError::OnlyAtCreation(name.to_owned()));
    }
    if is_stored_elsewhere(info.property) {
        return Err(SettingError::NotAvailable(name.to_owned()));
    }
    let value = match info.format {
        Format::Index(table) => Stored::Number(parse_index(info, table, text)?),
        Format::Number => Stored::Number(parse_number(info, text)?),
        Format::Text => Stored::Text(parse_text(info, text)?),
    };
    Ok(setting(value))
}

/// Takes a dataset's own value away.
///
/// # Errors
/// If there is no such property, or it is not inherited.
pub fn inherit_setting(name: &str) -> Result<Setting, SettingError> {
    if !name.contains(':') {
        let unknown = || SettingError::Unknown(name.to_owned());
        let info = Property::by_name(name).ok_or_else(unknown)?.info();
        match info.class {
            Class::Inheritable => {}
            Class::ReadOnly => return Err(SettingError::ReadOnly(name.to_owned())),
            Class::PerDataset | Class::AtCreation => {
                return Err(SettingError::NotInherited(name.to_owned()));
            }
        }
    }
    Ok(Setting {
        name: name.to_owned(),
        value: None,
    })
}

/// Properties that are stored with the contents and not in a property table. They cannot be set
/// yet.
fn is_stored_elsewhere(property: Property) -> bool {
    matches!(
        property,
        Property::VolumeSize
            | Property::DefaultUserQuota
            | Property::DefaultGroupQuota
            | Property::DefaultProjectQuota
            | Property::DefaultUserObjQuota
            | Property::DefaultGroupObjQuota
            | Property::DefaultProjectObjQuota
    )
}

fn parse_index(info: &PropertyInfo, table: Words, text: &str) -> Result<u64, SettingError> {
    let text = match (info.property, text) {
        (Property::AclType, "posixacl") => "posix",
        (Property::AclType, "noacl") => "off",
        (_, text) => text,
    };
    let values = || {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        names.join(" | ")
    };
    words::number(table, text).ok_or_else(|| SettingError::NotOneOf {
        name: info.name.to_owned(),
        values: values(),
    })
}

fn parse_number(info: &PropertyInfo, text: &str) -> Result<u64, SettingError> {
    let name = || info.name.to_owned();
    match info.property {
        Property::Quota | Property::RefQuota | Property::Reservation | Property::RefReservation => {
            match text {
                "none" => return Ok(0),
                text => match parse_size(text)? {
                    0 if matches!(info.property, Property::Quota | Property::RefQuota) => {
                        return Err(SettingError::UseNone("quota/refquota".to_owned()));
                    }
                    size => return Ok(size),
                },
            }
        }
        Property::Version => {
            let version = match text {
                "current" => Some(FILE_SYSTEM_VERSION_MAX),
                text => text.parse().ok(),
            };
            let version = version.filter(|version| (1..=FILE_SYSTEM_VERSION_MAX).contains(version));
            return version.ok_or_else(|| SettingError::NotOneOf {
                name: name(),
                values: "1 | 2 | 3 | 4 | 5 | current".to_owned(),
            });
        }
        Property::FilesystemLimit | Property::SnapshotLimit if text == "none" => {
            return Ok(UNLIMITED);
        }
        _ => {}
    }
    // An index, which is written in one way.
    if info.property == Property::Copies && !["1", "2", "3"].contains(&text) {
        return Err(SettingError::BadCopies(name()));
    }
    let number = parse_size(text)?;
    match info.property {
        Property::RecordSize | Property::VolumeBlockSize => match is_block_size(number) {
            true => Ok(number),
            false => Err(SettingError::BadRecordSize(name())),
        },
        // Pools of OpenZFS 2.4 may have other values, up to 16M, and keep them.
        Property::SpecialSmallBlocks if number != 0 && !is_block_size(number) => {
            Err(SettingError::BadSmallBlocks(name()))
        }
        _ => Ok(number),
    }
}

fn is_block_size(number: u64) -> bool {
    let range = RECORD_SIZE_MIN..=RECORD_SIZE_MAX;
    number.is_power_of_two() && range.contains(&number)
}

fn parse_text(info: &PropertyInfo, text: &str) -> Result<String, SettingError> {
    if text.len() > TEXT_LENGTH_MAX {
        return Err(SettingError::TooLong);
    }
    if info.property == Property::MountPoint
        && !matches!(text, "none" | "legacy")
        && !text.starts_with('/')
    {
        return Err(SettingError::BadMountPoint(info.name.to_owned()));
    }
    if info.property == Property::MlsLabel && text != "none" {
        return Err(SettingError::NoLabels);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILESYSTEM: Purpose = Purpose {
        kinds: Kinds::FILESYSTEM,
        at_creation: false,
    };

    fn number(name: &str, text: &str) -> Result<u64, SettingError> {
        match parse_setting(name, text, FILESYSTEM)?.value {
            Some(Stored::Number(number)) => Ok(number),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_checked_by_property() {
        assert_eq!(number("compression", "zstd-3"), Ok(16 + (3 << 7)));
        assert_eq!(number("recordsize", "1M"), Ok(1 << 20));
        assert!(number("recordsize", "3000").is_err());
        assert_eq!(number("quota", "none"), Ok(0));
        for (small_blocks, stored) in [("0", 0), ("512", 512), ("16M", 16 << 20)] {
            assert_eq!(number("special_small_blocks", small_blocks), Ok(stored));
        }
        for wrong in ["1", "256", "48K", "32M"] {
            let error = number("special_small_blocks", wrong).expect_err(wrong);
            let words = "'special_small_blocks' must be zero or a power of 2 from 512B to 16M";
            assert_eq!(error.to_string(), words);
        }
        assert!(number("quota", "0").is_err());
        assert_eq!(number("acltype", "posixacl"), Ok(1));
        assert_eq!(number("copies", "3"), Ok(3));
        for wrong in ["0", "4", "01", "1K", "two"] {
            let error = SettingError::BadCopies("copies".into());
            assert_eq!(number("copies", wrong), Err(error));
        }
        let error = number("used", "1").expect_err("read-only");
        assert_eq!(error.to_string(), "'used' is readonly");
        let error = number("atime", "maybe").expect_err("no such word");
        assert_eq!(error.to_string(), "'atime' must be one of 'off | on'");
        assert!(parse_setting("mountpoint", "relative", FILESYSTEM).is_err());
        assert!(parse_setting("normalization", "formD", FILESYSTEM).is_err());
        let volume = Purpose {
            kinds: Kinds::VOLUME,
            at_creation: false,
        };
        let error = parse_setting("volsize", "1G", volume).expect_err("stored elsewhere");
        assert_eq!(error, SettingError::NotAvailable("volsize".into()));
    }

    #[test]
    fn only_inheritable_properties_are_inherited() {
        assert!(inherit_setting("atime").is_ok());
        assert!(inherit_setting("com.example:note").is_ok());
        assert!(inherit_setting("quota").is_err());
        assert!(inherit_setting("used").is_err());
        assert!(inherit_setting("nonsense").is_err());
    }
}
