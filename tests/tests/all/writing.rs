//! Writing through the program: commands, the daemon, mounts, and system calls on them.
//!
//! Each test ends with an export, and OpenZFS's judgement of the pool where it is installed.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::{self, Site};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that do not compress, by seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Files and directories of many sizes and depths.
fn plant(root: &Path, files: u64) -> Result<()> {
    let mut random = Random::new(files);
    for number in 0..files {
        let directory = root.join(format!("d{}/e{}", number % 5, number % 3));
        fs::create_dir_all(&directory)?;
        let bits = 4 + random.below(15);
        let length = random.below(1 << bits) as usize;
        let data = noise(number, length);
        fs::write(directory.join(format!("file-{number}")), data)?;
    }
    std::os::unix::fs::symlink("d0/e0", root.join("link"))?;
    Ok(())
}

/// What `cp -a` makes of a tree must be that tree.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = std::process::Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()?;
    ensure!(status.success(), "cp failed");
    Ok(())
}

fn life_of_files(layout: &str) -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create(layout, 192, "-O compression=lz4")?;
    site.ok("zfs create tank/files")?;
    let root = site.path("tank/files");
    let source = site.cenote().subdirectory("source")?;
    plant(&source, 120)?;
    copy(&source, &root)?;
    change_contents(&root)?;
    change_names(&root)?;
    site.reopen(&["tank/files", "tank"])?;
    let copied = root.join("source");
    let difference = std::process::Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([&source, &copied])
        .output()?;
    ensure!(
        difference.status.success(),
        "the copy differs: {difference:?}"
    );
    // After an import as before it: everything can be changed and removed.
    change_contents(&root)?;
    fs::remove_dir_all(copied)?;
    site.reopen(&["tank/files"])?;
    site.finish()
}

/// Overwrites, appends, truncates, punches; extended attributes.
fn change_contents(root: &Path) -> Result<()> {
    let path = root.join("changed");
    let mut wanted = noise(1, 700_000);
    fs::write(&path, &wanted)?;
    let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
    file.write_all_at(b"over", 131_070)?;
    wanted[131_070..131_074].copy_from_slice(b"over");
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, 100_000, 400_000)?;
    wanted[100_000..500_000].fill(0);
    file.set_len(600_001)?;
    file.set_len(650_000)?;
    wanted.truncate(600_001);
    wanted.resize(650_000, 0);
    file.seek(SeekFrom::End(0))?;
    file.write_all(b"appended")?;
    wanted.extend(b"appended");
    file.sync_all()?;
    ensure!(fs::read(&path)? == wanted, "other contents than written");
    for length in [0, 10, 5_000, 40_000] {
        let name = format!("user.of-{length}");
        let value = noise(length, length as usize);
        rustix::fs::setxattr(
            &path,
            name.as_str(),
            &value,
            rustix::fs::XattrFlags::empty(),
        )?;
        let mut found = vec![0_u8; 65_536];
        let size = rustix::fs::getxattr(&path, name.as_str(), &mut found)?;
        ensure!(found[..size] == value, "another value of {name}");
    }
    rustix::fs::removexattr(&path, "user.of-10")?;
    Ok(())
}

/// Hard links, renames over others, files without names.
fn change_names(root: &Path) -> Result<()> {
    let path = |name: &str| root.join(name);
    fs::write(path("one"), "one")?;
    fs::hard_link(path("one"), path("two"))?;
    fs::write(path("victim"), noise(2, 300_000))?;
    let mut held = File::open(path("victim"))?;
    fs::rename(path("two"), path("victim"))?;
    ensure!(fs::metadata(path("one"))?.nlink() == 2, "two names");
    let mut bytes = Vec::new();
    held.read_to_end(&mut bytes)?;
    ensure!(bytes == noise(2, 300_000), "a file that is open stays");
    drop(held);
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let unnamed: File = rustix::fs::open(root, flags, Mode::from_raw_mode(0o640))?.into();
    unnamed.write_all_at(b"named later", 0)?;
    let descriptor = format!("/proc/self/fd/{}", unnamed.as_raw_fd());
    let target = path("named");
    rustix::fs::linkat(CWD, descriptor, CWD, &target, AtFlags::SYMLINK_FOLLOW)?;
    ensure!(
        fs::read(target)? == b"named later",
        "the contents come along"
    );
    let _forgotten: File = rustix::fs::open(root, flags, Mode::from_raw_mode(0o600))?.into();
    ensure!(fs::read_dir(root)?.count() >= 3, "names are listed");
    Ok(())
}

macro_rules! test_each_layout {
    ($($layout:ident),*) => {
        $(
            #[test]
            fn $layout() -> Result<()> {
                life_of_files(stringify!($layout))
            }
        )*
    };
}

test_each_layout!(single, mirror, raidz1, classes);

/// A full pool refuses, answers, and has room again after files went away.
///
/// Once the maps of metaslabs promised ranges that were taken since their last rewriting: OpenZFS
/// trusted them, and failed on the first metaslab that it loaded.
#[test]
fn a_full_pool_recovers() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O compression=off")?;
    let root = site.path("tank");
    fs::write(root.join("kept"), noise(9, 100_000))?;
    let free = rustix::fs::statvfs(&root)?;
    let free = free.f_bavail * free.f_frsize;
    ensure!(free > 50 << 20 && free < 128 << 20, "{free} bytes are free");
    let written = fill(&root.join("big"))?;
    ensure!(written > free / 2, "only {written} of {free} bytes fit");
    let start = Instant::now();
    ensure!(fs::read(root.join("kept"))? == noise(9, 100_000), "changed");
    fs::remove_file(root.join("big"))?;
    ensure!(start.elapsed() < Duration::from_secs(10), "not responsive");
    wait_for_room(&root, free * 3 / 4)?;
    fs::write(root.join("after"), noise(3, 20 << 20))?;
    site.reopen(&["tank"])?;
    site.finish()
}

/// Writes until there is no room; returns how much went in.
fn fill(path: &Path) -> Result<u64> {
    let mut file = File::create(path)?;
    let piece = noise(4, 1 << 20);
    let mut written = 0;
    loop {
        let result = file
            .write_all(&piece)
            .and_then(|()| match written % (32 << 20) {
                0 => file.sync_all(),
                _ => Ok(()),
            });
        match result {
            Ok(()) => written += piece.len() as u64,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(written),
            Err(error) => return Err(error).context("not ENOSPC"),
        }
        ensure!(written < 1 << 30, "a pool without an end");
    }
}

fn wait_for_room(root: &Path, wanted: u64) -> Result<()> {
    wait_until("free again", || {
        let found = rustix::fs::statvfs(root)?;
        Ok(found.f_bavail * found.f_frsize >= wanted)
    })
}

/// A daemon that is killed leaves what was synced, and nothing half done.
#[test]
fn a_killed_daemon_loses_nothing_synced() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("raidz1", 192, "-O compression=lz4")?;
    let root = site.path("tank");
    for round in 0..3_u64 {
        let directory = root.join(format!("round-{round}"));
        fs::create_dir(&directory)?;
        for number in 0..4 {
            let file = File::create(directory.join(format!("synced-{number}")))?;
            file.write_all_at(&noise(number, 150_000), 0)?;
            file.sync_all()?;
        }
        // The kill finds this in the middle.
        for number in 0..20 {
            fs::write(
                directory.join(format!("loose-{number}")),
                noise(number, 90_000),
            )?;
        }
        site.crash()?;
        site.import("-f")?;
        for number in 0..4 {
            let path = directory.join(format!("synced-{number}"));
            let found = fs::read(&path).with_context(|| path.display().to_string())?;
            ensure!(
                found == noise(number, 150_000),
                "{} changed",
                path.display()
            );
        }
        for entry in fs::read_dir(&directory)? {
            // Any prefix may be there, and has to be readable.
            fs::read(entry?.path())?;
        }
    }
    site.finish()
}

/// Datasets by command: properties, renames, volumes, destruction.
#[test]
fn datasets_change_by_command() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("mirror", 192, "")?;
    site.ok("zfs create -o recordsize=16K -o atime=off tank/a")?;
    site.ok("zfs create -p tank/b/c/d")?;
    site.ok("zfs create -V 16M tank/volume")?;
    fs::write(site.path("tank/a").join("file"), noise(5, 100_000))?;
    site.ok("zfs set compression=zstd tank")?;
    site.ok("zfs set org.example:note=hello tank/b")?;
    let value = |property: &str, dataset: &str| -> Result<String> {
        let line = format!("zfs get -H -o value {property} {dataset}");
        Ok(site.ok(&line)?.trim().to_string())
    };
    assert_eq!(value("compression", "tank/a")?, "zstd");
    assert_eq!(value("org.example:note", "tank/b/c/d")?, "hello");
    site.ok("zfs inherit org.example:note tank/b")?;
    assert_eq!(value("org.example:note", "tank/b/c")?, "-");
    site.ok("zfs set quota=32M tank/a")?;
    site.ok("zfs rename tank/a tank/b/a")?;
    assert_eq!(
        fs::read(site.path("tank/b/a").join("file"))?,
        noise(5, 100_000)
    );
    site.ok("zfs rename tank/volume tank/b/volume")?;
    site.fails("zfs destroy tank/b/c")?;
    site.ok("zfs destroy -r tank/b/c")?;
    site.fails("zfs create tank/b/a")?;
    site.fails("zfs set recordsize=3K tank/b/a")?;
    site.reopen(&["tank", "tank/b", "tank/b/a"])?;
    let names = site.ok("zfs list -H -o name")?;
    let names: Vec<&str> = names.lines().collect();
    assert_eq!(names, ["tank", "tank/b", "tank/b/a", "tank/b/volume"]);
    assert_eq!(value("quota", "tank/b/a")?, "32M");
    site.ok("zfs destroy tank/b/volume")?;
    site.finish()
}

/// A short run of the model for every day; `cargo xtask model` does longer ones.
#[test]
fn random_operations() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let report = cenote_tests::model::run(&cenote_tests::model::Options {
        seed: 2,
        operations: 600,
        reopen_interval: 300,
        workers: 1,
        kills: 0,
    })?;
    assert_eq!(report.reopened, 2);
    Ok(())
}

/// Workers on common file systems, properties that change, and a daemon that is killed twice.
#[test]
fn random_operations_and_crashes() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let report = cenote_tests::model::run(&cenote_tests::model::Options {
        seed: 5,
        operations: 900,
        reopen_interval: 450,
        workers: 3,
        kills: 2,
    })?;
    assert_eq!(report.reopened, 2);
    Ok(())
}

/// OpenZFS and Cenote take turns on the same pool.
#[test]
fn openzfs_takes_turns() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    cenote_tests::pingpong::run(&cenote_tests::pingpong::Options {
        seed: 1,
        rounds: 1,
        operations: 100,
        foreign_operations: 20,
    })?;
    Ok(())
}

/// Every layout that the suites know can be made, even if no test above uses it.
#[test]
fn all_layouts_are_made() -> Result<()> {
    for layout in site::layouts() {
        let site = Site::create(layout, 128, "-O mountpoint=none")?;
        site.ok("zfs create tank/inner")?;
        site.export().with_context(|| layout.to_string())?;
    }
    Ok(())
}
