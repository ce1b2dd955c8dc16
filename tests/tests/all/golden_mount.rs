//! Every golden pool, imported and mounted, compared file by file with what OpenZFS saw.
//!
//! The walk uses system calls only, so that the whole way is tested: import, object sets, the
//! POSIX layer, the FUSE protocol and the kernel.

use anyhow::{Context, Result, ensure};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::{Dataset, Datasets};
use cenote_tests::pool::{self, Import};
use cenote_tests::program::Cenote;
use cenote_tests::{mounted, offline, test_each_golden_pool};

/// More differences than this are counted only.
const SHOWN_MAX: usize = 30;

fn compare_through_mounts(kind: &str) -> Result<()> {
    match Golden::find(kind)? {
        Some(golden) => compare_imported(&golden, &Import::of(&golden), &golden.manifest.datasets),
        None => Ok(()),
    }
}

/// A rewind to the checkpoint shows the pool as it was then.
#[test]
fn checkpoint_rewound() -> Result<()> {
    let Some(golden) = Golden::find("checkpoint")? else {
        return Ok(());
    };
    let wanted = golden.manifest.checkpoint_datasets()?;
    let wanted = wanted.context("the manifest describes the checkpoint")?;
    let import = Import::of(&golden).with(&["--rewind-to-checkpoint"]);
    compare_imported(&golden, &import, &wanted)
}

/// What an import with `-T` says it went back to is when that group was written.
#[test]
fn rewind_names_the_time_of_the_state() -> Result<()> {
    let Some(golden) = Golden::find("checkpoint")? else {
        return Ok(());
    };
    let cenote = Cenote::new()?;
    let device = golden.devices()?;
    let device = device.display();
    let listed = cenote.ok(&format!(
        "cenote inspect uberblocks --json -d {device} gold_checkpoint"
    ))?;
    let states: Vec<serde_json::Value> = listed
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let older = states.get(3).context("the label holds older states")?;
    let (_, clock) = older["time"]
        .as_str()
        .and_then(|time| time.split_once(' '))
        .context("the state has a date and a time")?;
    let options = format!("-N -o readonly=on -T {} -d {device}", older["txg"]);
    let report = cenote.ok(&format!("zpool import {options} gold_checkpoint"))?;
    cenote.ok("zpool export gold_checkpoint")?;
    let wanted = format!("{clock} 2026.");
    assert!(report.contains(&wanted), "{wanted} is not in: {report}");
    Ok(())
}

/// Inside a directory of a project with limits `df` shows these, as with OpenZFS: the kernel asks
/// at the file that the caller named.
#[test]
fn project_limits_show_in_statfs() -> Result<()> {
    let Some(golden) = Golden::find("quotas")? else {
        return Ok(());
    };
    if !pool::can_mount() {
        return Ok(());
    }
    let cenote = Cenote::new()?;
    let import = Import::of(&golden);
    pool::import(&cenote, &golden, &golden.devices()?, &import)?;
    let directory = pool::mount(&cenote, "gold_quotas/users")?;
    let whole = rustix::fs::statvfs(&directory)?;
    let project = rustix::fs::statvfs(directory.join("proj"))?;
    pool::unmount(&cenote, &directory)?;
    cenote.ok("zpool export gold_quotas")?;
    // The manifest's line of project 77: 14848 of 5 MiB, 5 of 30 objects.
    let shown = (project.f_blocks * project.f_frsize, project.f_bfree);
    assert_eq!(shown, (5 << 20, ((5 << 20) - 14848) / project.f_frsize));
    assert_eq!((project.f_files, project.f_ffree), (30, 25));
    assert!(whole.f_files > 1000 && whole.f_blocks > project.f_blocks);
    Ok(())
}

fn compare_imported(golden: &Golden, import: &Import, wanted: &Datasets) -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let cenote = Cenote::new()?;
    pool::import(&cenote, golden, &golden.devices()?, import)?;
    let found = read_all(&cenote, golden, wanted)?;
    let tolerance = Tolerance::of(&golden.kind, &golden.manifest);
    let differences = compare::datasets(wanted, &found, &tolerance);
    cenote.ok(&format!("zpool export {}", golden.manifest.pool))?;
    let shown = &differences[..differences.len().min(SHOWN_MAX)];
    ensure!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        shown.join("\n")
    );
    Ok(())
}

/// Everything that `wanted` names, as a user of the imported pool finds it.
fn read_all(cenote: &Cenote, golden: &Golden, wanted: &Datasets) -> Result<Datasets> {
    // What reads a volume opens the pool by itself, and needs its keys again.
    let options = offline::options(cenote, golden)?;
    let guids = pool::guids(cenote, &golden.manifest.pool)?;
    let mut found = Datasets::new();
    for (name, want) in wanted {
        let Some((guid, createtxg)) = guids.get(name) else {
            continue;
        };
        let mut have = Dataset {
            guid: Some(guid.clone()),
            createtxg: Some(*createtxg),
            ..Dataset::default()
        };
        if want.entries.is_some() {
            let directory = pool::mount(cenote, name)?;
            let walked = mounted::walk(&directory).with_context(|| name.clone());
            pool::unmount(cenote, &directory)?;
            have.entries = Some(walked?);
        }
        if want.volume.is_some() {
            have.volume = Some(pool::volume(cenote, name, &options)?);
        }
        found.insert(name.clone(), have);
    }
    Ok(found)
}

test_each_golden_pool!(compare_through_mounts);
