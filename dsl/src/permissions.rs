//! Delegated permissions: who may do what with a dataset and those below (format/3a 10).
//!
//! A directory's ZAP maps a *who key* to another ZAP with the permissions. A who key is two
//! letters, `$` and an id: `ul$1000` for the user 1000 on the dataset itself (local), `gd$10` for
//! the group 10 on what is below. An upper-case first letter means that the second ZAP lists
//! names of permission sets (`@backup`) and not permissions.

use crate::directory::Directory;
use crate::error::DslError;
use cenote_base::ObjectId;
use std::collections::BTreeMap;

/// Whom a permission is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grantee {
    /// A permission set is defined: `@name`.
    Set(String),
    /// The user who creates a dataset here, on that dataset.
    Creator,
    /// A user id.
    User(u64),
    /// A group id.
    Group(u64),
    /// Everyone.
    Everyone,
}

/// Where a permission holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// On the dataset itself.
    Local,
    /// On what is below.
    Descendants,
    /// Not applicable: sets, and permissions at creation.
    None,
}

/// Permissions and names of permission sets by grantee and scope.
pub type Permissions = BTreeMap<(Grantee, Scope), Vec<String>>;

impl Directory {
    /// The permissions that were delegated on this dataset, in order.
    pub fn permissions(&self) -> Result<Permissions, DslError> {
        let mut permissions = Permissions::new();
        let Some(map) = self.phys().delegations else {
            return Ok(permissions);
        };
        let mos = self.dsl().mos();
        for entry in mos.zap(map)?.entries() {
            let entry = entry?;
            let who = entry.key.as_str().and_then(parse_who);
            let (Some(who), Some(names)) = (who, entry.value.as_u64()) else {
                return Err(DslError::structure(
                    map,
                    "an entry of the permissions is malformed",
                ));
            };
            let granted = permissions.entry(who).or_default();
            for name in mos.zap(ObjectId(names))?.entries() {
                granted.extend(name?.key.as_str().map(str::to_owned));
            }
            granted.sort();
            granted.dedup();
        }
        Ok(permissions)
    }
}

fn parse_who(key: &str) -> Option<(Grantee, Scope)> {
    let (letters, id) = key.split_once('$')?;
    let mut letters = letters.chars();
    let (kind, scope) = (letters.next()?, letters.next()?);
    let scope = match scope {
        'l' => Scope::Local,
        'd' => Scope::Descendants,
        '-' => Scope::None,
        _ => return None,
    };
    let grantee = match kind.to_ascii_lowercase() {
        'u' => Grantee::User(id.parse().ok()?),
        'g' => Grantee::Group(id.parse().ok()?),
        'e' => Grantee::Everyone,
        'c' => Grantee::Creator,
        's' => Grantee::Set(id.to_owned()),
        _ => return None,
    };
    Some((grantee, scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keys() {
        assert_eq!(
            parse_who("ul$1000"),
            Some((Grantee::User(1000), Scope::Local))
        );
        assert_eq!(
            parse_who("Gd$10"),
            Some((Grantee::Group(10), Scope::Descendants))
        );
        assert_eq!(
            parse_who("ed$"),
            Some((Grantee::Everyone, Scope::Descendants))
        );
        assert_eq!(parse_who("c-$"), Some((Grantee::Creator, Scope::None)));
        let set = Grantee::Set("@backup".to_owned());
        assert_eq!(parse_who("s-$@backup"), Some((set, Scope::None)));
        for bad in ["", "u$1", "ux$1", "ul$x", "ul1", "xl$1"] {
            assert_eq!(parse_who(bad), None, "{bad}");
        }
    }
}
