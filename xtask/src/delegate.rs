//! Commands whose work lives in other packages: they are built when they are needed.
//!
//! `xtask` itself stays small this way, so that `cargo xtask tidy` needs no engine to compile.

use crate::workspace;
use anyhow::{Context, Result, bail};

/// Compares golden pools with what Cenote reads from them, and prints a table.
pub fn golden(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "golden", arguments)
}

/// Runs damaged pools through Cenote.
pub fn zoo(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "zoo", arguments)
}

/// Opens pools with wrong tables for writing.
pub fn mutate(arguments: &[String]) -> Result<bool> {
    run_program("cenote-sim", "mutate", arguments)
}

/// Makes random operations on a mount and in memory.
pub fn model(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "model", arguments)
}

/// Makes random histories of datasets and snapshots, and a model of them.
pub fn history(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "history", arguments)
}

/// Runs the commands of the handbook.
pub fn handbook(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "handbook", arguments)
}

/// Runs programs that people use on a mount.
pub fn clients(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "clients", arguments)
}

/// Has a browser go through the dashboard.
pub fn dashboard(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "dashboard", arguments)
}

/// Runs xfstests on mounts.
pub fn fstests(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "fstests", arguments)
}

/// Runs groups of OpenZFS's test suite on our programs.
pub fn zfs_test(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "zfs-test", arguments)
}

/// Boots a guest with systemd that has the packages.
pub fn boot(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "boot", arguments)
}

/// Boots a guest that serves volumes to its own kernel.
pub fn guest_ublk(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "guest-ublk", arguments)
}

/// Boots a guest from a clone of a volume.
pub fn guest_volume(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "guest-volume", arguments)
}

/// Has Cenote and OpenZFS write to one pool in turns.
pub fn pingpong(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "pingpong", arguments)
}

/// Damages and replaces devices, and checks that scrubs and resilvers repair them.
pub fn repair(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "repair", arguments)
}

/// Has devices come, go and be replaced, many at once.
pub fn chaos(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "chaos", arguments)
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

/// Kills the daemon under load.
pub fn torture(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "torture", arguments)
}

/// Makes power cuts of what the daemon's disks recorded.
pub fn recorder(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "recorder", arguments)
}

/// Runs pjdfstest on a mount.
pub fn pjdfstest(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "pjdfstest", arguments)
}

/// Lets simulated machines lose their power.
pub fn sim(arguments: &[String]) -> Result<bool> {
    run_program("cenote-sim", "sim", arguments)
}

/// Lets a pool in a store suffer random misfortune.
pub fn cloud(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "cloud", arguments)
}

/// Kills the servers of a pool's disks.
pub fn network(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "network", arguments)
}

/// Sends and receives random histories, by Cenote and by OpenZFS.
pub fn replicate(arguments: &[String]) -> Result<bool> {
    run_program("cenote-tests", "replicate", arguments)
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

/// Runs a measurement: the program `NAME-bench` of the bench package.
pub fn bench(arguments: &[String]) -> Result<bool> {
    let names = bench_names()?;
    match arguments.split_first() {
        Some((name, rest)) if names.contains(name) => {
            run_program("cenote-bench", &format!("{name}-bench"), rest)
        }
        Some((name, _)) => bail!("no bench '{name}'; there are: {}", names.join(", ")),
        None => bail!("which bench? {}", names.join(", ")),
    }
}

fn bench_names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(workspace::root().join("bench/src/bin"))? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        names.extend(file.strip_suffix("-bench.rs").map(str::to_string));
    }
    names.sort();
    Ok(names)
}

/// Runs program `name` of `package`, optimised: all of them walk a lot of data.
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
