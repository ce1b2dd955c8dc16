//! Cenote and OpenZFS write to one pool in turns, and each finds what the other left.
//!
//! Cenote's turn is a stretch of the random operations of [`crate::model`], whose model is
//! compared at both ends of it. OpenZFS's turn verifies what its earlier turns wrote, checks the
//! whole pool, reads Cenote's files, and then writes, snapshots and clones at random. Who makes
//! the pool, the layout and the properties come from the seed.

use crate::model::Session;
use crate::random::Random;
use crate::site::{self, Site};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;

/// The file system that Cenote writes to.
const DATASET: &str = "tank/model";

/// OpenZFS's layouts, as `openzfs-ref create` takes them.
const FOREIGN_LAYOUTS: [&str; 7] = [
    "single",
    "mirror:2",
    "raidz1:3",
    "raidz2:5",
    "raidz3:6",
    "draid1:2d:4c",
    "raidz1:3,log=single,special=mirror:2",
];

/// How OpenZFS aborts when it copies a file system with a spill block that is embedded in its
/// pointer: its stream says that this is data before the file's beginning.
const EMBEDDED_SPILL: &str = "dbuf_whichblock() offset < dn->dn_datablksz (0xffffffff";

/// A run.
pub struct Options {
    /// Chooses everything.
    pub seed: u64,
    /// Turns of each side.
    pub rounds: u64,
    /// Operations in each of Cenote's turns.
    pub operations: u64,
    /// Operations in each of OpenZFS's turns.
    pub foreign_operations: u64,
}

/// Runs all rounds; returns what was chosen, or `None` where OpenZFS is missing.
pub fn run(options: &Options) -> Result<Option<String>> {
    if site::referee_path().is_none() {
        eprintln!("skipped: the referee is not here");
        return Ok(None);
    }
    let mut random = Random::new(options.seed);
    let (site, chosen) = make(&mut random)?;
    let mut session = Session::new(site, DATASET, Random::new(random.next_u64()))
        .with_context(|| chosen.clone())?;
    session.avoid_embedded_spills();
    let mut manifests = Vec::new();
    for round in 0..options.rounds {
        let place = || format!("round {round} of a pool by {chosen}");
        session.work(options.operations).with_context(place)?;
        session.close().with_context(place)?;
        let seed = random.next_u64() % 1_000_000;
        let turn = foreign_turn(session.site(), options, round, seed, &mut manifests);
        if let Err(error) = &turn
            && error.to_string().contains(EMBEDDED_SPILL)
        {
            eprintln!("ends after {round} rounds: OpenZFS cannot send an embedded spill block");
            return Ok(Some(chosen));
        }
        turn.with_context(|| format!("OpenZFS in {}", place()))?;
        session.open().with_context(place)?;
    }
    session.close()?;
    session.site().judge()?;
    Ok(Some(chosen))
}

fn make(random: &mut Random) -> Result<(Site, String)> {
    if random.below(2) == 0 {
        let layouts: Vec<&str> = site::layouts().collect();
        let layout = *random.choose(&layouts);
        let site = Site::create(layout, 512, "-O canmount=off")?;
        return Ok((site, format!("Cenote, {layout}")));
    }
    let layout = *random.choose(&FOREIGN_LAYOUTS);
    let site = Site::new("tank")?;
    let devices = site.devices().display().to_string();
    ask(&[
        "create", &devices, "tank", "--layout", layout, "--size", "512M",
    ])?;
    site.import("-N")?;
    Ok((site, format!("OpenZFS, {layout}")))
}

fn foreign_turn(
    site: &Site,
    options: &Options,
    round: u64,
    seed: u64,
    manifests: &mut Vec<PathBuf>,
) -> Result<()> {
    let devices = site.devices().display().to_string();
    for manifest in manifests.iter() {
        ask(&["verify", &devices, "tank", &manifest.display().to_string()])?;
    }
    let listed = ask(&["ls", &devices, DATASET, "-R", "--sha256", "--json"])?;
    let _: Value = serde_json::from_str(&listed).context("the listing of OpenZFS")?;
    ask(&["check", &devices, "tank"])?;
    let manifest = site
        .cenote()
        .directory()
        .join(format!("round-{round}.json"));
    let (seed, operations) = (seed.to_string(), options.foreign_operations.to_string());
    let shown = manifest.display().to_string();
    let mut churn = vec![
        "churn",
        &devices,
        "tank",
        "--seed",
        &seed,
        "--ops",
        &operations,
    ];
    churn.extend(["--manifest", &shown]);
    ask(&churn)?;
    manifests.push(manifest);
    Ok(())
}

fn ask(arguments: &[&str]) -> Result<String> {
    site::referee(arguments)?.context("the referee was there")?
}
