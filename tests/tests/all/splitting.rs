//! One side of each mirror becomes a pool of its own, whole or not at all.

use crate::devices::{device, pool, refusal, state, write};
use anyhow::{Context, Result, bail, ensure};
use cenote_tests::golden::Golden;
use cenote_tests::referee;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::io::Write;
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

/// Both pools find the blocks of a vdev that was removed: its mapping is in what they share.
#[test]
fn moved_blocks_are_found_by_both_pools() -> Result<()> {
    let Some(golden) = Golden::find("device-removal")? else {
        return Ok(());
    };
    let name = golden.manifest.pool.as_str();
    let site = Site::new(name)?;
    let images = golden.copy_to(site.devices())?;
    site.import("-N")?;
    for (image, number) in images.iter().zip(2..) {
        let side = device(&site, number)?;
        File::create(&side)?.set_len(fs::metadata(image)?.len())?;
        let (image, side) = (image.display(), side.display());
        site.ok(&format!("zpool attach -w {name} {image} {side}"))?;
    }
    site.ok(&format!("zpool split {name} half"))?;
    site.ok(&format!(
        "zpool import -N -d {} half",
        site.devices().display()
    ))?;
    for pool in ["half", name] {
        site.ok(&format!("zpool scrub -w {pool}"))?;
        let healthy = site.ok(&format!("zpool status -x {pool}"))?;
        ensure!(healthy.contains("is healthy"), "{healthy}");
        site.ok(&format!("cenote verify --quiet --all-copies {pool}"))?;
    }
    site.ok("zpool export half")?;
    judged(&site, "half")?;
    site.export()?;
    site.judge()
}

/// Log devices had to be removed before a split. They stay with the old pool, with logs in use, and
/// the new pool has holes in their places: nothing in it leads there.
#[test]
fn log_devices_stay_with_the_old_pool() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, d) = pool("mirror", 2)?;
    let more: Result<Vec<String>> = (2..9)
        .map(|number| Ok(device(&site, number)?.display().to_string()))
        .collect();
    let more = more?;
    let [l1, l2, s1, s2, l3, cache, spare] = more.as_slice() else {
        bail!("seven devices");
    };
    site.ok(&format!("zpool add tank log mirror {l1} {l2}"))?;
    site.ok(&format!("zpool add tank special mirror {s1} {s2}"))?;
    let rest = format!("log {l3} cache {cache} spare {spare}");
    site.ok(&format!("zpool add tank {rest}"))?;
    let promise = |name: &str| -> Result<()> {
        let mut file = File::create(site.path("tank").join(name))?;
        file.write_all(&[b'p'; 100_000])?;
        file.sync_all()?;
        Ok(())
    };
    write(&site, "both")?;
    let content = fs::read(site.path("tank/both"))?;
    (0..9).try_for_each(|number| promise(&format!("promised {number}")))?;
    let planned = site.ok("zpool split -n tank half")?;
    let layout = format!("\n\thalf\n\t  {}\n\tspecial\n\t  {s2}\n", d[1]);
    ensure!(planned.ends_with(&layout), "{planned}");
    site.ok("zpool split tank half")?;
    promise("promised to tank")?;
    let status = site.ok("zpool status tank")?;
    for device in [&d[0], s1, l1, l2, l3, cache, spare] {
        ensure!(status.contains(device.as_str()), "{device}: {status}");
    }
    let (place, devices) = (site.cenote().subdirectory("elsewhere")?, site.devices());
    let (place, devices) = (place.display(), devices.display());
    judged(&site, "half").context("the new pool before it was imported")?;
    site.ok(&format!("zpool import -R {place} -d {devices} half"))?;
    let status = site.ok("zpool status half")?;
    let strangers = ["logs", "cache", "spares", "errors: 1"];
    ensure!(
        strangers.iter().all(|word| !status.contains(word)),
        "{status}"
    );
    let half = site.cenote().subdirectory("elsewhere")?.join("half");
    ensure!(fs::read(half.join("both"))? == content);
    ensure!((0..9).all(|number| half.join(format!("promised {number}")).exists()));
    ensure!(!half.join("promised to tank").exists());
    // Its log is on the mirrors now, and another log device comes behind the holes.
    let new = device(&site, 9)?;
    site.ok(&format!("zpool add half log {}", new.display()))?;
    fs::write(half.join("later"), "on half")?;
    site.ok("zpool scrub -w half")?;
    ensure!(site.ok("zpool status -x half")?.contains("is healthy"));
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
    for (milliseconds, log) in [(3, ""), (40, "offline"), (120, "offline -f")] {
        let (site, devices) = pool("mirror", 2)?;
        let log_device = device(&site, 2)?.display().to_string();
        site.ok(&format!("zpool add tank log {log_device}"))?;
        if !log.is_empty() {
            site.ok(&format!("zpool {log} tank {log_device}"))?;
        }
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
        let health = match log {
            "" => "ONLINE",
            _ => "DEGRADED",
        };
        ensure!(state(&site, "tank")? == health, "{milliseconds} ms");
        if !log.is_empty() {
            let back = log
                .replace("offline -f", "clear")
                .replace("offline", "online");
            site.ok(&format!("zpool {back} tank {log_device}"))?;
        }
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
