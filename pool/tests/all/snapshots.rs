//! Snapshots and what is done with them, at random: compared with a model, with the sums that the
//! pool must keep after each step, and judged by OpenZFS.

use crate::common::Bench;
use crate::tree::Tree;
use cenote_pool::VdevShape;
use cenote_vdev::AllocationClass::Normal;

fn run(pool: &'static str, seed: u64, shape: VdevShape, count: usize, steps: usize) {
    println!("{pool}, seed {seed}");
    let mut bench = Bench::new(pool);
    let vdev = bench.vdev(shape, Normal, count);
    let opened = bench.create(vec![vdev]);
    let mut tree = Tree::new(seed, opened);
    tree.steps(steps);
    tree.close();
    bench.check();
    tree.open(bench.dir.path());
    tree.compare();
    tree.steps(steps);
    tree.close();
    bench.check();
}

#[test]
fn at_random() {
    run("snaps", 1, VdevShape::Single, 1, 150);
}
