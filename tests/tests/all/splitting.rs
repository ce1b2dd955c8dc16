//! One side of each mirror becomes a pool of its own, whole or not at all.

use crate::devices::{pool, refusal, state, write};
use anyhow::{Context, Result, ensure};
use cenote_tests::referee;
use cenote_tests::site::Site;
use std::fs;
use std::thread;
use std::time::Duration;

fn judged(site: &Site, pool: &str) -> Result<()> {
    let devices = site.devices().display().to_string();
    match referee::run(&["check", &devices, pool])? {
        Some(outcome) => outcome.map(drop),
        None => Ok(()),
    }
}

#[test]
fn a_pool_of_mirrors_becomes_two() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("mirror", 2)?;
    write(&site, "both")?;
    let content = fs::read(site.path("tank/both"))?;
    let refused = "Unable to split tank: pool already exists\n";
    refusal(&site, "zpool split tank tank", 1, refused)?;
    let refused = "cannot resolve path '/nowhere'\n";
    refusal(&site, "zpool split tank half /nowhere", 1, refused)?;
    let both = devices.join(" ");
    let refused = "Device list must include at most one disk from each mirror\n";
    refusal(&site, &format!("zpool split tank half {both}"), 1, refused)?;
    let planned = site.ok("zpool split -n tank half")?;
    let layout = format!("following layout:\n\n\thalf\n\t  {}\n", devices[1]);
    ensure!(planned.ends_with(&layout), "{planned}");
    let place = site.cenote().subdirectory("elsewhere")?;
    let first = &devices[0];
    site.ok(&format!(
        "zpool split -R {} tank half {first}",
        place.display()
    ))?;
    ensure!(fs::read(place.join("half/both"))? == content);
    // Each goes its own way from here.
    write(&site, "on tank")?;
    fs::write(place.join("half/on half"), "something else")?;
    ensure!(!place.join("half/on tank").exists());
    ensure!(state(&site, first)?.is_empty() && state(&site, &devices[1])? == "ONLINE");
    let refused = "Unable to split tank: Source pool must be composed only of mirrors\n";
    refusal(&site, "zpool split tank more", 1, refused)?;
    let history = site.ok("zpool history -i half")?;
    ensure!(history.contains("split from pool tank"), "{history}");
    site.ok("zpool export half")?;
    judged(&site, "half")?;
    site.reopen(&["tank"])?;
    site.finish()
}

#[test]
fn a_split_that_is_cut_off_leaves_one_whole_pool_or_two() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    for milliseconds in [3, 40, 120] {
        let (site, devices) = pool("mirror", 2)?;
        write(&site, "both")?;
        let content = fs::read(site.path("tank/both"))?;
        thread::scope(|scope| -> Result<()> {
            let split = scope.spawn(|| site.cenote().run("zpool", &["split", "tank", "half"]));
            thread::sleep(Duration::from_millis(milliseconds));
            site.kill()?;
            // Whether it came to its end does not matter.
            drop(split.join());
            // A command that found the daemon dead started another and asked that.
            drop(site.cenote().run("cenote", &["daemon", "stop", "--force"]));
            Ok(())
        })?;
        site.start()?;
        site.import("")?;
        ensure!(fs::read(site.path("tank/both"))? == content);
        site.ok("zpool wait -t resilver tank")?;
        ensure!(state(&site, "tank")? == "ONLINE", "{milliseconds} ms");
        let has_both = state(&site, &devices[1])? == "ONLINE";
        write(&site, "later")?;
        site.export()?;
        let place = site.devices().display().to_string();
        if !has_both {
            // Half of its labels may be older than the others until it is imported.
            site.ok(&format!("zpool import -N -d {place} half"))?;
            site.ok("cenote verify --quiet --all-copies half")?;
            site.ok("zpool export half")?;
            judged(&site, "half").context("the new pool")?;
        }
        site.judge().with_context(|| format!("{milliseconds} ms"))?;
    }
    Ok(())
}
