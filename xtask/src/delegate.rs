//! Commands whose work lives in other packages: they are built when they are asked for.
//!
//! `xtask` itself stays small this way, so that `cargo xtask tidy` needs no engine to compile.

use crate::workspace;
use anyhow::{Context, Result, bail};

/// Opens pools with wrong tables for writing.
pub fn mutate(arguments: &[String]) -> Result<bool> {
    run_program("cenote-sim", "mutate", None, arguments)
}

/// Makes random histories of devices that go and come back.
pub fn identity(arguments: &[String]) -> Result<bool> {
    let (mut seed, mut count) = ("1", "2000");
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match (word.as_str(), words.as_slice().first()) {
            ("--count", Some(number)) => {
                count = number;
                words.next();
            }
            (number, _) if number.parse::<u64>().is_ok() => seed = number,
            (other, _) => bail!("'{other}' is not understood"),
        }
    }
    let mut command = workspace::cargo();
    command.args(["test", "--package", "cenote-pool", "--test", "all", "--"]);
    command.args(["devices_that_go_and_come_back", "--nocapture"]);
    command.env("CENOTE_IDENTITY_SEED", seed);
    command.env("CENOTE_IDENTITY_COUNT", count);
    workspace::succeeds(&mut command)
}

/// Lets simulated machines lose their power.
pub fn sim(arguments: &[String]) -> Result<bool> {
    run_program("cenote-sim", "sim", None, arguments)
}

/// Makes random trees of encryption roots: a test of the pool's crate, for more of them.
pub fn keys(arguments: &[String]) -> Result<bool> {
    let number = |text: &String| text.parse::<u64>().with_context(|| format!("'{text}'?"));
    let (seed, count) = match arguments {
        [] => (1, 100),
        [seed] => (number(seed)?, 100),
        [option, count] if option == "--count" => (1, number(count)?),
        [seed, option, count] if option == "--count" => (number(seed)?, number(count)?),
        _ => bail!("usage: cargo xtask keys [SEED] [--count N]"),
    };
    let mut command = workspace::cargo();
    command.args(["test", "--release", "--quiet", "--package", "cenote-pool"]);
    command.args(["--test", "all", "--", "--nocapture", "random_trees_of"]);
    command.env("CENOTE_SEED", seed.to_string());
    command.env("CENOTE_TREES", count.to_string());
    workspace::succeeds(&mut command)
}

/// The trials of the package `cenote-tests`: random histories, damaged pools, other programs.
pub const TRIALS: [&str; 18] = [
    "chaos",
    "clients",
    "cloud",
    "dashboard",
    "fstests",
    "golden",
    "guest-ublk",
    "guest-volume",
    "history",
    "model",
    "network",
    "pingpong",
    "pjdfstest",
    "recorder",
    "repair",
    "replicate",
    "torture",
    "zoo",
];

/// Runs a trial: one of [`TRIALS`], or one that another command stands for.
pub fn trial(name: &str, arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "trial", Some(name), arguments)
}

/// Runs a measurement of the bench package.
pub fn bench(arguments: &[String]) -> Result<bool> {
    run_program("cenote-bench", "bench", None, arguments)
}

/// Runs program `name` of `package`, optimised: all of them walk a lot of data.
fn run_program(
    package: &str,
    name: &str,
    first: Option<&str>,
    arguments: &[String],
) -> Result<bool> {
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--quiet", "--package", package]);
    command.args(["--bin", name, "--"]);
    workspace::succeeds(command.args(first).args(arguments))
}
