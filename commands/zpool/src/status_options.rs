//! The options of `zpool status`, and the names of damaged files in both of its formats.

use super::scripts::{Said, Scripts};
use cenote_control::model::{DataErrorPlace, VdevNaming};
use cenote_words::format::property::Style;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// What to show.
pub struct Options {
    pub scripts: Option<Scripts>,
    /// The output of the scripts for each device.
    pub said: BTreeMap<u64, Said>,
    pub verbose: bool,
    pub dedup: bool,
    pub only_unhealthy: bool,
    pub only_errors: bool,
    pub slow: bool,
    pub direct: bool,
    pub power: bool,
    pub initialize: bool,
    pub trim: bool,
    pub json: bool,
    pub flat: bool,
    pub key_guid: bool,
    pub naming: VdevNaming,
    pub style: Style,
    pub zone: TimeZone,
}

/// The name of a damaged file in listings.
pub fn error_place(place: &DataErrorPlace) -> String {
    match place {
        DataErrorPlace::Path(path) => path.lossy().into_owned(),
        DataErrorPlace::File { dataset, path } => format!("{dataset}:{}", path.lossy()),
        DataErrorPlace::Object { dataset, object } => format!("{dataset}:<{object:#x}>"),
        DataErrorPlace::Metadata { object } => format!("<metadata>:<{object:#x}>"),
        DataErrorPlace::Unknown { objset, object } => format!("<{objset:#x}>:<{object:#x}>"),
    }
}
