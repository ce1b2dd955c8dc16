//! Adding devices to and removing them from the tree of a configuration.
//!
//! A leaf gets a companion by a new vdev in its place with both below it: a mirror, a *replacing*
//! vdev, or a *spare* vdev. When only one is left, it takes the place back. The properties of a
//! top-level vdev (its size, its metaslabs, its table) belong to the place, and move with it.

use super::error::ChangeError;
use crate::create::blank;
use cenote_base::{Guid, Txg, VdevId};
use cenote_ondisk::{VdevConfig, VdevKind};

/// A vdev of the tree, for changes.
pub(super) fn find_mut(root: &mut VdevConfig, guid: Guid) -> Option<&mut VdevConfig> {
    let mut stack = vec![root];
    while let Some(vdev) = stack.pop() {
        if vdev.guid == guid {
            return Some(vdev);
        }
        stack.extend(vdev.children.iter_mut());
    }
    None
}

/// The leaf with this guid.
pub(super) fn leaf(root: &VdevConfig, guid: Guid) -> Result<&VdevConfig, ChangeError> {
    let mut leaves = root.leaves();
    leaves
        .find(|leaf| leaf.guid == guid && leaf.kind != VdevKind::Hole)
        .ok_or(ChangeError::NoDevice)
}

/// The vdev that has this one directly below it.
pub(super) fn parent(root: &VdevConfig, guid: Guid) -> Option<&VdevConfig> {
    let has = |vdev: &&VdevConfig| vdev.children.iter().any(|child| child.guid == guid);
    root.walk().find(has)
}

/// The top-level vdev that this one is or is below.
pub(super) fn top(root: &VdevConfig, guid: Guid) -> Option<&VdevConfig> {
    let has = |top: &&VdevConfig| top.walk().any(|vdev| vdev.guid == guid);
    root.children.iter().find(has)
}

/// What stays in the place of a top-level vdev that left (format/1a).
pub(super) fn hole(id: VdevId) -> VdevConfig {
    let mut hole = blank(VdevKind::Hole, Guid(0), Txg(0));
    hole.id = Some(id);
    hole.whole_disk = Some(false);
    hole
}

/// Moves the properties of a place in the tree to the vdev that takes it.
fn hand_over(from: &mut VdevConfig, to: &mut VdevConfig) {
    to.id = from.id.take();
    to.ashift = from.ashift.take();
    to.asize = std::mem::take(&mut from.asize);
    to.metaslab_array = from.metaslab_array.take();
    to.metaslab_shift = std::mem::take(&mut from.metaslab_shift);
    to.is_log = std::mem::take(&mut from.is_log);
    to.non_allocating = std::mem::take(&mut from.non_allocating);
    to.removing = std::mem::take(&mut from.removing);
    to.top_zap = from.top_zap.take();
}

/// Numbers the children by their positions.
fn number(vdev: &mut VdevConfig) {
    for (position, child) in vdev.children.iter_mut().enumerate() {
        child.id = Some(VdevId(position as u64));
    }
}

/// Puts `new` beside the leaf `old`, below a vdev of the kind of `group`, which is made unless
/// the leaf is below one already.
pub(super) fn join(
    root: &mut VdevConfig,
    old: Guid,
    mut group: VdevConfig,
    new: VdevConfig,
) -> Result<(), ChangeError> {
    let parent = parent(root, old).ok_or(ChangeError::NoDevice)?;
    let (parent, is_group) = (parent.guid, parent.kind == group.kind);
    if is_group {
        let parent = find_mut(root, parent).ok_or(ChangeError::NoDevice)?;
        parent.children.push(new);
        number(parent);
        return Ok(());
    }
    let place = find_mut(root, old).ok_or(ChangeError::NoDevice)?;
    group.create_txg = place.create_txg;
    hand_over(place, &mut group);
    let leaf = std::mem::replace(place, group);
    place.children = vec![leaf, new];
    number(place);
    Ok(())
}

/// Takes the leaf `guid` out; if it leaves one behind, that takes the place of both.
pub(super) fn leave(root: &mut VdevConfig, guid: Guid) -> Result<VdevConfig, ChangeError> {
    let group = parent(root, guid).ok_or(ChangeError::NoDevice)?.guid;
    let group = find_mut(root, group).ok_or(ChangeError::NoDevice)?;
    let position = group.children.iter().position(|child| child.guid == guid);
    let position = position.ok_or(ChangeError::NoDevice)?;
    if group.children.len() < 2 {
        return Err(ChangeError::NoReplicas);
    }
    let gone = group.children.remove(position);
    number(group);
    if group.children.len() == 1
        && let Some(mut rest) = group.children.pop()
    {
        hand_over(group, &mut rest);
        *group = rest;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::ObjectId;

    fn disk(guid: u64) -> VdevConfig {
        blank(VdevKind::File, Guid(guid), Txg(4))
    }

    fn one_disk() -> VdevConfig {
        let mut top = disk(10);
        (top.id, top.ashift, top.asize) = (Some(VdevId(0)), Some(12), 1 << 30);
        (top.metaslab_array, top.metaslab_shift) = (Some(ObjectId(77)), 24);
        (top.top_zap, top.leaf_zap) = (Some(ObjectId(5)), Some(ObjectId(6)));
        let mut root = blank(VdevKind::Root, Guid(1), Txg(4));
        root.children = vec![top];
        root
    }

    #[test]
    fn a_disk_becomes_a_mirror_and_a_disk_again() {
        let before = one_disk();
        let mut root = before.clone();
        let mirror = blank(VdevKind::Mirror, Guid(20), Txg(9));
        join(&mut root, Guid(10), mirror.clone(), disk(11)).unwrap();
        join(&mut root, Guid(11), mirror, disk(12)).unwrap();
        let top = &root.children[0];
        assert_eq!((top.guid, top.children.len()), (Guid(20), 3));
        assert_eq!((top.create_txg, top.asize), (Txg(4), 1 << 30));
        assert_eq!(top.top_zap, Some(ObjectId(5)));
        let first = &top.children[0];
        assert_eq!((first.asize, first.top_zap), (0, None));
        assert_eq!(first.leaf_zap, Some(ObjectId(6)));
        leave(&mut root, Guid(12)).unwrap();
        leave(&mut root, Guid(11)).unwrap();
        assert_eq!(root, before);
    }

    #[test]
    fn the_new_one_takes_the_place_of_what_it_replaced() {
        let mut root = one_disk();
        let mirror = blank(VdevKind::Mirror, Guid(20), Txg(9));
        join(&mut root, Guid(10), mirror, disk(11)).unwrap();
        let replacing = blank(VdevKind::Replacing, Guid(21), Txg(9));
        join(&mut root, Guid(10), replacing, disk(12)).unwrap();
        assert_eq!(root.children[0].children[0].guid, Guid(21));
        let gone = leave(&mut root, Guid(10)).unwrap();
        assert_eq!(gone.guid, Guid(10));
        let children = &root.children[0].children;
        let guids: Vec<Guid> = children.iter().map(|child| child.guid).collect();
        assert_eq!(guids, [Guid(12), Guid(11)]);
        assert_eq!(children[0].id, Some(VdevId(0)));
        assert!(leave(&mut one_disk(), Guid(10)).is_err());
    }
}
