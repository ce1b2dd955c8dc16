//! What fills new datasets: an empty file system, a volume of a size.

use crate::values::take_number;
use cenote_control::model::ControlError;
use cenote_dsl::DslError;
use cenote_dsl::write::{Format, Setting};
use cenote_posix::write::{FormatParams, PosixOwnerHook, format_new};
use cenote_posix::{CaseSensitivity, NameRules, Timestamp, VERSION_FUIDS, VERSION_MAX};
use std::sync::Arc;
use std::time::Duration;

/// The feature of project ids.
pub(crate) const PROJECT_QUOTA: &str = "org.zfsonlinux:project_quota";
/// The default block size of a volume.
pub(crate) const VOLUME_BLOCK_SIZE: u64 = 16 << 10;
/// Those that a volume can have.
const VOLUME_BLOCK_SIZES: std::ops::RangeInclusive<u64> = 512..=16 << 20;

/// What fills a new file system, with the properties that only its contents hold. The user and
/// group own its root directory.
pub(crate) fn file_system_format(
    settings: &mut Vec<Setting>,
    projects: bool,
    (now, (uid, gid)): (Duration, (u64, u64)),
) -> Result<Format, ControlError> {
    let normalization = take_number(settings, "normalization").unwrap_or(0);
    let utf8_only = take_number(settings, "utf8only");
    if normalization != 0 && utf8_only == Some(0) {
        return Err(ControlError::BadValue {
            name: "utf8only".to_owned(),
            reason: "'utf8only' must be set 'on' if normalization chosen".to_owned(),
        });
    }
    let names = NameRules {
        normalization,
        case: match take_number(settings, "casesensitivity") {
            Some(1) => CaseSensitivity::Insensitive,
            Some(2) => CaseSensitivity::Mixed,
            _ => CaseSensitivity::Sensitive,
        },
        utf8_only: utf8_only.is_some_and(|number| number != 0),
    };
    let version = take_number(settings, "version").unwrap_or(VERSION_MAX);
    if version < VERSION_FUIDS && names != NameRules::default() {
        return Err(ControlError::BadValue {
            name: "version".to_owned(),
            reason: "pool must be upgraded to set this property or value".to_owned(),
        });
    }
    let params = FormatParams {
        names: NameRules {
            // Names that are normalized must be text.
            utf8_only: names.utf8_only || names.normalization != 0,
            ..names
        },
        now: Timestamp {
            seconds: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: now.subsec_nanos(),
        },
        uid,
        gid,
        version,
        projects,
        ..FormatParams::default()
    };
    Ok(Box::new(move |set, tx| {
        set.set_owner_hook(Arc::new(PosixOwnerHook));
        let made = format_new(set, tx, &params);
        made.map(drop).map_err(|error| DslError::Format {
            reason: error.to_string(),
        })
    }))
}

/// The size of a new volume: a whole number of blocks.
pub(crate) fn volume_size(size: u64, block_size: u64) -> Result<u64, ControlError> {
    let bad = |name: &str, reason: &str| ControlError::BadValue {
        name: name.to_owned(),
        reason: reason.to_owned(),
    };
    if !block_size.is_power_of_two() || !VOLUME_BLOCK_SIZES.contains(&block_size) {
        let reason = "'volblocksize' must be power of 2 from 512B to 16M";
        return Err(bad("volblocksize", reason));
    }
    let size = size.checked_next_multiple_of(block_size);
    let size = size.filter(|size| *size > 0);
    size.ok_or_else(|| bad("volsize", "volume size cannot be zero"))
}

/// What fills a new volume.
pub(crate) fn volume_format(size: u64, block_size: u64) -> Format {
    Box::new(move |set, tx| {
        cenote_volume::format_new(set, tx, size, block_size).map_err(|error| DslError::Format {
            reason: error.to_string(),
        })
    })
}
