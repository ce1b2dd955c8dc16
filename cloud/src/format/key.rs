//! The names of objects, from the device's prefix on.

use super::{CommitNumber, ObjectNumber, WriterId};

/// The identity.
pub const DEVICE: &str = "device";
/// A copy of the identity: opening the device needs one of the two.
pub const DEVICE_COPY: &str = "device-copy";
/// The newest checkpoint's number.
pub const CURRENT: &str = "current";
/// What all commits' names begin with.
pub const COMMITS: &str = "commit/";
/// What all data objects' names begin with.
pub const DATA: &str = "data/";
/// Between the names of data objects and all names behind them.
pub const BEHIND_DATA: &str = "data0";
/// What the names of all parts of the map begin with.
pub const MAP: &str = "map/";
/// What the names of objects begin with by which a store is tried.
pub const PROBE: &str = "probe/";

/// Commit `number`.
pub fn commit(number: CommitNumber) -> String {
    format!("{COMMITS}{:020}", number.0)
}

/// The number in a commit's name.
pub fn commit_number(key: &str) -> Option<CommitNumber> {
    let digits = key.strip_prefix(COMMITS)?;
    let number = digits.parse().ok()?;
    (digits.len() == 20).then_some(CommitNumber(number))
}

/// The data object `number` of `writer`.
pub fn data(writer: WriterId, number: ObjectNumber) -> String {
    format!("{DATA}{writer}-{:016x}", number.0)
}

/// What the names of all data objects of `writer` begin with.
pub fn data_of(writer: WriterId) -> String {
    format!("{DATA}{writer}-")
}

/// Writer and number in a data object's name.
pub fn data_name(key: &str) -> Option<(WriterId, ObjectNumber)> {
    let (writer, number) = key.strip_prefix(DATA)?.split_once('-')?;
    if writer.len() != 16 || number.len() != 16 {
        return None;
    }
    let writer = u64::from_str_radix(writer, 16).ok()?;
    let number = u64::from_str_radix(number, 16).ok()?;
    Some((WriterId(writer), ObjectNumber(number)))
}

/// The root of checkpoint `number`.
pub fn root(number: CommitNumber) -> String {
    format!("{MAP}{:020}/root", number.0)
}

/// The checkpoint of which a name is that of the root.
pub fn root_number(key: &str) -> Option<CommitNumber> {
    let number = key.strip_prefix(MAP)?.strip_suffix("/root")?;
    number.parse().ok().map(CommitNumber)
}

/// The `part`-th object of pages of checkpoint `number`.
pub fn pages(number: CommitNumber, part: u32) -> String {
    format!("{MAP}{:020}/pages-{part:05}", number.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_numbers_and_come_back() {
        let number = CommitNumber(71);
        assert!(commit(CommitNumber(9)) < commit(CommitNumber(10)));
        assert_eq!(commit_number(&commit(number)), Some(number));
        assert_eq!(commit_number("commit/71"), None);
        let (writer, object) = (WriterId(0xabc), ObjectNumber(0x123));
        let key = data(writer, object);
        assert!(key.starts_with(&data_of(writer)));
        assert_eq!(data_name(&key), Some((writer, object)));
        assert_eq!(data_name("data/abc-1"), None);
        assert!(*key < *BEHIND_DATA && *"data/\u{10ffff}" < *BEHIND_DATA);
        assert!(*BEHIND_DATA < *DEVICE && *BEHIND_DATA < *MAP);
    }
}
