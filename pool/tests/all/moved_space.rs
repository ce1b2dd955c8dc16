//! Blocks of a removed vdev, in a pool that OpenZFS removed one from.

use crate::common;
use cenote_base::{Guid, RealEnv, Txg, VdevId};
use cenote_device::Opener;
use cenote_ondisk::scan::ScanState;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{Actor, Attachment, Companion, ImportOptions, Pool, assemble};
use cenote_sim::Disks;
use cenote_vdev::{IndirectEntry, TxgSet, scan};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Where addresses are counted from: behind two labels and the boot region.
const LABELS: u64 = 4 << 20;

fn import(world: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        force: true,
        opener: Arc::clone(world) as Arc<dyn Opener>,
        ..common::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new())).expect("imported")
}

fn resilvered(pool: &Pool) {
    let begun = Instant::now();
    loop {
        let status = pool.scan_status().expect("readable");
        let is_over = status.is_some_and(|status| status.scan.state != ScanState::Scanning);
        if is_over && pool.vdevs().is_resilver_needed().is_none() {
            return;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it does not end"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the space of vdev 1 is now that is mapped.
fn moved(pool: &Pool) -> Vec<IndirectEntry> {
    let (vdevs, vdev) = (pool.vdevs(), VdevId(1));
    let asize = pool.vdev_tree().children[1].asize;
    let sectors = (0..asize / 512).map(|sector| sector * 512..sector * 512 + 512);
    let mapped = sectors.filter_map(|sector| vdevs.mapped(vdev, sector).ok().flatten());
    mapped.flatten().collect()
}

/// A side was away while a removed vdev was emptied, and has none of the copied blocks. All of them
/// are older than its gap: the resilver skipped them and reported the side as complete.
#[test]
fn a_side_gets_what_a_removal_copied_without_it() {
    let Some((dir, _)) = common::golden("device-removal") else {
        return;
    };
    let read = |name| std::fs::read(dir.path().join(name)).expect("readable");
    let mut images = vec![read("v0.img"), read("v2.img")];
    images.extend([vec![0; images[0].len()], vec![0; images[1].len()]]);
    let world = common::disks_of(images);
    let pool = import(&world);
    let tree = pool.vdev_tree();
    let old = tree.leaves().filter(|leaf| leaf.is_leaf_device());
    let old: Vec<Guid> = old.map(|leaf| leaf.guid).collect();
    for (old, new) in old.iter().zip(world.leaves().into_iter().skip(2)) {
        let request = Attachment {
            old: *old,
            new,
            companion: Companion::Side,
            sequential: false,
            ashift: None,
        };
        let attached = pool.attach(&request, (&Actor::default(), ""));
        attached.expect("there is room");
        resilvered(&pool);
    }
    let moved = moved(&pool);
    let copied: std::collections::BTreeSet<Txg> = moved.iter().map(|e| e.copied_in).collect();
    let gap = TxgSet::from_ranges(copied.iter().map(|txg| *txg..Txg(txg.0 + 1)));
    assert!(moved.len() > 100 && pool.vdevs().copied_in() == gap && !gap.is_empty());
    let tree = pool.vdev_tree();
    let tops = tree.children.iter();
    let tops: Vec<Vec<Guid>> = tops
        .map(|top| top.leaves().map(|leaf| leaf.guid).collect())
        .collect();
    pool.close().expect("written");
    drop(pool);
    // The new sides forget what the removal gave them.
    for entry in &moved {
        let disk = match entry.target.vdev().0 {
            0 => 2,
            _ => 3,
        };
        let device = Arc::clone(&world.leaves()[disk].device);
        let at = LABELS + entry.target.offset();
        device.write_at(at, &[0xa5; 512]).expect("in range");
    }
    let pool = import(&world);
    for leaves in tops.iter().filter(|leaves| leaves.len() == 2) {
        pool.vdevs().add_missed(leaves[1], &gap);
    }
    let stale = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(stale.problems == 0 && !stale.stale.is_empty(), "{stale:?}");
    assert!(pool.look_for_resilver().expect("begun"));
    resilvered(&pool);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "{report:?}");
    pool.close().expect("written");
}
