//! `cenote health` and the events of a pool that goes ill: a device that is taken away, a file that
//! rots.

use anyhow::{Context, Result, ensure};
use cenote_tests::missing;
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use rustix::fs::IFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits until an event of this class is on record; its details.
fn event(site: &Site, class: &str) -> Result<String> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let events = site.ok("zpool events -v")?;
        if let Some(at) = events.find(&format!(" {class}\n")) {
            let details = &events[at..];
            return Ok(details.split("\n\n").next().unwrap_or(details).to_owned());
        }
        ensure!(Instant::now() < end, "no {class} in\n{events}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_wrong_is_told_with_what_to_do() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 256, "-O compression=off")?;
    ensure!(
        site.ok("cenote health tank")?
            .contains("tank: well (ONLINE")
    );
    let file = site.path("tank").join("file");
    std::fs::write(&file, vec![7; 4 << 20])?;
    drill(&site, &file)?;
    site.export()?;
    rot(&site)?;
    site.import("")?;
    ensure!(std::fs::read(&file)? == vec![7; 4 << 20]);
    let report = event(&site, "ereport.fs.zfs.checksum")?;
    ensure!(report.contains("vdev_path = ") && report.contains("zio_object = "));
    let ill = site.fails("cenote health tank")?;
    let ill = String::from_utf8(ill.stdout)?;
    ensure!(
        ill.contains("checksum error") && ill.contains("zpool scrub tank"),
        "{ill}"
    );
    let json = site.fails("cenote health -j tank")?.stdout;
    let json: serde_json::Value = serde_json::from_slice(&json)?;
    let findings = json["pools"]["tank"]["findings"].as_array();
    ensure!(!findings.context("no findings")?.is_empty());
    ensure!(site.fails("cenote health other")?.code == Some(3));
    // Counters restart at 0; the next daemon still knows the earlier errors.
    site.ok("zpool clear tank")?;
    site.export()?;
    site.ok("cenote daemon stop")?;
    site.kill()?;
    site.start()?;
    site.import("")?;
    let well = site.ok("cenote health tank")?;
    ensure!(well.starts_with("tank: well"), "{well}");
    // The device may have been degraded, too, if its errors came fast enough.
    let mut earlier = well.lines().filter(|line| line.starts_with("  earlier "));
    ensure!(
        earlier.any(|line| line.contains(".img: ") && line.contains("checksum error")),
        "{well}"
    );
    site.finish()
}

/// Injected faults are real for everything above devices, reported, and gone when they end.
fn drill(site: &Site, file: &Path) -> Result<()> {
    let device = site.devices().join("d1.img");
    let device = device.display();
    // All of them are to be seen.
    site.ok("cenote settings set zfs_checksum_events_per_second=100000")?;
    site.ok(&format!("cenote zinject -d {device} -e io -T read -q tank"))?;
    site.ok("zpool scrub -w tank")?;
    let status = site.ok("zpool status -p tank")?;
    let line = status.lines().find(|line| line.contains("d1.img"));
    let mut words = line.context("no device")?.split_whitespace();
    let errors: u64 = words.nth(2).context("no counter")?.parse()?;
    ensure!(errors > 0, "{status}");
    ensure!(
        std::fs::read(file)? == vec![7; 4 << 20],
        "the other side has it"
    );
    let told = site.fails("cenote health tank")?.text();
    ensure!(told.contains("1 fault is injected on purpose"), "{told}");
    let name = file.display();
    site.ok(&format!("cenote zinject -t data -e checksum -am {name}"))?;
    let listed = site.ok("cenote zinject")?;
    ensure!(
        listed.contains(" checksum ") && listed.contains(" io "),
        "{listed}"
    );
    let lost = std::fs::read(file);
    ensure!(lost.is_err_and(|error| error.raw_os_error() == Some(5)));
    event(site, "sysevent.cenote.drill_begin")?;
    event(site, "ereport.fs.zfs.data")?;
    ensure!(site.fails("cenote zinject -c 7")?.code == Some(1));
    site.ok("cenote zinject -c all")?;
    event(site, "sysevent.cenote.drill_end")?;
    site.ok("cenote settings set zfs_checksum_events_per_second=default")?;
    ensure!(site.ok("cenote zinject")? == "No handlers registered.\n");
    ensure!(
        std::fs::read(file)? == vec![7; 4 << 20],
        "nothing was damaged"
    );
    site.ok("zpool clear tank")?;
    site.ok("zpool wait -t resilver tank")?;
    // What the drill noted as damaged is not.
    site.ok("zpool scrub -w tank")?;
    site.ok("zpool scrub -w tank")?;
    let well = site.ok("cenote health tank")?;
    ensure!(well.contains("tank: well (ONLINE"), "{well}");
    Ok(())
}

/// A mirror's side that was away while the other was written to held nothing wrong for `verify`:
/// its old copies are known to be old, and are not read.
#[test]
fn a_device_that_missed_writes_is_told_by_verify() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 128, "")?;
    let verify = format!(
        "cenote verify -q --all-copies -d {} tank",
        site.devices().display()
    );
    let away = site.devices().join("d1.img");
    let away = away.display();
    site.ok(&format!("zpool offline -t tank {away}"))?;
    std::fs::write(site.path("tank").join("file"), vec![5; 1 << 20])?;
    site.export()?;
    let stale = site.fails(&verify)?;
    let said = stale.text();
    ensure!(stale.code == Some(1), "{}", stale.report());
    ensure!(
        said.contains("  stale devices:\n") && said.contains("d1.img: lacks"),
        "{said}"
    );
    let json = site.fails(&format!("{verify} -j"))?.stdout;
    let json: serde_json::Value = serde_json::from_slice(&json)?;
    ensure!(json["clean"] == false && json["problems"] == 0, "{json}");
    site.import("")?;
    site.ok("zpool wait -t resilver tank")?;
    wait_until("resilvered", || {
        Ok(site.ok("zpool status tank")?.contains("resilvered "))
    })?;
    site.export()?;
    ensure!(site.ok(&verify)?.contains("no problems found"));
    takes_no_writes(&site)?;
    site.judge()
}

/// A device that is in its place and takes no writes was to be put back.
fn takes_no_writes(site: &Site) -> Result<()> {
    let path = site.devices().join("d1.img");
    let device = File::open(&path)?;
    let flags = rustix::fs::ioctl_getflags(&device);
    let refuse = |flags| rustix::fs::ioctl_setflags(&device, flags | IFlags::IMMUTABLE);
    let Some(flags) = flags.ok().filter(|flags| refuse(*flags).is_ok()) else {
        missing!("no file can be made immutable");
        return Ok(());
    };
    let told = site
        .import("")
        .and_then(|_| site.fails("cenote health tank"));
    // Otherwise nobody could remove it.
    rustix::fs::ioctl_setflags(&device, flags)?;
    let told = told?.text();
    let expected = "cannot be written to: Operation not permitted";
    ensure!(
        told.contains(expected) && told.contains("-> make the file writable"),
        "{told}"
    );
    site.ok(&format!("zpool online tank {}", path.display()))?;
    site.ok("zpool wait -t resilver tank")?;
    ensure!(site.ok("zpool status tank")?.contains("state: ONLINE"));
    site.export()
}

/// Overwrites what a file's data lie on, on the first device, behind its labels.
fn rot(site: &Site) -> Result<()> {
    let first = std::fs::read_dir(site.devices())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    let path = first.iter().min().context("no devices")?;
    let device = OpenOptions::new().read(true).write(true).open(path)?;
    let wanted = vec![7; 4096];
    let mut found = vec![0; 4096];
    let mut spoiled = 0;
    let sectors = device.metadata()?.len() / 4096;
    for sector in 1024..sectors - 1024 {
        device.read_exact_at(&mut found, sector * 4096)?;
        if found == wanted {
            device.write_all_at(&[0xAA; 4096], sector * 4096)?;
            spoiled += 1;
        }
    }
    ensure!(spoiled > 0, "the file's data were not found");
    Ok(())
}
