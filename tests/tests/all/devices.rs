//! Devices that fail, rest, come and go: the commands, what they refuse, and what is on disk after.

use anyhow::{Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// A new device of the site.
pub fn device(site: &Site, number: u32) -> Result<PathBuf> {
    let path = site.devices().join(format!("tank-{number:02}.img"));
    File::create(&path)?.set_len(128 * MIB)?;
    Ok(path)
}

/// The state in the line of `zpool status` about a vdev; empty without one.
pub fn state(site: &Site, vdev: &str) -> Result<String> {
    let status = site.ok("zpool status tank")?;
    let line = status
        .lines()
        .find(|line| line.trim_start().starts_with(vdev));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(word.unwrap_or_default().to_owned())
}

/// Waits until nothing is resilvered and no vdev replaces another.
pub fn until_whole(site: &Site) -> Result<()> {
    wait_until("whole again", || {
        let status = site.ok("zpool status tank")?;
        let busy = [
            "resilver in progress",
            "(resilvering)",
            "replacing-",
            "awaiting",
        ];
        Ok(!busy.iter().any(|word| status.contains(word)))
    })
}

/// Writes what must be there whatever happens to devices.
pub fn write(site: &Site, name: &str) -> Result<()> {
    let content: Vec<u8> = (0..8 * MIB).map(|at| (at * 7 + at / 4096) as u8).collect();
    fs::write(site.path("tank").join(name), content)?;
    site.ok("zpool sync tank")?;
    Ok(())
}

pub fn refusal(site: &Site, command: &str, code: i32, text: &str) -> Result<()> {
    let refused = site.fails(command)?;
    ensure!(
        refused.code == Some(code) && refused.stderr.contains(text),
        "{}",
        refused.report()
    );
    Ok(())
}

/// A site with a pool of these devices, mounted.
pub fn pool(layout: &str, count: u32) -> Result<(Site, Vec<String>)> {
    let site = Site::new("tank")?;
    let mut devices = Vec::new();
    for number in 0..count {
        devices.push(device(&site, number)?.display().to_string());
    }
    let (root, words) = (site.path(""), devices.join(" "));
    site.ok(&format!(
        "zpool create -f -R {} tank {layout} {words}",
        root.display()
    ))?;
    Ok((site, devices))
}

#[test]
fn a_side_rests_and_gets_what_it_missed() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("mirror", 2)?;
    let [first, second] = [&devices[0], &devices[1]];
    write(&site, "before")?;
    site.ok(&format!("zpool offline tank {first}"))?;
    ensure!(state(&site, first)? == "OFFLINE" && state(&site, "mirror-0")? == "DEGRADED");
    let text = format!("cannot offline {second}: no valid replicas\n");
    refusal(&site, &format!("zpool offline tank {second}"), 1, &text)?;
    let text = format!("cannot detach {second}: no valid replicas\n");
    refusal(&site, &format!("zpool detach tank {second}"), 255, &text)?;
    write(&site, "meanwhile")?;
    // It is offline for good: an import leaves it alone, too.
    site.reopen(&["tank"])?;
    ensure!(state(&site, first)? == "OFFLINE");
    site.ok(&format!("zpool online tank {first}"))?;
    until_whole(&site)?;
    ensure!(state(&site, first)? == "ONLINE" && state(&site, "tank")? == "ONLINE");
    site.ok(&format!("zpool offline -t tank {second}"))?;
    write(&site, "on the first alone")?;
    site.reopen(&["tank"])?;
    until_whole(&site)?;
    ensure!(
        state(&site, second)? == "ONLINE",
        "for the time of an import only"
    );
    let verified = site.ok("cenote verify --all-copies tank")?;
    ensure!(
        verified.contains("no errors") || !verified.contains("wrong"),
        "{verified}"
    );
    site.finish()
}

/// Exchanges a file for a copy of itself, as a restored backup is, or a file that was moved away
/// and back.
fn exchange(path: &str) -> Result<()> {
    let copy = format!("{path}.copy");
    fs::copy(path, &copy)?;
    Ok(fs::rename(copy, path)?)
}

/// The daemon wrote to the old file by its old handle and reported the device as complete. All data
/// written since was lost with the handle.
#[test]
fn a_file_that_was_exchanged_for_a_copy_is_opened_by_its_name() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("mirror", 2)?;
    let [first, second] = [&devices[0], &devices[1]];
    site.ok(&format!("zpool offline tank {first}"))?;
    site.reopen(&["tank"])?;
    write(&site, "while it is offline")?;
    exchange(first)?;
    site.ok(&format!("zpool online tank {first}"))?;
    until_whole(&site)?;
    ensure!(state(&site, first)? == "ONLINE");
    // One that is in use is noticed, too.
    exchange(first)?;
    write(&site, "while it has no name")?;
    wait_until("the device is given up", || {
        Ok(state(&site, first)? == "REMOVED")
    })?;
    let status = site.ok("zpool status tank")?;
    ensure!(status.contains("was replaced while in use"), "{status}");
    site.ok(&format!("zpool online tank {first}"))?;
    site.ok("zpool wait -t resilver tank")?;
    ensure!(state(&site, first)? == "ONLINE" && state(&site, "tank")? == "ONLINE");
    // One that was only moved is used as before.
    let moved = format!("{second}.moved");
    fs::rename(second, &moved)?;
    write(&site, "while it is moved")?;
    ensure!(state(&site, second)? == "ONLINE");
    fs::remove_file(&moved)?;
    write(&site, "while it is deleted")?;
    wait_until("the device is given up", || {
        Ok(state(&site, second)? == "REMOVED")
    })?;
    // The first one alone has everything.
    site.reopen(&["tank"])?;
    let verified = site.ok("cenote verify --all-copies tank")?;
    ensure!(
        verified.contains("no errors") || !verified.contains("wrong"),
        "{verified}"
    );
    let names = [
        "while it is offline",
        "while it has no name",
        "while it is moved",
    ];
    for name in names.iter().chain(&["while it is deleted"]) {
        ensure!(fs::read(site.path("tank").join(name))?.len() as u64 == 8 * MIB);
    }
    // The deleted one is replaced by a new file, so that OpenZFS finds a whole pool.
    device(&site, 1)?;
    site.ok(&format!("zpool replace tank {second}"))?;
    until_whole(&site)?;
    ensure!(state(&site, second)? == "ONLINE" && state(&site, "mirror-0")? == "ONLINE");
    site.finish()
}

#[test]
fn mirrors_grow_shrink_and_change_sides() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("", 1)?;
    let first = &devices[0];
    write(&site, "before")?;
    let second = device(&site, 1)?.display().to_string();
    let third = device(&site, 2)?.display().to_string();
    let text = format!("cannot detach {first}: only applicable to mirror and replacing vdevs\n");
    refusal(&site, &format!("zpool detach tank {first}"), 255, &text)?;
    site.ok(&format!("zpool attach -w tank {first} {second}"))?;
    until_whole(&site)?;
    ensure!(state(&site, "mirror-0")? == "ONLINE");
    site.reopen(&["tank"])?;
    // It used to return before the resilver had begun its work.
    site.ok(&format!("zpool replace -w tank {first} {third}"))?;
    ensure!(!site.ok("zpool status tank")?.contains("replacing"));
    ensure!(state(&site, first)?.is_empty() && state(&site, &third)? == "ONLINE");
    site.reopen(&["tank"])?;
    site.ok(&format!("zpool detach tank {second}"))?;
    ensure!(state(&site, "mirror-0")?.is_empty());
    write(&site, "after")?;
    let small = site.devices().join("small.img");
    File::create(&small)?.set_len(80 * MIB)?;
    let small = small.display();
    let text = format!("cannot attach {small} to {third}: device is too small\n");
    refusal(
        &site,
        &format!("zpool attach tank {third} {small}"),
        255,
        &text,
    )?;
    fs::remove_file(site.devices().join("small.img"))?;
    let history = site.ok("zpool history -i tank")?;
    ensure!(history.contains("zpool attach -w tank") && history.contains("vdev attach"));
    site.finish()
}

#[test]
fn a_lost_disk_is_replaced_in_its_place_and_by_guid() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("raidz", 3)?;
    let first = &devices[0];
    write(&site, "before")?;
    // It was not there at the import, and then it is, whole.
    site.export()?;
    let aside = site.devices().with_file_name("aside.img");
    fs::rename(first, &aside)?;
    site.import("")?;
    ensure!(
        state(&site, first)?.is_empty(),
        "its guid stands in its place"
    );
    write(&site, "without it")?;
    fs::rename(&aside, first)?;
    site.ok(&format!("zpool online tank {first}"))?;
    until_whole(&site)?;
    ensure!(state(&site, first)? == "ONLINE");
    // Now it is lost, and a blank one is in its place.
    site.ok(&format!("zpool offline tank {first}"))?;
    device(&site, 0)?;
    site.ok(&format!("zpool replace tank {first}"))?;
    until_whole(&site)?;
    ensure!(state(&site, first)? == "ONLINE" && state(&site, "raidz1-0")? == "ONLINE");
    site.reopen(&["tank"])?;
    let wide = device(&site, 7)?.display().to_string();
    let text = "can only attach to mirrors and top-level disks";
    for place in [first.as_str(), "raidz1-0"] {
        let attach = format!("zpool attach tank {place} {wide}");
        refusal(&site, &attach, 255, text)?;
    }
    fs::remove_file(&wide)?;
    site.finish()
}

#[test]
fn a_spare_stands_in_and_goes_back() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("mirror", 2)?;
    let first = &devices[0];
    let spare = device(&site, 5)?.display().to_string();
    site.ok(&format!("zpool add tank spare {spare}"))?;
    write(&site, "before")?;
    site.ok(&format!("zpool offline -f tank {first}"))?;
    ensure!(state(&site, first)? == "FAULTED");
    site.ok(&format!("zpool replace tank {first} {spare}"))
        .or_else(|error| match state(&site, "spare-0")?.is_empty() {
            true => Err(error),
            // It was taken already.
            false => Ok(String::new()),
        })?;
    until_whole(&site)?;
    ensure!(!state(&site, "spare-0")?.is_empty());
    write(&site, "on the spare")?;
    site.ok(&format!("zpool clear tank {first}"))?;
    until_whole(&site)?;
    wait_until("given back", || Ok(state(&site, "spare-0")?.is_empty()))?;
    ensure!(
        state(&site, &spare)? == "AVAIL",
        "{}",
        site.ok("zpool status tank")?
    );
    // The name of a mirror means its sides.
    let third = device(&site, 6)?.display().to_string();
    site.ok(&format!("zpool attach -w tank mirror-0 {third}"))?;
    ensure!(state(&site, &third)? == "ONLINE");
    site.finish()
}

/// Without any command a distributed spare is activated and released, and a blank disk in the place
/// of a lost one is added to the pool.
#[test]
fn lost_devices_are_looked_after_by_themselves() -> Result<()> {
    let (site, devices) = pool("draid1:2d:5c:1s", 5)?;
    let [first, second] = [&devices[0], &devices[1]];
    // It said "5 required but 0 provided".
    let again = format!(
        "zpool create -f other draid1:2d:5c:1s {}",
        devices.join(" ")
    );
    refusal(&site, &again, 1, "is part of active pool 'tank'")?;
    site.ok("zpool set autoreplace=on tank")?;
    site.ok(&format!("zpool offline -f tank {first}"))?;
    wait_until("a spare", || Ok(state(&site, "draid1-0-0")? == "ONLINE"))?;
    until_whole(&site)?;
    site.ok(&format!("zpool clear tank {first}"))?;
    wait_until("given back", || Ok(state(&site, "draid1-0-0")? == "AVAIL"))?;
    site.export()?;
    fs::remove_file(second)?;
    site.import("")?;
    ensure!(state(&site, "tank")? == "DEGRADED");
    device(&site, 1)?;
    wait_until("replaced", || Ok(state(&site, second)? == "ONLINE"))?;
    until_whole(&site)?;
    ensure!(state(&site, "draid1-0-0")? == "AVAIL");
    site.finish()
}

/// After every restart spares and cache devices were UNAVAIL, and the spare did not step in.
#[test]
fn spares_and_cache_devices_are_there_after_a_restart() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, devices) = pool("mirror", 2)?;
    let (spare, cache) = (device(&site, 5)?, device(&site, 6)?);
    let (spare, cache) = (spare.display().to_string(), cache.display().to_string());
    site.ok(&format!("zpool add tank spare {spare} cache {cache}"))?;
    site.crash()?;
    site.ok("cenote daemon resume")?;
    ensure!(state(&site, &spare)? == "AVAIL");
    ensure!(state(&site, &cache)? == "ONLINE");
    site.ok(&format!("zpool offline -f tank {}", devices[0]))?;
    wait_until("a spare", || Ok(!state(&site, "spare-0")?.is_empty()))?;
    until_whole(&site)?;
    site.crash()?;
    site.ok("cenote daemon resume")?;
    ensure!(state(&site, "spare-0")? == "DEGRADED");
    ensure!(state(&site, &cache)? == "ONLINE");
    site.ok(&format!("zpool clear tank {}", devices[0]))?;
    until_whole(&site)?;
    wait_until("given back", || Ok(state(&site, "spare-0")?.is_empty()))?;
    site.finish()
}

/// What `zpool status` says of a pool's spare behind its name.
fn spare_row(site: &Site, pool: &str, spare: &str) -> Result<String> {
    let status = site.ok(&format!("zpool status {pool}"))?;
    let mut rows = status.lines().skip_while(|line| !line.contains("spares"));
    let row = rows.find(|line| line.contains(spare)).unwrap_or_default();
    let words: Vec<&str> = row.split_whitespace().skip(1).collect();
    Ok(words.join(" "))
}

/// A shared spare that `user` has, and for which the device `needs` of another pool waits.
fn nobody_else_takes_it(
    site: &Site,
    spare: &str,
    user: &str,
    (waits, needs): (&str, &str),
) -> Result<()> {
    let used = format!("INUSE in use by pool '{user}'");
    let row = spare_row(site, waits, spare)?;
    ensure!(row == used, "{row}");
    let busy = format!("{spare} is busy");
    refusal(
        site,
        &format!("zpool replace {waits} {needs} {spare}"),
        255,
        &busy,
    )?;
    let active = format!("{spare} is part of active pool '{user}'");
    let new = device(site, 6)?.display().to_string();
    let command = format!("zpool create -f third {new} spare {spare}");
    refusal(site, &command, 1, &active)?;
    let shared = "pool has active shared spare device";
    refusal(site, &format!("zpool export {user}"), 1, shared)?;
    site.crash()?;
    site.ok("cenote daemon resume")?;
    let rows = [
        spare_row(site, user, spare)?,
        spare_row(site, waits, spare)?,
    ];
    ensure!(
        rows[0] == "INUSE currently in use" && rows[1] == used,
        "{rows:?}"
    );
    Ok(())
}

/// A spare whose user, the pool `other`, is destroyed is free for `tank`. It was UNAVAIL.
fn it_is_free_after_a_destruction(
    site: &Site,
    spare: &str,
    (of_other, of_tank): (&str, &str),
) -> Result<()> {
    for pool in ["tank", "other"] {
        site.ok(&format!("zpool add -f {pool} spare {spare}"))?;
    }
    let is_used_by = |pool: &str| Ok(spare_row(site, pool, spare)? == "INUSE currently in use");
    site.ok(&format!("zpool offline -f other {of_other}"))?;
    wait_until("a spare", || is_used_by("other"))?;
    site.ok("zpool wait -t resilver other")?;
    site.ok("zpool destroy -f other")?;
    let row = spare_row(site, "tank", spare)?;
    ensure!(row == "AVAIL", "{row}");
    site.ok(&format!("zpool offline -f tank {of_tank}"))?;
    wait_until("the other's spare", || is_used_by("tank"))?;
    site.ok(&format!("zpool clear tank {of_tank}"))?;
    wait_until("given back", || {
        Ok(spare_row(site, "tank", spare)? == "AVAIL")
    })
}

/// `zpool add` refused a spare of another pool. Pools share spares: one of them uses it at a time,
/// and the others see that, wait, and get it when it is free again.
#[test]
fn two_pools_share_a_spare() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let (site, d) = pool("mirror", 2)?;
    let [c, e, spare] = [device(&site, 2)?, device(&site, 3)?, device(&site, 4)?];
    let [c, e, spare] = [c, e, spare].map(|path| path.display().to_string());
    let root = site.path("").display().to_string();
    site.ok(&format!("zpool add tank spare {spare}"))?;
    let words = format!("-f -R {root} other mirror {c} {e} spare {spare}");
    site.ok(&format!("zpool create {words}"))?;
    let reserved = format!("{spare} is reserved as a hot spare for pool");
    for command in ["add -f tank spare", "add -f other", "create -f third"] {
        let command = format!("zpool {command} {spare}");
        refusal(&site, &command, 1, &reserved)?;
    }
    let row = |pool: &str| spare_row(&site, pool, &spare);
    let has_it = |pool: &str| Ok::<bool, anyhow::Error>(row(pool)? == "INUSE currently in use");
    ensure!(row("tank")? == "AVAIL" && row("other")? == "AVAIL");

    // Both need it at once: one gets it.
    site.ok(&format!("zpool offline -f tank {}", d[0]))?;
    site.ok(&format!("zpool offline -f other {c}"))?;
    wait_until("a spare", || Ok(has_it("tank")? || has_it("other")?))?;
    let (user, lost, waits, needs) = match has_it("tank")? {
        true => ("tank", &d[0], "other", &c),
        false => ("other", &c, "tank", &d[0]),
    };
    site.ok(&format!("zpool wait -t resilver {user}"))?;
    nobody_else_takes_it(&site, &spare, user, (waits, needs))?;

    // The other one has waited for it.
    site.ok(&format!("zpool clear {user} {lost}"))?;
    wait_until("the other", || has_it(waits))?;
    site.ok(&format!("zpool wait -t resilver {waits}"))?;
    let used = format!("INUSE in use by pool '{waits}'");
    ensure!(row(user)? == used, "{}", row(user)?);
    let places = site.devices().display();
    site.ok(&format!("zpool export -f {waits}"))?;
    ensure!(row(user)? == used, "by its label: {}", row(user)?);
    site.ok(&format!("zpool import -R {root} -d {places} {waits}"))?;
    ensure!(has_it(waits)?);

    // For good: it is a spare no more, of neither.
    site.ok(&format!("zpool detach {waits} {needs}"))?;
    ensure!(row(waits)?.is_empty() && row(user)?.is_empty());
    // A spare that one pool removes is still the other's.
    for pool in [user, waits] {
        site.ok(&format!("zpool add -f {pool} spare {needs}"))?;
    }
    site.ok(&format!("zpool remove {user} {needs}"))?;
    site.ok(&format!("zpool replace -w {waits} {spare} {needs}"))?;
    let last = device(&site, 5)?.display().to_string();
    it_is_free_after_a_destruction(&site, &last, (&e, &d[1]))?;
    site.finish()
}
