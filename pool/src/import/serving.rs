//! Spares that replace other devices.
//!
//! A spare may have been activated just before the pool crashed. A list of device paths saved
//! before that, such as a cache file, lacks it, so a search by such a list does not find it. The
//! pool's own tree names the spare, and the import looks for it at its recorded path, like for idle
//! spares.

use crate::devices::may_open;
use crate::import::candidate::PoolCandidate;
use crate::import::choose::Known;
use crate::import::label_tree::config_of;
use cenote_device::Opener;
use cenote_ondisk::VdevConfig;
use cenote_vdev::scan;
use std::sync::Arc;

/// The spares in the pool's tree that the search did not meet and that are where they should be.
pub(crate) fn serving_spares(
    tree: &VdevConfig,
    opener: &dyn Opener,
    candidate: &PoolCandidate,
) -> Vec<Known> {
    let found = candidate.devices();
    let missing = tree.leaves().filter(|leaf| {
        let is_device = leaf.is_spare && leaf.is_leaf_device();
        is_device && !found.contains_key(&leaf.guid)
    });
    let mut spares = Vec::new();
    for leaf in missing {
        let Some(path) = leaf.path.clone().filter(|path| may_open(path)) else {
            continue;
        };
        let members = scan(&[path], opener).members;
        let own = members.into_iter().find(|member| {
            let config = config_of(member);
            let is_it = config.is_some_and(|config| {
                config.guid == Some(leaf.guid) && config.pool_guid == Some(candidate.guid)
            });
            is_it && member.candidate.partition.is_none()
        });
        spares.extend(own.and_then(|member| Known::of(&Arc::new(member))));
    }
    spares
}
