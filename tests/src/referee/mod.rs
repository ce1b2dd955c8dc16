//! The referee for pools that tests write, OpenZFS in user space: the program `openzfs-ref`, and
//! behind it `zdb` and OpenZFS's library.
//!
//! It is independent of Cenote, and slow. Of the seven seconds of processor time for a small pool,
//! `zdb -bcc` takes six, and most of one of them after its last output: it empties its cache before
//! it exits. Prefetched blocks stay in the cache for six seconds
//! (`zfs_arc_min_prescient_prefetch_ms` in zfs(4)), and it retries without a pause. So `zdb` is run
//! with a few lines of C that end the process at that point, with the exit status so far. Without a
//! C compiler the tests are slower.

use crate::golden::{Golden, build_directory, workspace_root};
use crate::missing;
use anyhow::{Context, Result, ensure};
use rustix::fs::FlockOperation;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What ends `zdb` without tidying up.
const QUICK_EXIT: &str = include_str!("quick_exit.c");

/// Where the program is: `$CENOTE_REFEREE`, else in `tests/peer` if all that it needs is installed.
pub fn path() -> Option<&'static Path> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        if let Some(path) = std::env::var_os("CENOTE_REFEREE") {
            return Some(path.into());
        }
        // The program may be there without the library that it calls.
        let check = Command::new(peer().join("setup-referee"))
            .arg("--check")
            .output();
        let is_complete = check.is_ok_and(|check| check.status.success());
        is_complete.then(|| peer().join("openzfs-ref"))
    };
    PATH.get_or_init(find).as_deref()
}

fn peer() -> PathBuf {
    workspace_root().join("tests/peer")
}

/// The same for a test that needs it: prints a notice if it is not installed.
///
/// # Panics
/// In CI, if it could be installed.
pub fn required() -> Option<&'static Path> {
    let found = path();
    if found.is_none() && peer().join("setup-referee").exists() {
        missing!("OpenZFS is not installed to judge the pool");
    } else if found.is_none() {
        crate::skip!("there is no OpenZFS to judge the pool");
    }
    found
}

/// Runs the referee with these arguments: what it printed, or what it complained of. `None` with
/// a notice where it is not installed.
pub fn run(arguments: &[&str]) -> Result<Option<Result<String>>> {
    let Some(program) = required() else {
        return Ok(None);
    };
    let output = with_tools(Command::new(program).args(arguments)).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(Some(Ok(text)));
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let complaint = anyhow::anyhow!("{arguments:?}: {}\n{text}{errors}", output.status);
    Ok(Some(Err(complaint)))
}

/// All checks of the pool whose devices are in `directory`; it must be exported.
///
/// # Panics
/// If OpenZFS finds anything wrong.
pub fn judge(directory: &Path, pool: &str) {
    let directory = directory.to_str().expect("a path in UTF-8");
    let judged = run(&["check", directory, pool]).expect("the referee runs");
    if let Some(Err(complaint)) = judged {
        panic!("the referee complains: {complaint:#}");
    }
}

/// The same for copies of a golden pool's devices. Two kinds have known damage: one has a device
/// that is offline, and the other a device that was damaged for a scrub to repair.
///
/// # Panics
/// If OpenZFS finds anything else wrong, or does not find that.
pub fn judge_golden(directory: &Path, golden: &Golden) {
    let place = directory.to_str().expect("a path in UTF-8");
    let wanted: &[&str] = match golden.kind.as_str() {
        "mirror-offline" => &["import.readonly"],
        "mirror3-degraded" => &["scrub"],
        _ => &[],
    };
    let judged = run(&["check", place, &golden.manifest.pool]).expect("the referee runs");
    let text = match judged {
        None => return,
        Some(Ok(text)) => text,
        Some(Err(complaint)) => format!("{complaint:#}"),
    };
    let failed = text.lines().filter_map(|line| line.strip_prefix("FAIL "));
    let failed: Vec<&str> = failed.filter_map(|line| line.split(' ').next()).collect();
    let is_finished = text.contains(&format!("checks, {} failed", wanted.len()));
    assert!(failed == wanted && is_finished, "the referee says: {text}");
}

/// Runs `zdb` with these arguments. `None` with a notice where it is not installed.
pub fn zdb(arguments: &[&str]) -> Result<Option<Output>> {
    if required().is_none() || find_zdb().is_none() {
        return Ok(None);
    }
    Ok(Some(
        with_tools(Command::new("zdb").args(arguments)).output()?,
    ))
}

/// Lets a command find our `zdb` before the other one.
fn with_tools(command: &mut Command) -> &mut Command {
    static TOOLS: OnceLock<Option<OsString>> = OnceLock::new();
    let tools = TOOLS.get_or_init(|| {
        let made = quick_zdb(&find_zdb()?);
        made.map_err(|error| eprintln!("zdb will be slow: {error:#}"))
            .ok()
    });
    if let Some(path) = tools {
        command.env("PATH", path);
    }
    command
}

/// The places of programs, those of root among them.
fn program_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places
}

/// OpenZFS's `zdb`, where it is installed. A link of that name may lead to ours.
pub fn find_zdb() -> Option<PathBuf> {
    let mut places = program_path().into_iter().map(|place| place.join("zdb"));
    places.find(|program| {
        let real = program.canonicalize();
        real.is_ok_and(|real| real.is_file() && !real.ends_with("cenote"))
    })
}

/// Makes a `zdb` that ends quickly, once for a build directory; returns a `PATH` that has it.
fn quick_zdb(zdb: &Path) -> Result<OsString> {
    let directory = build_directory().join("referee");
    fs::create_dir_all(&directory)?;
    let directory = directory.canonicalize()?;
    // Other test programs may be about the same.
    let lock = File::create(directory.join(".lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let [source, library, script] =
        ["quick_exit.c", "quick_exit.so", "zdb"].map(|name| directory.join(name));
    let text = format!(
        "#!/bin/sh\nLD_PRELOAD='{}' exec '{}' \"$@\"\n",
        library.display(),
        zdb.display()
    );
    let is_there = |path: &Path, text: &str| fs::read(path).is_ok_and(|old| old == text.as_bytes());
    if !is_there(&script, &text) || !is_there(&source, QUICK_EXIT) {
        fs::write(&source, QUICK_EXIT)?;
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O", "-o"]);
        let output = command.arg(&library).arg(&source).output().context("cc")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cc failed: {errors}");
        fs::write(&script, text)?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    }
    let mut places = program_path();
    places.insert(0, directory);
    Ok(std::env::join_paths(places)?)
}
