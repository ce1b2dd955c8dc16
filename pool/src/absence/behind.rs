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
//! Of labels that do not agree the oldest counts: a copy that was made while the device was in use
//! has newer labels than data. Where both labels of one end are gone, nothing proves that this end
//! is the device's: a copy that was broken off looks like that. Such a device gets everything
//! again, unless it only grew. Leaves without siblings cannot be compared.

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
