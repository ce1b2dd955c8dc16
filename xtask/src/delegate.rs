//! Commands whose work lives in other packages: they are built when they are asked for.
//!
//! `xtask` itself stays small this way, so that `cargo xtask tidy` needs no engine to compile.

use crate::workspace;
use anyhow::Result;

/// Compares golden pools with what Cenote reads from them, and prints a table.
pub fn golden(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "golden", arguments)
}

/// Runs damaged pools through Cenote.
pub fn zoo(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "zoo", arguments)
}

/// Runs a measurement.
pub fn bench(arguments: &[String]) -> Result<bool> {
    run_program("cenote-bench", "bench", arguments)
}

/// Runs program `name` of `package`, optimised: all three walk a lot of data.
fn run_program(package: &str, name: &str, arguments: &[String]) -> Result<bool> {
    let mut command = workspace::cargo();
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        package,
        "--bin",
        name,
        "--",
    ]);
    workspace::succeeds(command.args(arguments))
}
