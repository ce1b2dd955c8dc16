//! `ci` and `tidy`: what a change must pass.

use crate::workspace;
use anyhow::Result;
use std::process::Command;
use xtask::tidy;

/// What `.ci/run` checks: all tests, formatting and lints.
pub fn run() -> Result<bool> {
    let mut script = Command::new("bash");
    script.arg(".ci/run").current_dir(workspace::root());
    workspace::succeeds(&mut script)
}

/// Prints what breaks a rule.
pub fn tidy() -> Result<bool> {
    let problems = tidy::check(&workspace::root())?;
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {} problems", problems.len());
    Ok(problems.is_empty())
}
