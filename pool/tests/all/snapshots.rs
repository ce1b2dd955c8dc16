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
    let mut tree = Tree::new(seed, opened, &[]);
    tree.steps(steps);
    tree.close();
    bench.check();
    tree.open(bench.dir.path());
    tree.compare();
    tree.steps(steps);
    tree.close();
    bench.check();
}

/// The keys that OpenZFS notes in its manifest of what it did.
fn keys_in(manifest: &str) -> Vec<String> {
    let text = std::fs::read(manifest).expect("written");
    let manifest: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let datasets = manifest["datasets"].as_array().expect("a list");
    let keys = datasets
        .iter()
        .filter_map(|dataset| dataset["key"].as_str());
    keys.map(str::to_owned).collect()
}

/// Pools that OpenZFS made and worked on, changed here, and again by OpenZFS.
fn run_found(seed: u64, layout: &str, steps: usize) {
    println!("{layout}, seed {seed}");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    if !crate::common::openzfs(dir, "tank", "create", &["--layout", layout]) {
        return;
    }
    let mut keys = Vec::new();
    for round in 0..2 {
        let churn = (2 * seed + round).to_string();
        let churn = ["--seed", &churn, "--ops", "150", "--encrypt", "--manifest"];
        let manifest = dir.join("manifest").display().to_string();
        let churn = [&churn[..], &[&manifest]].concat();
        assert!(crate::common::openzfs(dir, "tank", "churn", &churn));
        keys.extend(keys_in(&manifest));
        let mut tree = Tree::new(seed, Tree::import(dir), &keys);
        tree.compare();
        tree.steps(steps);
        tree.close();
        crate::common::referee(dir, "tank");
    }
}

/// `CENOTE_SEED` chooses what is done.
fn seed() -> u64 {
    let seed = std::env::var("CENOTE_SEED").ok();
    seed.map_or(1, |seed| seed.parse().expect("a number"))
}

#[test]
fn at_random() {
    run("snaps", seed(), VdevShape::Single, 1, 150);
}

#[test]
fn in_pools_of_openzfs() {
    run_found(seed(), "single", 120);
}
