//! The names of snapshots that a command is about.

use crate::errors::parse_name;
use crate::registry::table::Registry;
use crate::registry::walk::{is_within, walk_heads};
use cenote_control::model::{ControlError, NameFault, Response};
use cenote_dsl::{Dataset, DatasetName, NameKind};
use std::collections::BTreeMap;

/// Does the same in each pool; a failure names its snapshot, or the first one.
pub(super) fn in_each_pool(
    wanted: BTreeMap<String, Vec<DatasetName>>,
    mut each: impl FnMut(&[DatasetName]) -> Result<(), ControlError>,
) -> Result<Response, ControlError> {
    let mut failures = Vec::new();
    let mut done = 0;
    for names in wanted.values().filter(|names| !names.is_empty()) {
        match each(names) {
            Ok(()) => done += names.len() as u64,
            Err(error) => failures.push((subject(&error, names), error)),
        }
    }
    Ok(Response::Failures { failures, done })
}

/// The same snapshots of all datasets below theirs, too.
fn with_those_below(
    registry: &Registry,
    names: &[DatasetName],
) -> Result<Vec<DatasetName>, ControlError> {
    with_those_below_if(registry, names, |_| true)
}

/// The same, without those below whose first receive has not ended.
///
/// They cannot have snapshots yet. A dataset that is named itself stays, and is refused later.
pub(super) fn with_complete_below(
    registry: &Registry,
    names: &[DatasetName],
) -> Result<Vec<DatasetName>, ControlError> {
    with_those_below_if(registry, names, |head| !head.is_inconsistent())
}

fn with_those_below_if(
    registry: &Registry,
    names: &[DatasetName],
    is_wanted: impl Fn(&Dataset) -> bool,
) -> Result<Vec<DatasetName>, ControlError> {
    let mut all = Vec::new();
    for name in names {
        let component = name.after_delimiter().unwrap_or_default();
        let top = name.dataset();
        let (imported, _) = registry.dataset(&top)?;
        let mut failure = None;
        walk_heads(imported.dsl(), |head| {
            let is_top = head.name() == &top;
            if !is_within(head.name(), &top) || !(is_top || is_wanted(head)) {
                return;
            }
            match parse_name(&format!("{}@{component}", head.name())) {
                Ok(name) => all.push(name),
                Err(error) => failure = Some(error),
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
    }
    Ok(all)
}

/// The snapshot that a refusal is about: the one it names, or the first one of the request.
fn subject(error: &ControlError, names: &[DatasetName]) -> String {
    let named = match error {
        ControlError::Exists { name } => Some(name),
        ControlError::SnapshotsOfSame { snapshot } | ControlError::SnapshotCloned { snapshot } => {
            Some(snapshot)
        }
        ControlError::DatasetBusy { dataset } | ControlError::NoSuchDataset { dataset } => {
            Some(dataset)
        }
        ControlError::SnapshotRefused { name, .. } if !name.is_empty() => Some(name),
        _ => None,
    };
    let first = names.first().map(|name| name.as_str().to_owned());
    named.cloned().or(first).unwrap_or_default()
}

/// Snapshots' names, by pool, in the order given.
pub(super) fn snapshots_by_pool(
    names: &[String],
) -> Result<BTreeMap<String, Vec<DatasetName>>, ControlError> {
    let mut by_pool: BTreeMap<String, Vec<DatasetName>> = BTreeMap::new();
    for name in names {
        let parsed = parse_name(name)?;
        if parsed.kind() != NameKind::Snapshot {
            let (name, fault) = (name.clone(), NameFault::NoSnapshot);
            return Err(ControlError::BadName { name, fault });
        }
        let pool = parsed.pool().to_owned();
        by_pool.entry(pool).or_default().push(parsed);
    }
    Ok(by_pool)
}

/// Those of these snapshots, and with `recursive` of the same of all datasets below, that exist.
pub(super) fn existing(
    registry: &Registry,
    names: &[String],
    recursive: bool,
) -> Result<BTreeMap<String, Vec<DatasetName>>, ControlError> {
    let mut wanted = snapshots_by_pool(names)?;
    for names in wanted.values_mut() {
        if !recursive {
            for name in names.iter() {
                registry.dataset(name)?;
            }
            continue;
        }
        let mut all = with_those_below(registry, names)?;
        all.retain(|name| registry.dataset(name).is_ok());
        if all.is_empty() {
            let dataset = names.first().map(|name| name.as_str().to_owned());
            let dataset = dataset.unwrap_or_default();
            return Err(ControlError::NoSuchDataset { dataset });
        }
        *names = all;
    }
    Ok(wanted)
}
