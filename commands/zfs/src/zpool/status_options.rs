//! What `zpool status` shows, and how both of its forms name damaged files.

use cenote_control::model::{DataErrorPlace, VdevNaming};
use cenote_words::format::property::Style;
use jiff::tz::TimeZone;

/// What to show.
pub struct Options {
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

/// A damaged file as lists name it.
pub fn error_place(place: &DataErrorPlace) -> String {
    match place {
        DataErrorPlace::Path(path) => path.lossy().into_owned(),
        DataErrorPlace::File { dataset, path } => format!("{dataset}:{}", path.lossy()),
        DataErrorPlace::Object { dataset, object } => format!("{dataset}:<{object:#x}>"),
        DataErrorPlace::Metadata { object } => format!("<metadata>:<{object:#x}>"),
        DataErrorPlace::Unknown { objset, object } => format!("<{objset:#x}>:<{object:#x}>"),
    }
}
