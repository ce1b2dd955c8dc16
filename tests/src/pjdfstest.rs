//! pjdfstest on a mount: what POSIX says of the calls that change files, case by case.
//!
//! The suite is a program of its own, built by `cargo install` where it is not there yet. It runs
//! as root, becomes other users, and remounts the file system read-only and back.

use crate::golden::build_directory;
use crate::mount_helper::Helper;
use crate::site::Site;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// The version whose cases these are.
const VERSION: &str = "0.2.2";

/// Cases that may be skipped, and why they cannot run; docs/posix.md has the same list.
const MAY_BE_SKIPPED: [(&str, &str); 1] = [(
    "link::link_count_max",
    "pathconf(_PC_LINK_MAX) does not know file systems in user space",
)];

/// Everything that Linux and the suite have; two users that every Debian has.
const CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = true
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// The suite's program, which is built if it is not there.
fn program() -> Result<PathBuf> {
    let place = build_directory().join("tools");
    let program = place.join("bin/pjdfstest");
    if !program.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args([
            "install",
            "pjdfstest",
            "--version",
            VERSION,
            "--locked",
            "--root",
        ]);
        command.arg(&place);
        let status = command.status().context("cargo")?;
        ensure!(
            status.success(),
            "pjdfstest {VERSION} does not build; it needs libacl1-dev"
        );
    }
    Ok(program)
}

/// Runs the cases with these words in their names, or all; whether all of them passed.
///
/// # Errors
/// If they cannot run.
pub fn run(patterns: &[String]) -> Result<bool> {
    if !rustix::process::geteuid().is_root() {
        bail!("pjdfstest needs root");
    }
    let program = program()?;
    let site = Site::create("single", 2048, "-O acltype=posix")?;
    for dataset in ["tank/first", "tank/second"] {
        site.ok(&format!("zfs create {dataset}"))?;
        fs::set_permissions(site.path(dataset), Permissions::from_mode(0o755))?;
    }
    let place = site.cenote().directory();
    // Other users pass through.
    fs::set_permissions(place, Permissions::from_mode(0o755))?;
    let configuration = place.join("pjdfstest.toml");
    fs::write(&configuration, CONFIGURATION)?;
    let helper = Helper::install(&place.join("bin/mount.fuse.cenote"))?;
    let mut command = site.cenote().in_environment(Command::new(program));
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command
        .arg("-c")
        .arg(&configuration)
        .arg("-p")
        .arg(site.path("tank/first"))
        .arg("-s")
        .arg(site.path("tank/second"))
        .args(patterns)
        // The helper of remounts calls our program by its name.
        .env("PATH", format!("{}:{path}", place.join("bin").display()))
        .output();
    drop(helper);
    let said = String::from_utf8_lossy(&output?.stdout).into_owned();
    let is_good = judge(&said)?;
    site.finish()?;
    Ok(is_good)
}

/// Prints what is worth it; whether no case failed, and none was skipped without a reason.
fn judge(said: &str) -> Result<bool> {
    let mut is_good = true;
    let mut summary = None;
    for line in said.lines() {
        let mut words = line.split_whitespace();
        let (name, verdict) = (words.next().unwrap_or_default(), words.next_back());
        if name == "Summary:" {
            summary = Some(line);
        }
        match verdict {
            Some("FAILED") => {
                is_good = false;
                println!("FAILED  {name}");
            }
            Some("skipped") if name.contains("::") => {
                let known = MAY_BE_SKIPPED.iter().find(|(case, _)| *case == name);
                is_good &= known.is_some();
                let reason = known.map_or("for no reason that is known", |(_, reason)| reason);
                println!("skipped {name}: {reason}");
            }
            _ => {}
        }
    }
    println!(
        "{}",
        summary.with_context(|| format!("pjdfstest did not end: {said}"))?
    );
    Ok(is_good)
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn skips_need_a_reason() {
        let end = "Summary: 0 failed, 1 skipped, 397 passed, 0 expected failures, 398 total";
        let judged = |case: &str| judge(&format!("chmod::eperm_not_owner ok\n{case}\n{end}"));
        assert!(judged("link::link_count_max   skipped\n\tNo limit").expect("it ended"));
        assert!(!judged("open::etxtbsy   skipped").expect("it ended"));
        assert!(!judged("open::etxtbsy   FAILED").expect("it ended"));
        assert!(judge("chmod::eperm_not_owner ok").is_err());
    }
}
