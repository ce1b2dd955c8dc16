//! The commands that change pools as a whole, as a person types them.
//!
//! Each test ends with an export, and OpenZFS's judgement of the pool where it is installed.

use anyhow::{Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

/// A file for a device beside those of the site.
fn device(site: &Site, name: &str) -> Result<String> {
    let path = site.devices().join(name);
    File::create(&path)?.set_len(128 << 20)?;
    Ok(path.display().to_string())
}

/// The commands in the pool's history, without their times.
fn history(site: &Site) -> Result<Vec<String>> {
    let text = site.ok("zpool history tank")?;
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(_, command)| command.to_owned()).collect())
}

fn has(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no '{part}' in:\n{text}");
    Ok(())
}

#[test]
fn vdevs_of_all_kinds_are_added() -> Result<()> {
    let site = Site::create("mirror", 128, "")?;
    let names = ["c", "d", "e", "f", "g", "h", "i"];
    let paths = names.map(|name| device(&site, name));
    let paths = paths.into_iter().collect::<Result<Vec<_>>>()?;
    let [c, d, e, f, log, cache, spare] = paths.as_slice() else {
        unreachable!("as many as names");
    };
    let refused = site.fails(&format!("zpool add tank {c}"))?;
    let reason = "mismatched replication level: pool uses mirror and new vdev is file";
    has(
        &refused.stderr,
        "use '-f' to override the following errors:",
    )?;
    has(&refused.stderr, reason)?;
    let preview = site.ok(&format!("zpool add -n tank mirror {c} {d}"))?;
    has(
        &preview,
        "would update 'tank' to the following configuration:\n\n\ttank\n\t  mirror-0\n",
    )?;
    has(&preview, &format!("\t  mirror\n\t    {c}\n\t    {d}\n"))?;
    ensure!(
        !site.ok("zpool status tank")?.contains("mirror-1"),
        "-n added"
    );
    let command = format!("zpool add tank mirror {c} {d} special mirror {e} {f}");
    site.ok(&command)?;
    site.ok(&format!(
        "zpool add tank log {log} cache {cache} spare {spare}"
    ))?;
    ensure!(history(&site)?.contains(&command), "{:?}", history(&site)?);
    let status = site.ok("zpool status tank")?;
    for part in ["mirror-1", "special", "mirror-2", "logs", "cache", "AVAIL"] {
        has(&status, part)?;
    }
    let again = site.fails(&format!("zpool add -f tank {c}"))?;
    has(&again.stderr, "is part of active pool 'tank'")?;
    site.export()?;
    site.import("")?;
    let listed = site.ok("zpool list -Hv tank")?;
    ensure!(!listed.contains("UNAVAIL"), "{listed}");
    site.finish()
}

#[test]
fn vdevs_that_need_features_are_refused_without() -> Result<()> {
    let site = Site::new("tank")?;
    let (a, b) = (device(&site, "a")?, device(&site, "b")?);
    site.ok(&format!("zpool create -d -O mountpoint=none tank {a}"))?;
    let refused = site.fails(&format!("zpool add -f tank special {b}"))?;
    has(&refused.stderr, "cannot add to 'tank': ")?;
    has(&refused.stderr, "allocation_classes")?;
    ensure!(
        fs::metadata(&b)?.len() == 128 << 20,
        "the device is untouched"
    );
    site.finish()
}

/// Mebibytes that a device's file takes.
fn stored(site: &Site, name: &str) -> Result<u64> {
    let blocks = fs::metadata(site.devices().join(name))?.blocks();
    Ok((blocks * 512) >> 20)
}

/// A file of bytes that do not compress comes and goes.
fn fill_and_empty(site: &Site, mebibytes: usize) -> Result<()> {
    let mut bytes = vec![0; mebibytes << 20];
    Random::new(1).fill(&mut bytes);
    let path = site.path("tank/file");
    fs::write(&path, bytes)?;
    site.ok("zpool sync tank")?;
    fs::remove_file(path)?;
    for _ in 0..4 {
        site.ok("zpool sync tank")?;
    }
    Ok(())
}

#[test]
fn free_space_is_trimmed_and_initialized() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    for (layout, devices) in [("mirror", 2), ("raidz1", 3)] {
        let site = Site::create(layout, 192, "")?;
        fill_and_empty(&site, 64)?;
        let names: Vec<String> = (0..devices)
            .map(|number| format!("d{number}.img"))
            .collect();
        for name in &names {
            ensure!(stored(&site, name)? > 20, "{name} has no data");
        }
        site.ok("zpool trim -w tank")?;
        for name in &names {
            ensure!(stored(&site, name)? < 8, "{layout}: {name} was not trimmed");
        }
        let status = site.ok("zpool status -t tank")?;
        ensure!(
            status.matches("(100% trimmed, completed at").count() == devices,
            "{status}"
        );
        let first = site.devices().join(&names[0]).display().to_string();
        site.ok(&format!("zpool initialize -w tank {first}"))?;
        ensure!(stored(&site, &names[0])? > 150, "{layout}: not initialized");
        site.export()?;
        site.import("")?;
        let status = site.ok("zpool status -i tank")?;
        has(&status, "(100% initialized, completed at")?;
        site.ok(&format!("zpool initialize -u tank {first}"))?;
        ensure!(
            !site.ok("zpool status -i tank")?.contains("100%"),
            "{layout}: reset"
        );
        site.finish()?;
    }
    Ok(())
}

#[test]
fn a_trim_can_be_suspended_and_goes_on_after_an_import() -> Result<()> {
    let site = Site::create("single", 192, "")?;
    site.fails("zpool trim -s tank")?;
    site.ok("zpool trim -r 1M tank")?;
    let running = site.fails("zpool trim tank")?;
    has(&running.stderr, "currently trimming")?;
    ensure!(running.code == Some(255), "{}", running.report());
    site.export()?;
    site.import("")?;
    has(&site.ok("zpool status tank")?, "(trimming)")?;
    site.ok("zpool trim -s tank")?;
    has(
        &site.ok("zpool status -t tank")?,
        "trimmed, suspended, started at",
    )?;
    // It keeps its rate, unless another is given: it resumed at full speed.
    site.ok("zpool trim tank")?;
    site.ok("zpool sync tank")?;
    has(&site.ok("zpool status -t tank")?, "trimmed, started at")?;
    site.ok("zpool trim -s tank")?;
    site.ok("zpool trim -w -r 1G tank")?;
    has(&site.ok("zpool status -t tank")?, "100% trimmed")?;
    site.fails("zpool trim -c tank")?;
    site.finish()
}

/// On a device that was taken offline, a treatment was called suspended, and stayed so when the
/// device was back; on one that was declared faulted, too.
#[test]
fn treatments_rest_while_their_device_is_offline() -> Result<()> {
    let site = Site::create("mirror", 128, "-O mountpoint=none")?;
    let device = site.devices().join("d0.img").display().to_string();
    let again = || -> Result<()> {
        site.export()?;
        site.import("")?;
        // A hundred megabytes by so few bytes take some seconds.
        site.ok("cenote settings set zfs_initialize_chunk_size=512")?;
        Ok(())
    };
    for (verb, start, status) in [
        ("initialize", "initialize", "zpool status -i tank"),
        ("trim", "trim -r 1M", "zpool status -t tank"),
    ] {
        let rests = || -> Result<()> {
            let status = site.ok(status)?;
            has(&status, ", started at")?;
            ensure!(!status.contains("suspended"), "{status}");
            Ok(())
        };
        let is_given_up = || -> Result<()> {
            let status = site.ok(status)?;
            let untreated = ["(uninitialized)", "(untrimmed)"];
            let count: usize = untreated
                .iter()
                .map(|text| status.matches(text).count())
                .sum();
            ensure!(count == 2, "{status}");
            Ok(())
        };
        again()?;
        site.ok(&format!("zpool {start} tank {device}"))?;
        site.ok(&format!("zpool offline tank {device}"))?;
        rests()?;
        again()?;
        rests()?;
        site.ok(&format!("zpool wait -t {verb} tank"))?;
        site.ok(&format!("zpool online tank {device}"))?;
        // Only what is at work is refused.
        let running = site.fails(&format!("zpool {start} tank {device}"))?;
        has(&running.stderr, "currently")?;
        site.ok(&format!("zpool offline -f tank {device}"))?;
        is_given_up()?;
        again()?;
        is_given_up()?;
        site.ok(&format!("zpool online tank {device}"))?;
        site.ok(&format!("zpool clear tank {device}"))?;
        is_given_up()?;
    }
    site.finish()
}

#[test]
fn freed_space_is_trimmed_by_itself() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 192, "-o autotrim=on")?;
    fill_and_empty(&site, 64)?;
    wait_until("trimmed", || {
        Ok(stored(&site, "d0.img")? < 8 && stored(&site, "d1.img")? < 8)
    })?;
    site.ok("zpool set autotrim=off tank")?;
    fill_and_empty(&site, 64)?;
    ensure!(stored(&site, "d0.img")? > 50, "trimmed all the same");
    site.ok("zpool set autotrim=on tank")?;
    fill_and_empty(&site, 32)?;
    site.export()?;
    site.import("")?;
    fill_and_empty(&site, 64)?;
    wait_until("trimmed", || Ok(stored(&site, "d1.img")? < 50))?;
    site.finish()
}

#[test]
fn labels_guids_and_features_change() -> Result<()> {
    let site = Site::new("tank")?;
    let (a, b) = (device(&site, "a")?, device(&site, "b")?);
    site.ok(&format!("zpool create -d -O mountpoint=none tank {a}"))?;
    site.ok(&format!("zpool create -O mountpoint=none other {b}"))?;
    let listed = site.ok("zpool upgrade")?;
    has(
        &listed,
        "POOL  FEATURE\n---------------\ntank\n      async_destroy\n",
    )?;
    ensure!(!listed.contains("other"), "{listed}");
    has(
        &site.ok("zpool upgrade -v")?,
        "27   Improved snapshot creation performance",
    )?;
    has(
        &site.ok("zpool upgrade tank")?,
        "Enabled the following features on 'tank':\n  async",
    )?;
    has(&site.ok("zpool upgrade tank")?, "already has all supported")?;
    ensure!(
        site.ok("zpool get -Hovalue feature@zstd_compress tank")?
            .trim()
            == "enabled"
    );
    // Software that does not know a value must not import the pool, even before a block uses it.
    for (value, feature) in [
        ("compression=zstd-10", "zstd_compress"),
        ("checksum=skein", "skein"),
        ("dedup=edonr,verify", "edonr"),
    ] {
        site.ok(&format!("zfs set {value} tank"))?;
        let state = site.ok(&format!("zpool get -Hovalue feature@{feature} tank"))?;
        ensure!(state.trim() == "active", "{value}: {state}");
    }
    let guid = site.ok("zpool get -Hpovalue guid tank")?;
    site.ok("zpool reguid tank")?;
    ensure!(
        site.ok("zpool get -Hpovalue guid tank")? != guid,
        "the same guid"
    );
    site.ok("zpool reguid -g 4711 tank")?;
    ensure!(site.ok("zpool get -Hpovalue guid tank")?.trim() == "4711");
    let history = history(&site)?;
    for command in [
        "zpool upgrade tank",
        "zpool reguid tank",
        "zpool reguid -g 4711 tank",
    ] {
        ensure!(history.iter().any(|line| line == command), "{history:?}");
    }
    let active = site.fails(&format!("zpool labelclear -f {b}"))?;
    has(&active.stderr, "is a member (ACTIVE) of pool \"other\"")?;
    site.ok("zpool export other")?;
    let exported = site.fails(&format!("zpool labelclear {b}"))?;
    has(
        &exported.stderr,
        "use '-f' to override the following error:\n",
    )?;
    has(&exported.stderr, "is a member of exported pool \"other\"")?;
    site.ok(&format!("zpool labelclear -f {b}"))?;
    site.fails(&format!("zpool labelclear -f {b}"))?;
    fs::remove_file(&b)?;
    site.finish()
}

#[test]
fn pools_are_found_by_their_cache_file() -> Result<()> {
    let site = Site::new("tank")?;
    let hidden = site.cenote().subdirectory("hidden")?;
    let paths = ["a", "b"].map(|name| hidden.join(name));
    for path in &paths {
        File::create(path)?.set_len(128 << 20)?;
    }
    let [a, b] = paths.map(|path| path.display().to_string());
    let cache = site.cenote().directory().join("zpool.cache");
    let file = cache.display();
    let bad = site.fails(&format!("zpool create -o cachefile=x tank {a}"))?;
    has(&bad.stderr, "must be empty, an absolute path, or 'none'")?;
    site.ok(&format!(
        "zpool create -O mountpoint=none -o cachefile={file} tank {a}"
    ))?;
    site.ok(&format!("zpool add tank {b}"))?;
    let saved = fs::read(&cache)?;
    site.ok("zpool set cachefile=none tank")?;
    ensure!(!cache.exists(), "no pool is in it any more");
    site.ok(&format!("zpool set cachefile={file} tank"))?;
    ensure!(fs::read(&cache)? == saved, "as it was");
    site.export()?;
    ensure!(!cache.exists(), "an exported pool is in none");
    fs::write(&cache, saved)?;
    has(&site.ok(&format!("zpool import -c {file}"))?, "pool: tank")?;
    site.ok(&format!("zpool import -c {file} -o cachefile={file} tank"))?;
    has(
        &site.ok("zpool get -Ho value cachefile tank")?,
        "zpool.cache",
    )?;
    ensure!(
        !site.ok("zpool status tank")?.contains("UNAVAIL"),
        "both devices"
    );
    // A device that was renamed is found by its label, next to where it was.
    let saved = fs::read(&cache)?;
    site.export()?;
    fs::write(&cache, saved)?;
    let moved = format!("{b} moved");
    fs::rename(&b, &moved)?;
    site.ok(&format!("zpool import -c {file} -o cachefile={file} tank"))?;
    has(&site.ok("zpool status -P tank")?, &moved)?;
    fs::write(site.devices().join("garbage"), "no list")?;
    let garbage = site.devices().join("garbage");
    site.fails(&format!("zpool import -c {} tank", garbage.display()))?;
    site.export()
}
