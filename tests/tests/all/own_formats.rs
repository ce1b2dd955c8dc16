//! What earlier releases wrote in Cenote's own formats is read by this one: objects and the local
//! log of a pool in a store, the daemon's record, approvals, settings, alarms.
//!
//! `tests/data/own-formats/make` makes the sample of a release, which never changes afterwards.

use anyhow::{Context, Result, ensure};
use cenote_tests::program::{Cenote, Limits, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn samples() -> Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/own-formats");
    let mut samples = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            samples.push(path);
        }
    }
    samples.sort();
    Ok(samples)
}

/// The one entry of a directory but for `other`.
fn entry_beside(directory: &Path, other: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    let entry = entries.iter().find(|entry| *entry.file_name() != *other);
    Ok(entry.context("the directory has nothing else")?.path())
}

/// A user whose daemon of that release died with the pool imported.
fn unpack(sample: &Path) -> Result<Cenote> {
    let cenote = Cenote::new()?;
    let root = cenote.directory();
    let mut tar = Command::new("tar");
    tar.args(["--zstd", "--extract", "--file"]).arg(sample);
    tar.arg("--directory").arg(root);
    run(tar, b"", Limits::default())?.success()?;
    // A local directory is named after the store's URL, which is another one here. A refused import
    // makes one with the right name.
    let local = root.join("state/cloud");
    let old = entry_beside(&local, "")?;
    let store = format!("file://{}/store/own", root.display());
    let refused = cenote.run("zpool", &["import", "-d", &store, "own"])?;
    ensure!(
        refused.stderr.contains("-f takes it over"),
        "{}",
        refused.report()
    );
    let old_name = old.file_name().context("a name")?.to_string_lossy();
    let new = entry_beside(&local, &old_name)?;
    fs::remove_dir_all(&new)?;
    fs::rename(&old, &new)?;
    let stopped = cenote.run("cenote", &["daemon", "stop"])?;
    ensure!(
        [Some(0), Some(1)].contains(&stopped.code),
        "{}",
        stopped.report()
    );
    let record = fs::read_to_string(root.join("state/record.json"))?;
    let record = record.replace("@ROOT@", &root.display().to_string());
    cenote.subdirectory("mnt")?;
    let name = cenote.socket().display().to_string();
    let name = name.replace('-', "%2d").replace('/', "-");
    let daemons = cenote.subdirectory("state/daemons")?;
    fs::write(daemons.join(format!("{name}.json")), record)?;
    Ok(cenote)
}

fn check(sample: &Path) -> Result<()> {
    let cenote = unpack(sample)?;
    let root = cenote.directory();
    let mut resume = cenote.command("cenote", &["daemon", "resume"]);
    resume.env("CENOTE_SETTINGS", root.join("settings.conf"));
    resume.env("CENOTE_ALARMS", root.join("alarms.toml"));
    let resumed = run(resume, b"", Limits::default())?.success()?;
    let text = resumed.text();
    ensure!(text == "own: imported, 2 file systems mounted\n", "{text}");
    // The record: the pool and its mounts are there again. The objects and the local log:
    let own = root.join("mnt/own");
    let uploaded = (1..=10_000).map(|number| format!("{number}\n"));
    ensure!(fs::read_to_string(own.join("uploaded"))? == uploaded.collect::<String>());
    ensure!(fs::read_to_string(own.join("logged"))? == "logged\n");
    ensure!(fs::read_to_string(own.join("synced"))? == "synced\n");
    let mounted = cenote.ok("zfs get -H -o value mounted own/site")?;
    ensure!(mounted == "yes\n", "{mounted}");
    let waiting = cenote.ok("cenote approve")?;
    ensure!(waiting == "nothing waits for approval\n", "{waiting}");
    let setting = cenote.ok("cenote settings get -H cloud_commit_seconds")?;
    ensure!(setting == "cloud_commit_seconds\t3600\n", "{setting}");
    let alarms = cenote.ok("cenote alarm")?;
    ensure!(alarms.contains("/bin/true"), "{alarms}");
    cenote.ok("cenote verify own")?;
    cenote.ok("zpool export own").map(drop)
}

#[test]
fn what_earlier_releases_wrote_is_read() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let samples = samples()?;
    ensure!(!samples.is_empty());
    for sample in samples {
        check(&sample).with_context(|| sample.display().to_string())?;
    }
    Ok(())
}
