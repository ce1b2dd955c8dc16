//! `arm`: the engine's tests on 64-bit ARM, emulated.
//!
//! The tests of the program itself are not among them: they start daemons and mount, which the
//! emulation of a single process does not carry.

use crate::workspace;
use anyhow::{Result, bail};
use std::process::{Command, Stdio};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const EMULATOR: &str = "qemu-aarch64-static";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
/// Where Debian's cross compiler has the libraries of the target.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// The crates whose tests need nothing but files.
const PACKAGES: [&str; 10] = [
    "cenote-base",
    "cenote-codec",
    "cenote-ondisk",
    "cenote-vdev",
    "cenote-io",
    "cenote-cache",
    "cenote-dmu",
    "cenote-dsl",
    "cenote-posix",
    "cenote-pool",
];

/// Builds the program for ARM, and runs the engine's tests; further arguments go to `cargo test`.
pub fn run(arguments: &[String]) -> Result<bool> {
    require_tools()?;
    let built = workspace::succeeds(cargo(&["build"]).args(["--package", "cenote"]))?;
    let mut tests = cargo(&["test", "--no-fail-fast"]);
    for package in PACKAGES {
        tests.args(["--package", package]);
    }
    Ok(built && workspace::succeeds(tests.args(arguments))?)
}

fn cargo(words: &[&str]) -> Command {
    let mut command = workspace::cargo();
    command
        .args(words)
        .args(["--release", "--locked", "--target", TARGET])
        .env("CC_aarch64_unknown_linux_gnu", COMPILER)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", COMPILER)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            format!("{EMULATOR} -L {LIBRARIES}"),
        );
    command
}

fn require_tools() -> Result<()> {
    for tool in [EMULATOR, COMPILER] {
        let mut command = Command::new(tool);
        let found = command.arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            bail!(
                "{tool} is missing; on Debian: apt-get install qemu-user-static \
                 gcc-aarch64-linux-gnu libc6-dev-arm64-cross; and: rustup target add {TARGET}"
            );
        }
    }
    Ok(())
}
