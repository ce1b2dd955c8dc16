//! Turns with OpenZFS's kernel module, which runs in a small guest.
//!
//! Both sides change files by the same script ([`SCRIPT`]), and both print the same listing:
//! Cenote's before its export and the guest's after its import must be the same text, and the
//! other way round. The guest scrubs. Each side takes a snapshot in its turn, with a bookmark, a
//! hold or a clone, changes clones, promotes them and the original again, rolls back, and destroys
//! the oldest snapshot and a clone of the other, and gives up its checkpoint; both list the
//! snapshots and Cenote's clones as they find them.

use crate::golden;
use crate::site::Site;
use crate::skip;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What changes and lists file systems.
pub(crate) const SCRIPT: &str = include_str!("guest.py");
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
    let site = Site::create(&options.layout, 384, "-O canmount=off -O xattr=sa")?;
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
            let clones = history(&site, &share, round, seed)?;
            let ours = list(&share, &root)?;
            checkpoint(&site, round)?;
            site.export()?;
            guest(&program, &share, &[], &(seed + 1).to_string())?;
            same(&ours, &share.join("theirs-before")).context("OpenZFS finds other files")?;
            for (clone, ours) in &clones {
                same(ours, &share.join(format!("theirs-before-{clone}")))
                    .with_context(|| format!("OpenZFS finds another {clone}"))?;
            }
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
            let left = site.ok("zfs list -H -o name -r tank")?;
            for clone in clones.keys() {
                let dataset = format!("tank/{clone}");
                if !left.lines().any(|name| name == dataset) {
                    continue;
                }
                site.ok(&format!("zfs mount {dataset}"))?;
                let ours = list(&share, &site.path(&dataset))?;
                same(&ours, &share.join(format!("theirs-after-{clone}")))
                    .with_context(|| format!("Cenote finds another {clone}"))?;
            }
            snapshots(&share, &root)
        };
        turn().with_context(|| format!("round {round} on {}", options.layout))?;
    }
    site.finish()?;
    Ok(true)
}

/// Discards an existing checkpoint, takes one in every other round, and destroys one of OpenZFS's
/// clones with its livelist.
fn checkpoint(site: &Site, round: u64) -> Result<()> {
    let kept = site.ok("zpool get -Hp -o value checkpoint tank")?;
    if kept.trim() != "-" {
        site.ok("zpool checkpoint -d -w tank")?;
    }
    let listed = site.ok("zfs list -H -o name -r tank")?;
    if let Some(clone) = listed.lines().find(|name| name.starts_with("tank/clone-")) {
        site.ok(&format!("zfs destroy -r {clone}"))?;
    }
    if round.is_multiple_of(2) {
        site.ok("zpool checkpoint tank")?;
    }
    Ok(())
}

/// Our snapshots and clones of a turn; returns all our clones, and what is in them.
fn history(site: &Site, share: &Path, round: u64, seed: u64) -> Result<BTreeMap<String, String>> {
    let root = site.path("tank/shared");
    let change = |place: &Path, seed: u64| {
        let place = place.display().to_string();
        script(share, &["change", &place, &seed.to_string()])
    };
    let snapshot = format!("tank/shared@ours-{round}");
    site.ok(&format!("zfs snapshot {snapshot}"))?;
    site.ok(&format!("zfs bookmark {snapshot} tank/shared#ours-{round}"))?;
    match round % 3 {
        0 => site.ok(&format!("zfs hold kept {snapshot}"))?,
        1 => site.ok(&format!("zfs clone {snapshot} tank/ours-{round}"))?,
        _ => String::new(),
    };
    let listed = site.ok("zfs list -H -o name -r tank")?;
    let mut clones = BTreeMap::new();
    for dataset in listed.lines().filter(|name| name.starts_with("tank/ours-")) {
        let place = site.path(dataset);
        change(&place, seed + 700_000)?;
        let name = dataset.trim_start_matches("tank/").to_owned();
        clones.insert(name, list(share, &place)?);
        if round.is_multiple_of(2) {
            site.ok(&format!("zfs promote {dataset}"))?;
            site.ok("zfs promote tank/shared")?;
        }
    }
    // Of OpenZFS's snapshots the oldest goes, unless a clone began as it.
    let listed =
        site.ok("zfs list -H -t snapshot -s creation -o name,clones,userrefs tank/shared")?;
    let theirs = listed.lines().find(|line| line.contains("@turn-"));
    if let Some([name, clones, holds]) = theirs
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .as_deref()
        && ["", "-"].contains(clones)
    {
        if *holds != "0" {
            site.ok(&format!("zfs release kept {name}"))?;
        }
        site.ok(&format!("zfs destroy {name}"))?;
    }
    let before = list(share, &root)?;
    site.ok(&format!("zfs snapshot tank/shared@back-{round}"))?;
    change(&root, seed + 600_000)?;
    site.ok(&format!("zfs rollback tank/shared@back-{round}"))?;
    let after = list(share, &root)?;
    ensure!(before == after, "a rollback leads elsewhere");
    site.ok(&format!("zfs destroy tank/shared@back-{round}"))?;
    Ok(clones)
}

/// The program that runs the guest, if it is here.
pub(crate) fn guest_path() -> Option<PathBuf> {
    let place = match std::env::var_os("CENOTE_GUEST") {
        Some(path) => path.into(),
        None => golden::workspace_root().join("tests/peer/openzfs-vm"),
    };
    place.exists().then_some(place)
}

/// Runs the guest's turn, `guest.sh` of `share`, with one argument.
///
/// A guest that does not come up, as on a machine with too much to do, is started again: the pool
/// was not touched.
pub(crate) fn guest(program: &Path, share: &Path, options: &[&str], argument: &str) -> Result<()> {
    let begun = share.join("begun");
    for attempt in 1.. {
        let output = Command::new(program)
            .args(["run", "--timeout", TIMEOUT_SECONDS])
            .args(options)
            .arg("--share")
            .arg(share)
            .arg("--script")
            .arg(share.join("guest.sh"))
            .args(["--", argument])
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

/// What is below a directory, by the same script on both sides.
pub(crate) fn list(share: &Path, root: &Path) -> Result<String> {
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
