//! The commands that change pools as a whole, as a person types them.
//!
//! Each test ends with an export, and OpenZFS's judgement of the pool where it is installed.

use anyhow::{Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::program::{Limits, run};
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

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
    let names = ["c", "d", "e", "f", "g", "h", "i", "j"];
    let paths = names.map(|name| device(&site, name));
    let paths = paths.into_iter().collect::<Result<Vec<_>>>()?;
    let [c, d, e, f, log, cache, spare, used] = paths.as_slice() else {
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
    checks_are_left_out_one_by_one(&site, (c, d, e), used)?;
    site.ok(&format!("zpool add tank mirror {c} {d}"))?;
    let command =
        format!("zpool add --allow-ashift-mismatch -o ashift=13 tank special mirror {e} {f}");
    site.ok(&command)?;
    // As in OpenZFS, only vdevs with data are numbered here.
    let preview = site.ok(&format!("zpool add -n tank spare {spare}"))?;
    has(&preview, &format!("\t  mirror-1\n\t    {c}\n"))?;
    has(&preview, &format!("\tspecial\n\t  mirror\n\t    {e}\n"))?;
    site.ok(&format!(
        "zpool add tank log {log} cache {cache} spare {spare}"
    ))?;
    ensure!(history(&site)?.contains(&command), "{:?}", history(&site)?);
    let status = site.ok("zpool status tank")?;
    for part in ["mirror-1", "special", "mirror-2", "logs", "cache", "AVAIL"] {
        has(&status, part)?;
    }
    scripts_add_columns(&site, spare)?;
    let again = site.fails(&format!("zpool add -f tank {c}"))?;
    has(&again.stderr, "is part of active pool 'tank'")?;
    site.export()?;
    site.import("")?;
    let listed = site.ok("zpool list -Hv tank")?;
    ensure!(!listed.contains("UNAVAIL"), "{listed}");
    site.finish()
}

/// `zpool status -c`: a column of a script, in the table and in JSON.
fn scripts_add_columns(site: &Site, spare: &str) -> Result<()> {
    let scripts = site.cenote().subdirectory("scripts")?;
    let script = scripts.join("place");
    fs::write(&script, "#!/bin/sh\necho end=${VDEV_PATH##*/}.\n")?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let status = |words: &[&str], enabled: &str| {
        let mut command = site.cenote().command("zpool", words);
        command.env("ZPOOL_SCRIPTS_PATH", &scripts);
        command.env("ZPOOL_SCRIPTS_AS_ROOT", "yes");
        command.env("ZPOOL_SCRIPTS_ENABLED", enabled);
        run(command, b"", Limits::default())
    };
    let shown = status(&["status", "-c", "place", "tank"], "1")?.success()?;
    let text = shown.text();
    has(&text, "CKSUM      end\n")?;
    for (device, value) in [("d0.img ", "     0  d0.img."), (spare, "AVAIL          i.")] {
        let mut rows = text.lines().filter(|line| line.contains(device));
        let is_shown = rows.any(|line| line.ends_with(value));
        ensure!(is_shown, "{device}: {text}");
    }
    let is_group_blank = text
        .lines()
        .any(|line| line.ends_with("     0     0     0"));
    ensure!(is_group_blank, "{text}");
    let json = status(&["status", "-j", "-c", "place", "tank"], "1")?.success()?;
    has(&json.text(), "\"end\":\"d1.img.\"")?;
    has(
        &status(&["status", "-c"], "1")?.success()?.text(),
        "  place",
    )?;
    let refused = status(&["status", "-c", "place"], "0")?;
    has(&refused.stderr, "disabled by ZPOOL_SCRIPTS_ENABLED")?;
    ensure!(refused.code == Some(1), "{}", refused.report());
    Ok(())
}

/// Each `--allow-…` leaves out one check of `zpool add`, and no other. The pool has a mirror;
/// `used` becomes a device of an exported pool.
fn checks_are_left_out_one_by_one(
    site: &Site,
    (c, d, e): (&str, &str, &str),
    used: &str,
) -> Result<()> {
    site.ok(&format!("zpool create -O mountpoint=none other {used}"))?;
    site.ok("zpool export other")?;
    let (in_use, unlike) = (
        "is part of exported pool 'other'",
        "mismatched replication level",
    );
    let size = "adding devices with different physical sector sizes is not allowed";
    let cases = [
        (format!("-n tank mirror {c} {used}"), Some(in_use)),
        (
            format!("-n --allow-replication-mismatch tank mirror {c} {used}"),
            Some(in_use),
        ),
        (format!("-n --allow-in-use tank mirror {c} {used}"), None),
        (format!("-n --allow-in-use tank {c}"), Some(unlike)),
        (format!("-n --allow-ashift-mismatch tank {c}"), Some(unlike)),
        (format!("-n --allow-replication-mismatch tank {c}"), None),
        (format!("-o ashift=13 tank mirror {c} {d}"), Some(size)),
        (
            format!("--allow-in-use --allow-replication-mismatch -o ashift=13 tank {e}"),
            Some(size),
        ),
    ];
    for (words, reason) in cases {
        let line = format!("zpool add {words}");
        match reason {
            Some(reason) => has(&site.fails(&line)?.stderr, reason)?,
            None => drop(site.ok(&line)?),
        }
    }
    site.ok(&format!("zpool labelclear -f {used}"))?;
    Ok(())
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
        site.ok("zpool trim -a -w")?;
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

/// `-f` writes a group although nothing has changed since the last one.
fn a_forced_sync_writes_a_group(site: &Site, device: &str) -> Result<()> {
    let uberblocks = || -> Result<Vec<u8>> {
        let mut ring = vec![0; 128 << 10];
        File::open(device)?.read_exact_at(&mut ring, 128 << 10)?;
        Ok(ring)
    };
    site.ok("zpool sync tank")?;
    let before = uberblocks()?;
    site.ok("zpool sync -f tank")?;
    ensure!(uberblocks()? != before, "no group was written");
    Ok(())
}

/// Here something else has the place of the first two labels.
fn only_labels_are_cleared(site: &Site, device: &str) -> Result<()> {
    let other = vec![7; 4 << 20];
    let file = File::options().read(true).write(true).open(device)?;
    file.write_all_at(&other, 0)?;
    site.ok(&format!("zpool labelclear -f {device}"))?;
    let mut kept = vec![0; other.len()];
    file.read_exact_at(&mut kept, 0)?;
    ensure!(kept == other, "labelclear wrote where no label was");
    site.fails(&format!("zpool labelclear -f {device}"))?;
    Ok(())
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
        " 9   refquota and refreservation properties\n 10  Cache devices\n",
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
    // A program may print a GUID as a signed number.
    site.ok("zpool reguid -g -1 tank")?;
    let largest = site.ok("zpool get -Hpovalue guid tank")?;
    ensure!(largest.trim() == u64::MAX.to_string(), "{largest}");
    a_forced_sync_writes_a_group(&site, &a)?;
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
    only_labels_are_cleared(&site, &b)?;
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
    let older = fs::read(&cache)?;
    site.ok(&format!("zpool add tank {b}"))?;
    let saved = fs::read(&cache)?;
    site.ok("zpool set cachefile=none tank")?;
    ensure!(!cache.exists(), "no pool is in it any more");
    site.ok(&format!("zpool set cachefile={file} tank"))?;
    ensure!(fs::read(&cache)? == saved, "as it was");
    site.export()?;
    ensure!(!cache.exists(), "an exported pool is in none");
    fs::write(&cache, &saved)?;
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
    // With `-F` the pool stays in the file.
    site.ok("zpool export -F tank")?;
    ensure!(cache.exists(), "it is not in the file");
    let all_devices = |site: &Site| -> Result<()> {
        let status = site.ok("zpool status -P tank")?;
        has(&status, &a)?;
        has(&status, &b)?;
        ensure!(!status.contains("UNAVAIL"), "{status}");
        Ok(())
    };
    site.ok(&format!("zpool import -c {file} tank"))?;
    all_devices(&site)?;
    // A file that is older than one of the devices leads to the pool, which knows them all.
    site.export()?;
    fs::write(&cache, older)?;
    has(&site.ok(&format!("zpool import -c {file}"))?, &b)?;
    site.ok(&format!("zpool import -c {file} tank"))?;
    all_devices(&site)?;
    // A device that was renamed is found by its label, next to where it was.
    site.export()?;
    fs::write(&cache, &saved)?;
    let moved = format!("{b} moved");
    fs::rename(&b, &moved)?;
    site.ok(&format!("zpool import -c {file} -o cachefile={file} tank"))?;
    has(&site.ok("zpool status -P tank")?, &moved)?;
    fs::write(site.devices().join("garbage"), "no list")?;
    let garbage = site.devices().join("garbage");
    site.fails(&format!("zpool import -c {} tank", garbage.display()))?;
    site.export()
}
