//! Volumes as files, and images of volumes: what goes in comes out, and holes stay holes.

use anyhow::{Context, Result, ensure};
use cenote_tests::network::noise;
use cenote_tests::patience::wait_until;
use cenote_tests::site::Site;
use cenote_tests::{missing, pool};
use rustix::fs::FallocateFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 40 * MIB;

/// An image with data at its ends and in its middle, the rest holes; not a multiple of a block.
fn make_image(path: &Path, seed: u64) -> Result<()> {
    let file = File::create(path)?;
    file.set_len(SIZE + 512)?;
    for (number, at) in [0, 7 * MIB + 512, 20 * MIB, SIZE - 5000]
        .into_iter()
        .enumerate()
    {
        file.write_all_at(&noise(seed + number as u64, 5512), at)?;
    }
    Ok(())
}

/// Whether a volume's image begins with an image and has only zeros behind it.
fn is_image_of(found: &Path, image: &Path) -> Result<()> {
    let (found, image) = (fs::read(found)?, fs::read(image)?);
    ensure!(found.len() as u64 == 41 * MIB, "{} bytes", found.len());
    ensure!(found[..image.len()] == image, "other bytes");
    ensure!(found[image.len()..].iter().all(|byte| *byte == 0));
    Ok(())
}

#[test]
fn images_go_in_and_come_out() -> Result<()> {
    let site = Site::create("single", 256, "")?;
    let at = |name: &str| site.cenote().directory().join(name);
    let word = |name: &str| at(name).display().to_string();
    make_image(&at("image"), 1)?;
    make_image(&at("other"), 50)?;
    let (image, out) = (word("image"), word("out"));
    let import = format!("cenote volume import -q {image} tank/a");
    site.ok(&format!("{import} -o compression=off"))?;
    ensure!(site.ok("zfs get -Hpo value volsize,compression tank/a")? == "42991616\noff\n");
    site.ok(&format!("cenote volume export -q tank/a {out}"))?;
    is_image_of(&at("out"), &at("image"))?;
    ensure!(
        fs::metadata(at("out"))?.blocks() * 512 < 2 * MIB,
        "the holes are filled"
    );
    let used: u64 = site.ok("zfs get -Hpo value used tank/a")?.trim().parse()?;
    ensure!(used < 2 * MIB, "{used} bytes for four pieces of 5 KiB");

    let refused = site.fails(&import)?.stderr;
    ensure!(refused.contains("tank/a exists; use -f"), "{refused}");
    let refused = site
        .fails(&format!("cenote volume export tank/a {out}"))?
        .stderr;
    ensure!(refused.contains("exists; use -f"), "{refused}");
    site.ok("zfs snapshot tank/a@first")?;
    let other = word("other");
    let line = format!("cenote volume import -f --json {other} tank/a");
    let report = site.ok(&line)?;
    ensure!(report.contains("\"format\":\"raw\""), "{report}");
    site.ok(&format!("cenote volume export -q -f tank/a {out}"))?;
    is_image_of(&at("out"), &at("other"))?;
    let first = word("first");
    site.ok(&format!("cenote volume export -q tank/a@first {first}"))?;
    is_image_of(&at("first"), &at("image"))?;
    site.ok("zfs create -s -V 8M tank/small")?;
    let line = format!("cenote volume import -f {image} tank/small");
    let refused = site.fails(&line)?.stderr;
    ensure!(refused.contains("zfs set volsize="), "{refused}");

    if Command::new("qemu-img").arg("--version").output().is_err() {
        missing!("qemu-img is not installed");
        return site.finish();
    }
    let qcow = word("a.qcow2");
    site.ok(&format!(
        "cenote volume export -q --format qcow2 tank/a@first {qcow}"
    ))?;
    let said = site.ok(&format!("cenote volume import {qcow} tank/b"))?;
    ensure!(said.is_empty(), "progress is not for a log: {said:?}");
    site.ok(&format!("cenote volume export -q -f tank/b {out}"))?;
    is_image_of(&at("out"), &at("image"))?;
    let status = site.ok("cenote nbd status --json")?;
    ensure!(!status.contains("tank/a"), "served still: {status}");
    site.finish()
}

/// Whether a command fails and says this.
fn fails(site: &Site, line: &str, with: &str) -> Result<()> {
    let said = site.fails(line)?.stderr;
    ensure!(said.contains(with), "{line}: {said}");
    Ok(())
}

/// An image that named a file of this machine put it into the volume. What failed left a volume
/// with a part of an image, and a smaller image left the end of the other disk.
#[test]
fn images_go_in_as_a_whole_and_alone() -> Result<()> {
    let site = Site::create("single", 256, "")?;
    let at = |name: &str| site.cenote().directory().join(name);
    let word = |name: &str| at(name).display().to_string();
    let mut overlay = vec![0; 1024];
    overlay[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    overlay[15] = 104;
    fs::write(at("overlay"), overlay)?;
    for format in ["", "--format qcow2"] {
        let line = format!(
            "cenote volume import -q {format} {} tank/o",
            word("overlay")
        );
        fails(&site, &line, "has a backing file in another file")?;
    }
    fs::write(
        at("text"),
        "# Disk DescriptorFile\nRW 8 FLAT \"/etc/passwd\" 0\n",
    )?;
    let line = format!("cenote volume import --format vmdk {} tank/o", word("text"));
    fails(&site, &line, "has its extents in another file")?;
    site.fails("zfs list tank/o")?;

    fs::write(at("large"), noise(1, 12 << 20))?;
    fs::write(at("small"), noise(2, 5 << 20))?;
    let (large, small, out) = (word("large"), word("small"), word("out"));
    site.ok(&format!("cenote volume import -q {large} tank/a"))?;
    site.ok(&format!("cenote volume import -q -f {small} tank/a"))?;
    site.ok(&format!("cenote volume export -q tank/a {out}"))?;
    let found = fs::read(at("out"))?;
    ensure!(found[..5 << 20] == fs::read(at("small"))?, "other bytes");
    ensure!(found[5 << 20..].iter().all(|byte| *byte == 0), "a rest");

    site.ok("zfs create -o quota=4M tank/few")?;
    let line = format!("cenote volume import -q {large} tank/few/a");
    fails(&site, &line, "tank/few/a was not created")?;
    site.fails("zfs list tank/few/a")?;
    site.ok("zfs set readonly=on tank/a")?;
    let line = format!("cenote volume import -f {small} tank/a");
    fails(&site, &line, "is read-only")?;
    site.ok("zfs set readonly=off tank/a")?;
    site.finish()
}

/// An export over a FIFO or a disk replaced it by a file. Exports of one volume ended each other,
/// and what the user served.
#[test]
fn images_come_out_beside_one_another() -> Result<()> {
    let site = Site::create("single", 256, "")?;
    let at = |name: &str| site.cenote().directory().join(name);
    let word = |name: &str| at(name).display().to_string();
    site.ok("zfs create -s -V 8M tank/a")?;
    fs::write(at("out"), "")?;
    let pipe = at("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0)?;
    let line = format!("cenote volume export -f tank/a {}", word("pipe"));
    fails(&site, &line, "is not a regular file")?;
    std::os::unix::fs::symlink(at("out"), at("link"))?;
    site.ok("zfs snapshot tank/a@one")?;
    site.ok("cenote nbd serve tank/a@one")?;
    site.ok(&format!(
        "cenote volume export -q -f tank/a@one {}",
        word("link")
    ))?;
    ensure!(fs::symlink_metadata(at("link"))?.is_symlink());
    let status = site.ok("cenote nbd status")?;
    ensure!(status.contains("tank/a@one"), "it ended: {status}");
    let part = File::create(at("busy.part"))?;
    rustix::fs::flock(&part, rustix::fs::FlockOperation::LockExclusive)?;
    let line = format!("cenote volume export tank/a {}", word("busy"));
    fails(&site, &line, "another export writes to it")?;
    site.finish()
}

#[test]
fn volumes_are_files() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "")?;
    site.ok("zfs create tank/vms")?;
    for name in ["tank/vms/a", "tank/b"] {
        site.ok(&format!("zfs create -s -V 16M -o compression=off {name}"))?;
    }
    // More than a server has room for with several connections to each.
    for number in 0..70 {
        site.ok(&format!("zfs create -s -V 1M tank/few{number}"))?;
    }
    let directory = site.cenote().subdirectory("volumes")?;
    let word = directory.display().to_string();
    let mut command = site
        .cenote()
        .command("cenote", &["volumes", "mount", &word]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
    let said: Vec<String> = lines.by_ref().take(72).collect::<Result<_, _>>()?;
    ensure!(
        said[71] == format!("tank/vms/a is {word}/tank/vms/a"),
        "{said:?}"
    );
    let result = (|| {
        let path = directory.join("tank/vms/a");
        let file = File::options().read(true).write(true).open(&path)?;
        ensure!(file.metadata()?.len() == 16 * MIB);
        file.write_all_at(&noise(1, 3 * MIB), 1000)?;
        let whole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, whole, MIB, MIB)?;
        file.sync_all()?;
        let mut expected = noise(1, 3 * MIB);
        expected[(MIB - 1000) as usize..(2 * MIB - 1000) as usize].fill(0);
        let mut found = vec![0; expected.len()];
        file.read_exact_at(&mut found, 1000)?;
        ensure!(found == expected, "other bytes");
        ensure!(
            file.write_all_at(&[1], 16 * MIB).is_err(),
            "it does not grow"
        );
        let names: Vec<_> = fs::read_dir(directory.join("tank"))?.collect::<Result<_, _>>()?;
        ensure!(names.len() == 72, "{names:?}");
        let refused = site.fails("zfs destroy tank/vms/a")?;
        ensure!(refused.stderr.contains("busy"), "{}", refused.stderr);
        drop(file);
        // Space is given back by transaction groups.
        wait_until("the hole takes no space", || {
            site.ok("zpool sync tank")?;
            let used = site.ok("zfs get -Hpo value used tank/vms/a")?;
            Ok(used.trim().parse::<u64>()? < 3 * MIB)
        })
    })();
    let process = Pid::from_raw(i32::try_from(child.id())?).context("a process")?;
    kill_process(process, Signal::INT)?;
    ensure!(child.wait()?.success(), "it failed");
    result?;
    let out = site.cenote().directory().join("out");
    site.ok(&format!(
        "cenote volume export -q tank/vms/a {}",
        out.display()
    ))?;
    ensure!(fs::read(out)?[1000..5000] == noise(1, 3 * MIB)[..4000]);
    site.finish()
}
