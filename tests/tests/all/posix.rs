//! A mount is a POSIX file system: every operation that FUSE carries, on real mounts, and what
//! OpenZFS says of the pool afterwards.
//!
//! The chapters share one pool and have a dataset each, so that all of them cost one export.

use crate::posix_flags::{dos_attributes, projects};
use anyhow::{Context, Result, ensure};
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use cenote_tests::{missing, pool};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, IFlags, Mode, OFlags, RenameFlags, SeekFrom,
    StatxFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// `O_APPEND` for the standard library's options.
const O_APPEND: i32 = 0o2000;

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// The error of an operation that must fail.
pub(crate) fn errno<T>(result: Result<T, impl Into<std::io::Error>>) -> Result<Errno> {
    let Err(error) = result else {
        anyhow::bail!("it was allowed");
    };
    let number = error
        .into()
        .raw_os_error()
        .context("an error of the system")?;
    Ok(Errno::from_raw_os_error(number))
}

type Chapter = fn(&Site, &Path) -> Result<()>;

#[test]
fn a_mount_is_a_posix_file_system() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("raidz1", 128, "-O compression=lz4")?;
    let chapters: [(&str, &str, Chapter); 9] = [
        ("contents", "", contents),
        ("holes", "-o recordsize=16K", holes),
        ("names", "", names),
        ("unnamed", "", unnamed),
        ("flags", "", flags),
        ("times", "-o relatime=off", times),
        ("listing", "", listing),
        ("locks", "", locks),
        ("clones", "-o recordsize=32K", clones),
    ];
    let mut datasets = Vec::new();
    for (name, options, chapter) in chapters {
        let dataset = format!("tank/{name}");
        site.ok(&format!("zfs create {options} {dataset}"))?;
        chapter(&site, &site.path(&dataset)).with_context(|| format!("chapter {name}"))?;
        datasets.push(dataset);
    }
    let datasets: Vec<&str> = datasets.iter().map(String::as_str).collect();
    site.reopen(&datasets)?;
    let times = site.path("tank/times");
    let noted = fs::read_to_string(times.join("noted"))?;
    let found = fs::metadata(times.join("file"))?.atime_nsec().to_string();
    // The walk before the export read the file: not again, by relatime.
    ensure!(
        noted == found,
        "a read that was forgotten: {noted}, {found}"
    );
    site.finish()
}

/// Appending, sparse writing, truncation, and several writers of one file.
fn contents(_: &Site, root: &Path) -> Result<()> {
    let path = root.join("file");
    let mut appended = OpenOptions::new().create(true).append(true).open(&path)?;
    let mut other = OpenOptions::new().append(true).open(&path)?;
    for number in 0..50_u64 {
        let file = if number % 2 == 0 {
            &mut appended
        } else {
            &mut other
        };
        file.write_all(&noise(number, 1000))?;
    }
    let expected: Vec<u8> = (0..50).flat_map(|number| noise(number, 1000)).collect();
    ensure!(fs::read(&path)? == expected, "appended by two");
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    file.write_all_at(b"far", 1 << 33)?;
    ensure!(fs::metadata(&path)?.len() == (1 << 33) + 3);
    file.set_len(30_000)?;
    file.set_len(40_000)?;
    let mut wanted = expected;
    wanted.truncate(30_000);
    wanted.resize(40_000, 0);
    ensure!(fs::read(&path)? == wanted, "cut and grown");
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let file = &file;
                scope.spawn(move || {
                    for turn in 0..20 {
                        let place = turn * 40_000 + writer * 10_000;
                        file.write_all_at(&noise(place, 10_000), place)?;
                    }
                    Ok::<(), std::io::Error>(())
                })
            })
            .collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().expect("no panic"))
    })?;
    let wanted: Vec<u8> = (0..80).flat_map(|i| noise(i * 10_000, 10_000)).collect();
    ensure!(fs::read(&path)? == wanted, "four writers");
    mapped(root)
}

/// A shared mapping: what it writes is in the file, and what the file gets is in it.
fn mapped(root: &Path) -> Result<()> {
    const SCRIPT: &str = "
import mmap, os, sys
f = open(sys.argv[1], 'w+b')
f.truncate(300001)
m = mmap.mmap(f.fileno(), 0)
m[0:5] = b'first'
m[299990:300001] = b'to the end.'
os.pwrite(f.fileno(), b'written', 131070)
assert m[131070:131077] == b'written'
m[200000:200010] = b'x' * 10
m.flush()
data = open(sys.argv[1], 'rb').read()
assert len(data) == 300001 and data[:5] == b'first' and data[-11:] == b'to the end.'
assert data[131070:131077] == b'written' and data[200000:200010] == b'x' * 10
os.unlink(sys.argv[1])
m[0:5] = b'after'
assert os.pread(f.fileno(), 5, 0) in (b'first', b'after')
m.close()
";
    let path = root.join("mapped");
    let python = Command::new("python3")
        .arg("-c")
        .arg(SCRIPT)
        .arg(path)
        .output();
    let Ok(output) = python else {
        missing!("there is no python3");
        return Ok(());
    };
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

/// Where `lseek` finds data and holes, before and after they are on disk, and `fallocate`.
fn holes(_: &Site, root: &Path) -> Result<()> {
    const BLOCK: u64 = 16 << 10;
    let path = root.join("sparse");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    file.write_all_at(&noise(1, 16 << 10), 2 * BLOCK)?;
    file.write_all_at(&noise(2, 16 << 10), 9 * BLOCK)?;
    file.set_len(20 * BLOCK)?;
    for _ in 0..2 {
        let data = |from| rustix::fs::seek(&file, SeekFrom::Data(from));
        let hole = |from| rustix::fs::seek(&file, SeekFrom::Hole(from));
        ensure!(data(0)? == 2 * BLOCK && hole(0)? == 0);
        ensure!(hole(2 * BLOCK)? == 3 * BLOCK && data(3 * BLOCK)? == 9 * BLOCK);
        ensure!(hole(9 * BLOCK + 5)? == 10 * BLOCK);
        ensure!(errno(data(10 * BLOCK))? == Errno::NXIO, "no data behind");
        ensure!(errno(hole(20 * BLOCK))? == Errno::NXIO, "the end");
        file.sync_all()?;
    }
    let allocate = |flags, offset, length| rustix::fs::fallocate(&file, flags, offset, length);
    let keep = FallocateFlags::KEEP_SIZE;
    allocate(FallocateFlags::PUNCH_HOLE | keep, 2 * BLOCK + 100, 10_000)?;
    let mut wanted = vec![0; 20 * BLOCK as usize];
    let place = |block: u64| (block * BLOCK) as usize;
    wanted[place(2)..place(3)].copy_from_slice(&noise(1, 16 << 10));
    wanted[place(2) + 100..place(2) + 10_100].fill(0);
    allocate(FallocateFlags::ZERO_RANGE, 9 * BLOCK, 20 * BLOCK)?;
    wanted.resize(29 * BLOCK as usize, 0);
    ensure!(fs::read(&path)? == wanted, "punched and zeroed");
    allocate(FallocateFlags::ZERO_RANGE | keep, 29 * BLOCK, BLOCK)?;
    allocate(keep, 29 * BLOCK, BLOCK)?;
    ensure!(file.metadata()?.len() == 29 * BLOCK, "the size was to stay");
    allocate(FallocateFlags::empty(), 29 * BLOCK, 100)?;
    ensure!(file.metadata()?.len() == 29 * BLOCK + 100);
    for refused in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        ensure!(errno(allocate(refused, 0, BLOCK))? == Errno::OPNOTSUPP);
    }
    Ok(())
}

fn rename(root: &Path, from: &str, to: &str, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(CWD, root.join(from), CWD, root.join(to), flags)
}

/// Renames of all kinds, links, and names that cannot be.
fn names(_: &Site, root: &Path) -> Result<()> {
    let path = |name: &str| root.join(name);
    fs::write(path("a"), "of a")?;
    fs::write(path("b"), "of b")?;
    let none = RenameFlags::empty();
    ensure!(errno(rename(root, "a", "b", RenameFlags::NOREPLACE))? == Errno::EXIST);
    rename(root, "a", "c", RenameFlags::NOREPLACE)?;
    rename(root, "b", "c", RenameFlags::EXCHANGE)?;
    ensure!(fs::read(path("b"))? == b"of a" && fs::read(path("c"))? == b"of b");
    fs::create_dir_all(path("d/inner"))?;
    rename(root, "d", "c", RenameFlags::EXCHANGE)?;
    ensure!(path("c/inner").is_dir() && path("d").is_file());
    ensure!(
        errno(rename(root, "c", "c/inner/x", none))? == Errno::INVAL,
        "into itself"
    );
    ensure!(errno(rename(root, "b", "c", none))? == Errno::ISDIR);
    ensure!(errno(rename(root, "c", "b", none))? == Errno::NOTDIR);
    fs::create_dir(path("full"))?;
    fs::write(path("full/file"), "")?;
    ensure!(errno(rename(root, "c", "full", none))? == Errno::NOTEMPTY);
    ensure!(errno(fs::remove_dir(path("full")))? == Errno::NOTEMPTY);
    if rustix::process::getuid().is_root() {
        rename(root, "b", "moved", RenameFlags::WHITEOUT)?;
        let left = fs::metadata(path("b"))?;
        ensure!(
            left.rdev() == 0 && left.mode() & 0o170_000 == 0o020_000,
            "a whiteout"
        );
    }
    let links = |name: &str| Ok::<u64, anyhow::Error>(fs::metadata(path(name))?.nlink());
    fs::hard_link(path("d"), path("e"))?;
    ensure!(links("d")? == 2 && links("e")? == 2);
    fs::remove_file(path("d"))?;
    ensure!(links("e")? == 1);
    ensure!(errno(fs::hard_link(path("full"), path("g")))? == Errno::PERM);
    ensure!(errno(fs::write(path(&"n".repeat(256)), ""))? == Errno::NAMETOOLONG);
    fs::write(path(&"n".repeat(255)), "")?;
    let target = "t".repeat(4000);
    std::os::unix::fs::symlink(&target, path("link"))?;
    ensure!(fs::read_link(path("link"))?.as_os_str() == target.as_str());
    attributes(root)
}

/// Extended attributes and access lists.
fn attributes(root: &Path) -> Result<()> {
    let path = root.join("attributes");
    fs::write(&path, "")?;
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
    set("user.one", b"1", XattrFlags::CREATE)?;
    ensure!(errno(set("user.one", b"2", XattrFlags::CREATE))? == Errno::EXIST);
    ensure!(errno(set("user.two", b"2", XattrFlags::REPLACE))? == Errno::NODATA);
    set("user.one", &noise(3, 50_000), XattrFlags::REPLACE)?;
    set("user.empty", b"", XattrFlags::empty())?;
    let mut value = vec![0_u8; 65_536];
    let length = rustix::fs::getxattr(&path, "user.one", &mut value)?;
    ensure!(value[..length] == noise(3, 50_000));
    ensure!(errno(rustix::fs::getxattr(&path, "user.one", &mut [0_u8; 10][..]))? == Errno::RANGE);
    let length = rustix::fs::listxattr(&path, &mut value)?;
    let listed: BTreeSet<&[u8]> = value[..length].split(|byte| *byte == 0).collect();
    ensure!(listed.contains(&b"user.one"[..]) && listed.contains(&b"user.empty"[..]));
    rustix::fs::removexattr(&path, "user.one")?;
    ensure!(errno(rustix::fs::removexattr(&path, "user.one"))? == Errno::NODATA);
    Ok(())
}

/// Files without a name.
fn unnamed(site: &Site, root: &Path) -> Result<()> {
    let make = |flags: OFlags| -> Result<File, Errno> {
        let flags = flags | OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::open(root, flags, Mode::from_raw_mode(0o640))?.into())
    };
    let file = make(OFlags::empty())?;
    file.write_all_at(&noise(7, 300_000), 0)?;
    ensure!(file.metadata()?.nlink() == 0);
    let link = |file: &File, name: &str| {
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, from, CWD, root.join(name), AtFlags::SYMLINK_FOLLOW)
    };
    link(&file, "named")?;
    ensure!(file.metadata()?.nlink() == 1 && fs::read(root.join("named"))? == noise(7, 300_000));
    ensure!(errno(link(&file, "named"))? == Errno::EXIST);
    let private = make(OFlags::EXCL)?;
    ensure!(
        errno(link(&private, "never"))? == Errno::NOENT,
        "it may get no name"
    );
    // An open file exists after its last name was removed.
    let path = root.join("victim");
    fs::write(&path, noise(8, 200_000))?;
    let held = OpenOptions::new().read(true).write(true).open(&path)?;
    fs::remove_file(&path)?;
    held.write_all_at(b"still there", 100)?;
    let mut found = [0; 11];
    held.read_exact_at(&mut found, 100)?;
    ensure!(&found == b"still there" && held.metadata()?.nlink() == 0);
    let words = ["wait", "-t", "deleteq", "tank/unnamed"];
    let mut waiting = site.cenote().command("zfs", &words).spawn()?;
    std::thread::sleep(Duration::from_millis(500));
    ensure!(
        waiting.try_wait()?.is_none(),
        "files without a name are open"
    );
    drop((held, private));
    ensure!(waiting.wait()?.success());
    Ok(())
}

/// What `chattr` sets, and what that forbids.
fn flags(site: &Site, root: &Path) -> Result<()> {
    let path = root.join("file");
    fs::write(&path, "contents")?;
    let file = File::open(&path)?;
    let set = |flags| rustix::fs::ioctl_setflags(&file, flags);
    ensure!(rustix::fs::ioctl_getflags(&file)? == IFlags::empty());
    set(IFlags::NODUMP)?;
    ensure!(rustix::fs::ioctl_getflags(&file)? == IFlags::NODUMP);
    ensure!(errno(set(IFlags::COMPRESSED))? == Errno::OPNOTSUPP);
    let objset = site.ok("zfs get -Hpo value objsetid tank/flags")?;
    let numbers = format!("tank {} {}", objset.trim(), file.metadata()?.ino());
    let found = site.ok(&format!("cenote ids-to-path {numbers}"))?;
    ensure!(found.trim_end() == path.display().to_string(), "{found}");
    let found = site.ok(&format!("cenote ids-to-path -v {numbers}"))?;
    ensure!(found == "tank/flags:/file\n", "{found}");
    dos_attributes(&path)?;
    if !pool::is_root() {
        return Ok(());
    }
    set(IFlags::IMMUTABLE)?;
    let permissions = || fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
    let moved = || fs::rename(&path, root.join("moved"));
    let perm = Errno::PERM;
    ensure!(
        errno(OpenOptions::new().write(true).open(&path))? == perm,
        "opened"
    );
    ensure!(errno(permissions())? == perm && errno(moved())? == perm);
    ensure!(errno(fs::remove_file(&path))? == perm);
    ensure!(errno(fs::hard_link(&path, root.join("link")))? == perm);
    let attribute = || rustix::fs::setxattr(&path, "user.x", b"", XattrFlags::empty());
    ensure!(errno(attribute())? == perm, "an attribute");
    set(IFlags::APPEND)?;
    ensure!(
        errno(OpenOptions::new().write(true).open(&path))? == perm,
        "not to append"
    );
    ensure!(errno(permissions())? == perm && errno(fs::remove_file(&path))? == perm);
    let mut end = OpenOptions::new()
        .write(true)
        .custom_flags(O_APPEND)
        .open(&path)?;
    end.write_all(b" and more")?;
    ensure!(errno(end.set_len(3))? == perm, "cut");
    ensure!(fs::read(&path)? == b"contents and more");
    set(IFlags::empty())?;
    permissions()?;
    let directory = root.join("directory");
    fs::create_dir(&directory)?;
    let opened = File::open(&directory)?;
    rustix::fs::ioctl_setflags(&opened, IFlags::IMMUTABLE)?;
    ensure!(errno(fs::write(directory.join("x"), ""))? == perm);
    rustix::fs::ioctl_setflags(&opened, IFlags::APPEND)?;
    fs::write(directory.join("x"), "")?;
    ensure!(errno(fs::remove_file(directory.join("x")))? == perm);
    rustix::fs::ioctl_setflags(&opened, IFlags::empty())?;
    fs::remove_file(directory.join("x"))?;
    projects(site, &directory)
}

/// All four times; a read is noted, and survives an export.
fn times(site: &Site, root: &Path) -> Result<()> {
    let path = root.join("file");
    fs::write(&path, "contents")?;
    let at = |seconds, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    };
    let set = |accessed, modified| {
        let times = Timestamps {
            last_access: accessed,
            last_modification: modified,
        };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty())
    };
    set(at(-1_000_000, 999_999_999), at(5_000_000_000, 1))?;
    let found = rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::ALL)?;
    ensure!((found.stx_atime.tv_sec, found.stx_atime.tv_nsec) == (-1_000_000, 999_999_999));
    ensure!((found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec) == (5_000_000_000, 1));
    ensure!(StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME));
    ensure!(
        found.stx_btime.tv_sec > 1_700_000_000 && found.stx_btime.tv_sec <= found.stx_ctime.tv_sec
    );
    let accessed = |path: &Path| Ok::<_, anyhow::Error>(fs::metadata(path)?.accessed()?);
    // relatime=off: each read counts.
    for _ in 0..2 {
        let before = accessed(&path)?;
        std::thread::sleep(Duration::from_millis(20));
        fs::read(&path)?;
        ensure!(accessed(&path)? > before, "a read that was not noted");
    }
    site.ok("zfs set atime=off tank/times")?;
    let before = accessed(&path)?;
    fs::read(&path)?;
    ensure!(accessed(&path)? == before, "atime=off");
    site.ok("zfs set atime=on relatime=on tank/times")?;
    fs::write(&path, "changed")?;
    std::thread::sleep(Duration::from_millis(20));
    fs::read(&path)?;
    let noted = accessed(&path)?;
    ensure!(noted > before, "relatime: the first read after a change");
    std::thread::sleep(Duration::from_millis(20));
    fs::read(&path)?;
    ensure!(accessed(&path)? == noted, "relatime: the second");
    let noted = fs::metadata(&path)?.atime_nsec().to_string();
    fs::write(root.join("noted"), noted)?;
    Ok(())
}

/// Names in a large directory that are removed while it is listed: the rest comes, once.
fn listing(_: &Site, root: &Path) -> Result<()> {
    let directory = root.join("large");
    fs::create_dir(&directory)?;
    let all: BTreeSet<String> = (0..3000)
        .map(|number| format!("entry-{number:05}"))
        .collect();
    for name in &all {
        File::create(directory.join(name))?;
    }
    let mut seen = BTreeSet::new();
    let mut entries = rustix::fs::Dir::read_from(File::open(&directory)?)?;
    while let Some(entry) = entries.read() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        ensure!(seen.insert(name.clone()), "{name} came twice");
        fs::remove_file(directory.join(&name))?;
        // Names that come while one lists may or may not be listed.
        if seen.len() % 10 == 0 {
            File::create(directory.join(format!("new-{}", seen.len())))?;
        }
    }
    ensure!(all.is_subset(&seen), "{} of {} came", seen.len(), all.len());
    for entry in fs::read_dir(&directory)? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(&directory)?;
    Ok(())
}

/// Locks between processes of this machine.
fn locks(_: &Site, root: &Path) -> Result<()> {
    let path = root.join("file");
    fs::write(&path, "")?;
    let (one, two) = (File::open(&path)?, File::open(&path)?);
    rustix::fs::flock(&one, FlockOperation::LockShared)?;
    rustix::fs::flock(&two, FlockOperation::NonBlockingLockShared)?;
    let exclusive = || rustix::fs::flock(&two, FlockOperation::NonBlockingLockExclusive);
    ensure!(errno(exclusive())? == Errno::WOULDBLOCK);
    rustix::fs::flock(&one, FlockOperation::Unlock)?;
    exclusive()?;
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let other = Command::new("python3")
        .arg("-c")
        .arg("import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | 4)")
        .arg(&path)
        .output();
    match other {
        Ok(output) => ensure!(!output.status.success(), "two have the lock"),
        Err(_) => missing!("there is no python3"),
    }
    Ok(())
}

/// Copies by `copy_file_range` share blocks, and each goes its own way from then on.
fn clones(site: &Site, root: &Path) -> Result<()> {
    const SIZE: usize = 3 << 20;
    let saved = || -> Result<u64> {
        let value = site.ok("zpool get -Hp -o value bclonesaved tank")?;
        Ok(value.trim().parse()?)
    };
    let copy = |from: &str, to: &str, places: (u64, u64), length: usize| -> Result<()> {
        let source = File::open(root.join(from))?;
        let target = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(root.join(to))?;
        let (mut from, mut to) = places;
        let mut left = length;
        while left > 0 {
            let (input, output) = (Some(&mut from), Some(&mut to));
            let copied = rustix::fs::copy_file_range(&source, input, &target, output, left)?;
            ensure!(copied > 0, "the source ended");
            left -= copied;
        }
        site.ok("zpool sync tank").map(drop)
    };
    let original = noise(11, SIZE + 777);
    fs::write(root.join("original"), &original)?;
    // Only blocks of transaction groups on disk can be shared.
    site.ok("zpool sync tank")?;
    copy("original", "clone", (0, 0), original.len())?;
    ensure!(fs::read(root.join("clone"))? == original);
    let whole = saved()?;
    // Space on raidz is counted a little smaller than it is.
    ensure!(whole > SIZE as u64 * 9 / 10, "{whole} bytes are saved");
    // Over itself, and once more: the same blocks take each other's place.
    copy("original", "clone", (0, 0), original.len())?;
    ensure!(saved()? == whole, "a clone that replaces itself");
    // What is not aligned is copied.
    copy("original", "shifted", (0, 100), 100_000)?;
    ensure!(fs::read(root.join("shifted"))?[100..] == original[..100_000]);
    ensure!(saved()? == whole, "nothing to share");
    // The edges are copied, the blocks between them shared.
    copy("original", "edges", (1000, 1000), 1 << 20)?;
    ensure!(fs::read(root.join("edges"))?[1000..] == original[1000..1000 + (1 << 20)]);
    ensure!(saved()? > whole, "whole blocks");
    let file = OpenOptions::new().write(true).open(root.join("clone"))?;
    file.write_all_at(b"changed", 70_000)?;
    file.sync_all()?;
    ensure!(
        fs::read(root.join("original"))? == original,
        "the original changed"
    );
    fs::remove_file(root.join("original"))?;
    file.sync_all()?;
    let mut wanted = original;
    wanted[70_000..70_007].copy_from_slice(b"changed");
    ensure!(
        fs::read(root.join("clone"))? == wanted,
        "the clone lost something"
    );
    // Cloned and removed within one group.
    fs::write(root.join("short"), noise(12, 200_000))?;
    site.ok("zpool sync tank")?;
    for number in 0..3 {
        fs::copy(root.join("short"), root.join(format!("short-{number}")))?;
    }
    fs::remove_file(root.join("short"))?;
    fs::remove_file(root.join("short-1"))?;
    ensure!(fs::read(root.join("short-2"))? == noise(12, 200_000));
    fs::remove_file(root.join("edges"))?;
    Ok(())
}

/// Where several spellings are one name, whatever one of them does the others see at once.
#[test]
fn spellings_of_one_name_agree() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create -o casesensitivity=insensitive tank/folded")?;
    site.ok("zfs create -o normalization=formD tank/normal")?;
    let root = site.path("tank/folded");
    let path = |name: &str| root.join(name);
    for round in 0..3 {
        ensure!(
            !path("FOO").exists() && !path("foo").exists(),
            "round {round}"
        );
        fs::write(path("foo"), "1")?;
        ensure!(fs::read(path("FOO"))? == b"1", "made by another spelling");
        ensure!(errno(fs::create_dir(path("Foo")))? == Errno::EXIST);
        fs::write(path("fOO"), "22")?;
        ensure!(fs::metadata(path("foo"))?.len() == 2);
        fs::rename(path("FOO"), path("Bar"))?;
        ensure!(!path("foo").exists() && path("bar").exists() && path("BAR").exists());
        // The kernel takes two spellings of one file for two links, and leaves both alone.
        fs::rename(path("bar"), path("BAR"))?;
        fs::rename(path("bar"), path("aside"))?;
        fs::rename(path("ASIDE"), path("BAR"))?;
        let names: Vec<_> = fs::read_dir(&root)?.collect::<Result<_, _>>()?;
        ensure!(
            names.len() == 1 && names[0].file_name() == "BAR",
            "{names:?}"
        );
        fs::remove_file(path("bar"))?;
        ensure!(!path("BAR").exists() && !path("Bar").exists());
    }
    let normal = site.path("tank/normal");
    fs::write(normal.join("caf\u{e9}"), "composed")?;
    ensure!(fs::read(normal.join("cafe\u{301}"))? == b"composed");
    fs::remove_file(normal.join("cafe\u{301}"))?;
    ensure!(!normal.join("caf\u{e9}").exists());
    site.reopen(&["tank/folded", "tank/normal"])?;
    site.finish()
}

/// Limits of datasets: what is over them is refused, and what makes room is not.
#[test]
fn limits_are_kept_and_give_way() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 256, "-O compression=off")?;
    site.ok("zfs create -o refquota=16M tank/limited")?;
    site.ok("zfs create -o quota=24M tank/outer")?;
    site.ok("zfs create tank/outer/inner")?;
    let pool = usize::MAX;
    for (dataset, limit) in [
        ("tank/limited", 16),
        ("tank/outer/inner", 24),
        ("tank", pool),
    ] {
        // Over the pool's own limit it is full, over that of a dataset it is not.
        let refusal = match limit == pool {
            true => Errno::NOSPC,
            false => Errno::DQUOT,
        };
        let root = site.path(dataset);
        let file = File::create(root.join("big"))?;
        let piece = noise(5, 1 << 20);
        let mut written = 0;
        let error = loop {
            match file.write_all_at(&piece, (written as u64) << 20) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            ensure!(written < 256, "no limit");
        };
        ensure!(
            error.raw_os_error() == Some(refusal.raw_os_error()),
            "{dataset}: {error}"
        );
        let is_near = limit == pool || (written + 2 >= limit && written <= limit);
        ensure!(is_near, "{written} MiB of {limit}");
        ensure!(errno(fs::write(root.join("more"), &piece))? == refusal);
        // Room is made where the limit is reached, and is there at once.
        file.set_len(4 << 20)?;
        fs::write(root.join("more"), &piece)?;
        for _ in 0..40 {
            // Overwriting takes no more than it gives.
            fs::write(root.join("more"), &piece)?;
        }
        fs::remove_file(root.join("big"))?;
        fs::write(root.join("more"), noise(6, 8 << 20))?;
        ensure!(fs::read(root.join("more"))? == noise(6, 8 << 20));
    }
    site.finish()
}

/// Limits of users and groups, of bytes and of files, by whom the files belong to.
#[test]
fn limits_of_users_are_kept() -> Result<()> {
    const USER: &str = "4242";
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O compression=off")?;
    site.ok("zfs create tank/users")?;
    let root = site.path("tank/users");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777))?;
    // By its working directory a user gets into the test's private one.
    let by_user = |script: &str| -> Result<Option<String>> {
        let ids = ["--reuid", USER, "--regid", USER, "--clear-groups"];
        let mut command = Command::new("setpriv");
        let command = command.args(ids).args(["--", "sh", "-c", script]);
        let output = command.current_dir(&root).output()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((!output.status.success()).then_some(errors))
    };
    let refused = |script: &str| -> Result<()> {
        let errors = by_user(script)?.with_context(|| format!("{script}: allowed"))?;
        ensure!(errors.contains("quota exceeded"), "{script}: {errors}");
        Ok(())
    };
    let allowed = |script: &str| -> Result<()> {
        let errors = by_user(script)?;
        ensure!(errors.is_none(), "{script}: {errors:?}");
        // Accounts are those of the last group.
        site.ok("zpool sync tank").map(drop)
    };
    allowed("head -c 2000000 /dev/urandom > large; echo 1 > small")?;
    for kind in ["userquota", "groupquota"] {
        site.ok(&format!("zfs set {kind}@{USER}=1M tank/users"))?;
        refused("/bin/echo more >> small")?;
        refused("echo new > other")?;
        fs::write(root.join("of-root"), "another owner's")?;
        site.ok(&format!("zfs set {kind}@{USER}=none tank/users"))?;
        allowed("echo more >> small")?;
    }
    for kind in ["userobjquota", "groupobjquota"] {
        site.ok(&format!("zfs set {kind}@{USER}=2 tank/users"))?;
        refused("echo third > third")?;
        allowed("echo still >> small")?;
        site.ok(&format!("zfs set {kind}@{USER}=none tank/users"))?;
        allowed("echo third > third; rm third")?;
    }
    site.ok(&format!("zfs set userquota@{USER}=1M tank/users"))?;
    refused("/bin/echo more >> small")?;
    allowed("truncate -s 1000 large")?;
    allowed("echo more >> small; rm large small")?;
    site.finish()
}

/// A file system that is mounted twice shows the same in both places.
#[test]
fn two_mounts_agree() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create tank/twice")?;
    let one = site.path("tank/twice");
    fs::write(one.join("before"), "1")?;
    ensure!(!one.join("later").exists() && one.join("before").exists());
    let two = pool::mount(site.cenote(), "tank/twice")?;
    for (number, (here, there)) in [(&one, &two), (&two, &one)].into_iter().enumerate() {
        let later = format!("later-{number}");
        ensure!(!there.join(&later).exists(), "not yet");
        fs::write(here.join(&later), "contents")?;
        ensure!(
            fs::read(there.join(&later))? == b"contents",
            "made elsewhere"
        );
        fs::write(here.join("before"), "longer and longer".repeat(number + 1))?;
        let expected = fs::read(here.join("before"))?;
        let length = fs::metadata(there.join("before"))?.len();
        ensure!(length == expected.len() as u64, "{length} bytes");
        ensure!(fs::read(there.join("before"))? == expected);
        fs::remove_file(here.join(&later))?;
        ensure!(!there.join(&later).exists(), "removed elsewhere");
        let listed = fs::read_dir(there)?.count();
        ensure!(listed == 1, "{listed} entries");
    }
    pool::unmount(site.cenote(), &two)?;
    site.finish()
}
