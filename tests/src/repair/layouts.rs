//! Layouts, and the sets of devices that they can do without.

use crate::random::Random;
use anyhow::{Context, Result};
use std::collections::BTreeSet;

/// Devices of which so many may be lost at once.
pub(super) type Group = (&'static [u32], usize);

/// Numbers of devices.
pub(super) type Set = BTreeSet<u32>;

/// The groups of each layout.
pub(super) const LAYOUTS: [(&str, &[Group]); 8] = [
    ("mirror", &[(&[0, 1], 1)]),
    ("raidz1", &[(&[0, 1, 2], 1)]),
    ("raidz2", &[(&[0, 1, 2, 3], 2)]),
    ("raidz3", &[(&[0, 1, 2, 3, 4, 5], 3)]),
    ("draid1", &[(&[0, 1, 2, 3], 1)]),
    ("draid2", &[(&[0, 1, 2, 3, 4, 5, 6], 2)]),
    ("mirrors", &[(&[0, 1, 2], 2), (&[3, 4], 1)]),
    ("classes", &[(&[0, 1, 2, 3], 2), (&[4, 5], 1)]),
];

/// The groups of the layout of this name.
pub(super) fn groups(layout: &str) -> Result<&'static [Group]> {
    let found = LAYOUTS.iter().find(|(name, _)| *name == layout);
    found
        .map(|(_, groups)| *groups)
        .with_context(|| format!("no layout {layout}"))
}

/// A set of devices that a layout can do without: as many of each group as may be lost.
pub(super) fn some_set(groups: &[Group], random: &mut Random) -> Set {
    let mut set = Set::new();
    for (devices, losses) in groups {
        let mut chosen = Set::new();
        while chosen.len() < *losses {
            chosen.insert(*random.choose(devices));
        }
        set.extend(chosen);
    }
    set
}

/// All sets of devices that a layout can do without, from one device on.
pub(super) fn all_sets(groups: &[Group]) -> Vec<Set> {
    let mut sets = vec![Set::new()];
    for (devices, losses) in groups {
        let parts = subsets(devices, *losses);
        let joined = |set: &Set| parts.iter().map(|part| set | part).collect::<Vec<_>>();
        sets = sets.iter().flat_map(joined).collect();
    }
    sets.retain(|set| !set.is_empty());
    sets
}

/// The subsets with up to so many members.
fn subsets(devices: &[u32], members_max: usize) -> Vec<Set> {
    let mut sets = vec![Set::new()];
    for device in devices {
        let larger = sets.iter().filter(|set| set.len() < members_max);
        let with_device = |set: &Set| set | &Set::from([*device]);
        sets.extend(larger.map(with_device).collect::<Vec<_>>());
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::{all_sets, groups};

    #[test]
    fn all_sets_are_those_within_the_redundancy() {
        let count = |layout| all_sets(groups(layout).unwrap()).len();
        assert_eq!(count("mirror"), 2);
        // 4 single ones and 6 pairs.
        assert_eq!(count("raidz2"), 10);
        // 6 + 15 + 20.
        assert_eq!(count("raidz3"), 41);
        // (1 + 3 + 3) * (1 + 2), and not the empty one.
        assert_eq!(count("mirrors"), 20);
    }
}
