//! Error messages in OpenZFS's words (cli/contract-zfs.md 1, cli/contract-zpool.md 5).

use cenote_control::model::properties::PropertyInfo;
use cenote_control::model::{
    ControlError, DataErrorPlace, Diagnosis, Fault, FeatureName, NameFault, OlderState, PoolRow,
    PropertySelection, Request, Response,
};
use jiff::tz::TimeZone;

use crate::context::Context;
use crate::format::date::{Form, date};

/// `cannot open 'NAME': reason`.
pub fn cannot_open(name: &str, error: &ControlError) -> String {
    with_context(&format!("cannot open '{name}'"), error)
}

/// `CONTEXT: reason`, with the advice that belongs to some reasons.
///
/// An error of the daemon or a bug of ours is printed without context: the dataset is not its
/// cause.
pub fn with_context(context: &str, error: &ControlError) -> String {
    match error {
        ControlError::Internal { detail } => format!("internal error: {context}: {detail}"),
        ControlError::Unreachable { .. } | ControlError::DaemonDied { .. } => error.to_string(),
        // The message is the same for all operations: nothing was changed.
        ControlError::MountBusy { path } => format!("cannot unmount '{path}': {error}"),
        ControlError::LegacyMountpoint { .. } if context.starts_with("cannot mount") => {
            format!("{context}: {error}\nuse mount(8) to mount this filesystem")
        }
        _ => format!("{context}: {error}"),
    }
}

/// A line that suggests a known word for a wrong one, or "".
pub fn question<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let question = cenote_base::did_you_mean(wrong, known);
    question.map_or(String::new(), |question| format!("\n{question}"))
}

/// A line that suggests a known property for a wrong one, or "".
pub fn property_question(wrong: &str, table: &'static [PropertyInfo]) -> String {
    let known = table.iter().flat_map(|info| [info.name, info.alias]);
    question(wrong, known.filter(|known| !known.is_empty()))
}

/// Why an import failed, with OpenZFS's advice and our diagnosis of the devices.
pub fn cannot_import(name: &str, error: &ControlError, zone: &TimeZone) -> String {
    if matches!(error, ControlError::HostIdRequired { .. }) {
        return format!(
            "Cannot import '{name}': pool has the multihost property on and the\n\
             system's hostid is not set. Set a unique hostid with the zgenhostid(8) command."
        );
    }
    let mut text = with_context(&format!("cannot import '{name}'"), error);
    let mut more = |line: &str| {
        text.push('\n');
        text.push_str(line);
    };
    match error {
        ControlError::PoolNameTaken { .. } => {
            more("use the form 'zpool import <pool | id> <newpool>' to give it a new name");
        }
        ControlError::AmbiguousPool { .. } => more("import by numeric ID instead"),
        ControlError::ForeignHost {
            hostname,
            hostid,
            timestamp,
            ..
        } => {
            let when = date(*timestamp, Form::Ctime, zone);
            more(&format!(
                "Last accessed by {hostname} (hostid={hostid:x}) at {when}"
            ));
            more("The pool can be imported, use 'zpool import -f' to import the pool.");
        }
        ControlError::ActiveElsewhere { .. } => {
            more("Export the pool on the other system, then run 'zpool import'.");
        }
        ControlError::DevicesUnavailable { diagnoses, .. } => {
            for diagnosis in diagnoses {
                more(&format!("\t{}", diagnosis_line(diagnosis)));
            }
        }
        ControlError::DeviceLocked { .. } => {
            more("Nothing was changed. Export the pool there or end that program, then retry.");
        }
        ControlError::LogMissing { logs, .. } => {
            missing_logs(logs).iter().for_each(|line| more(line));
        }
        ControlError::LogUnreadable { reason, .. } => {
            more(&format!("\tunreadable: {reason}"));
            more(
                "The pool was not exported: what fsync confirmed in that dataset last may be lost.",
            );
            more(
                "Use '-m' to import the pool without it, or '-o readonly=on' to copy files first.",
            );
        }
        ControlError::UnsupportedFeatures {
            features,
            readonly_works,
            ..
        } => unsupported_features(features, *readonly_works)
            .iter()
            .for_each(|line| more(line)),
        ControlError::ReadOnlyOnly { .. } => {
            more("use 'zpool import -o readonly=on' to read its files.");
        }
        ControlError::PoolDamaged { place, older, .. } => {
            more(&format!("\tunreadable: {place}"));
            older_state(older, zone).iter().for_each(|line| more(line));
        }
        _ => {}
    }
    text
}

/// The missing log devices.
fn missing_logs(logs: &[cenote_control::model::MissingLog]) -> Vec<String> {
    let head = "The devices below are missing or corrupted, use '-m' to import the pool anyway:";
    let mut lines = vec![head.to_owned()];
    for log in logs {
        lines.push(format!("\t    {} [log]", log.name));
        let devices = log.devices.iter();
        lines.extend(devices.map(|device| format!("\t      {device}")));
    }
    lines.push(String::new());
    lines
}

/// What can be done if the newest state of a pool cannot be read.
fn older_state(older: &OlderState, zone: &TimeZone) -> Vec<String> {
    match older {
        OlderState::Unknown => Vec::new(),
        OlderState::None => vec!["No older state was found that can be read.".to_owned()],
        OlderState::Found { state, extreme } => {
            let option = if *extreme { "-FX" } else { "-F" };
            let when = date(state.time, Form::Ctime, zone);
            vec![
                format!(
                    "The state of {when} (txg {}) can be read; the newest is {} seconds younger.",
                    state.txg, state.lost_seconds
                ),
                format!("To read it and change nothing: 'zpool import {option} -o readonly=on'."),
                format!("To go back to it and lose what came after: 'zpool import {option}'."),
            ]
        }
    }
}

/// The features that prevent an import, and what is still possible.
fn unsupported_features(features: &[FeatureName], readonly_works: bool) -> Vec<String> {
    let lead = "This pool uses the following feature(s) not supported by this system:";
    let mut lines = vec![lead.to_owned()];
    lines.extend(features.iter().map(feature_line));
    if readonly_works {
        let only = "All unsupported features are only required for writing to the pool.";
        lines.push(only.to_owned());
        lines.push("The pool can be imported using '-o readonly=on'.".to_owned());
    }
    lines
}

/// A feature in a list: TAB, guid, description in brackets.
pub fn feature_line(feature: &FeatureName) -> String {
    if feature.description.is_empty() {
        format!("\t{}", feature.guid)
    } else {
        format!("\t{} ({})", feature.guid, feature.description)
    }
}

/// What is wrong with one device, in one line.
pub fn diagnosis_line(diagnosis: &Diagnosis) -> String {
    let device = match (&diagnosis.found_path, &diagnosis.last_path) {
        (Some(path), _) => format!("{} at {path}", diagnosis.vdev),
        (None, Some(path)) => format!("{}, last known as {path}", diagnosis.vdev),
        (None, None) => diagnosis.vdev.clone(),
    };
    let what = match &diagnosis.fault {
        Fault::NotFound => "not found".to_owned(),
        Fault::Unreadable { reason } => format!("cannot be read: {reason}"),
        Fault::Labels { good } => {
            let bad: Vec<String> = (0..4u8)
                .filter(|index| good & (1 << index) == 0)
                .map(|index| index.to_string())
                .collect();
            format!("damaged labels: {}", bad.join(", "))
        }
        Fault::NoLabel => "what is there has no valid label".to_owned(),
        Fault::NotUsed { reason } => format!("not used: {reason}"),
        Fault::NotWritable { reason } => format!(
            "not used: it cannot be opened for writing: {reason}. The pool is used without it. \
             Once it can be written to, 'zpool online' uses it again and resilvers what it missed"
        ),
        Fault::OtherPool { pool } => format!("what is there is of pool '{pool}'"),
        Fault::TooSmall { expected, found } => {
            format!("too small: {found} bytes, and devices of pools have {expected}")
        }
    };
    match diagnosis.guid {
        // If a whole top-level vdev is missing, no label has more details.
        0 => format!("{device}: {what}"),
        guid => format!("{device} (guid {guid}): {what}"),
    }
}

/// Checks a dataset name as OpenZFS does before it calls the kernel.
///
/// `snapshots` and `bookmarks` say which delimiters are allowed.
pub fn check_name(name: &str, snapshots: bool, bookmarks: bool) -> Result<(), NameFault> {
    const DEPTH_MAX: usize = 50;
    if name.len() > 255 {
        return Err(NameFault::TooLong);
    }
    if name.starts_with('/') {
        return Err(NameFault::LeadingSlash);
    }
    if name.is_empty() || name.starts_with(['@', '#']) {
        return Err(NameFault::EmptyComponent);
    }
    if !bookmarks && name.contains('#') {
        return Err(NameFault::BookmarkUnexpected);
    }
    if !snapshots && name.contains('@') {
        return Err(NameFault::SnapshotUnexpected);
    }
    if name.ends_with('/') {
        return Err(NameFault::TrailingSlash);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.: %/@#".contains(c);
    if let Some(c) = name.chars().find(|c| !fits(*c)) {
        return Err(NameFault::Character(c));
    }
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > DEPTH_MAX {
        return Err(NameFault::TooDeep);
    }
    for (index, part) in parts.iter().enumerate() {
        check_component(part, index + 1 == parts.len())?;
    }
    Ok(())
}

fn check_component(part: &str, last: bool) -> Result<(), NameFault> {
    let words: Vec<&str> = part.split(['@', '#']).collect();
    if words.len() > 2 {
        return Err(NameFault::Delimiters);
    }
    if words.iter().any(|word| word.is_empty()) || (words.len() == 2 && !last) {
        return Err(NameFault::EmptyComponent);
    }
    match words.first() {
        Some(&".") => Err(NameFault::SelfReference),
        Some(&"..") => Err(NameFault::ParentReference),
        _ => Ok(()),
    }
}

/// Checks the name of a pool to be opened: the reason in OpenZFS's words.
pub fn check_pool_name(name: &str) -> Result<(), String> {
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("name must begin with a letter".to_owned());
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
    match name.chars().find(|c| !fits(*c)) {
        Some(c) => Err(format!("invalid character '{c}' in pool name")),
        None => Ok(()),
    }
}

/// Checks the name of a new pool: the reason in OpenZFS's words.
pub fn check_new_pool_name(name: &str) -> Result<(), String> {
    check_pool_name(name)?;
    let reserved = ["mirror", "raidz", "draid", "spare"];
    let is_reserved = name == "log" || reserved.iter().any(|word| name.starts_with(word));
    match (name.len() > 255, is_reserved) {
        (true, _) => Err("name is too long".to_owned()),
        (_, true) => Err("name is reserved".to_owned()),
        _ => Ok(()),
    }
}

/// Why this version refuses a change. If the pool is read-only, that is the reason.
pub fn unavailable(pool: &str, context: &mut Context) -> String {
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(vec!["readonly".to_owned()]),
        vdevs: false,
    };
    let is_on = |row: &PoolRow| {
        let mut properties = row.properties.iter();
        let found = properties.find(|property| property.name == "readonly");
        found.is_some_and(|property| property.value.text() == Some("on"))
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, .. }) if pools.iter().any(is_on) => {
            let pool = pool.to_owned();
            ControlError::PoolReadOnly { pool }.to_string()
        }
        _ => "this is not available in this version".to_owned(),
    }
}

/// The place of an object as text, as `zpool status -v` shows it.
pub fn place_text(place: &DataErrorPlace) -> String {
    match place {
        DataErrorPlace::Path(path) => path.lossy().into_owned(),
        DataErrorPlace::File { dataset, path } => format!("{dataset}:{}", path.lossy()),
        DataErrorPlace::Object { dataset, object } => format!("{dataset}:<{object:#x}>"),
        DataErrorPlace::Metadata { object } => format!("<metadata>:<{object:#x}>"),
        DataErrorPlace::Unknown { objset, object } => format!("<{objset:#x}>:<{object:#x}>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_with_the_references_reason() {
        let fault = |name: &str| check_name(name, true, true).expect_err(name).to_string();
        let empty = "empty component or misplaced '@' or '#' delimiter in name";
        assert_eq!(fault(""), empty);
        assert_eq!(fault("@"), empty);
        assert_eq!(fault("tank//a"), empty);
        assert_eq!(fault("tank@"), empty);
        assert_eq!(fault("tank/"), "trailing slash in name");
        assert_eq!(fault("/tank"), "leading slash in name");
        assert_eq!(fault("tank/a!b"), "invalid character '!' in name");
        let delimiters = "multiple '@' and/or '#' delimiters in name";
        assert_eq!(fault("tank@a@b"), delimiters);
        assert_eq!(fault("tank/."), "self reference, '.' is found in name");
        assert_eq!(fault("tank/.."), "parent reference, '..' is found in name");
        assert_eq!(fault(&"x".repeat(256)), "name is too long");
        assert_eq!(check_name("tank/a b@c", true, true), Ok(()));
        assert_eq!(
            check_name("tank@a", false, true),
            Err(NameFault::SnapshotUnexpected)
        );
        assert_eq!(
            check_name("tank#a", true, false),
            Err(NameFault::BookmarkUnexpected)
        );
    }

    #[test]
    fn a_foreign_pool_comes_with_advice() {
        let error = ControlError::ForeignHost {
            pool: "tank".to_owned(),
            hostname: "attic".to_owned(),
            hostid: 0x0832_3329,
            timestamp: 1_700_000_000,
        };
        let expected = "cannot import 'tank': pool was previously in use from another system.\n\
                        Last accessed by attic (hostid=8323329) at Tue Nov 14 22:13:20 2023\n\
                        The pool can be imported, use 'zpool import -f' to import the pool.";
        assert_eq!(cannot_import("tank", &error, &TimeZone::UTC), expected);
    }

    #[test]
    fn a_missing_disk_is_named_by_its_last_path() {
        let diagnosis = Diagnosis {
            vdev: "raidz1-0/1".to_owned(),
            guid: 7,
            last_path: Some("/dev/sdb1".to_owned()),
            found_path: None,
            fault: Fault::NotFound,
        };
        let expected = "raidz1-0/1, last known as /dev/sdb1 (guid 7): not found";
        assert_eq!(diagnosis_line(&diagnosis), expected);
    }
}
