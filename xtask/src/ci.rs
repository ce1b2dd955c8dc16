//! `ci` and `tidy`: what a change must pass.

use crate::workspace;
use anyhow::Result;
use xtask::tidy;

/// Formatting, lints and all tests. Every step runs even when an earlier one failed, so that one
/// run shows everything there is to mend.
pub fn run() -> Result<bool> {
    let steps: [(&str, &[&str]); 3] = [
        ("formatting", &["fmt", "--all", "--check"]),
        (
            "lints",
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        ),
        ("tests", &["test", "--workspace", "--locked"]),
    ];
    let mut failed = Vec::new();
    for (name, arguments) in steps {
        println!("== {name}: cargo {}", arguments.join(" "));
        if !is_installed(arguments[0])? {
            println!(
                "== {name}: skipped, this toolchain has no cargo {}",
                arguments[0]
            );
            continue;
        }
        if !workspace::succeeds(workspace::cargo().args(arguments))? {
            failed.push(name);
        }
    }
    match failed.is_empty() {
        true => println!("== all passed"),
        false => println!("== FAILED: {}", failed.join(", ")),
    }
    Ok(failed.is_empty())
}

/// Whether this toolchain has the subcommand: minimal ones lack `fmt` and `clippy`.
fn is_installed(subcommand: &str) -> Result<bool> {
    let output = workspace::cargo().args([subcommand, "--help"]).output()?;
    Ok(output.status.success())
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
