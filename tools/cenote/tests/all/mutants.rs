//! Runs commands that read everything on damaged pools. Each must end by itself, with a result or
//! an error message, in bounded time and memory.
//!
//! The pool zoo does the same with `manifest`, `verify` and `tree`, for many more mutants.

use crate::support::TestPool;
use cenote_tests::mutate::Devices;
use cenote_tests::mutate::structure::Structure;
use cenote_tests::program::{Limits, run};
use cenote_tests::zoo;
use std::time::Duration;

const MUTANTS: u64 = 8;
const SEED: u64 = 7;

/// `POOL` stands for the pool's name, `DEVICE` for its first device.
const COMMANDS: [&[&str]; 18] = [
    &["ls", "-l", "-R", "POOL"],
    &["find", "POOL", "-name", "x*", "-json"],
    &["du", "-a", "POOL"],
    &["cp", "-a", "-k", "-q", "POOL:/", "copy"],
    &["inspect", "labels", "POOL"],
    &["inspect", "uberblocks", "POOL"],
    &["inspect", "config", "POOL"],
    &["inspect", "mos", "POOL"],
    &["inspect", "history", "POOL"],
    &["inspect", "dedup", "POOL"],
    &["inspect", "datasets", "POOL"],
    &["inspect", "objects", "--mos", "POOL"],
    &["inspect", "spacemaps", "-e", "POOL"],
    &["inspect", "intent-log", "-e", "POOL"],
    &["zdb", "-e", "-p", "devices", "-dddddd", "POOL"],
    &["zdb", "-e", "-p", "devices", "-bbbcc", "POOL"],
    &["zdb", "-e", "-p", "devices", "-Cuiiiii", "POOL"],
    &["zdb", "-llluu", "DEVICE"],
];

fn check(kind: &str) {
    let pool = TestPool::new(kind);
    let paths = (0..pool.manifest.devices.len())
        .map(|index| pool.device(index))
        .collect();
    let devices = Devices::open(paths).expect("devices");
    let structure = Structure::read(&devices).expect("a pool");
    let limits = Limits {
        time: Duration::from_secs(60),
        memory: zoo::MEMORY_MAX,
        ..Limits::default()
    };
    let device = format!("devices/{}", pool.manifest.devices[0]);
    for number in 0..MUTANTS {
        let mutant = zoo::mutant(&devices, structure.as_ref(), kind, SEED, number);
        let mutant = mutant.expect("a mutant");
        let undo = devices.apply(&mutant).expect("writable");
        for command in COMMANDS {
            let mut words: Vec<String> = command
                .iter()
                .map(|word| word.replace("POOL", &pool.manifest.pool))
                .map(|word| word.replace("DEVICE", &device))
                .collect();
            if command[0] != "zdb" {
                words.extend(["-d".into(), "devices".into()]);
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let outcome = run(pool.command(&words), b"", limits).expect("cenote runs");
            let is_silent = outcome.code != Some(0) && outcome.stderr.trim().is_empty();
            let is_broken = outcome.has_crashed() || outcome.limit.is_some() || is_silent;
            let damage = &mutant.description;
            assert!(
                !is_broken,
                "mutant {number} ({damage}): {}",
                outcome.report()
            );
        }
        devices.restore(undo).expect("writable");
    }
}

#[test]
fn accounts_and_quotas() {
    check("quotas");
}

#[test]
fn intent_logs() {
    check("dirty-zil");
}

#[test]
fn deduplication() {
    check("dedup-legacy");
}

#[test]
fn parity() {
    check("raidz1-3");
}
