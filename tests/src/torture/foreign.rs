//! Logs across implementations: OpenZFS's kernel module replays ours, and we replay its.
//!
//! The daemon is killed under load, and the devices are copied. The module, in a small guest,
//! imports the copy and lists the files after its replay. Cenote does the same with the original:
//! the lists must agree, and our loads must find their ledgers. Then programs in the guest write
//! files and sync them until the power is cut, and Cenote imports the result.
//!
//! Times are not compared, because replays change them.

use super::loads::loads;
use crate::mounted;
use crate::pingpong::guest;
use crate::random::Random;
use crate::site::Site;
use crate::skip;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::Duration;

const TURN: &str = include_str!("foreign.sh");
const STORM: &str = include_str!("foreign.py");

/// Loads whose files are listed; the databases' are checked on our side only.
const LOADS: [&str; 3] = ["mail", "untar", "sqlite-wal"];
const LAYOUTS: [&str; 4] = ["single", "mirror", "tables", "raidz1"];
/// How long the daemon works, and for how long programs write in the guest.
const OURS_MS_MAX: u64 = 3000;
const THEIRS_SECONDS: u64 = 4;

/// One turn each way; `None` with a notice where the guest is missing.
pub(super) fn run(seed: u64) -> Result<Option<String>> {
    let Some(program) = guest::guest_path() else {
        skip!("the guest is not here");
        return Ok(None);
    };
    let mut random = Random::new(seed);
    let layout = *random.choose(&LAYOUTS);
    let site = Site::create(layout, 256, "-O xattr=sa")?;
    let turned = turn(&site, &program, &mut random);
    site.abandon();
    let (listed, acknowledged) = turned.with_context(|| layout.to_owned())?;
    Ok(Some(format!(
        "{layout}: {listed} files alike after both replays, {acknowledged} synced in the guest"
    )))
}

fn turn(site: &Site, program: &Path, random: &mut Random) -> Result<(usize, usize)> {
    let share = site.cenote().subdirectory("share")?;
    let scratch = site.cenote().subdirectory("scratch")?;
    for (name, text) in [
        ("guest.py", guest::SCRIPT),
        ("guest.sh", TURN),
        ("foreign.py", STORM),
        ("names", &LOADS.join("\n")),
    ] {
        fs::write(share.join(name), text)?;
    }
    let names = LOADS.map(str::to_owned);
    let mut loads = loads(&names, random, &scratch)?;
    for load in &mut loads {
        site.ok(&format!("zfs create tank/{}", load.name()))?;
        load.start(&site.path("tank").join(load.name()))?;
    }
    if random.index(2) == 0 {
        // Everything stays in the logs.
        site.ok("cenote settings set zfs_txg_timeout=3600")?;
    }
    thread::sleep(Duration::from_millis(500 + random.below(OURS_MS_MAX)));
    site.kill()?;
    for load in &mut loads {
        load.stop()?;
    }
    let devices = share.join("devices");
    copy(site.devices(), &devices)?;
    guest::guest(
        program,
        &share,
        &["--crash-at-end"],
        &THEIRS_SECONDS.to_string(),
    )?;
    let status = fs::read_to_string(share.join("status"))?;
    ensure!(status.contains("errors: No known data errors"), "{status}");
    site.start()?;
    site.import("-f")?;
    let mut listed = 0;
    for load in &mut loads {
        let root = site.path("tank").join(load.name());
        let ours = guest::list(&share, &root)?;
        let theirs = fs::read_to_string(share.join(format!("theirs-{}", load.name())))?;
        listed += same(&ours, &theirs).with_context(|| load.name().to_owned())?;
        load.check(&root).with_context(|| load.name().to_owned())?;
    }
    site.export()?;
    site.judge()?;
    // Now what the power cut in the guest left.
    copy(&devices, site.devices())?;
    site.import("-f")?;
    let ledger = fs::read_to_string(share.join("ledger"))?;
    for line in ledger.lines() {
        let (name, hash) = line.split_once(' ').context("a line of the ledger")?;
        let path = site.path("tank/theirs").join(name);
        let lost = || format!("OpenZFS had acknowledged {name}");
        let file = File::open(&path).with_context(lost)?;
        let size = file.metadata()?.len();
        let found = mounted::hash(&file, size)?;
        ensure!(found == hash, "{name} has other contents: {size} bytes");
    }
    site.export()?;
    let devices = site.devices().display().to_string();
    site.ok(&format!("cenote verify -q -d {devices} tank"))?;
    site.judge()?;
    Ok((listed, ledger.lines().count()))
}

/// Copies the files of a directory, holes as such.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let mut command = std::process::Command::new("cp");
        command.arg("--sparse=always").arg(entry.path()).arg(to);
        super::load::succeed(&mut command)?;
    }
    Ok(())
}

/// A line of a listing without the times.
fn timeless(line: &str) -> String {
    // Name, mode, owner, group, mtime.
    let mut words: Vec<&str> = line.split(' ').collect();
    if words.len() > 4 {
        words[4] = "-";
    }
    words.join(" ")
}

/// Compares two listings; how many lines they have.
fn same(ours: &str, theirs: &str) -> Result<usize> {
    let lines = |text: &str| text.lines().map(timeless).collect::<Vec<String>>();
    let (ours, theirs) = (lines(ours), lines(theirs));
    let only = |some: &[String], others: &[String]| -> String {
        let missing = some.iter().filter(|line| !others.contains(line));
        missing.take(5).map(|line| format!("\n  {line}")).collect()
    };
    ensure!(
        ours == theirs,
        "only after our replay:{}\nonly after OpenZFS's:{}",
        only(&ours, &theirs),
        only(&theirs, &ours)
    );
    Ok(ours.len())
}
