//! Devices that strayed: their names lead to something else, or they have no name any more.
//!
//! The pool notices by itself, because nothing else tells: a file takes writes and flushes as long
//! as it is open, and all of it is gone when it is closed. A leaf whose device strayed takes
//! nothing from that moment on, and counts as removed. If the others have everything, its device is
//! closed with the next change of the tree. If not, the device stays open to be read, and the pool
//! waits until the right device is back.

use crate::leaf::Leaf;
use crate::shape::Shape;
use crate::state::VdevAux;
use cenote_base::Guid;
use cenote_device::Lead;

impl Shape {
    /// Looks where the names of all open devices lead. Those that strayed.
    pub fn look_at_names(&self) -> Vec<(Guid, Lead)> {
        let leaves = self.tree.leaves.iter();
        let strayed = leaves.filter_map(|leaf| {
            leaf.look_at_name();
            Some((self.guid_of(leaf), leaf.access.strayed()?))
        });
        strayed.collect()
    }

    /// Whether the name of a leaf's device does not lead to it any more.
    pub fn has_strayed(&self, leaf: Guid) -> bool {
        let leaf = self.tree.leaf_of.get(&leaf);
        leaf.is_some_and(|leaf| self.tree.leaves[*leaf].access.strayed().is_some())
    }

    /// The leaves whose devices strayed and are not needed, with what is said of them.
    pub fn to_close(&self) -> Vec<(Guid, VdevAux)> {
        let strayed = |leaf: &Leaf| leaf.device.is_some() && leaf.access.strayed().is_some();
        if !self.tree.leaves.iter().any(strayed) {
            return Vec::new();
        }
        let states = self.states();
        let leaves = self.tree.leaves.iter().enumerate();
        let closed = leaves.filter_map(|(index, leaf)| {
            let is_left_out = states[self.top_of_leaf(index)].0.is_readable();
            let goes = strayed(leaf) && is_left_out && !self.is_leaf_required(index);
            goes.then(|| (self.guid_of(leaf), leaf.live_state().1))
        });
        closed.collect()
    }

    /// Whether one of these top-level vdevs, by their nodes, cannot be used because devices
    /// strayed, by the names that they have now.
    pub(crate) fn strays_below(&self, tops: &[usize]) -> Option<usize> {
        let leaves = 0..self.tree.leaves.len();
        let below: Vec<usize> = leaves
            .filter(|leaf| tops.contains(&self.top_of_leaf(*leaf)))
            .collect();
        for leaf in &below {
            self.tree.leaves[*leaf].look_at_name();
        }
        let states = self.states();
        below.into_iter().find(|leaf| {
            let has_strayed = self.tree.leaves[*leaf].access.strayed().is_some();
            has_strayed && !states[self.top_of_leaf(*leaf)].0.is_readable()
        })
    }

    /// Whether a top-level vdev that is no log cannot be used because devices strayed. Then no
    /// group may count as written, whatever other vdevs take its uberblock.
    pub(crate) fn is_cut_off(&self) -> bool {
        let states = self.states();
        let mut leaves = self.tree.leaves.iter().enumerate();
        leaves.any(|(index, leaf)| {
            let top = self.top_of_leaf(index);
            let is_lost = !states[top].0.is_readable() && !self.tree.nodes[top].is_log;
            is_lost && leaf.device.is_some() && leaf.access.strayed().is_some()
        })
    }

    fn guid_of(&self, leaf: &Leaf) -> Guid {
        self.tree.nodes[leaf.node].guid
    }
}
