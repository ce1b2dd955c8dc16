//! A small share of `cargo xtask clients`: each client is skipped where its program is missing.

use anyhow::Result;
use cenote_tests::clients::{self, Options};
use cenote_tests::pool;

fn check(name: &str) -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let options = Options {
        device_mebibytes: 384,
        is_small: true,
        ..Options::default()
    };
    clients::run(name, &options).map(|_| ())
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
