//! The properties by name: what they are called, measured in, and how wide a list shows them.
//!
//! The daemon uses the tables to know which names exist and to which kinds of dataset they apply;
//! the client to resolve aliases, to round, to align and to print usage texts. The order of each
//! table is the order of `get all` (cli/contract-zfs.md 3, cli/contract-zpool.md 4).

mod dataset;
mod effect;
mod info;
mod pool;
mod vdev;

pub use dataset::DATASET;
pub use effect::{Effect, dataset_effect, pool_effect, vdev_effect};
pub use info::{Layout, PropertyInfo, Unit};
pub use pool::POOL;
pub use vdev::VDEV;

/// Finds a property by its name or alias.
pub fn find(table: &'static [PropertyInfo], name: &str) -> Option<&'static PropertyInfo> {
    let is = |info: &&PropertyInfo| info.name == name || (!name.is_empty() && info.alias == name);
    table.iter().find(is)
}

/// Whether `name` can be a user property: it has a colon and the right characters.
pub fn is_user_property(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-+._:".contains(&c);
    name.contains(':') && name.len() < 256 && name.bytes().all(fits)
}

/// The accounting properties' prefixes: `userused@root`, `projectobjquota@7`.
pub const ACCOUNTING: [&str; 12] = [
    "userused@",
    "groupused@",
    "projectused@",
    "userobjused@",
    "groupobjused@",
    "projectobjused@",
    "userquota@",
    "groupquota@",
    "projectquota@",
    "userobjquota@",
    "groupobjquota@",
    "projectobjquota@",
];

/// The unit of a property that takes an argument (`userused@root`, `written@monday`), if it is one.
/// The name without an argument is valid, too, and has no value.
pub fn parametric_unit(name: &str) -> Option<Unit> {
    if name.starts_with("written@") || name.starts_with("written#") {
        return Some(Unit::Bytes);
    }
    let prefix = ACCOUNTING.iter().find(|prefix| name.starts_with(*prefix))?;
    Some(match (prefix.contains("obj"), prefix.contains("quota")) {
        (false, false) => Unit::Bytes,
        (false, true) => Unit::BytesOrNone,
        (true, _) => Unit::Number,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_unique() {
        for table in [DATASET, POOL, VDEV] {
            let mut names: Vec<&str> = table.iter().map(|info| info.name).collect();
            names.extend(
                table
                    .iter()
                    .map(|info| info.alias)
                    .filter(|a| !a.is_empty()),
            );
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            // A few headers double as aliases of their own name (RDONLY), never of another's.
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn aliases_find_their_property() {
        assert_eq!(find(DATASET, "avail").expect("an alias").name, "available");
        assert_eq!(find(POOL, "cap").expect("an alias").name, "capacity");
        assert!(find(DATASET, "").is_none());
        assert!(find(DATASET, "USED").is_none());
    }

    #[test]
    fn parametric_properties_have_units() {
        assert_eq!(parametric_unit("userused@root"), Some(Unit::Bytes));
        assert_eq!(parametric_unit("groupquota@7"), Some(Unit::BytesOrNone));
        assert_eq!(parametric_unit("projectobjused@7"), Some(Unit::Number));
        assert_eq!(parametric_unit("userused@"), Some(Unit::Bytes));
        assert_eq!(parametric_unit("used"), None);
    }

    #[test]
    fn user_properties_have_a_colon() {
        assert!(is_user_property("com.sun:auto-snapshot"));
        assert!(!is_user_property("compression"));
        assert!(!is_user_property("A:B"));
    }
}
