//! Groups of OpenZFS's own test suite, unmodified, with our programs as `zpool` and `zfs`.
//!
//! The suite is Debian's package `zfs-test`: scripts that call commands by name and look at what
//! they say. They find the commands in a directory of links, which is their whole `PATH`, and three
//! loop devices as disks. Groups are taken as the package's run files have them; tests that need
//! what only the kernel module has are left out, and tests that are known to fail fail with a
//! reason ([`known`]). What fails without one is news.
//!
//! **Module parameters.** Tests set them below `/sys/module/zfs`, which only the module has. The
//! suite runs in a mount namespace of its own, where a directory is mounted there. Values written
//! to its files become settings of the daemon under the same names ([`parameters`]). The namespace
//! also removes the mounts that a failed test leaves.

mod known;
mod parameters;
mod place;
mod runfile;

use crate::site::Site;
use anyhow::{Context, Result, ensure};
use known::{GROUPS, KNOWN, LEFT_OUT};
use parameters::Parameters;
use place::{Disks, tools};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Set where the program runs in its own mount namespace.
const IN_NAMESPACE: &str = "CENOTE_ZFS_TEST_NAMESPACE";

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the package has its files: `/usr/share/zfs`, or there below where it was unpacked.
    pub package: PathBuf,
    /// Groups and single tests; empty means all groups of the table.
    pub words: Vec<String>,
    /// Seconds after which a test is stopped.
    pub timeout: u32,
}

/// How a test ended, in the runner's word.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ended {
    test: String,
    word: String,
}

fn require(options: &Options) -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    ensure!(is_root, "OpenZFS's test suite needs root");
    let suite = options.package.join("zfs-tests/tests/functional");
    ensure!(
        suite.is_dir(),
        "{} is not there: install Debian's package zfs-test (contrib), or unpack it with \
         'dpkg -x' and name its usr/share/zfs with --package",
        suite.display()
    );
    for program in ["ksh", "losetup", "unshare", "sudo", "fio", "zdb"] {
        ensure!(place::find(program).is_some(), "there is no {program}");
    }
    Ok(())
}

/// Runs the tests; whether all passed but those that are known to fail.
///
/// # Errors
/// If they cannot be run.
pub fn run(options: &Options) -> Result<bool> {
    require(options)?;
    if std::env::var_os(IN_NAMESPACE).is_none() {
        let mut again = Command::new("unshare");
        again.args(["--mount", "--propagation", "private", "--"]);
        again.arg(std::env::current_exe()?);
        again.args(std::env::args_os().skip(1));
        // The program that is under test is built before the directories hide anything.
        again.env("CENOTE_BIN", crate::program::cenote_path());
        return Err(again.env(IN_NAMESPACE, "1").exec().into());
    }
    let results = crate::golden::build_directory().join("zfs-test");
    let _ = fs::remove_dir_all(&results);
    fs::create_dir_all(&results)?;
    let site = Site::new("testpool")?;
    let ended = run_on(&site, options, &results);
    site.abandon();
    let ended = ended?;
    let is_good = report(&ended);
    println!("what the tests said is in {}", results.display());
    Ok(is_good)
}

fn run_on(site: &Site, options: &Options, results: &Path) -> Result<Vec<Ended>> {
    let groups: Vec<&str> = GROUPS.to_vec();
    let chosen = runfile::choose(&options.package, &groups, &options.words)?;
    ensure!(!chosen.is_empty(), "there is no such group or test");
    let text = runfile::text(&chosen, options.timeout);
    let run = site.cenote().directory().join("cenote.run");
    fs::write(&run, text)?;
    let files = site.cenote().subdirectory("files")?;
    let tools = tools(site, &options.package)?;
    let disks = Disks::attach(&files)?;
    let _parameters = Parameters::mount(site)?;
    let suite = options.package.join("zfs-tests");
    // The suite's names of pools and directories come before any script.
    let mut runner = Command::new("/bin/sh");
    runner.args([
        "-c",
        ". $STF_SUITE/include/default.cfg && exec \"$0\" \"$@\"",
    ]);
    runner.arg(options.package.join("test-runner/bin/test-runner.py"));
    runner.arg("-o").arg(results);
    runner.arg("-c").arg(&run).arg("-i").arg(&suite);
    runner.args(["-T", "functional", "-I", "1"]);
    runner.current_dir(&files);
    let environment = [
        ("STF_SUITE", suite.as_path()),
        ("STF_TOOLS", &options.package.join("test-runner")),
        ("STF_PATH", &tools),
        ("PATH", &tools),
        ("FILEDIR", &files),
        ("TMPDIR", &files),
        ("SCRIPT_COMMON", &options.package.join("common.sh")),
    ];
    runner.envs(environment);
    runner.env("DISKS", disks.names());
    for empty in ["KEEP", "__ZFS_POOL_EXCLUDE", "TESTFAIL_CALLBACKS"] {
        runner.env(empty, "");
    }
    let mut runner = site.cenote().in_environment(runner);
    let mut child = runner.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().context("its output")?;
    let mut ended = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        let Some(end) = ending(&line) else { continue };
        if !["setup", "cleanup"].contains(&end.test.as_str()) || end.word != "PASS" {
            println!("{:<8} {}", end.word, end.test);
        }
        ended.push(end);
    }
    // It fails whenever a test does.
    child.wait()?;
    ensure!(!ended.is_empty(), "the suite's runner ran no test");
    Ok(ended)
}

/// What a line of the runner says about a test: `Test: PATH (run as root) [00:01] [PASS]`.
fn ending(line: &str) -> Option<Ended> {
    let rest = line.strip_prefix("Test: ")?;
    let (path, rest) = rest.split_once(' ')?;
    let word = rest.rsplit_once('[')?.1.strip_suffix(']')?;
    let (_, test) = path.rsplit_once('/')?;
    let (test, word) = (test.to_owned(), word.to_owned());
    Some(Ended { test, word })
}

/// Prints how many passed, and why others did not; whether there are no news.
fn report(ended: &[Ended]) -> bool {
    let known: BTreeMap<&str, &str> = KNOWN.into_iter().collect();
    let tests: Vec<&Ended> = ended
        .iter()
        .filter(|end| !["setup", "cleanup"].contains(&end.test.as_str()))
        .collect();
    let passed = tests.iter().filter(|end| end.word == "PASS").count();
    println!("\n{passed} of {} tests pass", tests.len());
    let mut news = 0;
    for end in &tests {
        match (end.word.as_str(), known.get(end.test.as_str())) {
            ("PASS", Some(_)) => println!("{} passes, and is in the table", end.test),
            ("PASS", None) => {}
            (_, Some(reason)) => println!("{} does not: {reason}", end.test),
            (word, None) => {
                println!("{}: {word}, for an unknown reason", end.test);
                news += 1;
            }
        }
    }
    println!("\nLeft out, for what they need:");
    for (test, reason) in LEFT_OUT {
        println!("{test}: {reason}");
    }
    news == 0
}

#[cfg(test)]
mod tests {
    use super::ending;

    #[test]
    fn the_runners_lines_are_understood() {
        let line = "Test: /a/functional/online_offline/online_offline_001_pos (run as root) \
                    [00:12] [PASS]";
        let end = ending(line).unwrap();
        assert_eq!((&*end.test, &*end.word), ("online_offline_001_pos", "PASS"));
        assert_eq!(ending("Results Summary"), None);
    }
}
