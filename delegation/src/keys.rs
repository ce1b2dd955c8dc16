//! The keys of a dataset's table of grants.
//!
//! ```text
//! u l $ 1000      the user 1000, on the dataset itself
//! | | | +-------- id of a user or group, name of a set, or nothing
//! | | +---------- always there
//! | +------------ l the dataset itself, d those below it, - neither (c and s)
//! +-------------- u user, g group, e everyone, c create time, s set
//! ```
//!
//! An upper-case first letter means that the entry lists permission sets, and not permissions.

use serde::{Deserialize, Serialize};

/// Whom a permission is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grantee {
    /// No user: the permission set with this name, which begins with `@`, is defined.
    Set(String),
    /// No user yet: the creator of a dataset below gets it, on that dataset.
    Creator,
    /// A user, by id.
    User(u64),
    /// A group, by id.
    Group(u64),
    /// Everyone.
    Everyone,
}

/// Where a permission holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// On the dataset itself.
    Local,
    /// On all datasets below it.
    Descendants,
    /// Not applicable: sets, and create-time permissions.
    None,
}

impl Grantee {
    /// Whether these are users, so that a scope applies.
    pub fn is_users(&self) -> bool {
        matches!(self, Self::User(_) | Self::Group(_) | Self::Everyone)
    }
}

/// The key of a grantee's permissions, or with `of_sets` of the sets that are granted.
pub fn grant_key(grantee: &Grantee, scope: Scope, of_sets: bool) -> String {
    let (letter, id) = match grantee {
        Grantee::User(id) => ('u', id.to_string()),
        Grantee::Group(id) => ('g', id.to_string()),
        Grantee::Everyone => ('e', String::new()),
        Grantee::Creator => ('c', String::new()),
        Grantee::Set(name) => ('s', name.clone()),
    };
    let letter = match of_sets {
        true => letter.to_ascii_uppercase(),
        false => letter,
    };
    let scope = match scope {
        Scope::Local => 'l',
        Scope::Descendants => 'd',
        Scope::None => '-',
    };
    format!("{letter}{scope}${id}")
}

/// Whose permissions a key is for, and where; `None` if it is no such key.
pub fn parse_key(key: &str) -> Option<(Grantee, Scope)> {
    let (letters, id) = key.split_once('$')?;
    let mut letters = letters.chars();
    let (kind, scope) = (letters.next()?, letters.next()?);
    if letters.next().is_some() {
        return None;
    }
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
    fn keys_are_read_as_they_are_written() {
        let set = || Grantee::Set("@backup".to_owned());
        for (key, grantee, scope) in [
            ("ul$1000", Grantee::User(1000), Scope::Local),
            ("Gd$10", Grantee::Group(10), Scope::Descendants),
            ("ed$", Grantee::Everyone, Scope::Descendants),
            ("c-$", Grantee::Creator, Scope::None),
            ("s-$@backup", set(), Scope::None),
            ("S-$@backup", set(), Scope::None),
        ] {
            assert_eq!(parse_key(key), Some((grantee.clone(), scope)), "{key}");
            let of_sets = key.starts_with(char::is_uppercase);
            assert_eq!(grant_key(&grantee, scope, of_sets), key);
        }
        for bad in ["", "u$1", "ux$1", "ul$x", "ul1", "xl$1", "ull$1", "ul$-1"] {
            assert_eq!(parse_key(bad), None, "{bad}");
        }
    }
}
