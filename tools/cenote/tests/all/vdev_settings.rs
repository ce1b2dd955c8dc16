//! Properties of vdevs: `zpool set PROPERTY=VALUE POOL VDEV`. The expected messages are those of
//! OpenZFS's module and commands (2.3.2).

use anyhow::{Result, ensure};
use cenote_tests::pool;
use cenote_tests::site::Site;
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const MIB: usize = 1 << 20;

/// A pool of a device, a mirror, a special device and a spare; the names of its devices.
fn site() -> Result<(Site, Vec<String>)> {
    let site = Site::new("tank")?;
    let mut names = Vec::new();
    for number in 0..6 {
        let path = site.devices().join(format!("tank-{number:02}.img"));
        File::create(&path)?.set_len(128 * MIB as u64)?;
        names.push(path.display().to_string());
    }
    let root = site.path("").display().to_string();
    let [a, b, c, d, e, f] = std::array::from_fn(|index| names[index].as_str());
    let vdevs = format!("{a} mirror {b} {c} special {d} log {e} spare {f}");
    site.ok(&format!(
        "zpool create -f -O compression=off -R {root} tank {vdevs}"
    ))?;
    Ok((site, names))
}

fn get(site: &Site, property: &str, vdev: &str) -> Result<String> {
    let line = site.ok(&format!(
        "zpool get -Ho value,source {property} tank {vdev}"
    ))?;
    Ok(line.trim_end().to_owned())
}

fn refused(site: &Site, words: &str, code: i32, text: &str) -> Result<()> {
    let refused = site.fails(&format!("zpool set {words}"))?;
    let is_right = refused.code == Some(code) && refused.stderr == format!("{text}\n");
    ensure!(is_right, "zpool set {words}: {}", refused.report());
    Ok(())
}

#[test]
fn what_is_set_is_kept() -> Result<()> {
    let (site, names) = site()?;
    let leaf = &names[1];
    let settings = [
        ("comment=bay-3", leaf.as_str(), "bay-3\tlocal"),
        ("comment=left", "mirror-1", "left\tlocal"),
        ("comment=all", "root", "all\tlocal"),
        ("a:b=user", leaf, "user\tlocal"),
        ("checksum_n=10", leaf, "10\tlocal"),
        ("checksum_t=1k", leaf, "1024\tlocal"),
        ("io_n=none", leaf, "-\tdefault"),
        ("slow_io_n=5", "mirror-1", "5\tlocal"),
        ("failfast=off", leaf, "off\tlocal"),
    ];
    for (setting, vdev, _) in settings {
        site.ok(&format!("zpool set {setting} tank {vdev}"))?;
    }
    let check = || -> Result<()> {
        for (setting, vdev, value) in settings {
            let property = setting.split('=').next().unwrap_or_default();
            let found = get(&site, property, vdev)?;
            ensure!(found == value, "{setting} of {vdev}: {found}");
        }
        Ok(())
    };
    check()?;
    site.ok("zpool export tank")?;
    site.ok(&format!(
        "zpool import -N -d {} tank",
        site.devices().display()
    ))?;
    check()?;
    site.ok(&format!("zpool set a:b= tank {leaf}"))?;
    ensure!(get(&site, "a:b", leaf)? == "-\tdefault");
    let history = site.ok("zpool history -i tank")?;
    ensure!(
        history.contains(": comment=bay-3\n") && history.contains(": io_n=-1\n"),
        "{history}"
    );
    ensure!(!history.contains("zpool set"), "{history}");
    site.finish()
}

#[test]
fn what_cannot_be_set_is_refused() -> Result<()> {
    let (site, names) = site()?;
    let (leaf, spare) = (&names[1], &names[5]);
    let invalid = "invalid argument for this pool operation";
    for (words, reason) in [
        ("size=3", "'size' is readonly"),
        ("ashift=12", "'ashift' is readonly"),
        ("nosuch=3", "invalid property: 'nosuch'"),
        ("io_t=abc", "bad numeric value 'abc'"),
        ("failfast=inherit", "'failfast' must be one of 'on | off'"),
        (
            "allocating=off",
            "operation not supported on this type of vdev",
        ),
        ("path=/mnt/other", invalid),
    ] {
        let property = words.split('=').next().unwrap_or_default();
        let text = format!("cannot set property {property} for {leaf} on tank: {reason}");
        refused(&site, &format!("{words} tank {leaf}"), 1, &text)?;
    }
    let text = "cannot set property allocating for root-0 on tank: \
                operation not supported on this type of vdev";
    refused(&site, "allocating=off tank root", 1, text)?;
    let text = format!("cannot set property comment for {spare} on tank: {invalid}");
    refused(&site, &format!("comment=x tank {spare}"), 1, &text)?;
    let text = "cannot find '/nowhere' in 'tank': device not in pool";
    refused(&site, "comment=x tank /nowhere", 22, text)?;
    refused(
        &site,
        "comment=x pond disk",
        22,
        "cannot open 'pond': is not a pool",
    )?;
    // The module itself crashes at this.
    let log = &names[4];
    let reason = "operation not supported on this type of vdev";
    let text = format!("cannot set property allocating for {log} on tank: {reason}");
    refused(&site, &format!("allocating=off tank {log}"), 1, &text)?;
    site.finish()
}

fn allocated(site: &Site, vdev: &str) -> Result<u64> {
    Ok(site
        .ok(&format!("zpool get -Hpo value allocated tank {vdev}"))?
        .trim()
        .parse()?)
}

fn available(site: &Site) -> Result<u64> {
    Ok(site.ok("zfs list -Hpo available tank")?.trim().parse()?)
}

#[test]
fn nothing_new_is_put_on_a_vdev_that_does_not_allocate() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let (site, names) = site()?;
    let single = names[0].as_str();
    let before = available(&site)?;
    site.ok("zpool set allocating=off tank mirror-1")?;
    site.ok("zpool sync tank")?;
    let after = available(&site)?;
    // Half of a pool as small as this is reserved.
    let expected = before - 56 * MIB as u64;
    ensure!(
        after.abs_diff(expected) < MIB as u64,
        "{before} and then {after}"
    );
    let last = format!(
        "cannot set property allocating for {single} on tank: \
         invalid argument for this pool operation"
    );
    refused(&site, &format!("allocating=off tank {single}"), 1, &last)?;
    let status = site.ok("zpool status tank")?;
    ensure!(status.matches("(non-allocating)").count() == 3, "{status}");
    let check = |expected: &[&str]| -> Result<()> {
        for (vdev, value) in ["mirror-1", &names[1], single].into_iter().zip(expected) {
            let found = get(&site, "allocating", vdev)?;
            ensure!(found == *value, "{vdev}: {found}");
        }
        Ok(())
    };
    check(&["off\tlocal", "-\t-", "on\tdefault"])?;
    let mirror = allocated(&site, "mirror-1")?;
    for round in 0..2 {
        fs::write(
            site.path("tank").join(format!("file{round}")),
            vec![7; 20 * MIB],
        )?;
        site.ok("zpool sync tank")?;
        ensure!(allocated(&site, "mirror-1")? <= mirror, "round {round}");
        ensure!(allocated(&site, single)? >= (round + 1) * 20 * MIB as u64);
        // The second time in a pool that was imported so.
        site.reopen(&["tank"])?;
        check(&["off\tlocal", "-\t-", "on\tdefault"])?;
    }
    site.ok("zpool set allocating=on tank mirror-1")?;
    fs::write(site.path("tank").join("file2"), vec![7; 20 * MIB])?;
    site.ok("zpool sync tank")?;
    ensure!(
        allocated(&site, "mirror-1")? > mirror + MIB as u64,
        "allocates again"
    );
    ensure!(!site.ok("zpool status tank")?.contains("non-allocating"));
    site.finish()
}

/// While a device sits out, what it has is computed from the others.
#[test]
fn a_device_of_raidz_sits_out_reads() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("raidz1", 128, "-O primarycache=none -O compression=off")?;
    let contents: Vec<u8> = (0..32_u32 << 20).map(|at| (at % 251) as u8).collect();
    let path = site.path("tank").join("file");
    fs::write(&path, &contents)?;
    site.ok("zpool sync tank")?;
    let leaf = |name: &str| site.devices().join(name).display().to_string();
    let (slow, other) = (leaf("d0.img"), leaf("d1.img"));
    let value = |property: &str, vdev: &str| -> Result<String> {
        let found = site.ok(&format!("zpool get -Hpo value {property} tank {vdev}"))?;
        Ok(found.trim_end().to_owned())
    };
    // Past the kernel's cache.
    let read = || -> Result<bool> {
        let direct = OFlags::DIRECT.bits().cast_signed();
        let file = File::options()
            .read(true)
            .custom_flags(direct)
            .open(&path)?;
        let mut found = vec![0; contents.len()];
        file.read_exact_at(&mut found, 0)?;
        Ok(found == contents)
    };
    let reads = |vdev: &str| -> Result<u64> { Ok(value("read_bytes", vdev)?.parse()?) };
    let most_of = |vdev: &str| -> Result<bool> {
        let before = reads(vdev)?;
        ensure!(read()?);
        Ok(reads(vdev)? - before > 4 << 20)
    };
    ensure!(value("sit_out", &slow)? == "off" && most_of(&slow)?);
    site.ok(&format!("zpool set sit_out=on tank {slow}"))?;
    ensure!(value("sit_out", &slow)? == "on" && !most_of(&slow)? && most_of(&other)?);
    site.ok(&format!("zpool set sit_out=off tank {slow}"))?;
    ensure!(most_of(&slow)?, "it takes part again");
    site.ok("zpool set autosit=on tank raidz1-0")?;
    ensure!(value("autosit", "raidz1-0")? == "on");
    for refused in [
        "sit_out=on tank raidz1-0".to_owned(),
        format!("autosit=on tank {slow}"),
    ] {
        let refused = site.fails(&format!("zpool set {refused}"))?;
        let reason = "operation not supported on this type of vdev";
        ensure!(refused.stderr.contains(reason), "{}", refused.report());
    }
    site.finish()
}
