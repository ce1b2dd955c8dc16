//! Metadata contexts: which of a device's a query means.
//!
//! A name is `NAMESPACE:LEAF`. `base:allocation` is every device's. A query that ends in `:`
//! means, in a list, all names that begin so. No query at all means all names.

use crate::device::BlockDevice;
use cenote_nbd_client::protocol::BASE_ALLOCATION;

/// Contexts that one connection can choose.
const CHOSEN_MAX: usize = 256;

/// A context that a client has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// As extents of it are marked.
    pub id: u32,
    /// The name.
    pub name: String,
}

/// All names of a device's contexts.
fn names(device: &dyn BlockDevice) -> Vec<String> {
    let mut names = vec![BASE_ALLOCATION.to_owned()];
    names.extend(device.contexts());
    names
}

/// Names that are to be listed.
pub(crate) fn listed(device: &dyn BlockDevice, queries: &[&str]) -> Vec<String> {
    let mut names = names(device);
    names.retain(|name| {
        let is_meant = |query: &&str| match query.ends_with(':') {
            true => name.starts_with(*query),
            false => name == *query,
        };
        queries.is_empty() || queries.iter().any(is_meant)
    });
    names
}

/// The contexts that a client chooses; what there is none of is left out.
pub(crate) fn chosen(device: &dyn BlockDevice, queries: &[&str]) -> Vec<Chosen> {
    let names = names(device);
    let mut chosen: Vec<Chosen> = Vec::new();
    for query in queries {
        let is_new = chosen.iter().all(|other| other.name != *query);
        if is_new && chosen.len() < CHOSEN_MAX && names.iter().any(|name| name == query) {
            let id = u32::try_from(chosen.len() + 1).expect("few");
            let name = (*query).to_owned();
            chosen.push(Chosen { id, name });
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    #[test]
    fn queries_mean_names_or_namespaces() {
        let disk = MemoryDisk::new(4096).with_context("cenote:changed-since:a");
        let all = ["base:allocation", "cenote:changed-since:a"];
        assert_eq!(listed(&disk, &[]), all);
        assert_eq!(listed(&disk, &["base:", "cenote:changed-since:"]), all);
        assert_eq!(listed(&disk, &["base:alloc", "other:"]), [""; 0]);
        let chosen = chosen(&disk, &[all[1], "x:y", all[1], "base:", all[0]]);
        let ids: Vec<_> = chosen.iter().map(|c| (c.id, c.name.as_str())).collect();
        assert_eq!(ids, [(1, all[1]), (2, all[0])]);
    }
}
