//! Options of mounts, and what they and the properties make of a mount together.

use cenote_control::model::{ControlError, MountOptions};
use cenote_dsl::{Dataset, Property, PropertyValue};

use super::mounter::MountSwitches;
use crate::imported::Imported;

/// Mount options that are obeyed, or that have no effect (cli/contract-zfs 7).
const OPTIONS: [&str; 22] = [
    "atime",
    "defaults",
    "dev",
    "diratime",
    "exec",
    "mand",
    "noatime",
    "nodev",
    "nodiratime",
    "noexec",
    "nomand",
    "norelatime",
    "nosuid",
    "noxattr",
    "posixacl",
    "relatime",
    "ro",
    "rw",
    "strictatime",
    "suid",
    "xattr",
    "zfsutil",
];

/// Refuses options that would be passed over.
pub fn check_options(options: &[String]) -> Result<(), ControlError> {
    let is_label = |word: &str| word.contains("context=");
    let known = |word: &str| OPTIONS.contains(&word) || word.is_empty() || is_label(word);
    match options.iter().find(|word| !known(word)) {
        None => Ok(()),
        Some(word) => Err(ControlError::BadValue {
            name: word.clone(),
            reason: format!("invalid mount option '{word}'"),
        }),
    }
}

/// The options that overrule a property: those that turn it on and off.
const OVERRULING: [(&str, &str, &str); 5] = [
    ("atime", "atime", "noatime"),
    ("exec", "exec", "noexec"),
    ("setuid", "suid", "nosuid"),
    ("devices", "dev", "nodev"),
    ("xattr", "xattr", "noxattr"),
];

/// The options of an import and of a mount, which overrule those.
fn given<'a>(imported: &'a Imported, options: &'a MountOptions) -> Vec<&'a str> {
    let given = imported.mount_options.iter().chain(&options.options);
    given.map(String::as_str).collect()
}

/// What the last of these options says that is about it.
fn last_of(given: &[&str], on: &str, off: &str) -> Option<bool> {
    let word = given.iter().rfind(|word| **word == on || **word == off);
    word.map(|word| *word == on)
}

/// The properties that options overrule.
pub(crate) fn temporary(imported: &Imported, options: &MountOptions) -> Vec<(&'static str, bool)> {
    let given = given(imported, options);
    let each = OVERRULING.into_iter();
    each.filter_map(|(name, on, off)| Some((name, last_of(&given, on, off)?)))
        .collect()
}

/// What properties and options allow.
pub(crate) fn switches(
    imported: &Imported,
    dataset: &Dataset,
    options: &MountOptions,
) -> MountSwitches {
    let given = given(imported, options);
    let chosen = |on: &str, off: &str, property| match last_of(&given, on, off) {
        Some(is_on) => is_on,
        None => text_of(dataset, property).as_deref() != Some("off"),
    };
    // If the property cannot be read, it is not allowed.
    let allowed = |on: &str, off: &str, property| match last_of(&given, on, off) {
        Some(is_on) => is_on,
        None => dataset.property(property).is_ok() && chosen(on, off, property),
    };
    let is = |property, word: &str| text_of(dataset, property).as_deref() == Some(word);
    MountSwitches {
        exec: allowed("exec", "noexec", Property::Exec),
        devices: allowed("dev", "nodev", Property::Devices),
        setuid: allowed("suid", "nosuid", Property::Setuid),
        atime: chosen("atime", "noatime", Property::Atime),
        read_only: chosen("ro", "rw", Property::ReadOnly),
        noatime: last_of(&given, "atime", "noatime") == Some(false),
        xattr: chosen("xattr", "noxattr", Property::Xattr),
        posix_acl: is(Property::AclType, "posix"),
        snapdir_visible: is(Property::SnapDir, "visible"),
        snapdir_disabled: is(Property::SnapDir, "disabled"),
        long_names: is(Property::LongName, "on"),
    }
}

/// A property that is a text.
pub fn text_of(dataset: &Dataset, property: Property) -> Option<String> {
    match dataset.property(property).ok()??.value {
        PropertyValue::Text(text) => Some(text),
        _ => None,
    }
}
