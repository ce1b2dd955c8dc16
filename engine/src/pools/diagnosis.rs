//! What is missing or damaged of a pool that could be imported.

use cenote_base::Guid;
use cenote_control::model::{Diagnosis, Fault, FeatureName};
use cenote_device::DEVICE_SIZE_MIN;
use cenote_ondisk::VdevConfig;
use cenote_pool::{MissingVdev, Outsider, PoolCandidate, Stranger, Why, at_last_path};
use std::path::PathBuf;

/// What is missing or damaged, leaf by leaf, of the pool's own `tree` or of that of the labels.
pub(crate) fn diagnoses_in(
    candidate: &PoolCandidate,
    tree: &VdevConfig,
    outsiders: &[Outsider],
) -> Vec<Diagnosis> {
    let paths = candidate.paths();
    let mut found: Vec<Diagnosis> = not_used(tree, outsiders);
    for leaf in tree.leaves() {
        // That is why it is missing.
        let mut own = outsiders
            .iter()
            .filter(|outsider| outsider.leaf == leaf.guid);
        if own.any(|outsider| !outsider.is_copy()) {
            continue;
        }
        let fault = match paths.get(&leaf.guid) {
            Some(_) => label_fault(candidate, leaf.guid),
            None if leaf.kind.is_device() => Some(absence(leaf)),
            None if leaf.kind == cenote_ondisk::VdevKind::Missing => Some(Fault::NotFound),
            None => None,
        };
        if let Some(fault) = fault {
            found.push(diagnosis(tree, leaf, fault, paths.get(&leaf.guid)));
        }
    }
    found
}

/// Devices that bear guids of leaves and are not used.
pub(crate) fn not_used(tree: &VdevConfig, outsiders: &[Outsider]) -> Vec<Diagnosis> {
    let diagnosis = |outsider: &Outsider| {
        let leaf = tree.leaves().find(|leaf| leaf.guid == outsider.leaf)?;
        let fault = match &outsider.why {
            Why::NotWritable { reason } => Fault::NotWritable {
                reason: reason.clone(),
            },
            _ => Fault::NotUsed {
                reason: outsider.reason(),
            },
        };
        Some(diagnosis(tree, leaf, fault, Some(&outsider.path)))
    };
    outsiders.iter().filter_map(diagnosis).collect()
}

/// The same if devices are missing that are needed to read anything: the pool's configuration may
/// have facts about them that are in no label.
pub(crate) fn diagnoses_of_missing(
    candidate: &PoolCandidate,
    missing: &[MissingVdev],
) -> Vec<Diagnosis> {
    let outsiders = &candidate.outsiders;
    let is_there = |missing: &&MissingVdev| {
        let mut own = outsiders
            .iter()
            .filter(|outsider| outsider.leaf == missing.guid);
        own.any(|outsider| !outsider.is_copy())
    };
    let absent = missing.iter().filter(|missing| !is_there(missing));
    let mut diagnoses: Vec<_> = absent.map(missing_diagnosis).collect();
    // Devices that are in no label are among the missing already.
    let is_new = |known: &Diagnosis| {
        known.guid != 0 && !missing.iter().any(|missing| missing.guid.0 == known.guid)
    };
    let others = diagnoses_in(candidate, &candidate.tree, outsiders);
    let is_not_used = |known: &Diagnosis| {
        matches!(
            known.fault,
            Fault::NotUsed { .. } | Fault::NotWritable { .. }
        )
    };
    diagnoses.extend(
        others
            .into_iter()
            .filter(|known| is_not_used(known) || is_new(known)),
    );
    diagnoses
}

fn missing_diagnosis(missing: &MissingVdev) -> Diagnosis {
    let path = missing.last_path.as_ref();
    Diagnosis {
        vdev: missing.top.clone(),
        guid: missing.guid.0,
        last_path: path.map(|path| path.to_string_lossy().into_owned()),
        found_path: None,
        fault: Fault::NotFound,
    }
}

/// Why a device was not found.
fn absence(leaf: &VdevConfig) -> Fault {
    match at_last_path(leaf) {
        None => Fault::NotFound,
        Some(Stranger::Unreadable { reason }) => Fault::Unreadable { reason },
        Some(Stranger::Unlabelled) => Fault::NoLabel,
        Some(Stranger::Foreign { pool }) => Fault::OtherPool { pool },
        Some(Stranger::TooSmall { bytes }) => Fault::TooSmall {
            expected: DEVICE_SIZE_MIN,
            found: bytes,
        },
    }
}

fn diagnosis(
    tree: &VdevConfig,
    leaf: &VdevConfig,
    fault: Fault,
    found: Option<&PathBuf>,
) -> Diagnosis {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    Diagnosis {
        vdev: place_of(tree, leaf.guid, leaf),
        guid: leaf.guid.0,
        last_path: leaf.path.as_ref().map(text),
        found_path: found.map(text),
        fault,
    }
}

/// The position of a leaf in the tree: `raidz1-0/1`.
fn place_of(root: &VdevConfig, guid: Guid, leaf: &VdevConfig) -> String {
    let top = root
        .children
        .iter()
        .find(|top| top.walk().any(|vdev| vdev.guid == guid && guid.0 != 0));
    let id = |vdev: &VdevConfig| vdev.id.map_or(0, |id| id.0);
    match top {
        Some(top) if top.guid != guid => {
            let parity = match top.parity {
                0 => String::new(),
                parity => parity.to_string(),
            };
            format!("{}{parity}-{}/{}", top.kind.name(), id(top), id(leaf))
        }
        _ => format!("top-level vdev {}", id(leaf)),
    }
}

/// Labels of a device that do not verify.
fn label_fault(candidate: &PoolCandidate, guid: Guid) -> Option<Fault> {
    let member = candidate.members.iter().find(|member| {
        let config = member.labels.newest_config();
        config.and_then(|label| label.guid()) == Some(guid)
    })?;
    let mut good = 0;
    for label in member.labels.labels.iter().filter(|label| label.is_valid()) {
        good |= 1u8 << label.index.min(3);
    }
    (good != 0b1111).then_some(Fault::Labels { good })
}

/// A feature by its guid, with its description if it is known.
pub(crate) fn feature_name(guid: String) -> FeatureName {
    let known = cenote_ondisk::features::by_guid(&guid);
    let description = known.map_or("", |known| known.description).to_owned();
    FeatureName { guid, description }
}
