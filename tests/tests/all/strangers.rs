//! Devices that are in their place and are not what they were.

use anyhow::{Result, ensure};
use cenote_tests::site::Site;
use std::fs::File;

fn has(text: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(text.contains(word), "no '{word}' in:\n{text}");
    }
    Ok(())
}

/// What is listed and shown of an exported mirror whose second device became something else.
fn with_second(
    change: impl FnOnce(&Site, &File) -> Result<()>,
    listed: &[&str],
    shown: &[&str],
) -> Result<()> {
    let site = Site::create("mirror", 128, "-O mountpoint=none")?;
    site.export()?;
    let second = File::options()
        .write(true)
        .open(site.devices().join("d1.img"))?;
    change(&site, &second)?;
    let devices = site.devices().display().to_string();
    let candidates = site.ok(&format!("zpool import -d {devices}"))?;
    let of_tank = candidates
        .split("  pool: ")
        .find(|part| part.starts_with("tank"));
    let of_tank = of_tank.unwrap_or_default();
    has(of_tank, &["DEGRADED", "contains corrupted data"])?;
    has(of_tank, listed)?;
    site.ok(&format!("zpool import -o readonly=on -d {devices} tank"))?;
    let status = site.ok("zpool status tank")?;
    has(&status, &["label is missing or", "DEGRADED"])?;
    has(&status, shown)?;
    site.abandon();
    Ok(())
}

#[test]
fn a_device_without_its_labels_is_told_from_one_that_is_gone() -> Result<()> {
    with_second(
        |_, second| {
            second.set_len(0)?;
            Ok(second.set_len(128 << 20)?)
        },
        &[
            "invalid label",
            "d1.img (guid ",
            "what is there has no valid label",
        ],
        &["UNAVAIL", "  was "],
    )
}

#[test]
fn a_device_of_another_pool_is_told() -> Result<()> {
    with_second(
        |site, _| {
            let path = site.devices().join("d1.img");
            let path = path.display();
            site.ok(&format!("zpool create -f -O mountpoint=none other {path}"))?;
            site.ok("zpool export other")?;
            Ok(())
        },
        &["corrupted data", "what is there is of pool 'other'"],
        &["FAULTED", "  was "],
    )
}

#[test]
fn a_device_that_was_cut_off_is_told() -> Result<()> {
    with_second(
        |_, second| Ok(second.set_len(50 << 20)?),
        &["corrupted data", "too small: 52428800 bytes"],
        &["UNAVAIL", "  was "],
    )
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Missing log and cache devices: the output of lists, and the status without them, in OpenZFS's
/// words. The pool was exported, so the import needs no `-m`.
#[test]
fn what_a_pool_can_do_without_is_named() -> Result<()> {
    let site = Site::create("single", 128, "-O mountpoint=none")?;
    let devices = site.devices().display().to_string();
    for name in ["log0", "log1", "log2", "cache"] {
        File::create_new(site.devices().join(name))?.set_len(128 << 20)?;
    }
    let path = |name: &str| format!("{devices}/{name}");
    let (log0, log1, log2, cache) = (path("log0"), path("log1"), path("log2"), path("cache"));
    site.ok(&format!(
        "zpool add -f tank log {log0} mirror {log1} {log2} cache {cache}"
    ))?;
    site.export()?;
    let directory = site.cenote().directory();
    let away = |path: &String| directory.join(name_of(path));
    for path in [&log0, &log1, &log2] {
        std::fs::rename(path, away(path))?;
    }
    let listing = site.ok(&format!("zpool import -d {devices}"))?;
    has(
        &listing,
        &[
            " state: DEGRADED\nstatus: One or more devices are missing from the system.",
            "ZFS-8000-2Q",
            &log0,
            "UNAVAIL  cannot open",
        ],
    )?;
    std::fs::rename(&cache, away(&cache))?;
    site.ok(&format!("zpool import -o readonly=on -d {devices} tank"))?;
    let status = site.ok("zpool status tank")?;
    has(
        &status,
        &["One or more devices could not be opened.", "ZFS-8000-2Q"],
    )?;
    has(&status, &[&format!("was {log1}"), &cache])?;
    for path in [&log0, &log1, &log2, &cache] {
        std::fs::rename(away(path), path)?;
    }
    site.export()?;
    an_older_copy_is_no_device(&site, &path("second"))?;
    site.finish()
}

/// An older copy lay in the place of a device that no other device makes up for. The list said
/// ONLINE and that the pool could be imported, and the import refused it.
fn an_older_copy_is_no_device(site: &Site, second: &str) -> Result<()> {
    let older = site.cenote().directory().join("older");
    File::create_new(second)?.set_len(128 << 20)?;
    site.import("-N")?;
    site.ok(&format!("zpool add -f tank {second}"))?;
    site.ok("zpool sync tank")?;
    std::fs::copy(second, &older)?;
    for name in ["one", "two"] {
        site.ok(&format!("zfs create tank/{name}"))?;
        site.ok("zpool sync tank")?;
    }
    site.export()?;
    let newest = site.cenote().directory().join("newest");
    std::fs::rename(second, &newest)?;
    std::fs::rename(&older, second)?;
    let list = format!("zpool import -d {}", site.devices().display());
    has(
        &site.ok(&list)?,
        &[
            " state: UNAVAIL\nstatus: One or more devices are missing from the system.",
            "The pool cannot be imported.",
            "not used: it is at txg",
        ],
    )?;
    let refused = site.fails(&format!("{list} tank"))?;
    has(&refused.stderr, &["not used: it is at txg"])?;
    std::fs::rename(&newest, second)?;
    let listing = site.ok(&list)?;
    has(&listing, &[" state: ONLINE", "can be imported"])?;
    ensure!(!listing.contains("not used"), "{listing}");
    site.import("-N")
}
