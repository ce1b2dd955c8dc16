//! Reading a pool without mounting it: `cenote ls|tree|cat|stat|find|du|cp|dump|inspect`.

use anyhow::{Context, Result, ensure};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::Entries;
use cenote_tests::pool::{self, Import};
use cenote_tests::program::{Cenote, Outcome};
use cenote_tests::{mounted, offline};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// The pool with every type of file, and a snapshot.
struct Setup {
    cenote: Cenote,
    golden: Golden,
    devices: PathBuf,
}

impl Setup {
    fn new(kind: &str) -> Result<Self> {
        let golden = Golden::find(kind)?.context("the repository carries this pool")?;
        Ok(Self {
            cenote: Cenote::new()?,
            devices: golden.devices()?,
            golden,
        })
    }

    fn run(&self, command: &[&str], operands: &[&str]) -> Result<Outcome> {
        offline::read(&self.cenote, &self.devices, &[], command, operands)
    }

    fn ok(&self, command: &[&str], operands: &[&str]) -> Result<String> {
        Ok(self.run(command, operands)?.success()?.text())
    }

    fn dataset(&self, name: &str) -> String {
        format!("{}/{name}", self.golden.manifest.pool)
    }

    fn entries(&self, name: &str) -> Result<&Entries> {
        let dataset = &self.golden.manifest.datasets[&self.dataset(name)];
        dataset
            .entries
            .as_ref()
            .context("the manifest describes it")
    }
}

#[test]
fn directories_are_listed() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let root = setup.dataset("data") + ":/";
    let listed = setup.ok(&["ls"], &[&root])?;
    let have: BTreeSet<&str> = listed.lines().collect();
    let entries = setup.entries("data")?.keys();
    let want: BTreeSet<&str> = entries
        .map(String::as_str)
        .filter(|path| *path != "." && !path.contains('/'))
        .collect();
    ensure!(have == want, "{have:?}, wanted {want:?}");
    let long = setup.ok(&["ls", "-l"], &[&(root.clone() + "links")])?;
    ensure!(long.contains("short -> target"), "{long}");
    let missing = setup.run(&["ls"], &[&(root + "nowhere")])?;
    ensure!(
        missing.code == Some(1) && missing.stderr.contains("nowhere"),
        "{}",
        missing.report()
    );
    Ok(())
}

#[test]
fn files_are_found_everywhere() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let root = setup.dataset("data@one") + ":/";
    let found = setup.ok(&["find"], &[&root])?;
    // One name has a newline in it, and shows as two lines.
    let lines = found.lines().count();
    let entries = setup.entries("data@one")?.len();
    ensure!(
        lines.abs_diff(entries) <= 2,
        "{lines} lines for {entries} entries"
    );
    let tree = setup.ok(&["tree"], &[&root])?;
    ensure!(tree.contains("exact-128k"), "{tree}");
    let du = setup.ok(&["du"], &[&root])?;
    ensure!(!du.trim().is_empty(), "du says nothing");
    Ok(())
}

#[test]
fn contents_are_right() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    for path in [
        "rec/mixed",
        "tiny/t0112",
        "sparse/holes",
        "names/newline\nhere",
    ] {
        let file = format!("{}:/{path}", setup.dataset("data"));
        let outcome = setup.run(&["cat"], &[&file])?.success()?;
        let sum = mounted::hex(&Sha256::digest(&outcome.stdout));
        ensure!(
            setup.entries("data")?[path]["sha256"] == sum,
            "{path:?} is wrong"
        );
    }
    Ok(())
}

#[test]
fn stat_says_what_lstat_would() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let entry = &setup.entries("data")?["links/hard0"];
    let file = setup.dataset("data") + ":/links/hard0";
    let text = setup.ok(&["stat", "--json"], &[&file])?;
    let stat: Value = serde_json::from_str(&text)?;
    let said = stat.to_string();
    for key in ["ino", "size", "nlink"] {
        ensure!(
            said.contains(&entry[key].to_string()),
            "{key} is not in {said}"
        );
    }
    Ok(())
}

/// A copy has everything that a mount would show, and a second run has nothing left to do.
#[test]
fn an_archive_copy_is_complete() -> Result<()> {
    if !pool::is_root() {
        return Ok(());
    }
    let setup = Setup::new("raidz1-3")?;
    let target = setup.cenote.subdirectory("copy")?;
    let to = target.to_str().context("a path in UTF-8")?;
    let from = setup.dataset("data") + ":/.";
    for run in ["first", "second"] {
        let outcome = setup.run(&["cp", "-a", "--quiet"], &[&from, to])?;
        // ext4 keeps the attributes of a file in 4 KiB: only a warning says that some do not fit.
        let mut complaints = outcome.stderr.lines();
        let is_about_room =
            |line: &str| line.contains("extended attribute") || line.contains("problems in all");
        ensure!(
            outcome.code == Some(0) || complaints.all(is_about_room),
            "{}",
            outcome.report()
        );
        let mut have = mounted::walk(&target)?;
        let mut want = setup.entries("data")?.clone();
        // Object numbers are the new file system's, and the target directory was there before.
        for entries in [&mut have, &mut want] {
            entries.remove(".");
            for entry in entries.values_mut() {
                entry.remove("ino");
                // Whatever holes the new file system sees.
                entry.remove("data");
                entry
                    .remove("xattrs")
                    .map(|xattrs| entry.insert("xattrs".into(), small(xattrs)));
            }
        }
        let tolerance = Tolerance::of("raidz1-3", &setup.golden.manifest);
        let differences = compare::entries(&want, &have, &tolerance);
        ensure!(
            differences.is_empty(),
            "{run} run:\n{}",
            differences.join("\n")
        );
    }
    let far = fs::metadata(target.join("sparse/far"))?;
    let blocks = std::os::unix::fs::MetadataExt::blocks(&far);
    ensure!(
        far.len() > 1 << 36 && blocks < 1 << 20,
        "{blocks} blocks: holes were filled"
    );
    Ok(())
}

/// The attributes that any file system has room for.
fn small(mut xattrs: Value) -> Value {
    if let Some(object) = xattrs.as_object_mut() {
        object.retain(|_, value| value["len"].as_u64().unwrap_or(0) < 3000);
    }
    xattrs
}

#[test]
fn volumes_are_dumped() -> Result<()> {
    let setup = Setup::new("zvol")?;
    for (name, dataset) in &setup.golden.manifest.datasets {
        let Some((size, sum)) = &dataset.volume else {
            continue;
        };
        let file = setup.cenote.directory().join("volume.img");
        let path = file.to_str().context("a path in UTF-8")?;
        setup.ok(&["dump", "--quiet"], &[name, path])?;
        let contents = fs::read(&file)?;
        ensure!(
            contents.len() as u64 == *size,
            "{name} has {} bytes",
            contents.len()
        );
        ensure!(
            mounted::hex(&Sha256::digest(&contents)) == *sum,
            "{name} is wrong"
        );
        fs::remove_file(&file)?;
    }
    Ok(())
}

#[test]
fn structures_can_be_looked_at() -> Result<()> {
    let setup = Setup::new("raidz1-3")?;
    let pool = setup.golden.manifest.pool.clone();
    let data = setup.dataset("data");
    for operands in [
        &["labels", &pool][..],
        &["uberblocks", &pool],
        &["config", &pool],
        &["objects", &pool],
        &["datasets", &pool],
        &["object", &data, "34"],
        &["spacemaps", &pool],
        &["intent-log", &data],
    ] {
        let text = setup.ok(&["inspect"], operands)?;
        ensure!(!text.trim().is_empty(), "inspect {operands:?} says nothing");
        let json = setup.ok(&["inspect", "--json"], operands)?;
        // Where there are several devices, there is a document for each.
        for document in serde_json::Deserializer::from_str(&json).into_iter::<Value>() {
            document.with_context(|| format!("inspect --json {operands:?}"))?;
        }
    }
    Ok(())
}

/// An image inside another file: at an offset, as a partition would be.
#[test]
fn a_pool_may_begin_anywhere() -> Result<()> {
    let golden = Golden::find("quotas")?.context("the repository carries this pool")?;
    let cenote = Cenote::new()?;
    let devices = golden.devices()?;
    let inner = fs::read(devices.join("v0.img"))?;
    let offset = 1 << 20;
    let directory = cenote.subdirectory("outer")?;
    let outer = directory.join("disk.img");
    let file = fs::File::create(&outer)?;
    std::os::unix::fs::FileExt::write_all_at(&file, &inner, offset)?;
    // The import option gives the daemon the offset; all later commands use it.
    let import = Import::default().with(&["-o", &format!("cenote:offset={offset}")]);
    pool::import(&cenote, &golden, &outer, &import)?;
    let have = pool::guids(&cenote, &golden.manifest.pool)?;
    ensure!(have.len() == golden.manifest.datasets.len(), "{have:?}");
    Ok(())
}
