//! Figures of a pool's vdevs.

use super::table::{
    VDEV_ALLOCATED, VDEV_BYTES, VDEV_DEVICE_SECONDS, VDEV_ERRORS, VDEV_OPERATIONS,
    VDEV_QUEUE_DEPTH, VDEV_QUEUE_SECONDS, VDEV_REQUEST_BYTES, VDEV_SCAN_REPAIRED, VDEV_SELF_HEALED,
    VDEV_SIZE, VDEV_STATE, VDEV_TOTAL_SECONDS,
};
use crate::devices::tree::vdev_tree;
use crate::registry::imported::Imported;
use cenote_base::metrics::Sink;
use cenote_control::model::{Vdev, VdevKind, VdevNaming};
use cenote_vdev::{ClassFigures, IoClass};
use std::collections::HashMap;

/// Names as `zpool status -P` shows them: two disks never have the same.
const NAMING: VdevNaming = VdevNaming {
    guid: false,
    follow_links: false,
    full_path: true,
};

/// All vdevs of a pool but the root, which the pool's own figures stand for.
pub(super) fn vdevs(imported: &Imported, sink: &mut dyn Sink) {
    let pool = imported.name();
    let tree = vdev_tree(&imported.pool);
    let mut requests: HashMap<u64, Vec<ClassFigures>> = HashMap::new();
    for (guid, classes) in imported.pool.vdevs().leaf_requests() {
        requests.insert(guid.0, classes);
    }
    let mut stack: Vec<&Vdev> = tree.root.children.iter().rev().collect();
    while let Some(vdev) = stack.pop() {
        stack.extend(vdev.children.iter().rev());
        if vdev.kind == VdevKind::Hole {
            continue;
        }
        let (name, guid) = (vdev.name(NAMING), vdev.guid.to_string());
        let labels = [pool, name.as_str(), guid.as_str()];
        one(vdev, labels, sink);
        for (class, figures) in IoClass::ALL
            .into_iter()
            .zip(requests.remove(&vdev.guid).unwrap_or_default())
        {
            class_of(labels, class.name(), figures, sink);
        }
    }
}

fn one(vdev: &Vdev, [pool, name, guid]: [&str; 3], sink: &mut dyn Sink) {
    let labels = [pool, name, guid];
    let state = [pool, name, guid, vdev.kind.word(), vdev.state.word()];
    sink.number(&VDEV_STATE, &state, 1);
    if vdev.space.total > 0 {
        sink.number(&VDEV_SIZE, &labels, vdev.space.total);
        sink.number(&VDEV_ALLOCATED, &labels, vdev.space.allocated);
    }
    let counters = &vdev.counters;
    let directions = [
        ("read", counters.read_operations, counters.read_bytes),
        ("write", counters.write_operations, counters.write_bytes),
    ];
    for (operation, operations, bytes) in directions {
        let labels = [pool, name, guid, operation];
        sink.number(&VDEV_OPERATIONS, &labels, operations);
        sink.number(&VDEV_BYTES, &labels, bytes);
    }
    let kinds = ["read", "write", "checksum", "slow"];
    for (kind, errors) in kinds.into_iter().zip(counters.errors_ever) {
        sink.number(&VDEV_ERRORS, &[pool, name, guid, kind], errors);
    }
    sink.number(&VDEV_SELF_HEALED, &labels, counters.self_healed);
    sink.number(&VDEV_SCAN_REPAIRED, &labels, counters.scan_repaired);
}

/// An unused class has no series: most devices see three of the seven.
fn class_of(
    [pool, name, guid]: [&str; 3],
    class: &str,
    figures: ClassFigures,
    sink: &mut dyn Sink,
) {
    let labels = [pool, name, guid, class];
    let depths = [("active", figures.active), ("pending", figures.waiting)];
    for (state, depth) in depths {
        let labels = [pool, name, guid, class, state];
        sink.number(&VDEV_QUEUE_DEPTH, &labels, depth.into());
    }
    if figures.total.count() == 0 {
        return;
    }
    sink.distribution(&VDEV_TOTAL_SECONDS, &labels, figures.total);
    sink.distribution(&VDEV_DEVICE_SECONDS, &labels, figures.device);
    sink.distribution(&VDEV_QUEUE_SECONDS, &labels, figures.queue);
    let sizes = [
        ("one", figures.single_sizes),
        ("several", figures.joined_sizes),
    ];
    for (blocks, sizes) in sizes {
        let labels = [pool, name, guid, class, blocks];
        sink.distribution(&VDEV_REQUEST_BYTES, &labels, sizes);
    }
}
