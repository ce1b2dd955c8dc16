//! Changes to the entries of one directory.

use crate::target::Target;
use cenote_dmu::zap::normalize::normalize;
use std::collections::BTreeMap;

/// An entry that the log added.
#[derive(Clone, Debug)]
struct Added {
    /// The spelling.
    name: Vec<u8>,
    target: Target,
    /// Its place in listings, above 0.
    place: u64,
}

/// Names added to and removed from a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameChanges {
    /// By normalized name: an added entry, or `None` for a removed one. Either hides the entry
    /// of that name on disk.
    changes: BTreeMap<Vec<u8>, Option<Added>>,
    /// Normalized names of added entries by their place.
    places: BTreeMap<u64, Vec<u8>>,
    /// The place of the next addition, less one.
    last_place: u64,
    /// How names are compared.
    flags: u64,
}

impl NameChanges {
    /// No changes to a directory whose names are compared under `flags`.
    pub fn new(flags: u64) -> Self {
        Self {
            flags,
            ..Self::default()
        }
    }

    /// Makes `name` lead to `target`.
    pub fn add(&mut self, name: &[u8], target: Target) {
        self.last_place += 1;
        let (place, key) = (self.last_place, normalize(name, self.flags));
        self.places.insert(place, key.clone());
        let added = Added {
            name: name.to_vec(),
            target,
            place,
        };
        let before = self.changes.insert(key, Some(added)).flatten();
        if let Some(before) = before {
            self.places.remove(&before.place);
        }
    }

    /// Makes `name` lead nowhere.
    pub fn remove(&mut self, name: &[u8]) {
        let before = self
            .changes
            .insert(normalize(name, self.flags), None)
            .flatten();
        if let Some(before) = before {
            self.places.remove(&before.place);
        }
    }

    /// Whether the entry of this name on disk is no more.
    pub fn hides(&self, name: &[u8]) -> bool {
        self.changes.contains_key(&normalize(name, self.flags))
    }

    /// What the log says about `name`: nothing, that it is gone (`Some(None)`), or the entry.
    pub fn get(&self, name: &[u8]) -> Option<Option<(&[u8], Target)>> {
        let change = self.changes.get(&normalize(name, self.flags))?;
        Some(
            change
                .as_ref()
                .map(|added| (added.name.as_slice(), added.target)),
        )
    }

    /// The first added entry whose place is behind `after`.
    pub fn added_after(&self, after: u64) -> Option<(u64, &[u8], Target)> {
        let (place, key) = self.places.range(after.checked_add(1)?..).next()?;
        let added = self.changes.get(key).and_then(Option::as_ref);
        let added = added.expect("places only name added entries");
        Some((*place, &added.name, added.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::ObjectId;
    use cenote_dmu::zap::normalize::FLAG_TOUPPER;

    fn target(id: u64) -> Target {
        Target {
            object: ObjectId(id),
            kind: None,
        }
    }

    #[test]
    fn the_last_change_counts() {
        let mut names = NameChanges::new(0);
        names.add(b"a", target(1));
        names.add(b"b", target(2));
        names.remove(b"a");
        assert_eq!(names.get(b"a"), Some(None));
        assert_eq!(names.get(b"c"), None);
        names.add(b"a", target(3));
        names.add(b"b", target(4));
        let (first, name, _) = names.added_after(0).unwrap();
        assert_eq!(name, b"a");
        let (second, name, found) = names.added_after(first).unwrap();
        assert_eq!((name, found), (b"b".as_slice(), target(4)));
        assert_eq!(names.added_after(second), None);
        assert_eq!(names.added_after(u64::MAX), None);
    }

    #[test]
    fn names_compare_by_the_rules() {
        let mut names = NameChanges::new(FLAG_TOUPPER);
        names.add(b"Hello", target(1));
        assert!(names.hides(b"hELLO"));
        assert_eq!(
            names.get(b"HELLO"),
            Some(Some((b"Hello".as_slice(), target(1))))
        );
        names.remove(b"hello");
        assert_eq!(names.added_after(0), None);
    }
}
