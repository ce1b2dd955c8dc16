//! A small share of `cargo xtask clients`: those whose programs `./test` installs.

use anyhow::Result;
use cenote_tests::clients::{self, Options};
use cenote_tests::{missing, pool};

fn check(name: &str) -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = Options {
        device_mebibytes: 384,
        is_small: true,
        ..Options::default()
    };
    if clients::run(name, &options)?.is_none() {
        missing!("a program that {name} needs is not here");
    }
    Ok(())
}

#[test]
fn git() -> Result<()> {
    check("git")
}

#[test]
fn tar() -> Result<()> {
    check("tar")
}

#[test]
fn lmdb() -> Result<()> {
    check("lmdb")
}

#[test]
fn sqlite() -> Result<()> {
    check("sqlite")
}

/// Those that are not on every machine: what depends on OpenZFS is unpacked by hand.
#[test]
fn snapshot_keepers() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = Options {
        device_mebibytes: 384,
        is_small: true,
        ..Options::default()
    };
    for name in ["sanoid", "zfs-auto-snapshot"] {
        clients::run(name, &options)?;
    }
    Ok(())
}
