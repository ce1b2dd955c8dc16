//! Redundancy: with any devices up to the redundancy missing, or silently wrong, every file is
//! still right, and the status says what is the matter.
//!
//! All sets of one device are tried, and a share of the larger ones, drawn from a seed;
//! `CENOTE_TEST_ALL=1` tries all.

use anyhow::{Context, Result, ensure};
use cenote_tests::compare::{self, Tolerance};
use cenote_tests::golden::Golden;
use cenote_tests::program::Cenote;
use cenote_tests::random::Random;
use cenote_tests::{offline, sparse, test_golden_pools};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How many sets are tried of those with more than one device.
const SAMPLE: usize = 4;

/// Bytes of the labels at both ends, which the noise leaves alone.
const LABELS: u64 = 512 << 10;

/// How many devices of a kind may be lost, and which of them count.
fn redundancy(kind: &str, devices: usize) -> (usize, Vec<usize>) {
    let all: Vec<usize> = (0..devices).collect();
    match kind {
        "mirror2" => (1, all),
        // v1 is damaged already: v0 or v2 must stay.
        "mirror3-degraded" => (1, vec![0, 2]),
        "raidz1-3" | "raidz1-5" | "raidz1-ashift9" | "raidz-expanded" => (1, all),
        "raidz2-6" | "raidz2-ashift12-5" | "raidz-expanding" | "draid2" => (2, all),
        "raidz3-8" => (3, all),
        // The special mirror: v1 and v2.
        "special-vdev" => (1, vec![1, 2]),
        // v1 is behind, v2 a spare: nothing but v0 may be relied on.
        "mirror-offline" => (1, vec![1, 2]),
        _ => (0, Vec::new()),
    }
}

/// The sets of `size` of the `candidates`.
fn sets(candidates: &[usize], size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, first) in candidates.iter().enumerate() {
        for mut rest in sets(&candidates[index + 1..], size - 1) {
            rest.insert(0, *first);
            all.push(rest);
        }
    }
    all
}

/// The sets to try: every single device, and some of the larger sets.
fn chosen_sets(kind: &str, devices: usize) -> Vec<Vec<usize>> {
    let (count, candidates) = redundancy(kind, devices);
    let mut chosen = Vec::new();
    for size in 1..=count {
        let mut all = sets(&candidates, size);
        let is_complete = size == 1 || std::env::var_os("CENOTE_TEST_ALL").is_some();
        let mut random = Random::new(size as u64);
        while !is_complete && all.len() > SAMPLE {
            all.swap_remove(random.index(all.len()));
        }
        chosen.extend(all);
    }
    chosen
}

fn missing(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    for set in chosen_sets(kind, golden.device_names().len()) {
        let directory = tempfile::tempdir()?;
        golden.link_without(directory.path(), &set)?;
        compare_all(&golden, directory.path()).with_context(|| format!("without {set:?}"))?;
    }
    Ok(())
}

fn silently_wrong(kind: &str) -> Result<()> {
    let Some(golden) = Golden::find(kind)? else {
        return Ok(());
    };
    for set in chosen_sets(kind, golden.device_names().len()) {
        let directory = tempfile::tempdir()?;
        golden.link_without(directory.path(), &set)?;
        for index in &set {
            let name = &golden.device_names()[*index];
            let path = directory.path().join(name);
            sparse::copy(&golden.devices()?.join(name), &path)?;
            make_noise(&path, *index as u64)?;
        }
        compare_all(&golden, directory.path()).with_context(|| format!("noise on {set:?}"))?;
    }
    Ok(())
}

/// Everything that was written to the device becomes noise, apart from the labels: it looks whole
/// until it is read.
fn make_noise(path: &Path, seed: u64) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let end = fs::metadata(path)?.len() - LABELS;
    let mut random = Random::new(seed);
    for (start, stop) in sparse::segments(&file)? {
        let (start, stop) = (start.max(LABELS), stop.min(end));
        if start < stop {
            let mut bytes = vec![0; usize::try_from(stop - start)?];
            random.fill(&mut bytes);
            file.write_all_at(&bytes, start)?;
        }
    }
    Ok(())
}

fn compare_all(golden: &Golden, devices: &Path) -> Result<()> {
    let cenote = Cenote::new()?;
    let wanted = &golden.manifest.datasets;
    let options = offline::options(&cenote, golden)?;
    let found = offline::read_all(&cenote, golden, devices, &options, wanted)?;
    let tolerance = Tolerance {
        hidden_xattrs: Vec::new(),
        ..Tolerance::of(&golden.kind, &golden.manifest)
    };
    let differences = compare::datasets(wanted, &found, &tolerance);
    ensure!(
        differences.is_empty(),
        "{} differences, the first: {}",
        differences.len(),
        differences[0]
    );
    Ok(())
}

#[test]
fn sets_are_all_different() {
    assert_eq!(sets(&[0, 1, 2], 2), [[0, 1], [0, 2], [1, 2]]);
    assert_eq!(sets(&[0, 1, 2, 3, 4, 5, 6, 7], 3).len(), 56);
}

mod without {
    use super::*;

    test_golden_pools! { missing =>
        mirror2 "mirror2", mirror3_degraded "mirror3-degraded", raidz1_3 "raidz1-3",
        raidz1_5 "raidz1-5", raidz1_ashift9 "raidz1-ashift9", raidz_expanded "raidz-expanded",
        raidz2_6 "raidz2-6", raidz2_ashift12_5 "raidz2-ashift12-5",
        raidz_expanding "raidz-expanding", draid2 "draid2", raidz3_8 "raidz3-8",
        special_vdev "special-vdev", mirror_offline "mirror-offline",
    }
}

mod noise {
    use super::*;

    test_golden_pools! { silently_wrong =>
        mirror2 "mirror2", mirror3_degraded "mirror3-degraded", raidz1_3 "raidz1-3",
        raidz1_5 "raidz1-5", raidz1_ashift9 "raidz1-ashift9", raidz_expanded "raidz-expanded",
        raidz2_6 "raidz2-6", raidz2_ashift12_5 "raidz2-ashift12-5",
        raidz_expanding "raidz-expanding", draid2 "draid2", raidz3_8 "raidz3-8",
        special_vdev "special-vdev", mirror_offline "mirror-offline",
    }
}
