//! Rows of `zfs list` and `zfs get`, and the mount table.

use serde::{Deserialize, Serialize};

use super::value::Property;

/// What a dataset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatasetKind {
    /// A file system.
    Filesystem,
    /// A block volume (zvol).
    Volume,
    /// A snapshot of either.
    Snapshot,
    /// A bookmark of either.
    Bookmark,
}

impl DatasetKind {
    /// The word of the property `type`.
    pub fn word(self) -> &'static str {
        match self {
            DatasetKind::Filesystem => "filesystem",
            DatasetKind::Volume => "volume",
            DatasetKind::Snapshot => "snapshot",
            DatasetKind::Bookmark => "bookmark",
        }
    }
}

/// A set of dataset kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindSet(u8);

impl KindSet {
    /// No kind.
    pub const NONE: KindSet = KindSet(0);
    /// File systems and volumes: what lists show by default.
    pub const HEADS: KindSet = KindSet(0b0011);
    /// Every kind.
    pub const ALL: KindSet = KindSet(0b1111);

    /// The set of one kind.
    pub const fn of(kind: DatasetKind) -> KindSet {
        KindSet(1 << kind as u8)
    }

    /// This set and `other`.
    pub const fn union(self, other: KindSet) -> KindSet {
        KindSet(self.0 | other.0)
    }

    /// Whether `kind` is in the set.
    pub const fn has(self, kind: DatasetKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Whether the set has any of `other`'s kinds.
    pub const fn meets(self, other: KindSet) -> bool {
        self.0 & other.0 != 0
    }
}

/// One dataset with the requested properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dataset {
    /// The full name: `tank/home@monday`.
    pub name: String,
    /// What it is.
    pub kind: DatasetKind,
    /// The transaction group that made it: the order of snapshots in lists.
    pub create_txg: u64,
    /// Its properties, in any order; one that does not apply is left out.
    pub properties: Vec<Property>,
}

impl Dataset {
    /// The property `name`, if it was requested and applies.
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties
            .iter()
            .find(|property| property.name == name)
    }

    /// The name of the pool.
    pub fn pool(&self) -> &str {
        self.name
            .split(['/', '@', '#'])
            .next()
            .unwrap_or(&self.name)
    }
}

/// One of the daemon's mounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountEntry {
    /// The dataset or snapshot.
    pub dataset: String,
    /// Where it is mounted: an absolute path.
    pub mountpoint: String,
    /// Whether it hangs at its own mountpoint (`zfs mount`) rather than at one that was chosen.
    pub own_place: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_kinds_hold_what_was_put_in() {
        let set = KindSet::HEADS.union(KindSet::of(DatasetKind::Bookmark));
        assert!(set.has(DatasetKind::Volume) && set.has(DatasetKind::Bookmark));
        assert!(!set.has(DatasetKind::Snapshot));
        assert!(!KindSet::HEADS.meets(KindSet::of(DatasetKind::Snapshot)));
    }

    #[test]
    fn the_pool_is_the_first_component() {
        let mut row = Dataset {
            name: "tank@now".to_owned(),
            kind: DatasetKind::Snapshot,
            create_txg: 4,
            properties: Vec::new(),
        };
        assert_eq!(row.pool(), "tank");
        row.name = "tank/a#b".to_owned();
        assert_eq!(row.pool(), "tank");
    }
}
