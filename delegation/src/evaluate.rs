//! Whether a user has a permission.

use crate::grants::Grants;
use crate::keys::{Grantee, Scope};
use std::collections::BTreeMap;

/// A user with all groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user id.
    pub id: u64,
    /// Ids of the groups.
    pub groups: Vec<u64>,
}

impl User {
    /// Whether the user has a permission on a dataset. `levels` are the grants of the dataset and
    /// of all above it, the nearest first.
    pub fn is_allowed(&self, levels: &[Grants], permission: &str) -> bool {
        // A set is no permission, although its name stands where permissions do.
        if permission.starts_with('@') {
            return false;
        }
        let mut sets = Sets::default();
        for (level, grants) in levels.iter().enumerate() {
            let scope = match level {
                0 => Scope::Local,
                _ => Scope::Descendants,
            };
            for grantee in self.grantees() {
                if sets.find(grants.of(&grantee, scope), permission) {
                    return true;
                }
            }
            // A definition may name sets that are defined here, too.
            while let Some(set) = sets.next_defined(grants) {
                if sets.find(grants.of(&set, Scope::None), permission) {
                    return true;
                }
            }
        }
        false
    }

    fn grantees(&self) -> impl Iterator<Item = Grantee> {
        let own = [Grantee::Everyone, Grantee::User(self.id)];
        own.into_iter()
            .chain(self.groups.iter().map(|id| Grantee::Group(*id)))
    }
}

/// The sets that were named so far, and whether their definition was found. The nearest one counts:
/// a set is looked up once, however often it is named.
#[derive(Default)]
struct Sets(BTreeMap<String, bool>);

impl Sets {
    /// Whether the permission is among these names; remembers the sets among them.
    fn find<'a>(&mut self, names: impl Iterator<Item = &'a str>, permission: &str) -> bool {
        let mut is_found = false;
        for name in names {
            is_found |= name == permission;
            if name.starts_with('@') && !self.0.contains_key(name) {
                self.0.insert(name.to_owned(), false);
            }
        }
        is_found
    }

    /// A set without a definition so far that is defined in a table; it has one from now on.
    fn next_defined(&mut self, grants: &Grants) -> Option<Grantee> {
        for (name, is_found) in self.0.iter_mut().filter(|(_, is_found)| !**is_found) {
            let set = Grantee::Set(name.clone());
            if grants.has(&set, Scope::None) {
                *is_found = true;
                return Some(set);
            }
        }
        None
    }
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
