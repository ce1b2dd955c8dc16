//! A dataset's table of grants.

use crate::keys::{Grantee, Scope};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Permissions and permission sets for one grantee in one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// For whom.
    pub grantee: Grantee,
    /// Where.
    pub scope: Scope,
    /// Names of permissions, and of sets, which begin with `@`.
    pub names: BTreeSet<String>,
}

/// The grants of a dataset. None is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<(Grantee, Scope), BTreeSet<String>>);

impl Grants {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds names to those of a grantee.
    pub fn add(&mut self, grant: &Grant) {
        if !grant.names.is_empty() {
            let key = (grant.grantee.clone(), grant.scope);
            let names = self.0.entry(key).or_default();
            names.extend(grant.names.iter().cloned());
        }
    }

    /// Takes names away from a grantee, as far as it has them; without names all that it has.
    pub fn remove(&mut self, grant: &Grant) {
        let key = (grant.grantee.clone(), grant.scope);
        let Some(names) = self.0.get_mut(&key) else {
            return;
        };
        names.retain(|name| !grant.names.is_empty() && !grant.names.contains(name));
        if names.is_empty() {
            self.0.remove(&key);
        }
    }

    /// The names granted to a grantee in a scope, sorted.
    pub fn of(&self, grantee: &Grantee, scope: Scope) -> impl Iterator<Item = &str> {
        let names = self.0.get(&(grantee.clone(), scope));
        names.into_iter().flatten().map(String::as_str)
    }

    /// Whether anything is granted to a grantee in a scope; of a set, whether it is defined.
    pub(crate) fn has(&self, grantee: &Grantee, scope: Scope) -> bool {
        self.0.contains_key(&(grantee.clone(), scope))
    }

    /// All grants, in order.
    pub fn all(&self) -> Vec<Grant> {
        let grants = self.0.iter().map(|((grantee, scope), names)| Grant {
            grantee: grantee.clone(),
            scope: *scope,
            names: names.clone(),
        });
        grants.collect()
    }

    /// What `user` gets on a new dataset with these tables above it, for having created it.
    pub fn of_creator<'a>(above: impl IntoIterator<Item = &'a Grants>, user: u64) -> Self {
        let mut own = Self::default();
        for grants in above {
            let names = grants.of(&Grantee::Creator, Scope::None);
            own.add(&Grant {
                grantee: Grantee::User(user),
                scope: Scope::Local,
                names: names.map(str::to_owned).collect(),
            });
        }
        own
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        let mut table = Self::default();
        grants.into_iter().for_each(|grant| table.add(&grant));
        table
    }
}
