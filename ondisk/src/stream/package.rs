//! What a package holds: the list behind its first BEGIN.
//!
//! Source: format/4 5.
//!
//! ```text
//! tosnap, fromsnap   strings: short names     not_recursive, raw   flags
//! fss: for each dataset, by "0x" and the hexadecimal digits of its guid, a list:
//!     name   string           parentfromsnap   u64: guid of a snapshot of its parent
//!     origin u64: of a clone  props   list     is_encroot   flag
//!     snaps  list: name to guid     snapprops   list: name to list of properties
//!     snapholds   list: name to list of tag to time
//! ```
//!
//! Properties are strings or numbers, and kept as they are. A package of increments of one
//! dataset may have no list at all.

use crate::{DecodeError, NvList, NvValue};
use cenote_base::Guid;
use std::collections::HashMap;

const STRUCTURE: &str = "stream package";

/// What a package holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// The snapshot's name behind the `@`.
    pub to_snapshot: Vec<u8>,
    /// That of its source, in increments.
    pub from_snapshot: Option<Vec<u8>>,
    /// Whether descendants are in it.
    pub recursive: bool,
    /// Whether encrypted datasets are sent as they are stored.
    pub raw: bool,
    /// The datasets, in the list's order.
    pub datasets: Vec<PackageDataset>,
}

/// A dataset of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageDataset {
    /// Its guid.
    pub guid: Guid,
    /// The sender's name of it.
    pub name: Vec<u8>,
    /// The snapshot of its parent that is sent; 0 for the topmost.
    pub parent_from_snapshot: Guid,
    /// The snapshot that it was cloned from.
    pub origin: Option<Guid>,
    /// Its properties; absent if they were not asked for.
    pub properties: Option<NvList>,
    /// Whether it has a wrapping key of its own.
    pub is_encryption_root: bool,
    /// Its snapshots in the order of their names.
    pub snapshots: Vec<PackageSnapshot>,
    /// Whether the package tells of holds.
    pub has_holds: bool,
}

/// A snapshot of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageSnapshot {
    /// The name behind the `@`.
    pub name: Vec<u8>,
    /// Its guid.
    pub guid: Guid,
    /// Its properties.
    pub properties: NvList,
    /// Tags, and the times in seconds since 1970 at which they were set.
    pub holds: Vec<(Vec<u8>, u64)>,
}

impl Package {
    /// Takes a package's list apart.
    ///
    /// # Errors
    /// If there are datasets without a name, or guids that are none.
    pub fn from_list(list: &NvList) -> Result<Self, DecodeError> {
        let mut package = Self {
            to_snapshot: list.get_bytes("tosnap").unwrap_or_default().to_vec(),
            from_snapshot: list.get_bytes("fromsnap").map(<[u8]>::to_vec),
            recursive: !list.get_bool("not_recursive"),
            raw: list.get_bool("raw"),
            datasets: Vec::new(),
        };
        let Some(datasets) = list.get_list("fss") else {
            return Ok(package);
        };
        for (key, value) in datasets.iter() {
            let (Some(guid), NvValue::List(list)) = (parse_guid(key), value) else {
                return Err(DecodeError::Inconsistent {
                    structure: STRUCTURE,
                    problem: "an entry of 'fss' is no dataset",
                });
            };
            package
                .datasets
                .push(PackageDataset::from_list(guid, list)?);
        }
        Ok(package)
    }

    /// The list, in the order that OpenZFS sends.
    pub fn to_list(&self) -> NvList {
        let mut list = NvList::new();
        if let Some(name) = &self.from_snapshot {
            list.set_str("fromsnap", name);
        }
        list.set_str("tosnap", &self.to_snapshot);
        if !self.recursive {
            list.set("not_recursive", NvValue::Boolean);
        }
        if self.raw {
            list.set("raw", NvValue::Boolean);
        }
        let mut datasets = NvList::new();
        for dataset in &self.datasets {
            let key = format!("{:#x}", dataset.guid.0);
            datasets.push(key.into_bytes(), NvValue::List(dataset.to_list()));
        }
        list.set("fss", NvValue::List(datasets));
        list
    }
}

fn parse_guid(key: &[u8]) -> Option<Guid> {
    let digits = std::str::from_utf8(key).ok()?.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().map(Guid)
}

impl PackageDataset {
    fn from_list(guid: Guid, list: &NvList) -> Result<Self, DecodeError> {
        let name = list.get_bytes("name").ok_or(DecodeError::Missing {
            structure: STRUCTURE,
            key: "name",
        })?;
        let holds = list.get_list("snapholds");
        let mut dataset = Self {
            guid,
            name: name.to_vec(),
            parent_from_snapshot: Guid(list.get_u64("parentfromsnap").unwrap_or(0)),
            origin: list.get_u64("origin").filter(|guid| *guid != 0).map(Guid),
            properties: list.get_list("props").cloned(),
            is_encryption_root: list.get_bool("is_encroot"),
            snapshots: Vec::new(),
            has_holds: holds.is_some(),
        };
        let properties = by_name(list.get_list("snapprops"));
        let holds = by_name(holds);
        for (name, value) in list.get_list("snaps").into_iter().flat_map(NvList::iter) {
            let NvValue::Uint64(guid) = value else {
                return Err(DecodeError::Inconsistent {
                    structure: STRUCTURE,
                    problem: "a snapshot's guid is no number",
                });
            };
            let held = holds.get(name).into_iter().flat_map(|list| list.iter());
            dataset.snapshots.push(PackageSnapshot {
                name: name.to_vec(),
                guid: Guid(*guid),
                properties: properties.get(name).copied().cloned().unwrap_or_default(),
                holds: held.filter_map(hold).collect(),
            });
        }
        Ok(dataset)
    }

    fn to_list(&self) -> NvList {
        let mut list = NvList::new();
        list.set_str("name", &self.name);
        list.set_u64("parentfromsnap", self.parent_from_snapshot.0);
        if let Some(origin) = self.origin {
            list.set_u64("origin", origin.0);
        }
        if let Some(properties) = &self.properties {
            list.set("props", NvValue::List(properties.clone()));
        }
        if self.is_encryption_root {
            list.set("is_encroot", NvValue::Boolean);
        }
        let (mut guids, mut properties) = (NvList::new(), NvList::new());
        let mut holds = NvList::new();
        for snapshot in &self.snapshots {
            let name = || snapshot.name.clone();
            guids.push(name(), NvValue::Uint64(snapshot.guid.0));
            properties.push(name(), NvValue::List(snapshot.properties.clone()));
            let mut tags = NvList::new();
            for (tag, time) in &snapshot.holds {
                tags.push(tag.clone(), NvValue::Uint64(*time));
            }
            holds.push(name(), NvValue::List(tags));
        }
        list.set("snaps", NvValue::List(guids));
        list.set("snapprops", NvValue::List(properties));
        if self.has_holds {
            list.set("snapholds", NvValue::List(holds));
        }
        list
    }
}

fn hold((tag, value): (&[u8], &NvValue)) -> Option<(Vec<u8>, u64)> {
    match value {
        NvValue::Uint64(time) => Some((tag.to_vec(), *time)),
        _ => None,
    }
}

/// The lists in a list, by their names: looking each up in turn would take a time that grows
/// with the square of their number.
fn by_name(list: Option<&NvList>) -> HashMap<&[u8], &NvList> {
    let pairs = list.into_iter().flat_map(NvList::iter);
    pairs
        .filter_map(|(name, value)| match value {
            NvValue::List(list) => Some((name, list)),
            _ => None,
        })
        .collect()
}
