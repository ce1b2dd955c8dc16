//! Devices that are older than their siblings: put back from a backup, or away while the pool was
//! written to by somebody who did not note it.
//!
//! Usually a dirty time log tells what a device missed. But its log can be silent, and OpenZFS
//! believes it then, reads what is wrong, and repairs by and by (tried with 2.3.2: a side of a
//! mirror put back from a copy is ONLINE, with checksum errors). The device's labels tell more. All
//! leaves of a top-level vdev get the same uberblocks, so one that lacks the newest ones was not
//! there when they were written, and missed every group since its own newest.
//!
//! A single missing uberblock is enough. Often it comes of a power cut while it was written, and
//! the device has the group's data. But a copy that was made one group earlier looks the same, and
//! a device counts as complete only by its own record. The resilver of one group is short.
//!
//! After a power cut more leaves than the redundancy covers may lack the newest group, since a
//! single leaf with its uberblock makes it the newest. So what is marked here is read last, but it
//! is read: checksums decide.
//!
//! Heartbeats say nothing: they go to one leaf at a time. Leaves without siblings cannot be
//! compared.

use crate::import::candidate::PoolCandidate;
use crate::import::label_tree::speaking_label;
use cenote_base::{Guid, Txg};
use cenote_ondisk::VdevConfig;
use cenote_vdev::{DeviceLabels, TxgSet};
use std::collections::HashMap;

/// The newest group whose uberblock a device has, up to `last`; heartbeats are left out.
fn newest(labels: &DeviceLabels, last: Txg) -> Txg {
    let uberblocks = labels.uberblocks.iter().map(|found| &found.uberblock);
    let own = uberblocks.filter(|uberblock| {
        let sequence = uberblock.multihost.as_ref().and_then(|m| m.sequence);
        sequence.unwrap_or(0) == 0 && uberblock.txg <= last
    });
    own.map(|uberblock| uberblock.txg).max().unwrap_or_default()
}

/// What the devices found for `tree` missed by what their labels say, given the txg that the pool
/// is opened at.
pub(crate) fn behind(
    candidate: &PoolCandidate,
    tree: &VdevConfig,
    opened: Txg,
) -> Vec<(Guid, TxgSet)> {
    let mut found: HashMap<Guid, Txg> = HashMap::new();
    for member in &candidate.members {
        let config = speaking_label(member).and_then(|label| label.config.as_ref());
        if let Some(guid) = config.and_then(|config| config.guid) {
            let newest = || newest(&member.labels, opened);
            found.entry(guid).or_insert_with(newest);
        }
    }
    let mut behind = Vec::new();
    for top in &tree.children {
        let leaves = top
            .leaves()
            .filter_map(|leaf| found.get_key_value(&leaf.guid));
        let leaves: Vec<_> = leaves.collect();
        let newest = leaves.iter().map(|(_, newest)| **newest).max();
        for (guid, own) in leaves {
            if newest.is_some_and(|newest| *own < newest) {
                let missed = Txg(own.0 + 1)..Txg(opened.0 + 1);
                behind.push((*guid, TxgSet::from_ranges([missed])));
            }
        }
    }
    behind
}
