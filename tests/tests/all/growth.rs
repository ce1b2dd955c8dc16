//! Devices that grow under their pool: what lists say, `zpool online -e` and `autoexpand`.

use anyhow::{Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use std::fs::File;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// A device of the site with this many MiB, made or changed.
fn sized(site: &Site, number: u32, mebibytes: u64) -> Result<PathBuf> {
    let path = site.devices().join(format!("tank-{number:02}.img"));
    let file = File::options().create(true).append(true).open(&path)?;
    file.set_len(mebibytes * MIB)?;
    Ok(path)
}

fn column(site: &Site, name: &str) -> Result<String> {
    Ok(site
        .ok(&format!("zpool list -Hpo {name} tank"))?
        .trim()
        .to_owned())
}

/// Size and EXPANDSZ of each line of `zpool list -v`.
fn listed(site: &Site) -> Result<Vec<(String, String)>> {
    let list = site.ok("zpool list -Hv tank")?;
    let words = list.lines().map(|line| {
        let words: Vec<&str> = line.split('\t').filter(|word| !word.is_empty()).collect();
        (words[1].to_owned(), words[5].to_owned())
    });
    Ok(words.collect())
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = expected
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
    owned.collect()
}

/// The figures are those that OpenZFS's module gave for the same sizes.
#[test]
fn a_mirror_grows_when_all_its_devices_have() -> Result<()> {
    let site = Site::new("tank")?;
    let devices = [sized(&site, 0, 128)?, sized(&site, 1, 128)?];
    let [first, second] = devices.each_ref().map(|path| path.display());
    site.ok(&format!(
        "zpool create -O mountpoint=none tank mirror {first} {second}"
    ))?;
    let before = pairs(&[("112M", "-"), ("112M", "-"), ("128M", "-"), ("128M", "-")]);
    ensure!(listed(&site)? == before, "{:?}", listed(&site)?);
    sized(&site, 0, 300)?;
    let one = listed(&site)?;
    ensure!(
        one[..2] == before[..2] && one[2].1 == "160M" && one[3].1 == "-",
        "{one:?}"
    );
    site.ok(&format!("zpool online -e tank {first}"))?;
    ensure!(column(&site, "size")? == (112 * MIB).to_string());
    sized(&site, 1, 300)?;
    ensure!(column(&site, "expandsize")? == (160 * MIB).to_string());
    site.ok(&format!("zpool online tank {first}"))?;
    ensure!(
        column(&site, "size")? == (112 * MIB).to_string(),
        "without -e"
    );
    site.ok(&format!("zpool online -e tank {first} {second}"))?;
    let after = pairs(&[("288M", "-"), ("288M", "-"), ("300M", "-"), ("300M", "-")]);
    ensure!(listed(&site)? == after, "{:?}", listed(&site)?);
    let history = site.ok("zpool history tank")?;
    ensure!(
        history.contains(&format!("zpool online -e tank {first} {second}\n")),
        "{history}"
    );
    ensure!(
        site.ok("zpool events -H")?
            .contains("sysevent.fs.zfs.vdev_online\n")
    );
    site.ok("zpool export tank")?;
    site.ok(&format!(
        "zpool import -d {} tank",
        site.devices().display()
    ))?;
    ensure!(column(&site, "size")? == (288 * MIB).to_string());
    site.finish()
}

#[test]
fn devices_that_are_not_there_are_named() -> Result<()> {
    let site = Site::new("tank")?;
    let device = sized(&site, 0, 128)?;
    site.ok(&format!(
        "zpool create -O mountpoint=none tank {}",
        device.display()
    ))?;
    let refused = site.fails("zpool online tank /nowhere")?;
    let text = "couldn't find device \"/nowhere\" in pool \"tank\"\n";
    ensure!(
        refused.code == Some(1) && refused.stderr == text,
        "{}",
        refused.report()
    );
    let refused = site.fails("zpool online tank")?;
    ensure!(refused.code == Some(2) && refused.stderr.starts_with("missing device name\n"));
    let refused = site.fails("zpool online pond x")?;
    let text = "cannot open 'pond': no such pool\nfailed to open pool \"pond\"\n";
    ensure!(
        refused.code == Some(1) && refused.stderr == text,
        "{}",
        refused.report()
    );
    site.finish()
}

/// Waits until the pool has this size.
fn until_size(site: &Site, mebibytes: u64) -> Result<()> {
    let size = (mebibytes * MIB).to_string();
    wait_until("of that size", || Ok(column(site, "size")? == size))
}

/// Waits until the pool has said so: when its group is on disk, a while after its size is shown.
fn until_it_says_so(site: &Site) -> Result<()> {
    let class = "sysevent.fs.zfs.vdev_autoexpand\n";
    wait_until("said", || Ok(site.ok("zpool events -H")?.contains(class)))
}

#[test]
fn autoexpand_needs_nobody() -> Result<()> {
    let site = Site::new("tank")?;
    let device = sized(&site, 0, 128)?;
    let device = device.display();
    site.ok(&format!(
        "zpool create -O mountpoint=none -o autoexpand=on tank {device}"
    ))?;
    sized(&site, 0, 200)?;
    until_size(&site, 192)?;
    until_it_says_so(&site)?;
    site.ok("zpool set autoexpand=off tank")?;
    sized(&site, 0, 300)?;
    ensure!(column(&site, "expandsize")? == (96 * MIB).to_string());
    site.ok("zpool set autoexpand=on tank")?;
    until_size(&site, 288)?;
    site.ok("zpool set autoexpand=off tank")?;
    site.ok("zpool export tank")?;
    sized(&site, 0, 400)?;
    let directory = site.devices().display();
    site.ok(&format!("zpool import -d {directory} tank"))?;
    ensure!(
        column(&site, "size")? == (288 * MIB).to_string(),
        "it was not requested"
    );
    site.ok("zpool export tank")?;
    site.ok(&format!(
        "zpool import -d {directory} -o autoexpand=on -o comment=grown tank"
    ))?;
    until_size(&site, 384)?;
    ensure!(column(&site, "comment")? == "grown" && column(&site, "autoexpand")? == "on");
    site.finish()
}

/// What a pool gained can be written to.
#[test]
fn a_full_pool_has_room_again() -> Result<()> {
    let site = Site::new("tank")?;
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let devices: Vec<PathBuf> = (0..3).map(|n| sized(&site, n, 64)).collect::<Result<_>>()?;
    let words: Vec<String> = devices
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let root = site.path("").display().to_string();
    let words = words.join(" ");
    site.ok(&format!(
        "zpool create -O compression=off -R {root} tank raidz1 {words}"
    ))?;
    let file = site.path("tank").join("file");
    let fill = |path: &Path| std::fs::write(path, vec![1; 150 << 20]);
    let refused = fill(&file).expect_err("more than there is room for");
    ensure!(refused.raw_os_error() == Some(28), "{refused}");
    (0..3).try_for_each(|number| sized(&site, number, 256).map(drop))?;
    site.ok(&format!("zpool online -e tank {words}"))?;
    fill(&file)?;
    site.reopen(&["tank"])?;
    ensure!(std::fs::read(&file)? == vec![1; 150 << 20]);
    site.finish()
}
