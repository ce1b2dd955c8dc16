//! The properties by name: what they are called, measured in, and how wide a list shows them.
//!
//! The daemon uses the tables to know which names exist and to which kinds of dataset they apply;
//! the client to resolve aliases, to round, to align and to print usage texts. The order of each
//! table is the order of `get all` (cli/contract-zfs.md 3, cli/contract-zpool.md 4).

mod dataset;
mod pool;
mod vdev;

pub use dataset::DATASET;
pub use pool::POOL;
pub use vdev::VDEV;

use super::KindSet;

/// What a property's number means and how it is worded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words, or numbers that are shown as they are.
    Text,
    /// Bytes, with `B` when below 1024.
    Bytes,
    /// Bytes; 0 is `none` for people.
    BytesOrNone,
    /// Bytes; 0 is `-`.
    BytesOrDash,
    /// A count or size, rounded without `B`.
    Number,
    /// A count; 2^64-1 is `none`.
    LimitOrNone,
    /// Always exact: guids, transaction groups.
    Exact,
    /// Hundredths: `1.07x`.
    Ratio,
    /// Per cent; 2^64-1 is `-`.
    Percent,
    /// Seconds since the epoch, shown to the minute.
    Date,
    /// Seconds since the epoch, shown to the second.
    DateSeconds,
    /// Bytes; 0 is `none`, 2^64-1 is `auto`.
    TableQuota,
}

/// How a list lays out the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Left aligned, at least this wide whatever the values are: the longest word of an index.
    Words(usize),
    /// Left aligned, as wide as the widest value.
    Measured,
    /// Right aligned, this wide at least, measured only with exact values.
    Number(usize),
    /// Right aligned, as wide as the widest value.
    MeasuredNumber,
}

/// One property.
#[derive(Clone, Copy, Debug)]
pub struct PropertyInfo {
    /// The full name.
    pub name: &'static str,
    /// A short name, or "".
    pub alias: &'static str,
    /// The column's header.
    pub header: &'static str,
    /// The kinds of dataset it applies to; for pools and vdevs all.
    pub kinds: KindSet,
    /// What its number means.
    pub unit: Unit,
    /// How a list shows it.
    pub layout: Layout,
    /// Whether `set` takes it.
    pub editable: bool,
    /// Whether children inherit it.
    pub inherits: bool,
    /// Its values in usage texts; "" hides it there.
    pub values: &'static str,
}

impl PropertyInfo {
    /// The narrowest that a list shows the column, in characters.
    pub fn width_min(&self) -> usize {
        let header = self.header.len();
        match self.layout {
            Layout::Words(width) => header.max(width),
            Layout::Measured => header,
            Layout::Number(width) => header.max(width),
            Layout::MeasuredNumber => header.max(5),
        }
    }

    /// Whether the column is right aligned.
    pub fn right_aligned(&self) -> bool {
        matches!(self.layout, Layout::Number(_) | Layout::MeasuredNumber)
    }
}

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
pub fn parametric_unit(name: &str) -> Option<Unit> {
    if name.starts_with("written@") || name.starts_with("written#") {
        return Some(Unit::Bytes);
    }
    let prefix = ACCOUNTING
        .iter()
        .find(|prefix| name.len() > prefix.len() && name.starts_with(*prefix))?;
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
        assert_eq!(parametric_unit("userused@"), None);
        assert_eq!(parametric_unit("used"), None);
    }

    #[test]
    fn user_properties_have_a_colon() {
        assert!(is_user_property("com.sun:auto-snapshot"));
        assert!(!is_user_property("compression"));
        assert!(!is_user_property("A:B"));
    }
}
