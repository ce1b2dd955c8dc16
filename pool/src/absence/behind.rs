//! Devices that are older than their siblings: restored from a backup, or absent while other
//! software wrote to the pool without recording that.
//!
//! Usually a dirty time log lists what a device missed. But the log can lack it. OpenZFS trusts the
//! log, reads wrong data, and repairs it bit by bit (tested with 2.3.2: a mirror side restored from
//! a copy is ONLINE, with checksum errors). The device's labels show more. All leaves of a
//! top-level vdev get the same uberblocks. So a leaf without the newest ones was absent when they
//! were written, and missed every group since its own newest.
//!
//! One missing uberblock is enough. The cause is often a power cut during its write, and the device
//! has the group's data. But a copy made one group earlier looks the same, and only the device's
//! own record proves that it is complete. The resilver of one group is short.
//!
//! After a power cut more leaves than the redundancy covers may lack the newest group, since a
//! single leaf with its uberblock makes it the newest. So a leaf that is marked here is still read,
//! but last: checksums decide.
//!
//! If labels disagree the oldest counts: a copy made while the device was in use has newer labels
//! than data. If both labels of one end are missing, nothing proves that this end belongs to the
//! device: an incomplete copy looks like that. Such a device is resilvered in full, unless it only
//! grew. Leaves without siblings cannot be compared.

use crate::import::candidate::PoolCandidate;
use crate::import::label_tree::speaking_label;
use cenote_base::{Guid, Txg};
use cenote_ondisk::label::allocatable_size;
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_vdev::{Member, TxgSet};
use std::collections::HashMap;

/// What the devices found for `tree` missed by what their labels say, given the txg that the pool
/// is opened at.
pub(crate) fn behind(
    candidate: &PoolCandidate,
    tree: &VdevConfig,
    opened: Txg,
) -> Vec<(Guid, TxgSet)> {
    let mut found: HashMap<Guid, (Txg, bool)> = HashMap::new();
    for member in &candidate.members {
        let config = speaking_label(member).and_then(|label| label.config.as_ref());
        let Some(guid) = config.and_then(|config| config.guid) else {
            continue;
        };
        let is_cut = member.labels.lacks_an_end() && !has_grown(tree, guid, member);
        let until = member.labels.whole_until(opened);
        found.entry(guid).or_insert((until, is_cut));
    }
    let mut behind = Vec::new();
    for top in &tree.children {
        let leaves = top
            .leaves()
            .filter_map(|leaf| found.get_key_value(&leaf.guid));
        let leaves: Vec<_> = leaves.collect();
        let newest = leaves.iter().map(|(_, (newest, _))| *newest).max();
        let Some(newest) = newest else {
            continue;
        };
        let has_whole = leaves.iter().any(|(_, own)| *own == &(newest, false));
        for (guid, (own, is_cut)) in leaves {
            let first = match *is_cut && has_whole {
                true => Txg(0),
                false if *own < newest => Txg(own.0 + 1),
                false => continue,
            };
            let missed = first..Txg(opened.0 + 1);
            behind.push((*guid, TxgSet::from_ranges([missed])));
        }
    }
    behind
}

/// Whether a device is larger than the space that the pool has on it: its labels at the end are
/// somewhere in the middle then.
fn has_grown(tree: &VdevConfig, leaf: Guid, member: &Member) -> bool {
    let is_in = |top: &&VdevConfig| top.leaves().any(|below| below.guid == leaf);
    let Some(top) = tree.children.iter().find(is_in) else {
        return false;
    };
    let parts = match top.kind {
        VdevKind::Raidz | VdevKind::Draid => top.children.len().max(1) as u64,
        _ => 1,
    };
    // Space is counted in whole metaslabs: what is left over is no sign of growth.
    let unit = 1_u64.checked_shl(top.metaslab_shift).unwrap_or(u64::MAX);
    let own = allocatable_size(member.candidate.device.size()).unwrap_or(0);
    own.saturating_sub(top.asize / parts) >= unit
}
