//! What is on disk when a call returns: the daemon is killed right after it.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::random::Random;
use cenote_tests::site::Site;
use rustix::fs::{CWD, FallocateFlags, FlockOperation, RenameFlags, XattrFlags};
use rustix::io::ReadWriteFlags;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const O_SYNC: i32 = rustix::fs::OFlags::SYNC.bits() as i32;
const O_DSYNC: i32 = rustix::fs::OFlags::DSYNC.bits() as i32;

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// A site whose groups are written only when a caller waits for them.
fn site(options: &str) -> Result<Site> {
    let site = Site::create("single", 192, options)?;
    quiet(&site)?;
    Ok(site)
}

/// Ends the wait of before; the settings do not outlive a daemon.
fn quiet(site: &Site) -> Result<()> {
    site.ok("cenote settings set zfs_txg_timeout=3600")?;
    site.ok("zpool sync tank")?;
    Ok(())
}

fn crash(site: &Site) -> Result<()> {
    site.crash()?;
    site.import("-f")
}

/// These writes used to return at once.
#[test]
fn what_programs_want_on_disk_is_there() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("-O compression=off")?;
    let root = site.path("tank");
    let mut seed = 0;
    for (name, flags) in [("sync", O_SYNC), ("dsync", O_DSYNC)] {
        // A small write goes another way through the server than a large one.
        for size in [100, 5000, 300_000] {
            seed += 1;
            let path = root.join(format!("{name}-{size}"));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).custom_flags(flags);
            let data = noise(seed, size);
            options.open(&path)?.write_all(&data)?;
            crash(&site)?;
            let found = fs::read(&path).with_context(|| path.display().to_string())?;
            ensure!(found == data, "{} changed", path.display());
            quiet(&site)?;
        }
    }
    let path = root.join("this-call");
    let file = File::create(&path)?;
    let data = noise(99, 7000);
    let flags = ReadWriteFlags::DSYNC;
    let length = rustix::io::pwritev2(&file, &[IoSlice::new(&data)], 0, flags)?;
    crash(&site)?;
    ensure!(length == data.len() && fs::read(&path)? == data);
    site.finish()
}

/// These calls do not say how the file is open, and used to return at once.
#[test]
fn ranges_of_files_that_are_open_so_are_on_disk() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("-O compression=off")?;
    let root = site.path("tank");
    let data = noise(7, 400_000);
    fs::write(root.join("source"), &data)?;
    site.ok("zpool sync tank")?;
    for (name, flags) in [("sync", O_SYNC), ("dsync", O_DSYNC), ("loose", 0)] {
        let path = root.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(flags);
        let target = options.open(&path)?;
        let source = File::open(root.join("source"))?;
        let copied = rustix::fs::copy_file_range(&source, None, &target, None, data.len())?;
        ensure!(copied == data.len(), "{copied} bytes were copied");
        drop((source, target));
        crash(&site)?;
        if flags == 0 {
            ensure!(!exists(&path)?, "the copy waited, so this shows nothing");
            break;
        }
        ensure!(fs::read(&path)? == data, "{name}: the copy is lost");
        quiet(&site)?;
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&path)?;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&opened, punch, 0, 131_072)?;
        drop(opened);
        crash(&site)?;
        let start = &fs::read(&path)?[..131_072];
        ensure!(start.iter().all(|byte| *byte == 0), "{name}: no hole");
        quiet(&site)?;
    }
    site.finish()
}

/// One change of each kind, and whether it is there.
type Step = (
    &'static str,
    fn(&Path) -> Result<()>,
    fn(&Path) -> Result<bool>,
);

fn exists(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

const STEPS: [Step; 13] = [
    (
        "a directory",
        |root| Ok(fs::create_dir(root.join("d"))?),
        |root| exists(&root.join("d")),
    ),
    (
        "a file and its contents",
        |root| Ok(fs::write(root.join("d/f"), noise(1, 50_000))?),
        |root| Ok(fs::read(root.join("d/f"))? == noise(1, 50_000)),
    ),
    (
        "a large write",
        |root| Ok(fs::write(root.join("d/g"), noise(2, 900_000))?),
        |root| Ok(fs::read(root.join("d/g"))? == noise(2, 900_000)),
    ),
    (
        "a mode",
        |root| {
            Ok(fs::set_permissions(
                root.join("d/f"),
                Permissions::from_mode(0o4711),
            )?)
        },
        |root| Ok(fs::metadata(root.join("d/f"))?.permissions().mode() & 0o7777 == 0o4711),
    ),
    (
        "an attribute",
        |root| {
            Ok(rustix::fs::setxattr(
                root.join("d/f"),
                "user.a",
                b"b",
                XattrFlags::empty(),
            )?)
        },
        |root| Ok(rustix::fs::getxattr(root.join("d/f"), "user.a", &mut [0; 8])? == 1),
    ),
    (
        "a symbolic link",
        |root| Ok(symlink("f", root.join("d/s"))?),
        |root| exists(&root.join("d/s")),
    ),
    (
        "a hard link",
        |root| Ok(fs::hard_link(root.join("d/f"), root.join("d/h"))?),
        |root| exists(&root.join("d/h")),
    ),
    (
        "a new name",
        |root| Ok(fs::rename(root.join("d/h"), root.join("d/i"))?),
        |root| Ok(exists(&root.join("d/i"))? && !exists(&root.join("d/h"))?),
    ),
    (
        "names that change places",
        |root| {
            let (one, two) = (root.join("d/f"), root.join("d/g"));
            Ok(rustix::fs::renameat_with(
                CWD,
                one,
                CWD,
                two,
                RenameFlags::EXCHANGE,
            )?)
        },
        |root| Ok(fs::metadata(root.join("d/g"))?.len() == 50_000),
    ),
    (
        "a size",
        |root| {
            Ok(File::options()
                .write(true)
                .open(root.join("d/g"))?
                .set_len(10)?)
        },
        |root| Ok(fs::metadata(root.join("d/g"))?.len() == 10),
    ),
    (
        "a file emptied when it is opened",
        |root| {
            File::create(root.join("d/f"))?;
            Ok(())
        },
        |root| Ok(fs::metadata(root.join("d/f"))?.len() == 0),
    ),
    (
        "a removed name",
        |root| Ok(fs::remove_file(root.join("d/i"))?),
        |root| Ok(!exists(&root.join("d/i"))?),
    ),
    (
        "a removed directory",
        |root| {
            fs::remove_file(root.join("d/s"))?;
            fs::remove_file(root.join("d/f"))?;
            fs::remove_file(root.join("d/g"))?;
            Ok(fs::remove_dir(root.join("d"))?)
        },
        |root| Ok(!exists(&root.join("d"))?),
    ),
];

#[test]
fn with_sync_always_every_change_is_on_disk() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("-O sync=always")?;
    let root = site.path("tank");
    for (what, change, is_there) in STEPS {
        change(&root).context(what)?;
        crash(&site)?;
        ensure!(is_there(&root).context(what)?, "{what} is lost");
        quiet(&site)?;
    }
    site.finish()
}

/// The same steps without it are lost, or the test above would show nothing.
#[test]
fn with_sync_standard_or_disabled_nobody_waits() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("-O sync=disabled")?;
    let root = site.path("tank");
    let synced_write = |name: &str| -> Result<()> {
        let file = File::create(root.join(name))?;
        (&file).write_all(b"contents")?;
        Ok(file.sync_all()?)
    };
    synced_write("lost")?;
    crash(&site)?;
    ensure!(!exists(&root.join("lost"))?, "fsync waited");
    site.ok("zfs set sync=standard tank")?;
    quiet(&site)?;
    fs::write(root.join("loose"), b"contents")?;
    crash(&site)?;
    ensure!(!exists(&root.join("loose"))?, "a write waited");
    quiet(&site)?;
    synced_write("kept")?;
    crash(&site)?;
    ensure!(exists(&root.join("kept"))?, "fsync did not wait");
    // The property is obeyed as soon as it is set.
    site.ok("zfs set sync=always tank")?;
    quiet(&site)?;
    fs::write(root.join("kept too"), b"contents")?;
    crash(&site)?;
    ensure!(exists(&root.join("kept too"))?, "a write did not wait");
    site.finish()
}

/// Delivers mail until the daemon is gone: each message is written aside, synced, renamed, and its
/// directory synced. Counts what was promised.
fn deliver(root: &Path, agent: u64, promised: &AtomicU64) -> Result<()> {
    let directory = root.join(format!("box{agent}"));
    fs::create_dir(&directory)?;
    for message in 0.. {
        let aside = directory.join(format!("new-{message}"));
        let file = File::create(&aside)?;
        (&file).write_all(&noise(agent << 32 | message, length_of(message)))?;
        file.sync_all()?;
        fs::rename(&aside, directory.join(message.to_string()))?;
        File::open(&directory)?.sync_all()?;
        promised.store(message + 1, Ordering::SeqCst);
    }
    Ok(())
}

fn length_of(message: u64) -> usize {
    [90, 5000, 70_000][usize::try_from(message % 3).expect("small")]
}

/// No transaction group is written meanwhile but the first: it is all in the intent log.
#[test]
fn a_storm_of_synced_files_survives_a_kill() -> Result<()> {
    const AGENTS: u64 = 4;
    const MESSAGES: u64 = 40;
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("")?;
    let root = site.path("tank");
    let promised: Vec<AtomicU64> = (0..AGENTS).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| -> Result<()> {
        for (agent, promised) in (0..AGENTS).zip(&promised) {
            let root = &root;
            // It ends with an error when the daemon is gone.
            scope.spawn(move || deliver(root, agent, promised).is_err());
        }
        let is_enough = || {
            let mut counts = promised.iter().map(|count| count.load(Ordering::SeqCst));
            Ok(counts.all(|count| count >= MESSAGES))
        };
        let waited = wait_until("enough mail", is_enough);
        site.crash()?;
        waited
    })?;
    site.import("-f")?;
    for (agent, promised) in (0..AGENTS).zip(&promised) {
        for message in 0..promised.load(Ordering::SeqCst) {
            let path = root.join(format!("box{agent}/{message}"));
            let found = fs::read(&path).with_context(|| path.display().to_string())?;
            let data = noise(agent << 32 | message, length_of(message));
            ensure!(found == data, "{} is not what was synced", path.display());
        }
    }
    site.finish()
}

/// The unmounting used to return long before the last writes were on disk.
#[test]
fn what_was_unmounted_is_on_disk() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("-O sync=disabled")?;
    site.ok("zfs create tank/fs")?;
    let root = site.path("tank/fs");
    let data = noise(5, 300_000);
    for line in [
        "zfs unmount tank/fs".to_owned(),
        "zfs unmount -f tank/fs".to_owned(),
        "zfs unmount -a".to_owned(),
        format!("cenote unmount {}", root.display()),
    ] {
        fs::write(root.join("file"), &data)?;
        site.ok(&line)?;
        crash(&site)?;
        let found = fs::read(root.join("file"))?;
        ensure!(found == data, "{line}: the file is lost");
        fs::remove_file(root.join("file"))?;
        quiet(&site)?;
    }
    site.finish()
}

/// Unmounting without the daemon waits for nothing, but the data is on disk soon afterwards.
#[test]
fn what_was_unmounted_from_outside_is_on_disk_soon() -> Result<()> {
    if !pool::can_mount() || !pool::is_root() {
        return Ok(());
    }
    let site = site("-O compression=off")?;
    site.ok("zfs create tank/fs")?;
    let root = site.path("tank/fs");
    site.ok("zpool sync tank")?;
    fs::write(root.join("file"), noise(6, 3_000_000))?;
    rustix::mount::unmount(&root, rustix::mount::UnmountFlags::empty())?;
    wait_until("on disk", || {
        let referenced = site.ok("zfs get -Hp -o value referenced tank/fs")?;
        Ok(referenced.trim_end().parse::<u64>()? > 3_000_000)
    })?;
    site.finish()
}

/// Log blocks used to take all the space, the group had none to write in, and the pool was
/// suspended. A log that would take what its group needs is refused: then the group is written.
#[test]
fn a_log_leaves_space_for_its_group() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 96, "-O compression=off")?;
    quiet(&site)?;
    let path = site.path("tank").join("file");
    let file = File::create(&path)?;
    let mut written = 0;
    // More than the device has, in a file that is always as large.
    while written < 160 << 20 {
        let data = noise(written, 400_000);
        file.write_all_at(&data, 0).context("a write")?;
        file.sync_all().context("fsync")?;
        written += data.len() as u64;
    }
    drop(file);
    let last = written - 400_000;
    crash(&site)?;
    ensure!(
        fs::read(&path)? == noise(last, 400_000),
        "the last version is lost"
    );
    site.finish()
}

/// `zpool import -m` said that a log device might be missing. None was, but the daemon that was
/// resumed after a crash did without the one that was away by then, and with it went what `fsync`
/// had promised.
#[test]
fn a_log_that_is_away_is_not_given_up_when_the_daemon_is_resumed() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("")?;
    let (log, aside) = (
        site.devices().join("log.img"),
        site.cenote().directory().join("log"),
    );
    File::create(&log)?.set_len(128 << 20)?;
    site.ok(&format!("zpool add tank log {}", log.display()))?;
    site.export()?;
    site.import("-m")?;
    let path = site.path("tank").join("file");
    let file = File::create(&path)?;
    quiet(&site)?;
    (&file).write_all(b"promised")?;
    file.sync_all()?;
    drop(file);
    site.kill()?;
    fs::rename(&log, &aside)?;
    site.start()?;
    site.fails("cenote daemon resume")?;
    let devices = site.devices().display().to_string();
    let refused = site.fails(&format!("zpool import -f -d {devices} tank"))?;
    let wanted = format!(
        "cannot import 'tank': one or more devices is currently unavailable\n\
         The devices below are missing or corrupted, use '-m' to import the pool anyway:\n\
         \x20   {} [log]\n",
        log.display()
    );
    let told = refused.stderr.replace('\t', "");
    ensure!(told == wanted + "\n", "{}", refused.report());
    fs::rename(&aside, &log)?;
    site.import("-f")?;
    ensure!(fs::read(&path)? == b"promised", "the log was given up");
    site.finish()
}

/// A daemon was killed, and the next import began before the system had released its locks. The
/// import reported that the pool could only be read, and advised that, although another program may
/// write to the pool at that moment. The import waits, and then reports what is in use. It does not
/// continue without the device, whatever its options.
#[test]
fn a_log_device_that_is_locked_is_waited_for() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = site("")?;
    let log = site.devices().join("log.img");
    File::create(&log)?.set_len(128 << 20)?;
    site.ok(&format!("zpool add tank log {}", log.display()))?;
    let path = site.path("tank").join("file");
    // The first call begins the log.
    for words in ["begun", "promised"] {
        fs::write(&path, words)?;
        File::open(&path)?.sync_all()?;
    }
    site.crash()?;
    let locked = File::options().read(true).write(true).open(&log)?;
    rustix::fs::flock(&locked, FlockOperation::NonBlockingLockExclusive)?;
    let devices = site.devices().display();
    let refused = site.fails(&format!("zpool import -f -m -d {devices} tank"))?;
    let told = format!(
        "cannot import 'tank': {} is in use by another program, or mounted\nNothing was changed.",
        log.display()
    );
    ensure!(refused.stderr.starts_with(&told), "{}", refused.stderr);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(200));
            drop(locked);
        });
        site.import("-f")
    })?;
    ensure!(fs::read(&path)? == b"promised", "the log was given up");
    site.finish()
}
