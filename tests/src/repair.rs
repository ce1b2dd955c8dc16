//! Redundancy put to the test: devices are spoiled or come back stale while somebody writes, and
//! a scrub or resilver has to set everything right.
//!
//! For each layout and each set of devices that it can do without: a file system is filled; the
//! devices are overwritten with noise, labels apart, or put back as they were some groups ago; a
//! scrub or the resilver at the import mends them while a writer goes on. Then *other* devices
//! are overwritten: what is read now comes from those that were mended, and must be the same. At
//! last OpenZFS judges the pool.

use crate::manifest::Entries;
use crate::random::Random;
use crate::site::{Site, same};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes before and behind the space of a device: two labels and the boot region, two labels.
const LABELS: u64 = 4 << 20;
const MEBIBYTES: u64 = 128;
const NOISE: usize = 1 << 20;
/// How long a scan of a few MiB may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Devices of which so many may be lost at once.
type Group = (&'static [u32], usize);

/// The groups of each layout.
const LAYOUTS: [(&str, &[Group]); 8] = [
    ("mirror", &[(&[0, 1], 1)]),
    ("raidz1", &[(&[0, 1, 2], 1)]),
    ("raidz2", &[(&[0, 1, 2, 3], 2)]),
    ("raidz3", &[(&[0, 1, 2, 3, 4, 5], 3)]),
    ("draid1", &[(&[0, 1, 2, 3], 1)]),
    ("draid2", &[(&[0, 1, 2, 3, 4, 5, 6], 2)]),
    ("mirrors", &[(&[0, 1, 2], 2), (&[3, 4], 1)]),
    ("classes", &[(&[0, 1, 2, 3], 2), (&[4, 5], 1)]),
];

/// What happens to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// Their space is overwritten with noise.
    Noise,
    /// They were away while the pool was written to.
    Stale,
    /// Their space is overwritten, and the daemon is killed while it scrubs.
    Crash,
}

/// What one run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Layouts; empty means all.
    pub layouts: Vec<String>,
    /// Sets of devices tried for each layout and mishap.
    pub sets: usize,
    /// Where random choices begin.
    pub seed: u64,
}

/// A set of devices that a layout can do without: as many of each group as may be lost.
fn some_set(groups: &[Group], random: &mut Random) -> BTreeSet<u32> {
    let mut set = BTreeSet::new();
    for (devices, losses) in groups {
        let mut chosen = BTreeSet::new();
        while chosen.len() < *losses {
            chosen.insert(*random.choose(devices));
        }
        set.extend(chosen);
    }
    set
}

fn device(site: &Site, number: u32) -> std::path::PathBuf {
    site.devices().join(format!("d{number}.img"))
}

/// Overwrites the space of a device.
fn spoil(site: &Site, number: u32, random: &mut Random) -> Result<()> {
    let file = File::options().write(true).open(device(site, number))?;
    let mut noise = vec![0; NOISE];
    random.fill(&mut noise);
    let mut offset = LABELS;
    while offset + NOISE as u64 <= (MEBIBYTES << 20) - LABELS {
        file.write_all_at(&noise, offset)?;
        offset += NOISE as u64;
    }
    Ok(())
}

/// Small and large files, some of them in a snapshot only.
fn fill(site: &Site, random: &mut Random) -> Result<()> {
    site.ok("zfs create -o recordsize=16k tank/fs")?;
    site.ok("zfs create tank/w")?;
    let root = site.path("tank/fs");
    for number in 0..40 {
        let size = random.index(300_000);
        let mut bytes = vec![0; size];
        random.fill(&mut bytes);
        fs::write(root.join(format!("f{number}")), &bytes)?;
    }
    site.ok("zfs snapshot tank/fs@one")?;
    for number in 0..10 {
        fs::remove_file(root.join(format!("f{number}")))?;
    }
    site.ok("zpool sync tank")?;
    Ok(())
}

/// Writes and removes files until it is told to stop, or, where the daemon dies, cannot.
fn write(root: &std::path::Path, stop: &AtomicBool, seed: u64) {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; 200_000];
    while !stop.load(Ordering::Relaxed) {
        let size = random.index(bytes.len());
        random.fill(&mut bytes[..size]);
        let name = root.join(format!("w{}", random.index(20)));
        let is_done = match random.index(4) {
            0 => fs::remove_file(name).is_ok(),
            _ => fs::write(name, &bytes[..size]).is_ok(),
        };
        if !is_done {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn wait_for_end(site: &Site) -> Result<String> {
    let began = Instant::now();
    loop {
        let status = site.ok("zpool status tank")?;
        if !status.contains("in progress") {
            return Ok(status);
        }
        ensure!(began.elapsed() < PATIENCE, "it does not end: {status}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Has a mishap mended while a writer works.
fn mend(site: &Site, mishap: Mishap, set: &BTreeSet<u32>, random: &mut Random) -> Result<()> {
    if mishap == Mishap::Stale {
        return mend_stale(site, set, random);
    }
    let (stop, seed) = (AtomicBool::new(false), random.next_u64());
    let root = site.path("tank/w");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&root, &stop, seed));
        let mended = (|| {
            set.iter()
                .try_for_each(|number| spoil(site, *number, random))?;
            site.ok("zpool scrub tank")?;
            if mishap == Mishap::Crash {
                std::thread::sleep(Duration::from_millis(random.below(300)));
                stop.store(true, Ordering::Relaxed);
                site.crash()?;
                site.import("-f")?;
            }
            wait_for_end(site)
        })();
        stop.store(true, Ordering::Relaxed);
        // Its errors are those of the daemon, which tells of them itself.
        let _ = writer.join();
        let status = mended?;
        let is_mended = status.contains("scrub repaired") && status.contains("with 0 errors");
        ensure!(is_mended, "{status}");
        Ok(())
    })
}

/// Devices that were away come back at an import.
fn mend_stale(site: &Site, set: &BTreeSet<u32>, random: &mut Random) -> Result<()> {
    site.export()?;
    let read = |number: &u32| Ok((*number, fs::read(device(site, *number))?));
    let before: Vec<(u32, Vec<u8>)> = set.iter().map(read).collect::<Result<_>>()?;
    site.import("")?;
    let root = site.path("tank/fs");
    for number in 0..8 {
        let mut bytes = vec![0; 100_000];
        random.fill(&mut bytes);
        fs::write(root.join(format!("late{number}")), &bytes)?;
        site.ok("zpool sync tank")?;
    }
    site.export()?;
    for (number, bytes) in before {
        fs::write(device(site, number), bytes)?;
    }
    site.import("")?;
    let status = wait_for_end(site)?;
    let is_mended = status.contains("resilvered") && status.contains("with 0 errors");
    ensure!(is_mended, "nothing was resilvered: {status}");
    Ok(())
}

/// One layout, one mishap, one set of devices.
///
/// # Errors
/// What was lost or not mended.
pub fn case(layout: &str, mishap: Mishap, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let found = LAYOUTS.iter().find(|(name, _)| *name == layout);
    let (_, groups) = found.with_context(|| format!("no layout {layout}"))?;
    let site = Site::create(layout, MEBIBYTES, "")?;
    fill(&site, &mut random)?;
    let set = some_set(groups, &mut random);
    let contents = || -> Result<Entries> { site.walk("tank/fs") };
    let before = contents()?;
    mend(&site, mishap, &set, &mut random).with_context(|| format!("{set:?} of {layout}"))?;
    if mishap != Mishap::Stale {
        same(&before, &contents()?).context("after the scrub")?;
    }
    let before = contents()?;
    // Nothing that memory has hides what the devices have.
    site.export()?;
    let other = some_set(groups, &mut random);
    other
        .iter()
        .try_for_each(|number| spoil(&site, *number, &mut random))?;
    site.import("")?;
    same(&before, &contents()?).with_context(|| format!("without {other:?} of {layout}"))?;
    site.ok("zpool scrub -w tank")?;
    site.ok("zpool scrub -w tank")?;
    let status = site.ok("zpool status tank")?;
    let is_clean = status.contains("scrub repaired 0B") && status.contains("with 0 errors");
    ensure!(is_clean, "{other:?} of {layout}: {status}");
    // Devices that gave many wrong blocks stay degraded until somebody says that they are well.
    site.ok("zpool clear tank")?;
    site.finish()
}

/// All layouts, mishaps and some sets of devices each; whether all went well.
///
/// # Errors
/// If a case cannot be made.
pub fn run(options: &Options) -> Result<bool> {
    let mut failed = 0;
    println!("seed {}", options.seed);
    for (layout, _) in LAYOUTS {
        if !options.layouts.is_empty() && !options.layouts.iter().any(|name| name == layout) {
            continue;
        }
        for mishap in [Mishap::Noise, Mishap::Stale, Mishap::Crash] {
            for number in 0..options.sets as u64 {
                let seed = options.seed + number;
                match case(layout, mishap, seed) {
                    Ok(()) => println!("ok   {layout} {mishap:?} {seed}"),
                    Err(error) => {
                        println!("FAIL {layout} {mishap:?} {seed}: {error:#}");
                        failed += 1;
                    }
                }
            }
        }
    }
    Ok(failed == 0)
}
