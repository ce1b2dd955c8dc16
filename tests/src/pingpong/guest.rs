//! Turns with OpenZFS's kernel module, which runs in a small guest.
//!
//! Both sides change files by the same script ([`SCRIPT`]), and both print the same listing:
//! Cenote's before its export and the guest's after its import must be the same text, and the
//! other way round. The guest scrubs, and takes a snapshot in each turn, with a bookmark, a hold
//! or a clone; both sides list the snapshots that there are.

use crate::golden;
use crate::site::Site;
use crate::skip;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = include_str!("guest.py");
const TURN: &str = include_str!("guest.sh");

/// How long a guest may take: it boots, and it has no acceleration on many machines.
const TIMEOUT_SECONDS: &str = "900";

/// How often a guest is started for one turn.
const ATTEMPTS_MAX: u32 = 4;

/// A run.
pub struct Options {
    /// Chooses the changes.
    pub seed: u64,
    /// Turns of each side.
    pub rounds: u64,
    /// The pool's layout, by [`crate::site::layouts`].
    pub layout: String,
    /// Options of `zfs create`.
    pub properties: String,
}

/// Runs all rounds; `false` with a notice where the guest is missing.
pub fn run(options: &Options) -> Result<bool> {
    let Some(program) = guest_path() else {
        skip!("the guest is not here");
        return Ok(false);
    };
    let site = Site::create(&options.layout, 160, "-O canmount=off -O xattr=sa")?;
    let share = site.cenote().directory().to_path_buf();
    fs::write(share.join("guest.py"), SCRIPT)?;
    fs::write(share.join("guest.sh"), TURN)?;
    let properties = &options.properties;
    let encrypted = if properties.contains("encryption=") {
        let key = share.join("key");
        fs::write(&key, "5".repeat(64))?;
        format!("-o keyformat=hex -o keylocation=file://{}", key.display())
    } else {
        String::new()
    };
    site.ok(&format!("zfs create {properties} {encrypted} tank/shared"))?;
    let root = site.path("tank/shared");
    for round in 0..options.rounds {
        let seed = options.seed * 1000 + round * 2;
        let turn = || -> Result<()> {
            script(
                &share,
                &["change", &root.display().to_string(), &seed.to_string()],
            )?;
            let ours = list(&share, &root)?;
            site.export()?;
            guest(&program, &share, seed + 1)?;
            same(&ours, &share.join("theirs-before")).context("OpenZFS finds other files")?;
            let status = fs::read_to_string(share.join("status"))?;
            ensure!(status.contains("errors: No known data errors"), "{status}");
            ensure!(status.contains("with 0 errors"), "{status}");
            site.import("-N")?;
            if !encrypted.is_empty() {
                site.ok("zfs load-key tank/shared")?;
            }
            site.ok("zfs mount tank/shared")?;
            let ours = list(&share, &root)?;
            same(&ours, &share.join("theirs-after")).context("Cenote finds other files")?;
            snapshots(&share, &root)
        };
        turn().with_context(|| format!("round {round} on {}", options.layout))?;
    }
    site.finish()?;
    Ok(true)
}

fn guest_path() -> Option<PathBuf> {
    let place = match std::env::var_os("CENOTE_GUEST") {
        Some(path) => path.into(),
        None => golden::workspace_root().join("../shared/peer/openzfs-vm"),
    };
    place.exists().then_some(place)
}

/// Runs the guest's turn. A guest that does not come up, as on a machine with too much to do, is
/// started again: the pool was not touched.
fn guest(program: &Path, share: &Path, seed: u64) -> Result<()> {
    let begun = share.join("begun");
    for attempt in 1.. {
        let output = Command::new(program)
            .args(["run", "--timeout", TIMEOUT_SECONDS, "--share"])
            .arg(share)
            .arg("--script")
            .arg(share.join("guest.sh"))
            .args(["--", &seed.to_string()])
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || begun.exists() || attempt == ATTEMPTS_MAX {
            ensure!(output.status.success(), "{}\n{said}{errors}", output.status);
            break;
        }
        eprintln!("the guest did not come up, attempt {attempt}");
    }
    fs::remove_file(begun).context("the guest's turn left no trace")
}

fn script(share: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("python3");
    command.arg(share.join("guest.py")).args(arguments);
    let output = command.output().context("python3")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn list(share: &Path, root: &Path) -> Result<String> {
    script(share, &["list", &root.display().to_string()])
}

/// The snapshots that the guest listed must show the same here.
fn snapshots(share: &Path, root: &Path) -> Result<()> {
    let place = root.join(".zfs/snapshot");
    for entry in fs::read_dir(&place)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let theirs = share.join(format!("theirs-{name}"));
        if theirs.exists() {
            let ours = list(share, &place.join(&name))?;
            same(&ours, &theirs).with_context(|| format!("snapshot {name}"))?;
        }
    }
    Ok(())
}

fn same(ours: &str, theirs: &Path) -> Result<()> {
    let theirs = fs::read_to_string(theirs)?;
    let mut differences = Vec::new();
    let (mut left, mut right) = (ours.lines(), theirs.lines());
    loop {
        match (left.next(), right.next()) {
            (None, None) => break,
            (one, other) if one != other => differences.push(format!("{one:?}\n  {other:?}")),
            _ => {}
        }
    }
    differences.truncate(5);
    ensure!(
        differences.is_empty(),
        "ours, theirs:\n{}",
        differences.join("\n")
    );
    Ok(())
}
